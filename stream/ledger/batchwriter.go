package ledger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger/internal/pg"
)

// Apply writes one batch in one transaction. It tries again what can be tried again, bisects data errors down to the record, and
// finds out after a COMMIT without an answer whether it happened. If the ledger refuses one partition's slice, its
// Applied.Refused says why, and the other partitions go on. An error means that a slice is invalid, that ctx ended or that
// the database does not answer. Then nothing of the batch was written, or all, or (if it was bisected) its first part. The
// claims must not be used any more; the next ones read what was written.
func (n *Namespace) Apply(ctx context.Context, batch []Slice) ([]Applied, error) {
	parts, accepted := make([]*partitionBatch, 0, len(batch)), make([]*partitionBatch, 0, len(batch))
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
		if err := s.CheckContinuity(); err != nil {
			w.refuse(err)
			continue
		}
		accepted = append(accepted, w)
	}
	// Lock order: rows that are locked by fence, such as progress, are locked sorted.
	slices.SortFunc(accepted, func(a, b *partitionBatch) int { return cmp.Compare(a.Claim.ID, b.Claim.ID) })
	if len(accepted) > 0 {
		defer n.batches.end()
		if err := (batchWriter{n}).apply(ctx, accepted); err != nil {
			return nil, &schemas.Error{Kind: kindOf(err), Op: "apply a batch of " + n.spec.Name, Err: pg.Redact(err)}
		}
	}
	out := make([]Applied, len(parts))
	for i, w := range parts {
		out[i] = w.applied
	}
	return out, nil
}

// Expire ends the waits of a claim that were overdue when NextDeadline was last called, of some hundred version lines at most; NextDeadline
// says whether there are more. The caller has read the partition to the end that it observed after that call (P5).
func (n *Namespace) Expire(ctx context.Context, c *Claim) (Applied, error) {
	if c == nil || c.cache == nil {
		return Applied{}, schemas.Errorf(schemas.Invalid, "end the waits of "+n.spec.Name, "no claim of this ledger")
	}
	return batchWriter{n}.applyOne(ctx, &partitionBatch{Slice: Slice{Claim: c}, expire: true}, "end the waits of "+n.spec.Name)
}

// kindOf returns the kind of an error with which a batch failed: Conflict if it was refused, Internal if another try would fail too.
func kindOf(err error) schemas.Kind {
	if pg.IsRefusal(err) {
		return schemas.Conflict
	}
	if t := troubleOf(err); t == pg.Permanent || t == pg.BadData {
		return schemas.Internal
	}
	return schemas.Unavailable
}

// CheckContinuity returns a [ContinuityError] unless the slice begins at the claim's next offset and its records ascend up to Next.
func (s Slice) CheckContinuity() error {
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

// batchWriter applies batches to a namespace. It tries again what may be tried again, and finds the record that the database does not
// take, or the partition that is refused.
type batchWriter struct{ n *Namespace }

// applyOne applies a batch of one partition without records. Applied.Refused says why it is refused, as for a slice.
func (b batchWriter) applyOne(ctx context.Context, w *partitionBatch, op string) (Applied, error) {
	defer b.n.batches.end()
	if err := b.apply(ctx, []*partitionBatch{w}); err != nil {
		return Applied{}, &schemas.Error{Kind: kindOf(err), Op: op, Err: pg.Redact(err)}
	}
	return w.applied, nil
}

// maxRefresh bounds how often in a row the windows are read again because they have rotated: they rotate hours apart.
const maxRefresh = 16

// slowTries counts a batch's failures in a row that a smaller batch may not have: answers that did not come in time, and waits for locks
// that took too long.
type slowTries struct{ unanswered, blocked int }

const (
	maxUnanswered = 2 // once the old connection may have hung, twice the new one did too
	maxBlocked    = 3
)

// split counts a failure, and reports whether the batch is now to be tried in parts: the server has ended a statement that took too long,
// maxUnanswered tries had no answer, or maxBlocked waited for locks. A failure of another kind begins the counts again.
func (p *slowTries) split(err error) bool {
	switch {
	case pg.StatementTimeout(err):
		return true
	case troubleOf(err) == pg.Slow:
		p.unanswered++
	case pg.Locked(err):
		p.blocked++
	default:
		*p = slowTries{}
	}
	return p.unanswered >= maxUnanswered || p.blocked >= maxBlocked
}

// untilDone tries a batch until it is committed. It returns an error if its data is refused, slowTries says that it is to be split, another
// try would fail too, or ctx ends. A partition may turn out to be fenced or refused: that is in its applied, and no error.
func (b batchWriter) untilDone(ctx context.Context, parts []*partitionBatch) error {
	for _, w := range parts {
		w.scratch = scratches.Get().(*scratch)
		defer w.giveBack()
	}
	var last error
	refreshed, slow := 0, slowTries{}
	for try := 0; ; try++ {
		if err := pg.Backoff(ctx, try); err != nil {
			return errors.Join(err, pg.Redact(last))
		}
		commitSent, err := b.attempt(ctx, parts)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return errors.Join(context.Cause(ctx), pg.Redact(err))
		}
		if commitSent && pg.Unanswered(err) {
			done, derr := b.wasCommitted(ctx, parts)
			if done || derr != nil {
				return derr
			}
		}
		b.n.batches.add(err)
		if slow.split(err) {
			return err
		}
		switch troubleOf(err) {
		case pg.BadData, pg.Permanent:
			return err
		case oldWindows:
			if refreshed++; refreshed > maxRefresh {
				return err
			}
			if err := b.n.loadWindows(ctx); err != nil && troubleOf(err) == pg.Permanent {
				return err
			}
			continue
		case possibleDuplicate:
			b.askAllKeys(parts)
			continue
		case tooLittle:
			continue
		}
		last = err
		b.n.ledger.cfg.Logger.WarnContext(ctx, "ledger batch failed; trying again", "subscription", b.n.spec.Name, "try", try+1, "error", pg.Redact(err))
	}
}
