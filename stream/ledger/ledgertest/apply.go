package ledgertest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger"
)

// Apply is [ledger.Namespace.Apply].
func (p *Process) Apply(ctx context.Context, batch []ledger.Slice) ([]ledger.Applied, error) {
	op := "apply a batch of " + p.spec.Name
	parts, going := make([]*partitionBatch, 0, len(batch)), make([]*partitionBatch, 0, len(batch))
	fences := map[int32]bool{}
	for i := range batch {
		s := &batch[i]
		if s.Claim == nil || !p.m.knows(s.Claim) {
			return nil, &schemas.Error{Kind: schemas.Invalid, Op: op, Err: errNoClaim}
		}
		if fences[s.Claim.ID] {
			return nil, schemas.Errorf(schemas.Invalid, op, "two slices of one fence")
		}
		fences[s.Claim.ID] = true
		w := &partitionBatch{Slice: *s}
		parts = append(parts, w)
		if err := s.CheckContinuity(); err != nil {
			w.refuse(err)
			continue
		}
		going = append(going, w)
	}
	slices.SortFunc(going, func(a, b *partitionBatch) int { return cmp.Compare(a.Claim.ID, b.Claim.ID) })
	if len(going) > 0 {
		if err := p.bisect(ctx, going); err != nil {
			return nil, &schemas.Error{Kind: kindOf(err), Op: op, Err: err}
		}
	}
	out := make([]ledger.Applied, len(parts))
	for i, w := range parts {
		out[i] = w.applied
	}
	return out, nil
}

// refuse sets why nothing of w is written.
func (w *partitionBatch) refuse(err error) { w.applied = ledger.Applied{Claim: w.Claim, Refused: err} }

func (m *Memory) knows(c *ledger.Claim) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.claims[c] != nil
}

// applyUntilDone attempts a batch until it is committed, its data is refused, or ctx ends.
func (p *Process) applyUntilDone(ctx context.Context, op string, parts []*partitionBatch) error {
	var fences []int32
	for _, w := range parts {
		fences = append(fences, w.Claim.ID)
	}
	var last error
	for try := 0; ; try++ {
		if try > 0 {
			if err := backoff(ctx, try); err != nil {
				return errors.Join(err, last)
			}
		}
		err := p.transaction(ctx, op, shared, fences, func() error { return p.attempt(parts) })
		if err == nil {
			return p.write(func() error { return p.m.markCommitted(parts) })
		}
		if err := p.waitIfKilled(ctx, err); ctx.Err() != nil {
			return errors.Join(context.Cause(ctx), err)
		}
		if final(err) {
			return err
		}
		if isLostAnswer(err) {
			if done, err := p.wasCommitted(ctx, parts, fences); done || err != nil {
				return err
			}
		}
		last = err
	}
}

// wasCommitted finds out whether a transaction without an answer was committed: it was if the revision advanced under this
// claim's token. A claim that was fenced meanwhile counts as fenced, committed or not: its next owner reads what was written.
func (p *Process) wasCommitted(ctx context.Context, parts []*partitionBatch, fences []int32) (committed bool, err error) {
	err = p.untilDone(ctx, "resolve", exclusive, fences, 0, func() error {
		committed = false
		for _, w := range parts {
			f := p.m.fenceOf(w.Claim)
			committed = committed || !w.fenced && f != nil && f.revision == p.m.claims[w.Claim].revision+1
		}
		if !committed {
			return nil
		}
		for _, w := range parts {
			if p.m.fenceOf(w.Claim) == nil {
				w.fenced, w.applied = true, ledger.Applied{Claim: w.Claim, Fenced: true}
			}
		}
		return nil
	})
	if err != nil || !committed {
		return false, err
	}
	return true, p.write(func() error { return p.m.markCommitted(parts) })
}

// markCommitted brings the claims up to what was committed.
func (m *Memory) markCommitted(parts []*partitionBatch) error {
	for _, w := range parts {
		if w.fenced {
			continue
		}
		c := m.claims[w.Claim]
		for _, lane := range w.withRow {
			c.recorded[lane] = true
		}
		c.laneSeq = max(c.laneSeq, w.laneEnd)
		c.revision++
		if !w.positionStays() {
			w.Claim.Next = w.Next
		}
	}
	return nil
}

// bisect applies a batch. Where its data is refused, it applies the halves, down to the one record, which is quarantined.
// What is refused for another reason is refused to its partition alone.
func (p *Process) bisect(ctx context.Context, parts []*partitionBatch) error {
	err := p.applyUntilDone(ctx, "apply", parts)
	if err == nil || ctx.Err() != nil {
		return err
	}
	total := 0
	for _, w := range parts {
		total += len(w.Records)
	}
	_, refused := errors.AsType[badData](err)
	switch {
	case !final(err):
		return err
	case !refused, total == 0:
		return p.isolate(ctx, parts, err)
	case total == 1:
		return p.quarantineRecord(ctx, parts, err)
	}
	left, right, join := split(parts, total/2)
	if err := p.bisect(ctx, left); err != nil {
		return err
	}
	if right = withoutEnded(left, right); len(right) > 0 {
		if err := p.bisect(ctx, right); err != nil {
			return err
		}
	}
	join()
	return nil
}

// withoutEnded leaves out what follows a part that was not written.
func withoutEnded(left, right []*partitionBatch) []*partitionBatch {
	ended := map[*ledger.Claim]bool{}
	for _, w := range left {
		ended[w.Claim] = w.applied.Refused != nil || w.applied.Fenced
	}
	return slices.DeleteFunc(right, func(w *partitionBatch) bool { return ended[w.Claim] })
}

// isolate applies each partition on its own. A single one is refused for cause.
func (p *Process) isolate(ctx context.Context, parts []*partitionBatch, cause error) error {
	if len(parts) == 1 {
		parts[0].refuse(cause)
		return nil
	}
	for _, w := range parts {
		if err := p.bisect(ctx, []*partitionBatch{w}); err != nil {
			return err
		}
	}
	return nil
}

// quarantineRecord quarantines the one record of a batch.
func (p *Process) quarantineRecord(ctx context.Context, parts []*partitionBatch, cause error) error {
	for _, w := range parts {
		if len(w.Records) == 0 {
			continue
		}
		if w.refusedData {
			return p.isolate(ctx, parts, cause)
		}
		w.refusedData = true
		r := w.Records[0]
		r.Error = ledger.Clean("the database refused the record: "+cause.Error(), 4096)
		w.Records = []ledger.Record{r}
	}
	return p.bisect(ctx, parts)
}

// split cuts a batch before record number at. join puts the results of the halves together again.
func split(parts []*partitionBatch, at int) (left, right []*partitionBatch, join func()) {
	type half struct{ w, l, r *partitionBatch }
	var halves []half
	for _, w := range parts {
		switch n := len(w.Records); {
		case at >= n:
			left = append(left, w)
			at -= n
		case at <= 0:
			right = append(right, w)
		default:
			l, r := &partitionBatch{Slice: w.Slice}, &partitionBatch{Slice: w.Slice}
			l.Records, r.Records = w.Records[:at], w.Records[at:]
			l.Next = ledger.Position{Offset: w.Records[at].Offset, LeaderEpoch: w.Records[at-1].LeaderEpoch}
			r.From = l.Next.Offset
			left, right = append(left, l), append(right, r)
			halves = append(halves, half{w, l, r})
			at = 0
		}
	}
	return left, right, func() {
		for _, h := range halves {
			h.w.applied = h.l.applied.Join(h.r.applied, len(h.l.Records))
		}
	}
}

// Expire is [ledger.Namespace.Expire].
func (p *Process) Expire(ctx context.Context, c *ledger.Claim) (ledger.Applied, error) {
	op := "end the waits of " + p.spec.Name
	if c == nil || !p.m.knows(c) {
		return ledger.Applied{}, &schemas.Error{Kind: schemas.Invalid, Op: op, Err: errNoClaim}
	}
	return p.applyOne(ctx, "expire", &partitionBatch{Slice: ledger.Slice{Claim: c}, expire: true}, op)
}

// applyOne applies a batch of one partition without records. Applied.Refused says why it is refused, as for a slice.
func (p *Process) applyOne(ctx context.Context, transaction string, w *partitionBatch, op string) (ledger.Applied, error) {
	if err := p.applyUntilDone(ctx, transaction, []*partitionBatch{w}); final(err) {
		w.refuse(err)
	} else if err != nil {
		return ledger.Applied{}, &schemas.Error{Kind: kindOf(err), Op: op, Err: err}
	}
	return w.applied, nil
}

// ApplyCommand is [ledger.Namespace.ApplyCommand].
func (p *Process) ApplyCommand(ctx context.Context, c *ledger.Claim, cmd ledger.Command) (ledger.Applied, error) {
	op := fmt.Sprintf("apply command %d of %s", cmd.ID, p.spec.Name)
	if c == nil || !p.m.knows(c) || c.ID != cmd.Claim || cmd.LaneSeq != 0 {
		return ledger.Applied{}, schemas.Errorf(schemas.Invalid, op, "no claim of its partition")
	}
	return p.applyOne(ctx, "command", &partitionBatch{Slice: ledger.Slice{Claim: c}, command: &cmd}, op)
}
