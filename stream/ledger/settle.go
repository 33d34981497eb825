package ledger

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/forebay-io/forebay/schemas"
	"github.com/jackc/pgx/v5"
)

// maxRefresh bounds how often one batch may meet a rotation in a row: rotations are hours apart.
const maxRefresh = 16

// patience is how often in a row a batch may meet what smaller parts of it may not meet.
type patience struct{ silent, blocked int }

const (
	maxSilent  = 2 // without an answer: the first time the connection may have hung, the second time it was a new one
	maxBlocked = 3 // behind a lock of others
)

// lost reports whether a batch is to be tried in parts: the server says that a statement takes too long, or one of the
// bounds is met.
func (p *patience) lost(err error) bool {
	switch {
	case statementTimeout(err):
		return true
	case troubleOf(err) == slow:
		p.silent++
	case locked(err):
		p.blocked++
	default:
		*p = patience{}
	}
	return p.silent >= maxSilent || p.blocked >= maxBlocked
}

// settle runs the works until they are committed, their data is refused, they take too long, or ctx ends.
func (n *Namespace) settle(ctx context.Context, works []*work) error {
	for _, w := range works {
		w.scratch = scratches.Get().(*scratch)
		defer w.giveBack()
	}
	var last error
	refreshed, patience := 0, patience{}
	for try := 0; ; try++ {
		if err := backoff(ctx, try); err != nil {
			return errors.Join(err, redact(last))
		}
		inDoubt, err := n.attempt(ctx, works)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return errors.Join(context.Cause(ctx), redact(err))
		}
		if inDoubt && unanswered(err) {
			done, derr := n.resolve(ctx, works)
			if done || derr != nil {
				return derr
			}
		}
		if patience.lost(err) {
			return err
		}
		switch troubleOf(err) {
		case badData, permanent:
			return err
		case oldWindows:
			if refreshed++; refreshed > maxRefresh {
				return err
			}
			if err := n.loadWindows(ctx); err != nil && troubleOf(err) == permanent {
				return err
			}
			continue
		case unproven:
			n.sureOf(works)
			continue
		}
		last = err
		n.ledger.cfg.Logger.WarnContext(ctx, "ledger batch again", "subscription", n.spec.Name, "try", try+1, "error", redact(err))
	}
}

// resolve finds out whether a transaction in doubt was committed: advanced under my token means it was. The lock waits
// until the transaction has ended one way or the other, however long the server takes to notice that its client is gone.
func (n *Namespace) resolve(ctx context.Context, works []*work) (committed bool, err error) {
	for try := 0; ; try++ {
		if err := backoff(ctx, try); err != nil {
			return false, err
		}
		advanced, mine, err := n.readRevisions(ctx, works)
		if err == nil {
			return n.conclude(works, advanced, mine)
		}
		if ctx.Err() != nil || troubleOf(err) == permanent {
			return false, err
		}
	}
}

// readRevisions says by fence which claims still hold it and which of those have advanced.
func (n *Namespace) readRevisions(ctx context.Context, works []*work) (advanced, mine map[int32]bool, err error) {
	advanced, mine = map[int32]bool{}, map[int32]bool{}
	err = pgx.BeginFunc(ctx, n.ledger.hot, func(tx pgx.Tx) error {
		for _, w := range works {
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

// conclude settles the claims of a transaction that turned out to be committed. What was fenced meanwhile is fenced,
// committed or not: its next owner reads which.
func (n *Namespace) conclude(works []*work, advanced, mine map[int32]bool) (bool, error) {
	committed := false
	for _, w := range works {
		committed = committed || advanced[w.Claim.ID]
	}
	if !committed {
		return false, nil
	}
	for _, w := range works {
		switch {
		case w.fenced:
		case !mine[w.Claim.ID]:
			w.applied = Applied{Claim: w.Claim, Fenced: true}
		case !advanced[w.Claim.ID]:
			return false, refusal{fmt.Errorf("fence %d: a part of a transaction was committed", w.Claim.ID)}
		default:
			w.settle()
		}
	}
	return true, nil
}

// bisect applies the works, and where the database refuses their data, the halves of them, down to the record that is
// refused, which is quarantined. What is refused for another reason, or even without the record's bytes, is refused to its
// partition alone. It returns an error only where nobody knows what another try would bring.
func (n *Namespace) bisect(ctx context.Context, works []*work) error {
	err := n.settle(ctx, works)
	if err != nil && duplicateKey(err) && ctx.Err() == nil {
		// The cache, another partition's batch or an event that came back late: lines are read anew, all keys are asked for.
		n.sureOf(works)
		err = n.settle(ctx, works)
	}
	if err == nil || ctx.Err() != nil {
		return err
	}
	total := 0
	for _, w := range works {
		total += len(w.Records)
	}
	switch trouble := troubleOf(err); {
	case isMissed(err): // the next try would read anew what a claim remembers, and hide that it was wrong
		for _, w := range works {
			n.missed(ctx, w, err)
		}
		return nil
	case trouble == permanent, trouble == badData && total == 0:
		return n.isolate(ctx, works, err)
	case trouble == badData && total == 1:
		return n.reject(ctx, works, err)
	case trouble == slow || locked(err):
		if total <= 1 {
			return n.persist(ctx, works, err)
		}
		n.ledger.cfg.Logger.WarnContext(ctx, "ledger batch takes too long; trying it in parts", "subscription", n.spec.Name, "records", total, "error", redact(err))
	case trouble != badData:
		return err
	}
	left, right, join := split(works, total/2)
	if err := n.bisect(ctx, left); err != nil {
		return err
	}
	if right = goingOn(left, right); len(right) > 0 {
		if err := n.bisect(ctx, right); err != nil {
			return err
		}
	}
	join()
	return nil
}

// goingOn leaves out what follows on a part that was not written.
func goingOn(left, right []*work) []*work {
	ended := map[*Claim]bool{}
	for _, w := range left {
		ended[w.Claim] = w.applied.Refused != nil || w.applied.Fenced
	}
	return slices.DeleteFunc(right, func(w *work) bool { return ended[w.Claim] })
}

// maxPersist is how often a single record is tried again that takes too long.
const maxPersist = 3

// persist tries the works again of which at most one has a record. What still takes too long is refused to its partition: it is the
// database that is slow, so nothing is quarantined.
func (n *Namespace) persist(ctx context.Context, works []*work, cause error) error {
	if len(works) > 1 {
		return n.isolate(ctx, works, cause)
	}
	for range maxPersist {
		switch err := n.settle(ctx, works); {
		case err == nil, ctx.Err() != nil:
			return err
		case troubleOf(err) == slow || locked(err):
			cause = err
		default:
			return n.bisect(ctx, works)
		}
	}
	return n.isolate(ctx, works, fmt.Errorf("it was tried %d times, alone: %w", maxPersist+1, cause))
}

// isolate applies each work on its own. A single one is refused for cause.
func (n *Namespace) isolate(ctx context.Context, works []*work, cause error) error {
	if len(works) == 1 {
		works[0].refuse(redact(cause))
		return nil
	}
	for _, w := range works {
		if err := n.bisect(ctx, []*work{w}); err != nil {
			return err
		}
	}
	return nil
}

// missed refuses a work of a batch that has not found a row which must be there: what one of its claims remembers is wrong. The next
// claims read what there is.
func (n *Namespace) missed(ctx context.Context, w *work, cause error) {
	p := w.Claim.Partition
	n.ledger.cfg.Logger.ErrorContext(ctx, "the ledger is not as a claim of the batch remembers it: this is a fault of forebay, please report it; nothing is written, and the "+
		"partition is to be claimed again", "subscription", n.spec.Name, "topic", p.Topic, "partition", p.Number, "error", cause)
	w.refuse(&ContinuityError{Partition: p, Stored: w.Claim.Next.Offset, From: w.Claim.Next.Offset, Detail: cause.Error()})
}

// reject quarantines the one record of works: with its bytes, or where even they are refused, without.
func (n *Namespace) reject(ctx context.Context, works []*work, cause error) error {
	for _, w := range works {
		if len(w.Records) == 0 {
			continue
		}
		bare, again := w.rejected[0]
		if again && bare {
			return n.isolate(ctx, works, cause)
		}
		w.rejected = map[int]bool{0: again}
		r := w.Records[0]
		r.Error = clean("the database refused the record: "+redact(cause).Error(), 4096)
		w.Records = []Record{r} // the caller's slice stays as it is
		n.ledger.cfg.Logger.ErrorContext(ctx, "record quarantined", "subscription", n.spec.Name, "topic", w.Claim.Partition.Topic,
			"partition", w.Claim.Partition.Number, "offset", r.Offset, "reason", "data_rejected", "error", redact(cause))
	}
	return n.bisect(ctx, works)
}

// split cuts works before the record number at. join puts what became of the halves back into works.
func split(works []*work, at int) (left, right []*work, join func()) {
	type half struct{ w, l, r *work }
	var halves []half
	for _, w := range works {
		switch n := len(w.Records); {
		case at >= n:
			left = append(left, w)
			at -= n
		case at <= 0:
			right = append(right, w)
		default:
			middle := Position{Offset: w.Records[at].Offset, LeaderEpoch: w.Records[at-1].LeaderEpoch}
			l := &work{Slice: Slice{Claim: w.Claim, From: w.From, Records: w.Records[:at], Next: middle}, sure: w.sure}
			r := &work{Slice: Slice{Claim: w.Claim, From: middle.Offset, Records: w.Records[at:], Next: w.Next}, sure: w.sure}
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

// joined is what became of a slice whose parts were applied one after the other.
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
	l.Waiting, l.Asked = r.Waiting, l.Asked || r.Asked
	return l
}

// Expire ends the overdue waits of a claim, at most some hundred lines of them: NextDeadline says whether more are
// due. The caller has read the partition to the end it observed after the deadline had passed (P5).
func (n *Namespace) Expire(ctx context.Context, c *Claim) (Applied, error) {
	if c == nil || c.cache == nil {
		return Applied{}, schemas.Errorf(schemas.Invalid, "end the waits of "+n.spec.Name, "no claim of this ledger")
	}
	return n.alone(ctx, &work{Slice: Slice{Claim: c}, expire: true}, "end the waits of "+n.spec.Name)
}

// alone applies a work without records. What it is refused for is said in Applied.Refused, as of a slice.
func (n *Namespace) alone(ctx context.Context, w *work, op string) (Applied, error) {
	if err := n.bisect(ctx, []*work{w}); err != nil {
		return Applied{}, &schemas.Error{Kind: kindOf(err), Op: op, Err: redact(err)}
	}
	return w.applied, nil
}
