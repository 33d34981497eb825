package ledger

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger/internal/pg"
	"github.com/jackc/pgx/v5"
)

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

// applyUntilDone attempts a batch until it is committed, its data is refused, it takes too long, or ctx ends.
func (n *Namespace) applyUntilDone(ctx context.Context, parts []*partitionBatch) error {
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
		commitSent, err := n.attempt(ctx, parts)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return errors.Join(context.Cause(ctx), pg.Redact(err))
		}
		if commitSent && pg.Unanswered(err) {
			done, derr := n.wasCommitted(ctx, parts)
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
			if err := n.loadWindows(ctx); err != nil && troubleOf(err) == pg.Permanent {
				return err
			}
			continue
		case possibleDuplicate:
			n.askAllKeys(parts)
			continue
		}
		last = err
		n.ledger.cfg.Logger.WarnContext(ctx, "ledger batch failed; trying again", "subscription", n.spec.Name, "try", try+1, "error", pg.Redact(err))
	}
}

// wasCommitted finds out whether a transaction whose COMMIT got no answer was committed: it was if the revision advanced
// under this claim's token. The row lock waits until that transaction has ended one way or the other, however long the
// server takes to notice that its client is gone.
func (n *Namespace) wasCommitted(ctx context.Context, parts []*partitionBatch) (committed bool, err error) {
	for try := 0; ; try++ {
		if err := pg.Backoff(ctx, try); err != nil {
			return false, err
		}
		advanced, mine, err := n.readRevisions(ctx, parts)
		if err == nil {
			return n.markCommittedAfterDoubt(parts, advanced, mine)
		}
		if ctx.Err() != nil || troubleOf(err) == pg.Permanent {
			return false, err
		}
	}
}

// readRevisions returns by fence which claims still hold it (mine) and which of those have advanced.
func (n *Namespace) readRevisions(ctx context.Context, parts []*partitionBatch) (advanced, mine map[int32]bool, err error) {
	advanced, mine = map[int32]bool{}, map[int32]bool{}
	err = pgx.BeginFunc(ctx, n.ledger.hot, func(tx pgx.Tx) error {
		for _, w := range parts {
			if w.fenced {
				continue
			}
			var held bool
			err := tx.QueryRow(ctx, `SELECT epoch = $2 AND token = $3 FROM fences WHERE id = $1 FOR UPDATE`,
				w.Claim.ID, w.Claim.Epoch, w.Claim.Token).Scan(&held)
			if err != nil {
				return err
			}
			var revision int64
			if err := tx.QueryRow(ctx, `SELECT revision FROM progress WHERE fence = $1`, w.Claim.ID).Scan(&revision); err != nil {
				return err
			}
			mine[w.Claim.ID], advanced[w.Claim.ID] = held, held && revision == w.Claim.revision+1
		}
		return nil
	})
	return advanced, mine, err
}

// markCommittedAfterDoubt marks the claims if the transaction turned out to be committed. A claim that was fenced meanwhile
// counts as fenced, committed or not: its next owner reads what was written.
func (n *Namespace) markCommittedAfterDoubt(parts []*partitionBatch, advanced, mine map[int32]bool) (bool, error) {
	committed := false
	for _, w := range parts {
		committed = committed || advanced[w.Claim.ID]
	}
	if !committed {
		return false, nil
	}
	for _, w := range parts {
		switch {
		case w.fenced:
		case !mine[w.Claim.ID]:
			w.applied = Applied{Claim: w.Claim, Fenced: true}
		case !advanced[w.Claim.ID]:
			return false, pg.Refuse(fmt.Errorf("fence %d: a part of a transaction was committed", w.Claim.ID))
		default:
			w.markCommitted()
		}
	}
	return true, nil
}

// bisect applies a batch. Where the database refuses its data, it applies the halves, down to the one record, which is
// quarantined. What is refused for another reason, or even without the record's bytes, is refused to its partition alone.
// An error means that trying again later may help.
func (n *Namespace) bisect(ctx context.Context, parts []*partitionBatch) error {
	err := n.applyUntilDone(ctx, parts)
	if err != nil && pg.DuplicateKey(err) && ctx.Err() == nil {
		// The cache, another partition's batch or a late repetition: lines are read again, all keys are asked for.
		n.askAllKeys(parts)
		err = n.applyUntilDone(ctx, parts)
	}
	if err == nil || ctx.Err() != nil {
		return err
	}
	total := 0
	for _, w := range parts {
		total += len(w.Records)
	}
	switch trouble := troubleOf(err); {
	case pg.IsMissed(err): // another attempt would read again what a claim remembers, and hide that it was wrong
		for _, w := range parts {
			n.refuseMissed(ctx, w, err)
		}
		return nil
	case trouble == pg.Permanent, trouble == pg.BadData && total == 0:
		return n.isolate(ctx, parts, err)
	case trouble == pg.BadData && total == 1:
		return n.quarantineRecord(ctx, parts, err)
	case trouble == pg.Slow || pg.Locked(err):
		if total <= 1 {
			return n.retryAlone(ctx, parts, err)
		}
		n.ledger.cfg.Logger.WarnContext(ctx, "ledger batch takes too long; trying it in parts", "subscription", n.spec.Name, "records", total, "error", pg.Redact(err))
	case trouble != pg.BadData:
		return err
	}
	left, right, join := split(parts, total/2)
	if err := n.bisect(ctx, left); err != nil {
		return err
	}
	if right = withoutEnded(left, right); len(right) > 0 {
		if err := n.bisect(ctx, right); err != nil {
			return err
		}
	}
	join()
	return nil
}

// withoutEnded leaves out what follows a part that was not written.
func withoutEnded(left, right []*partitionBatch) []*partitionBatch {
	ended := map[*Claim]bool{}
	for _, w := range left {
		ended[w.Claim] = w.applied.Refused != nil || w.applied.Fenced
	}
	return slices.DeleteFunc(right, func(w *partitionBatch) bool { return ended[w.Claim] })
}

// maxPersist is how often a single record that takes too long is tried again.
const maxPersist = 3

// retryAlone tries a batch with at most one record again. If it still takes too long, its partition is refused: the
// database is slow, so nothing is quarantined.
func (n *Namespace) retryAlone(ctx context.Context, parts []*partitionBatch, cause error) error {
	if len(parts) > 1 {
		return n.isolate(ctx, parts, cause)
	}
	for range maxPersist {
		switch err := n.applyUntilDone(ctx, parts); {
		case err == nil, ctx.Err() != nil:
			return err
		case troubleOf(err) == pg.Slow || pg.Locked(err):
			cause = err
		default:
			return n.bisect(ctx, parts)
		}
	}
	return n.isolate(ctx, parts, fmt.Errorf("it was tried %d times, alone: %w", maxPersist+1, cause))
}

// isolate applies each partition on its own. A single one is refused for cause.
func (n *Namespace) isolate(ctx context.Context, parts []*partitionBatch, cause error) error {
	if len(parts) == 1 {
		parts[0].refuse(pg.Redact(cause))
		return nil
	}
	for _, w := range parts {
		if err := n.bisect(ctx, []*partitionBatch{w}); err != nil {
			return err
		}
	}
	return nil
}

// refuseMissed refuses a partition of a batch that has not found a row which must be there: one of its claims remembers
// something wrong. The next claims read what there is.
func (n *Namespace) refuseMissed(ctx context.Context, w *partitionBatch, cause error) {
	p := w.Claim.Partition
	n.ledger.cfg.Logger.ErrorContext(ctx, "the ledger differs from what a claim of the batch remembers: this is a fault of forebay, please report it; nothing is written, and the "+
		"partition will be claimed again", "subscription", n.spec.Name, "topic", p.Topic, "partition", p.Number, "error", cause)
	w.refuse(&ContinuityError{Partition: p, Stored: w.Claim.Next.Offset, From: w.Claim.Next.Offset, Detail: cause.Error()})
}

// quarantineRecord quarantines the one record of a batch: with its bytes or, where even they are refused, without.
func (n *Namespace) quarantineRecord(ctx context.Context, parts []*partitionBatch, cause error) error {
	for _, w := range parts {
		if len(w.Records) == 0 {
			continue
		}
		bare, again := w.refusedData[0]
		if again && bare {
			return n.isolate(ctx, parts, cause)
		}
		w.refusedData = map[int]bool{0: again}
		r := w.Records[0]
		r.Error = pg.Clean("the database refused the record: "+pg.Redact(cause).Error(), 4096)
		w.Records = []Record{r} // the caller's slice stays as it is
		n.ledger.cfg.Logger.ErrorContext(ctx, "record quarantined", "subscription", n.spec.Name, "topic", w.Claim.Partition.Topic,
			"partition", w.Claim.Partition.Number, "offset", r.Offset, "reason", "data_rejected", "error", pg.Redact(cause))
	}
	return n.bisect(ctx, parts)
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
			middle := Position{Offset: w.Records[at].Offset, LeaderEpoch: w.Records[at-1].LeaderEpoch}
			l := &partitionBatch{Slice: Slice{Claim: w.Claim, From: w.From, Records: w.Records[:at], Next: middle}, askAllKeys: w.askAllKeys}
			r := &partitionBatch{Slice: Slice{Claim: w.Claim, From: middle.Offset, Records: w.Records[at:], Next: w.Next}, askAllKeys: w.askAllKeys}
			left, right = append(left, l), append(right, r)
			halves = append(halves, half{w, l, r})
			at = 0
		}
	}
	return left, right, func() {
		for _, h := range halves {
			h.w.applied = joined(h.l.applied, h.r.applied, len(h.l.Records))
		}
	}
}

// joined is the result of a slice whose two parts were applied one after the other.
func joined(l, r Applied, shift int) Applied {
	switch {
	case l.Refused != nil, l.Fenced:
		return l
	case r.Refused != nil, r.Fenced:
		return r
	}
	for _, o := range r.Outcomes {
		if o.Record >= 0 {
			o.Record += shift
		}
		l.Outcomes = append(l.Outcomes, o)
	}
	for _, a := range r.Actions {
		if a.Record >= 0 {
			a.Record += shift
		}
		l.Actions = append(l.Actions, a)
	}
	for _, q := range r.Quarantined {
		l.Quarantined = append(l.Quarantined, q+shift)
	}
	l.Waiting, l.BackfillRequested = r.Waiting, l.BackfillRequested || r.BackfillRequested
	return l
}

// Expire ends the overdue waits of a claim, those of some hundred lines at most: NextDeadline says whether more are due. The caller has read the partition to the end it observed after the deadline had passed (P5).
func (n *Namespace) Expire(ctx context.Context, c *Claim) (Applied, error) {
	if c == nil || c.cache == nil {
		return Applied{}, schemas.Errorf(schemas.Invalid, "end the waits of "+n.spec.Name, "no claim of this ledger")
	}
	return n.applyOne(ctx, &partitionBatch{Slice: Slice{Claim: c}, expire: true}, "end the waits of "+n.spec.Name)
}

// applyOne applies a batch of one partition without records. Applied.Refused says why it is refused, as for a slice.
func (n *Namespace) applyOne(ctx context.Context, w *partitionBatch, op string) (Applied, error) {
	if err := n.bisect(ctx, []*partitionBatch{w}); err != nil {
		return Applied{}, &schemas.Error{Kind: kindOf(err), Op: op, Err: pg.Redact(err)}
	}
	return w.applied, nil
}
