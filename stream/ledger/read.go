package ledger

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
	"github.com/jackc/pgx/v5/pgtype"
)

// readAll is the first round trip: it locks windows and fences and reads what the gate needs.
func (t *txAttempt) readAll(ctx context.Context) error {
	var (
		p       = &pipeline{conn: t.conn}
		byFence = map[int32]*partitionBatch{}
		current int32
		live    []int32
		overdue []gate.VersionLineKey
	)
	add := func(s statement, read func(*row), params ...[]byte) error { return p.add(ctx, s, read, params...) }
	if err := add(begin, nil); err != nil {
		return err
	}
	if err := add(t.win.q.lock, nil); err != nil {
		return err
	}
	if err := add(windowsRead, func(r *row) {
		id := r.int32()
		live = append(live, id)
		if r.bool() {
			current = id
		}
	}, int32Param(t.n.id)); err != nil {
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
		if err := add(aboutRead, func(r *row) {
			r.int32() // the fence
			w.about = new(waitingOf(r))
		}, int64Param(w.command.ID)); err != nil {
			return err
		}
	} else if t.parts[0].expire {
		if err := add(overdueRead, func(r *row) {
			overdue = append(overdue, gate.VersionLineKey{Entity: schemas.EntityKey(r.text()), Clock: r.text()})
		}, int32Param(t.parts[0].Claim.ID), int64Param(cmp.Or[int64](t.parts[0].Claim.overdueAt, math.MaxInt64))); err != nil {
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
	if err := p.run(ctx); err != nil {
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
		if err := p.run(ctx); err != nil {
			return err
		}
	}
	return t.checkContinuity()
}

// addFences queues the lock of the fences and the read of their positions. A partition whose fence is not found is fenced.
func (t *txAttempt) addFences(ctx context.Context, p *pipeline, byFence map[int32]*partitionBatch) error {
	ids, epochs, tokens := int32Column(len(t.parts)), int64Column(len(t.parts)), uuidColumn(len(t.parts))
	for _, w := range t.parts {
		w.fenced = true
		byFence[w.Claim.ID] = w
		ids.int32(w.Claim.ID)
		epochs.int64(w.Claim.Epoch)
		tokens.uuid(w.Claim.Token)
	}
	err := p.add(ctx, fenceCheck, func(r *row) { byFence[r.int32()].fenced = false }, ids.param(), epochs.param(), tokens.param())
	if err != nil {
		return err
	}
	return p.add(ctx, progressRead, func(r *row) {
		w := byFence[r.int32()]
		w.stored = storedProgress{next: r.int64(), high: r.int64(), revision: r.int64()}
	}, ids.param())
}

// addSeen queues the reads of events that were decided before.
func (t *txAttempt) addSeen(ctx context.Context, p *pipeline) error {
	toAsk, all := t.keys()
	read := func(r *row) {
		key, window := schemas.EventKey(r.uuid()), r.int32()
		t.seenAt[key] = window
		t.seen[key] = gate.Seen{Hash: r.uuid(), Decision: gate.Decision(r.text())}
		if window == t.win.current {
			t.found++
		}
	}
	if all.n > 0 && len(t.win.live) > 1 {
		if err := p.add(ctx, t.win.q.seenBefore, read, all.param()); err != nil {
			return err
		}
	}
	if toAsk.n == 0 {
		return nil
	}
	return p.add(ctx, t.win.q.seen, read, toAsk.param())
}

// addLines queues the read of the lines that are not cached, and of what waits on them.
func (t *txAttempt) addLines(ctx context.Context, p *pipeline, byFence map[int32]*partitionBatch) error {
	fences, entities, clocks := int32Column(64), textColumn(64), textColumn(64)
	waiting := false
	for _, w := range t.parts {
		for i, k := range w.keys {
			if w.cached[i] != nil {
				continue
			}
			waiting = waiting || w.Claim.waiting > 0
			fences.int32(w.Claim.ID)
			entities.text(string(k.Entity))
			clocks.text(k.Clock)
		}
	}
	if fences.n == 0 {
		return nil
	}
	params := [][]byte{fences.param(), entities.param(), clocks.param()}
	if err := p.add(ctx, linesRead, func(r *row) { readLine(r, byFence) }, params...); err != nil || !waiting {
		return err
	}
	return p.add(ctx, bufferRead, func(r *row) { readWaiting(r, byFence) }, params...)
}

func readLine(r *row, byFence map[int32]*partitionBatch) {
	w := byFence[r.int32()]
	k := gate.VersionLineKey{Entity: schemas.EntityKey(r.text()), Clock: r.text()}
	l := &gate.VersionLine{At: schemas.Version{Clock: k.Clock, Kind: schemas.VersionKind(r.text()), Epoch: r.int64(), Value: r.int64(), Text: r.text(), Sub: r.int32()}}
	l.Key, l.Filtered, l.Parked = r.uuid(), r.bool(), gate.Reason(r.text())
	raw := r.next(0)
	if raw == nil {
		w.state.Lines[k] = l
		return
	}
	var spans []int64
	if err := types.Scan(pgtype.Int8ArrayOID, pgtype.BinaryFormatCode, raw, &spans); err != nil {
		r.err = fmt.Errorf("skipped places of a line: %w", err)
		return
	}
	for i := 0; i+1 < len(spans); i += 2 {
		l.Skipped = append(l.Skipped, gate.Span{From: spans[i], To: spans[i+1]})
	}
	w.state.Lines[k] = l
}

// types knows Postgres' own types; it is only read.
var types = pgtype.NewMap()

func readWaiting(r *row, byFence map[int32]*partitionBatch) {
	w := byFence[r.int32()]
	g := waitingOf(r)
	k := gate.VersionLineKey{Entity: g.Entity, Clock: g.Version.Clock}
	w.state.Waiting[k] = append(w.state.Waiting[k], g)
}

// waitingOf reads waitingColumns behind the fence.
func waitingOf(r *row) gate.Waiting {
	g := gate.Waiting{Record: gate.Record{Entity: schemas.EntityKey(r.text())}}
	g.Version.Clock = r.text()
	g.Offset, g.AppendTime, g.Key, g.Hash = r.int64(), r.time(), r.uuid(), r.uuid()
	g.Version.Kind = schemas.VersionKind(r.text())
	g.Version.Epoch, g.Version.Value, g.Version.Text, g.Version.Sub = r.int64(), r.int64(), r.text(), r.int32()
	g.First, g.Payload = r.int64Or(), schemas.PayloadKind(r.text())
	g.Deleted, g.Filtered, g.Backfill = r.bool(), r.bool(), r.bool()
	g.Decision, g.Stage, g.Size = gate.Decision(r.text()), gate.Stage(r.text()), int64(r.int32())
	return g
}

// readBufferedRows reads the buffer's rows of the events that leave it or change in it.
func (t *txAttempt) readBufferedRows(ctx context.Context) error {
	byFence := map[int32]*partitionBatch{}
	fences, offsets := int32Column(64), int64Column(64)
	for _, w := range t.parts {
		byFence[w.Claim.ID] = w
		w.bufferedRows = map[int64]bufferedRow{}
		for i := range w.left {
			fences.int32(w.Claim.ID)
			offsets.int64(w.left[i].waited.Offset)
		}
	}
	p := &pipeline{conn: t.conn}
	err := p.add(ctx, bufferedRowsRead, func(r *row) {
		w, offset := byFence[r.int32()], r.int64()
		w.bufferedRows[offset] = bufferedRow{window: r.int32(), leaderEpoch: r.int32(), source: r.text(), id: r.text(), eventType: r.text(),
			copied: r.int32() > 0, packed: r.bytes()}
	}, fences.param(), offsets.param(), int64Param(maxCopies))
	if err != nil {
		return err
	}
	if err := p.run(ctx); err != nil {
		return err
	}
	for _, w := range t.parts {
		for i := range w.left {
			if _, ok := w.bufferedRows[w.left[i].waited.Offset]; !ok {
				return refusal{missedError{fmt.Sprintf("the read of the gap buffer at offset %d", w.left[i].waited.Offset)}}
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
			return refusal{e}
		case !w.expire && w.stored.next != w.From:
			return refusal{e}
		}
	}
	return nil
}
