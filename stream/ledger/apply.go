package ledger

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Apply runs one batch in one transaction. It retries what may be retried, bisects data errors down to the record,
// and after an unknown COMMIT looks whether it happened. What one partition's slice is refused for is said in its
// Applied.Refused, and the others go on. An error means that a slice is none, that ctx ended or that the database stays
// away: nothing of the batch is written, or all of it, or (where it was bisected) the first part. The next claims read
// which; those of the batch are of no use any more.
func (n *Namespace) Apply(ctx context.Context, batch []Slice) ([]Applied, error) {
	works, going := make([]*work, 0, len(batch)), make([]*work, 0, len(batch))
	claims := map[*Claim]bool{}
	for _, s := range batch {
		if s.Claim == nil || s.Claim.cache == nil {
			return nil, schemas.Errorf(schemas.Invalid, "apply a batch of "+n.spec.Name, "a slice has no claim of this ledger")
		}
		if claims[s.Claim] {
			return nil, schemas.Errorf(schemas.Invalid, "apply a batch of "+n.spec.Name, "two slices of one claim")
		}
		claims[s.Claim] = true
		w := &work{Slice: s}
		works = append(works, w)
		if err := s.continues(); err != nil {
			w.refuse(err)
			continue
		}
		going = append(going, w)
	}
	// Lock order: what a transaction locks by fence, progress among it, it locks sorted.
	slices.SortFunc(going, func(a, b *work) int { return cmp.Compare(a.Claim.ID, b.Claim.ID) })
	if len(going) > 0 {
		if err := n.bisect(ctx, going); err != nil {
			return nil, &schemas.Error{Kind: kindOf(err), Op: "apply a batch of " + n.spec.Name, Err: redact(err)}
		}
	}
	out := make([]Applied, len(works))
	for i, w := range works {
		out[i] = w.applied
	}
	return out, nil
}

func kindOf(err error) schemas.Kind {
	if isOurs(err) {
		return schemas.Conflict
	}
	if t := troubleOf(err); t == permanent || t == badData {
		return schemas.Internal
	}
	return schemas.Unavailable
}

// continues holds a slice to what it says of itself: it goes on where the claim stands, and its records ascend up to Next.
func (s Slice) continues() error {
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

// try is one transaction: what it has found out and what it will write.
type try struct {
	n     *Namespace
	conn  *pgxpool.Conn
	win   *windowSet
	works []*work

	seen    map[schemas.EventKey]gate.Seen
	seenAt  map[schemas.EventKey]int32
	met     int  // keys that are among the recent ones
	found   int  // events that are in the current window
	inDoubt bool // a COMMIT was on its way when the connection broke
}

// attempt runs the works in one transaction of two round trips; a third in between only where something leaves the
// gap buffer. On success it has settled the claims.
func (n *Namespace) attempt(ctx context.Context, works []*work) (inDoubt bool, err error) {
	t := &try{n: n, win: n.windows.Load(), works: works, seen: works[0].seen, seenAt: map[schemas.EventKey]int32{}}
	if t.conn, err = n.ledger.hot.Acquire(ctx); err != nil {
		return false, err
	}
	ctx, done := n.ledger.bounded(ctx, n.ledger.cfg.TxTimeout)
	defer func() {
		err = done(err)
		if err != nil {
			for _, w := range works {
				w.discard()
			}
			if troubleOf(err) == oldPlan {
				discard(t.conn)
				return
			}
		}
		abandon(t.conn)
	}()
	for _, w := range works {
		w.reset()
		w.window = t.win.current
	}
	if err := t.readAll(ctx); err != nil {
		return false, err
	}
	if err := t.decide(ctx); err != nil {
		return false, err
	}
	if !t.proven() {
		return false, errUnproven
	}
	if err := t.write(ctx); err != nil {
		return t.inDoubt, err
	}
	t.n.recent.passed(t.records(), t.found > t.met)
	for _, w := range works {
		if !w.fenced {
			w.settle()
		}
	}
	return false, nil
}

// decide asks the gate about every work that is not fenced, and reads what leaves the buffer.
func (t *try) decide(ctx context.Context) error {
	freed := false
	for _, w := range t.works {
		if w.fenced {
			w.applied.Fenced = true
			continue
		}
		w.decide(t.seen)
		w.conclude(len(t.n.spec.Actions))
		freed = freed || len(w.freed) > 0
	}
	if freed {
		return t.readHeld(ctx)
	}
	return nil
}

// records is how many the batch has.
func (t *try) records() (n int) {
	for _, w := range t.works {
		n += len(w.Records)
	}
	return n
}

// write sends the second round trip, COMMIT included.
func (t *try) write(ctx context.Context) error {
	again := map[schemas.EventKey]int32{}
	for _, w := range t.works {
		for i := range w.final {
			if w.final[i].Decision == gate.Duplicate && !w.fenced {
				again[w.Records[i].Key]++
			}
		}
	}
	out := newWriter(t.n, t.win)
	defer out.free()
	for _, w := range t.works {
		if w.fenced {
			continue
		}
		out.work(w, t.seenAt, again)
		t.progress(out, w)
		w.applied.Actions = t.actions(w)
	}
	p := &pipeline{conn: t.conn}
	if w := t.works[0]; w.command != nil && !w.fenced {
		end := commandEnd
		if w.about != nil {
			end = commandEndOfOpen
		}
		if err := p.add(ctx, end, nil, int64Param(w.command.ID), []byte(w.done()), int64Param(w.Claim.Epoch)); err != nil {
			return err
		}
	}
	if err := out.queue(ctx, p); err != nil {
		return err
	}
	t.inDoubt = true
	return p.commit(ctx)
}

func (t *try) progress(out *writer, w *work) {
	c, next := out.progress, w.Next
	if w.expire {
		next = w.Claim.Next
	}
	var processed time.Time
	if len(w.Records) > 0 {
		processed = w.Records[len(w.Records)-1].AppendTime
	}
	c[0].int32(w.Claim.ID)
	c[1].int64(next.Offset)
	c[2].int32(next.LeaderEpoch)
	c[3].int64(w.laneEnd)
	c[4].time(processed)
	c[5].int64(w.linesLow())
}

// actions are the new open actions of a work, in lane_seq order.
func (t *try) actions(w *work) []Action {
	n := w.laneEnd - w.laneAt
	if n == 0 {
		return nil
	}
	out := make([]Action, n)
	for i := range w.final {
		v, r := &w.final[i], &w.Records[i]
		if v.actions == 0 || v.Dead {
			continue
		}
		a := &out[v.laneSeq-w.laneAt]
		a.of(&r.Record, &v.Outcome)
		a.Pointer = t.pointer(w, r.Offset, r.LeaderEpoch, r.Key, r.Hash)
		a.Source, a.EventID, a.EventType, a.Record = r.Source, r.ID, r.Type, i
		t.fill(out, w, v.laneSeq)
	}
	for i := range w.freed {
		f := &w.freed[i]
		if f.actions == 0 || f.outcome.Dead {
			continue
		}
		h, r := w.held[f.waited.Offset], f.waited
		a := &out[f.laneSeq-w.laneAt]
		a.of(&r.Record, &f.outcome)
		a.Pointer = t.pointer(w, r.Offset, h.leaderEpoch, r.Key, r.Hash)
		a.Source, a.EventID, a.EventType, a.Record, a.HasCopy, a.Packed = h.source, h.id, h.eventType, -1, h.copied, h.packed
		t.fill(out, w, f.laneSeq)
	}
	return slices.DeleteFunc(out, func(a Action) bool { return a.LaneSeq == 0 }) // dead letters: they do not run
}

func (t *try) pointer(w *work, offset int64, leaderEpoch int32, key schemas.EventKey, hash schemas.BodyHash) Pointer {
	p := w.Claim.Partition
	return Pointer{TopicID: p.TopicID, Topic: p.Topic, Partition: p.Number, Offset: offset, LeaderEpoch: leaderEpoch, Key: key, Hash: hash}
}

// of takes what an action has of its event and of the decision.
func (a *Action) of(r *gate.Record, o *gate.Outcome) {
	a.Entity, a.Payload = r.Entity, r.Payload
	a.Version, a.Late, a.Reason = o.Version, o.Decision == gate.Late, o.Reason
}

// fill makes an event's actions, one per ActionSpec, of what the first of them has of it.
func (t *try) fill(out []Action, w *work, laneSeq int64) {
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
