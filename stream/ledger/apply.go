package ledger

// The transaction of a batch, from top to bottom. A batch is slices of the logs of some partitions, the ended waits of one, a
// command about an event that waits in one, or a step of a replay in one.
//
//	lock    the windows in use, then the fences, ascending                        |
//	read    positions, events decided before, lines that are not cached, what     | first round trip
//	        waits on them                                                         |
//	decide  the gate, partition by partition
//	write   rows of events, rejected records, lines, actions, the gap buffer and  | second round trip
//	        progress, in lock order; see writer                                   |
//	commit                                                                        |
//
// The gate is called in here, between the two round trips, and not by the batch loop: what it decides on has to be read under the
// locks, and what it decided written under them. A way out to the loop and back, with the transaction open, would be a third
// stop in which all of the batch's partitions are locked. One more round trip is needed to read version lines whose waits end, since
// the first one finds which these are, one for lines on which much waits (see inpart.go), and one to read rows that leave the gap buffer,
// since the gate decides which these are.
//
// What happens after the transaction has failed is in bisect.go; after a COMMIT without an answer, in doubt.go.

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/ledger/internal/pg"
)

// batchTx is one attempt to apply a batch in one transaction.
type batchTx struct {
	n       *Namespace
	win     *windowSet
	parts   []*partitionBatch // by fence, ascending
	byFence map[int32]*partitionBatch
	p       *pg.Pipeline

	current    int32 // the windows as the transaction has read them: the current one, and all that are in use
	live       []int32
	overdue    []gate.VersionLineKey          // of a batch that ends waits: the version lines whose waits have ended
	seen       map[schemas.EventKey]gate.Seen // events decided before
	seenAt     map[schemas.EventKey]int32     // in which window each of them is
	also       *alsoKeys
	lookups    keyLookups
	commitSent bool // COMMIT was sent: its outcome may be unknown
}

// attempt makes one try of the transaction. If it fails, what the claims have cached is discarded. commitSent says whether the error came
// after COMMIT was sent: then the transaction may have been committed.
func (b batchWriter) attempt(ctx context.Context, parts []*partitionBatch) (commitSent bool, err error) {
	conn, err := b.n.ledger.hot.Acquire(ctx)
	if err != nil {
		return false, err
	}
	t := &batchTx{n: b.n, win: b.n.windows.Load(), parts: parts, byFence: map[int32]*partitionBatch{}, p: &pg.Pipeline{Conn: conn},
		seen: parts[0].seen, seenAt: map[schemas.EventKey]int32{}, also: newAlsoKeys()}
	bounded, done := b.n.ledger.hot.Bounded(ctx)
	for _, step := range []func(context.Context) error{t.lock, t.read, t.decide, t.write, t.commit} {
		if err = step(bounded); err != nil {
			break
		}
	}
	if err = done(err); err != nil {
		for _, w := range parts {
			w.discard()
		}
	}
	pg.ReleaseAfter(conn, err)
	return t.commitSent, err
}

// lock queues the statements that lock: the current window's table, which keeps a rotation from ending meanwhile, and the fences. A
// partition counts as fenced unless its fence is found.
func (t *batchTx) lock(ctx context.Context) error {
	claims := make([]*Claim, len(t.parts))
	for i, w := range t.parts {
		w.reset()
		w.window, w.fenced, claims[i] = t.win.current, true, w.Claim
		t.byFence[w.Claim.ID] = w
	}
	fences := fencesOf(claims...)
	return errors.Join(
		t.p.Add(ctx, pg.Begin, nil),
		t.p.Add(ctx, t.win.q.lock, nil),
		t.p.Add(ctx, windowsRead, func(r *pg.Row) {
			id := r.Int32()
			t.live = append(t.live, id)
			if r.Time().IsZero() { // not closed
				t.current = id
			}
		}, pg.Int32Param(t.n.id)),
		t.p.Add(ctx, fenceCheck, func(r *pg.Row) { t.byFence[r.Int32()].fenced = false }, fences.params()...),
		t.p.Add(ctx, progressRead, func(r *pg.Row) {
			w := t.byFence[r.Int32()]
			w.stored = storedProgress{next: r.Int64(), high: r.Int64(), revision: r.Int64()}
		}, fences.id.Param()),
		t.lockReplay(ctx, t.parts[0]),
	)
}

// read reads what the gate needs in the first round trip, and checks that the claims are where the ledger is. The error is errRotated if
// the windows have changed since they were last read.
func (t *batchTx) read(ctx context.Context) error {
	if err := t.readSeen(ctx); err != nil {
		return err
	}
	if err := t.readAlso(ctx); err != nil {
		return err
	}
	if err := t.readState(ctx); err != nil {
		return err
	}
	if err := t.p.Run(ctx); err != nil {
		return err
	}
	if !t.win.same(t.current, t.live) {
		return errRotated
	}
	t.parts[0].endedReplay()
	if first := t.parts[0]; first.expire && !first.fenced {
		if err := t.readOverdueLines(ctx, first); err != nil {
			return err
		}
	}
	if err := t.readLong(ctx); err != nil {
		return err
	}
	return t.checkContinuity()
}

// readState queues the reads of version lines and of what waits on them: those of a command's event, those whose waits end, or those of the
// records.
func (t *batchTx) readState(ctx context.Context) error {
	first := t.parts[0]
	if first.command != nil {
		return t.readCommandEvent(ctx, first)
	}
	if first.expire {
		return t.readOverdue(ctx, first)
	}
	for _, w := range t.parts {
		w.collectLines()
	}
	return t.readLines(ctx)
}

// readSeen queues the reads of events that were decided before: of all keys in the closed windows that may have them, and of those in the current
// one that recentKeys chooses.
func (t *batchTx) readSeen(ctx context.Context) error {
	toLookUp, all := t.keys()
	read := func(r *pg.Row) {
		key, window := schemas.EventKey(r.UUID()), r.Int32()
		t.seenAt[key] = window
		t.seen[key] = gate.Seen{Hash: r.UUID(), Decision: gate.Decision(r.Text())}
		t.countFound(window)
	}
	if all.Len() > 0 {
		for _, w := range t.win.seenBefore(t.appended(), t.n.spec.Window) {
			if err := t.p.Add(ctx, t.win.q.seen[w], read, all.Param()); err != nil {
				return err
			}
		}
	}
	if toLookUp.Len() == 0 {
		return nil
	}
	return t.p.Add(ctx, t.win.q.seen[t.win.current], read, toLookUp.Param())
}

// readCommandEvent queues the read of the event that a command is about.
func (t *batchTx) readCommandEvent(ctx context.Context, w *partitionBatch) error {
	w.addLine(w.command.VersionLine, w.Claim.cache.find(w.command.VersionLine))
	return t.p.Add(ctx, aboutRead, func(r *pg.Row) {
		r.Int32() // the fence
		w.commandEvent = new(waitingOf(r))
	}, pg.Int64Param(w.command.ID), pg.Int32Param(int32(w.command.Detail.Of)))
}

// readOverdue queues the read of which version lines have waits that end. The lines themselves are read after it.
func (t *batchTx) readOverdue(ctx context.Context, w *partitionBatch) error {
	return t.p.Add(ctx, overdueRead, func(r *pg.Row) {
		t.overdue = append(t.overdue, gate.VersionLineKey{Entity: schemas.EntityKey(r.Text()), Clock: r.Text()})
	}, pg.Int32Param(w.Claim.ID), pg.Int64Param(cmp.Or[int64](w.Claim.overdueAt, math.MaxInt64)))
}

// readOverdueLines reads the version lines that readOverdue has found, in a round trip of its own.
func (t *batchTx) readOverdueLines(ctx context.Context, w *partitionBatch) error {
	slices.SortFunc(t.overdue, compareKeys)
	for _, k := range t.overdue {
		w.addLine(k, w.Claim.cache.find(k))
	}
	if err := t.readLines(ctx); err != nil {
		return err
	}
	return t.p.Run(ctx)
}

// readLines queues the read of the version lines that are not cached, and of what waits on them.
func (t *batchTx) readLines(ctx context.Context) error {
	lines, waiting := newLineKeyRows(), false
	for _, w := range t.parts {
		for i, k := range w.keys {
			if w.cached[i] != nil {
				continue
			}
			waiting = waiting || w.Claim.waiting > 0
			lines.add(w.Claim.ID, k)
		}
	}
	if lines.n() == 0 {
		return nil
	}
	params := lines.params()
	if err := t.p.Add(ctx, linesRead, func(r *pg.Row) { readLine(r, t.byFence) }, params...); err != nil || !waiting {
		return err
	}
	glance := pg.Int64Param(int64(t.parts[0].Claim.glance()))
	return t.p.Add(ctx, bufferRead, func(r *pg.Row) { t.byFence[r.Int32()].addWaiting(waitingOf(r)) }, append(params, glance)...)
}

// readLine adds a version line, one row of linesRead, to the state of its partition.
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

// addWaiting adds a waiting event as it was read to the state, and returns its line; snapshotLines sorts them.
func (w *partitionBatch) addWaiting(g gate.Waiting) gate.VersionLineKey {
	k := gate.VersionLineKey{Entity: g.Entity, Clock: g.Version.Clock}
	w.state.Waiting[k] = append(w.state.Waiting[k], g)
	return k
}

// waitingOf reads a row with waitingColumns, whose first column, the fence, was read.
func waitingOf(r *pg.Row) gate.Waiting {
	g := gate.Waiting{Record: gate.Record{Entity: schemas.EntityKey(r.Text())}}
	g.Version.Clock = r.Text()
	g.Offset, g.AppendTime, g.Key, g.Hash = r.Int64(), r.Time(), r.UUID(), r.UUID()
	g.Version.Kind = schemas.VersionKind(r.Text())
	g.Version.Epoch, g.Version.Value, g.Version.Text, g.Version.Sub = r.Int64(), r.Int64(), r.Text(), r.Int32()
	g.First, g.Payload = r.Int64Or(), schemas.PayloadKind(r.Text())
	g.Deleted, g.Filtered, g.Unmatched, g.Backfill, g.Repeats = r.Bool(), r.Bool(), r.Bool(), r.Bool(), r.Bool()
	g.Decision, g.Stage, g.Size = gate.Decision(r.Text()), gate.Stage(r.Text()), int64(r.Int32())
	return g
}

// checkContinuity compares the claims that hold their fences with the ledger: each slice must begin at the stored next offset, and the
// stored revision must be the claim's. Otherwise the error is a [ContinuityError].
func (t *batchTx) checkContinuity() error {
	for _, w := range t.parts {
		if w.fenced {
			continue
		}
		e := &ContinuityError{Partition: w.Claim.Partition, Stored: w.stored.next, From: w.From}
		if w.stored.revision != w.Claim.revision.Load() {
			e.Detail = fmt.Sprintf("the ledger is at revision %d, the claim at %d", w.stored.revision, w.Claim.revision.Load())
			return pg.Refuse(e)
		}
		if w.replay != nil {
			e.Stored = w.replay.stored
		}
		if !w.expire && e.Stored != w.From {
			return pg.Refuse(e)
		}
	}
	return nil
}

// decide has the gate decide every partition that is not fenced. Their fences stay locked until the transaction ends: no other owner changes
// what was read. The error is errTooLittle if lines are needed whole, of any partition: one more try reads them all. It is errPossibleDuplicate
// if an event was taken for new without a look-up in the current window and gets no row, so that no insert would find out that it is not new;
// the next try looks up all keys.
func (t *batchTx) decide(context.Context) error {
	var short error
	for _, w := range t.parts {
		if w.fenced {
			w.applied.ReplayEnded = w.replay != nil && w.replay.ended
			w.applied.Fenced = !w.applied.ReplayEnded
			continue
		}
		w.decide(t.seen, t.also.first)
		if err := w.checkParts(); err != nil {
			short = err
			continue
		}
		actions := len(t.n.spec.Actions)
		if w.replay.isShadow() {
			actions = 0
		}
		w.gatherVerdicts(actions)
	}
	if short != nil {
		return short
	}
	if !t.allInserted() {
		return errPossibleDuplicate
	}
	return nil
}

// write queues the rows. Before that it reads what it needs of rows that leave the gap buffer.
func (t *batchTx) write(ctx context.Context) error {
	if err := t.readBufferedRows(ctx); err != nil {
		return err
	}
	duplicates := t.duplicates()
	out := newWriter(t.n, t.win)
	defer out.free()
	for _, w := range t.parts {
		if w.fenced {
			continue
		}
		out.add(w, t.seenAt, duplicates)
		w.applied.Actions = t.newActions(w)
	}
	t.also.write(out)
	if err := t.endCommand(ctx, t.parts[0]); err != nil {
		return err
	}
	if err := t.moveReplay(ctx, t.parts[0]); err != nil {
		return err
	}
	return out.queue(ctx, t.p)
}

// readBufferedRows reads the rows of the events that leave the gap buffer or change in it, if any do. A row that is not there is an error.
func (t *batchTx) readBufferedRows(ctx context.Context) error {
	offsets := newPlaceRows()
	for _, w := range t.parts {
		w.bufferedRows = map[int64]bufferedRow{}
		for i := range w.left {
			offsets.add(w.Claim.ID, w.left[i].waited.Offset)
		}
	}
	if offsets.n() == 0 {
		return nil
	}
	err := t.p.Add(ctx, bufferedRowsRead, func(r *pg.Row) {
		w, offset := t.byFence[r.Int32()], r.Int64()
		w.bufferedRows[offset] = bufferedRow{window: r.Int32(), leaderEpoch: r.Int32(), source: r.Text(), id: r.Text(), eventType: r.Text(),
			copied: r.Int32() > 0, packed: r.Bytes()}
	}, append(offsets.params(), pg.Int64Param(maxCopies))...)
	if err == nil {
		err = t.p.Run(ctx)
	}
	if err != nil {
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

// duplicates returns how many duplicates of each event are in the batch. A record that was read before, in front of a rewind, is the same
// delivery once more, and is not counted.
func (t *batchTx) duplicates() map[schemas.EventKey]int32 {
	n := map[schemas.EventKey]int32{}
	for _, w := range t.parts {
		for i := range w.verdicts {
			if w.verdicts[i].Reason == gate.ReasonSeen && !w.fenced && w.Records[i].Offset >= w.stored.high {
				n[w.Records[i].Key]++
			}
		}
	}
	return n
}

// commit sends what write has queued, with COMMIT behind it: the second round trip. After it, the parts that still had their fence go over
// to the new state in memory. If it fails once commitSent is set, the transaction may have been committed.
func (t *batchTx) commit(ctx context.Context) error {
	if err := t.p.Add(ctx, pg.Commit, nil); err != nil {
		return err
	}
	t.commitSent = true
	if err := t.p.Commit(ctx); err != nil {
		return err
	}
	if t.parts[0].replay == nil { // what a replay brings again says nothing of what comes live
		t.keysCommitted()
	}
	for _, w := range t.parts {
		if !w.fenced {
			w.markCommitted()
		}
	}
	return nil
}

// appended returns when the first of the batch's records was appended to the log.
func (t *batchTx) appended() time.Time {
	var all []time.Time
	for _, w := range t.parts {
		for i := range w.Records {
			all = append(all, w.Records[i].AppendTime)
		}
	}
	return slices.MinFunc(all, time.Time.Compare)
}

// records counts the records of the batch.
func (t *batchTx) records() (n int) {
	for _, w := range t.parts {
		n += len(w.Records)
	}
	return n
}
