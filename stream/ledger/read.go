package ledger

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/ledger/internal/pg"
)

// readAll is the first round trip: it locks windows and fences and reads what the gate needs.
func (t *txAttempt) readAll(ctx context.Context) error {
	var (
		p       = &pg.Pipeline{Conn: t.conn}
		byFence = map[int32]*partitionBatch{}
		current int32
		live    []int32
		overdue []gate.VersionLineKey
	)
	add := func(s pg.Statement, read func(*pg.Row), params ...[]byte) error {
		return p.Add(ctx, s, read, params...)
	}
	if err := add(pg.Begin, nil); err != nil {
		return err
	}
	if err := add(t.win.q.lock, nil); err != nil {
		return err
	}
	if err := add(windowsRead, func(r *pg.Row) {
		id := r.Int32()
		live = append(live, id)
		if r.Bool() {
			current = id
		}
	}, pg.Int32Param(t.n.id)); err != nil {
		return err
	}
	if err := t.addFences(ctx, p, byFence); err != nil {
		return err
	}
	if err := t.addSeen(ctx, p); err != nil {
		return err
	}
	if w := t.parts[0]; w.command != nil {
		w.addLine(w.command.Line, w.Claim.cache.find(w.command.Line))
		if err := add(aboutRead, func(r *pg.Row) {
			r.Int32() // the fence
			w.about = new(waitingOf(r))
		}, pg.Int64Param(w.command.ID)); err != nil {
			return err
		}
	} else if t.parts[0].expire {
		if err := add(overdueRead, func(r *pg.Row) {
			overdue = append(overdue, gate.VersionLineKey{Entity: schemas.EntityKey(r.Text()), Clock: r.Text()})
		}, pg.Int32Param(t.parts[0].Claim.ID), pg.Int64Param(cmp.Or[int64](t.parts[0].Claim.overdueAt, math.MaxInt64))); err != nil {
			return err
		}
	} else {
		for _, w := range t.parts {
			w.collectLines()
		}
		if err := t.addLines(ctx, p, byFence); err != nil {
			return err
		}
	}
	if err := p.Run(ctx); err != nil {
		return err
	}
	if !t.win.same(current, live) {
		return errRotated
	}
	if w := t.parts[0]; w.expire && !w.fenced {
		slices.SortFunc(overdue, compareKeys)
		for _, k := range overdue {
			w.addLine(k, w.Claim.cache.find(k))
		}
		if err := t.addLines(ctx, p, byFence); err != nil {
			return err
		}
		if err := p.Run(ctx); err != nil {
			return err
		}
	}
	return t.checkContinuity()
}

// addFences queues the lock of the fences and the read of their positions. A partition whose fence is not found is fenced.
func (t *txAttempt) addFences(ctx context.Context, p *pg.Pipeline, byFence map[int32]*partitionBatch) error {
	claims := make([]*Claim, len(t.parts))
	for i, w := range t.parts {
		w.fenced, claims[i] = true, w.Claim
		byFence[w.Claim.ID] = w
	}
	fences := fencesOf(claims...)
	err := p.Add(ctx, fenceCheck, func(r *pg.Row) { byFence[r.Int32()].fenced = false }, fences.params()...)
	if err != nil {
		return err
	}
	return p.Add(ctx, progressRead, func(r *pg.Row) {
		w := byFence[r.Int32()]
		w.stored = storedProgress{next: r.Int64(), high: r.Int64(), revision: r.Int64()}
	}, fences.id.Param())
}

// addSeen queues the reads of events that were decided before.
func (t *txAttempt) addSeen(ctx context.Context, p *pg.Pipeline) error {
	toAsk, all := t.keys()
	read := func(r *pg.Row) {
		key, window := schemas.EventKey(r.UUID()), r.Int32()
		t.seenAt[key] = window
		t.seen[key] = gate.Seen{Hash: r.UUID(), Decision: gate.Decision(r.Text())}
		if window == t.win.current {
			t.found++
		}
	}
	if all.Len() > 0 && len(t.win.live) > 1 {
		if err := p.Add(ctx, t.win.q.seenBefore, read, all.Param()); err != nil {
			return err
		}
	}
	if toAsk.Len() == 0 {
		return nil
	}
	return p.Add(ctx, t.win.q.seen, read, toAsk.Param())
}

// addLines queues the read of the lines that are not cached, and of what waits on them.
func (t *txAttempt) addLines(ctx context.Context, p *pg.Pipeline, byFence map[int32]*partitionBatch) error {
	lines := newLineKeyRows()
	waiting := false
	for _, w := range t.parts {
		for i, k := range w.keys {
			if w.cached[i] != nil {
				continue
			}
			waiting = waiting || w.Claim.waiting > 0
			lines.fence.Add(w.Claim.ID)
			lines.entity.Add(string(k.Entity))
			lines.clock.Add(k.Clock)
		}
	}
	if lines.n() == 0 {
		return nil
	}
	params := lines.params()
	if err := p.Add(ctx, linesRead, func(r *pg.Row) { readLine(r, byFence) }, params...); err != nil || !waiting {
		return err
	}
	return p.Add(ctx, bufferRead, func(r *pg.Row) { readWaiting(r, byFence) }, params...)
}

func readLine(r *pg.Row, byFence map[int32]*partitionBatch) {
	w := byFence[r.Int32()]
	k := gate.VersionLineKey{Entity: schemas.EntityKey(r.Text()), Clock: r.Text()}
	l := &gate.VersionLine{At: schemas.Version{Clock: k.Clock, Kind: schemas.VersionKind(r.Text()), Epoch: r.Int64(), Value: r.Int64(), Text: r.Text(), Sub: r.Int32()}}
	l.Key, l.Filtered, l.Parked = r.UUID(), r.Bool(), gate.Reason(r.Text())
	spans := r.Int64s()
	for i := 0; i+1 < len(spans); i += 2 {
		l.Skipped = append(l.Skipped, gate.Span{From: spans[i], To: spans[i+1]})
	}
	w.state.Lines[k] = l
}

func readWaiting(r *pg.Row, byFence map[int32]*partitionBatch) {
	w := byFence[r.Int32()]
	g := waitingOf(r)
	k := gate.VersionLineKey{Entity: g.Entity, Clock: g.Version.Clock}
	w.state.Waiting[k] = append(w.state.Waiting[k], g)
}

// waitingOf reads waitingColumns behind the fence.
func waitingOf(r *pg.Row) gate.Waiting {
	g := gate.Waiting{Record: gate.Record{Entity: schemas.EntityKey(r.Text())}}
	g.Version.Clock = r.Text()
	g.Offset, g.AppendTime, g.Key, g.Hash = r.Int64(), r.Time(), r.UUID(), r.UUID()
	g.Version.Kind = schemas.VersionKind(r.Text())
	g.Version.Epoch, g.Version.Value, g.Version.Text, g.Version.Sub = r.Int64(), r.Int64(), r.Text(), r.Int32()
	g.First, g.Payload = r.Int64Or(), schemas.PayloadKind(r.Text())
	g.Deleted, g.Filtered, g.Backfill = r.Bool(), r.Bool(), r.Bool()
	g.Decision, g.Stage, g.Size = gate.Decision(r.Text()), gate.Stage(r.Text()), int64(r.Int32())
	return g
}

// readBufferedRows reads the buffer's rows of the events that leave it or change in it.
func (t *txAttempt) readBufferedRows(ctx context.Context) error {
	byFence := map[int32]*partitionBatch{}
	places := newPlaceRows()
	for _, w := range t.parts {
		byFence[w.Claim.ID] = w
		w.bufferedRows = map[int64]bufferedRow{}
		for i := range w.left {
			places.add(w.Claim.ID, w.left[i].waited.Offset)
		}
	}
	p := &pg.Pipeline{Conn: t.conn}
	err := p.Add(ctx, bufferedRowsRead, func(r *pg.Row) {
		w, offset := byFence[r.Int32()], r.Int64()
		w.bufferedRows[offset] = bufferedRow{window: r.Int32(), leaderEpoch: r.Int32(), source: r.Text(), id: r.Text(), eventType: r.Text(),
			copied: r.Int32() > 0, packed: r.Bytes()}
	}, append(places.params(), pg.Int64Param(maxCopies))...)
	if err != nil {
		return err
	}
	if err := p.Run(ctx); err != nil {
		return err
	}
	for _, w := range t.parts {
		for i := range w.left {
			if _, ok := w.bufferedRows[w.left[i].waited.Offset]; !ok {
				return pg.Missed(fmt.Sprintf("the read of the gap buffer at offset %d", w.left[i].waited.Offset))
			}
		}
	}
	return nil
}

// checkContinuity compares the claims with the ledger: a slice begins at the stored next offset, and the revision is the
// claim's.
func (t *txAttempt) checkContinuity() error {
	for _, w := range t.parts {
		e := &ContinuityError{Partition: w.Claim.Partition, Stored: w.stored.next, From: w.From}
		switch {
		case w.fenced:
		case w.stored.revision != w.Claim.revision:
			e.Detail = fmt.Sprintf("the ledger is at revision %d, the claim at %d", w.stored.revision, w.Claim.revision)
			return pg.Refuse(e)
		case !w.expire && w.stored.next != w.From:
			return pg.Refuse(e)
		}
	}
	return nil
}
