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
		if err := (batchWriter{n}).apply(ctx, going); err != nil {
			return nil, &schemas.Error{Kind: kindOf(err), Op: "apply a batch of " + n.spec.Name, Err: pg.Redact(err)}
		}
	}
	out := make([]Applied, len(parts))
	for i, w := range parts {
		out[i] = w.applied
	}
	return out, nil
}

// Expire ends the overdue waits of a claim, those of some hundred lines at most: NextDeadline says whether more are due. The caller has read the partition to the end it observed after the deadline had passed (P5).
func (n *Namespace) Expire(ctx context.Context, c *Claim) (Applied, error) {
	if c == nil || c.cache == nil {
		return Applied{}, schemas.Errorf(schemas.Invalid, "end the waits of "+n.spec.Name, "no claim of this ledger")
	}
	return batchWriter{n}.applyOne(ctx, &partitionBatch{Slice: Slice{Claim: c}, expire: true}, "end the waits of "+n.spec.Name)
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

// batchWriter applies batches to a namespace until they are committed, refused, or known to fail: it tries again what may be
// tried again, finds the record that the database does not take, and the partition that is refused.
type batchWriter struct{ n *Namespace }

// applyOne applies a batch of one partition without records. Applied.Refused says why it is refused, as for a slice.
func (b batchWriter) applyOne(ctx context.Context, w *partitionBatch, op string) (Applied, error) {
	if err := b.apply(ctx, []*partitionBatch{w}); err != nil {
		return Applied{}, &schemas.Error{Kind: kindOf(err), Op: op, Err: pg.Redact(err)}
	}
	return w.applied, nil
}

// maxRefresh bounds how often in a row a batch finds that the windows have turned: they turn hours apart.
const maxRefresh = 16

// retryLimits counts, in a row, the failures that smaller parts of a batch may not have.
type retryLimits struct{ silent, blocked int }

const (
	maxSilent  = 2 // without an answer: once the old connection may have hung, twice the new one did too
	maxBlocked = 3 // waiting for locks of others
)

// exceeded reports whether a batch is to be tried in parts: the server says that a statement takes too long, or one of the
// limits is reached.
func (p *retryLimits) exceeded(err error) bool {
	switch {
	case pg.StatementTimeout(err):
		return true
	case troubleOf(err) == pg.Slow:
		p.silent++
	case pg.Locked(err):
		p.blocked++
	default:
		*p = retryLimits{}
	}
	return p.silent >= maxSilent || p.blocked >= maxBlocked
}

// untilDone attempts a batch until it is committed, its data is refused, it takes too long, or ctx ends.
func (b batchWriter) untilDone(ctx context.Context, parts []*partitionBatch) error {
	for _, w := range parts {
		w.scratch = scratches.Get().(*scratch)
		defer w.giveBack()
	}
	var last error
	refreshed, limits := 0, retryLimits{}
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
		if limits.exceeded(err) {
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
		}
		last = err
		b.n.ledger.cfg.Logger.WarnContext(ctx, "ledger batch failed; trying again", "subscription", b.n.spec.Name, "try", try+1, "error", pg.Redact(err))
	}
}
