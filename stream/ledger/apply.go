package ledger

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/ledger/internal/pg"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Apply writes one batch in one transaction. It retries what can be retried, bisects data errors down to the record, and
// finds out after an unknown COMMIT whether it happened. Where the ledger refuses one partition's slice, its
// Applied.Refused says why and the other partitions go on. An error means that a slice is invalid, that ctx ended or that
// the database stays away. Then nothing of the batch was written, or all, or (if it was bisected) its first part. The
// claims are of no use any more; the next ones read what was written.
func (n *Namespace) Apply(ctx context.Context, batch []Slice) ([]Applied, error) {
	parts, going := make([]*partitionBatch, 0, len(batch)), make([]*partitionBatch, 0, len(batch))
	claims := map[*Claim]bool{}
	for _, s := range batch {
		if s.Claim == nil || s.Claim.cache == nil {
			return nil, schemas.Errorf(schemas.Invalid, "apply a batch of "+n.spec.Name, "a slice has no claim of this ledger")
		}
		if claims[s.Claim] {
			return nil, schemas.Errorf(schemas.Invalid, "apply a batch of "+n.spec.Name, "two slices of one claim")
		}
		claims[s.Claim] = true
		w := &partitionBatch{Slice: s}
		parts = append(parts, w)
		if err := s.checkContinuity(); err != nil {
			w.refuse(err)
			continue
		}
		going = append(going, w)
	}
	// Lock order: rows that are locked by fence, such as progress, are locked sorted.
	slices.SortFunc(going, func(a, b *partitionBatch) int { return cmp.Compare(a.Claim.ID, b.Claim.ID) })
	if len(going) > 0 {
		if err := n.bisect(ctx, going); err != nil {
			return nil, &schemas.Error{Kind: kindOf(err), Op: "apply a batch of " + n.spec.Name, Err: pg.Redact(err)}
		}
	}
	out := make([]Applied, len(parts))
	for i, w := range parts {
		out[i] = w.applied
	}
	return out, nil
}

func kindOf(err error) schemas.Kind {
	if pg.IsRefusal(err) {
		return schemas.Conflict
	}
	if t := troubleOf(err); t == pg.Permanent || t == pg.BadData {
		return schemas.Internal
	}
	return schemas.Unavailable
}

// checkContinuity checks a slice: it begins at the claim's next offset, and its records ascend up to Next.
func (s Slice) checkContinuity() error {
	e := &ContinuityError{Partition: s.Claim.Partition, Stored: s.Claim.Next.Offset, From: s.From}
	if s.From != e.Stored {
		return e
	}
	last := s.From - 1
	for i := range s.Records {
		if o := s.Records[i].Offset; o <= last {
			e.Detail = fmt.Sprintf("offset %d follows %d", o, last)
			return e
		}
		last = s.Records[i].Offset
	}
	if s.Next.Offset <= last {
		e.Detail = fmt.Sprintf("next offset %d is not behind the last record %d", s.Next.Offset, last)
		return e
	}
	return nil
}

// txAttempt is one attempt to apply a batch in one transaction.
type txAttempt struct {
	n     *Namespace
	conn  *pgxpool.Conn
	win   *windowSet
	parts []*partitionBatch

	seen       map[schemas.EventKey]gate.Seen
	seenAt     map[schemas.EventKey]int32
	recent     int  // keys that were seen recently by this process
	found      int  // events that are in the current window
	commitSent bool // COMMIT was sent; its outcome may be unknown
}

// attempt applies the batch in one transaction of two round trips, or three if something leaves the gap buffer. On success
// it has marked the claims. commitSent says that an error came after COMMIT was sent.
func (n *Namespace) attempt(ctx context.Context, parts []*partitionBatch) (commitSent bool, err error) {
	t := &txAttempt{n: n, win: n.windows.Load(), parts: parts, seen: parts[0].seen, seenAt: map[schemas.EventKey]int32{}}
	if t.conn, err = n.ledger.hot.Acquire(ctx); err != nil {
		return false, err
	}
	ctx, done := n.ledger.hot.Bounded(ctx)
	defer func() {
		err = done(err)
		if err != nil {
			for _, w := range parts {
				w.discard()
			}
			if troubleOf(err) == pg.OldPlan {
				pg.Discard(t.conn)
				return
			}
		}
		pg.Abandon(t.conn)
	}()
	for _, w := range parts {
		w.reset()
		w.window = t.win.current
	}
	if err := t.readAll(ctx); err != nil {
		return false, err
	}
	if err := t.decideAll(ctx); err != nil {
		return false, err
	}
	if !t.allInserted() {
		return false, errPossibleDuplicate
	}
	if err := t.write(ctx); err != nil {
		return t.commitSent, err
	}
	t.n.recent.batchCommitted(t.records(), t.found > t.recent)
	for _, w := range parts {
		if !w.fenced {
			w.markCommitted()
		}
	}
	return false, nil
}

// decideAll asks the gate about every partition that is not fenced, and reads the rows that leave the gap buffer.
func (t *txAttempt) decideAll(ctx context.Context) error {
	anyLeft := false
	for _, w := range t.parts {
		if w.fenced {
			w.applied.Fenced = true
			continue
		}
		w.decide(t.seen)
		w.gatherVerdicts(len(t.n.spec.Actions))
		anyLeft = anyLeft || len(w.left) > 0
	}
	if anyLeft {
		return t.readBufferedRows(ctx)
	}
	return nil
}

// records counts the records of the batch.
func (t *txAttempt) records() (n int) {
	for _, w := range t.parts {
		n += len(w.Records)
	}
	return n
}

// write sends the second round trip, COMMIT included.
func (t *txAttempt) write(ctx context.Context) error {
	duplicates := map[schemas.EventKey]int32{}
	for _, w := range t.parts {
		for i := range w.verdicts {
			if w.verdicts[i].Decision == gate.Duplicate && !w.fenced {
				duplicates[w.Records[i].Key]++
			}
		}
	}
	out := newWriter(t.n, t.win)
	defer out.free()
	for _, w := range t.parts {
		if w.fenced {
			continue
		}
		out.add(w, t.seenAt, duplicates)
		out.addProgress(w)
		w.applied.Actions = t.newActions(w)
	}
	p := &pg.Pipeline{Conn: t.conn}
	if w := t.parts[0]; w.command != nil && !w.fenced {
		end := commandEnd
		if w.about != nil {
			end = commandEndOfOpen
		}
		if err := p.Add(ctx, end, nil, pg.Int64Param(w.command.ID), []byte(w.commandOutcome()), pg.Int64Param(w.Claim.Epoch)); err != nil {
			return err
		}
	}
	if err := out.queue(ctx, p); err != nil {
		return err
	}
	t.commitSent = true
	return p.Commit(ctx)
}

// newActions are a partition's new open actions, in lane_seq order.
func (t *txAttempt) newActions(w *partitionBatch) []Action {
	n := w.laneEnd - w.laneAt
	if n == 0 {
		return nil
	}
	out := make([]Action, n)
	for i := range w.verdicts {
		v, r := &w.verdicts[i], &w.Records[i]
		if v.actions == 0 || v.Dead {
			continue
		}
		a := &out[v.laneSeq-w.laneAt]
		a.of(&r.Record, &v.Outcome)
		a.Pointer = t.pointer(w, r.Offset, r.LeaderEpoch, r.Key, r.Hash)
		a.Source, a.EventID, a.EventType, a.Record = r.Source, r.ID, r.Type, i
		t.fillActions(out, w, v.laneSeq)
	}
	for i := range w.left {
		f := &w.left[i]
		if f.actions == 0 || f.outcome.Dead {
			continue
		}
		h, r := w.bufferedRows[f.waited.Offset], f.waited
		a := &out[f.laneSeq-w.laneAt]
		a.of(&r.Record, &f.outcome)
		a.Pointer = t.pointer(w, r.Offset, h.leaderEpoch, r.Key, r.Hash)
		a.Source, a.EventID, a.EventType, a.Record, a.HasCopy, a.Packed = h.source, h.id, h.eventType, -1, h.copied, h.packed
		t.fillActions(out, w, f.laneSeq)
	}
	return slices.DeleteFunc(out, func(a Action) bool { return a.LaneSeq == 0 }) // dead letters: they do not run
}

func (t *txAttempt) pointer(w *partitionBatch, offset int64, leaderEpoch int32, key schemas.EventKey, hash schemas.BodyHash) Pointer {
	p := w.Claim.Partition
	return Pointer{TopicID: p.TopicID, Topic: p.Topic, Partition: p.Number, Offset: offset, LeaderEpoch: leaderEpoch, Key: key, Hash: hash}
}

// of copies the fields that an action takes from its event and the decision.
func (a *Action) of(r *gate.Record, o *gate.Outcome) {
	a.Entity, a.Payload = r.Entity, r.Payload
	a.Version, a.Late, a.Reason = o.Version, o.Decision == gate.Late, o.Reason
}

// fillActions makes an event's actions, one per ActionSpec. The event's fields are already in the first of them.
func (t *txAttempt) fillActions(out []Action, w *partitionBatch, laneSeq int64) {
	spec, first := &t.n.spec, laneSeq-w.laneAt
	out[first].Payload = t.n.payload(out[first].Payload)
	for i := range spec.Actions {
		s, a := &spec.Actions[i], &out[first+int64(i)]
		if i > 0 {
			*a = out[first]
		}
		a.Claim, a.LaneSeq = w.Claim.ID, laneSeq+int64(i)
		a.ID = schemas.NewActionID(spec.Name, spec.Generation, a.Source, a.EventID, s.Name)
		a.Name, a.Destination, a.OnDead, a.Status = s.Name, s.Destination, s.OnDead, Pending
	}
}
