package ledger

// The transaction of results, from top to bottom, in one round trip. What is written is decided before it, from the claims'
// marks (internal/marks), and so is the same in every try; see writeOf.
//
//	lock    the claims' fences, ascending; each statement leaves out the rows of claims that have lost theirs. If the ledger is behind one of
//	        the claims, nothing is written, and that claim counts as fenced; see notBehind
//	write   by window: completions, rows of actions, attempts; then the ends of destinations' reports, and lane_low
//	commit
//
// After a COMMIT without an answer, it is written again: a completion that is there twice does no harm, and rows are
// written by statements that do not mind whether they exist. Commit is the same transaction with a sink's statement in it
// (commit.go).

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger/internal/pg"
	"github.com/forebay-io/forebay/stream/sink"
)

const (
	MaxErrorText = 4 << 10 // bytes that are kept of an attempt's error
	MaxResponse  = 4 << 10 // bytes that are kept of an attempt's response
)

// Record writes results in one transaction, and returns the ids of those fences that their claims have lost: the results of these are left
// out. It tries again until ctx ends, in parts if the whole takes too long; recording a result again changes nothing. It may be called
// while the claims' owner applies. Kinds: Invalid if a result is, Internal if another try would fail too
// ([ErrForgotten] among them), Unavailable if ctx ended.
func (n *Namespace) Record(ctx context.Context, results []Result) (fenced map[int32]bool, err error) {
	op := "record results of " + n.spec.Name
	for _, r := range results {
		if err := r.Validate(); err != nil {
			return nil, &schemas.Error{Kind: schemas.Invalid, Op: op, Err: err}
		}
	}
	if len(results) == 0 {
		return nil, nil
	}
	for i, claims := 1, claimsOf(results); i < len(claims); i++ {
		if claims[i].ID == claims[i-1].ID { // one of them would hold the fence and hide that the other does not
			return nil, schemas.Errorf(schemas.Invalid, op, "two claims of one fence, epochs %d and %d", claims[i-1].Epoch, claims[i].Epoch)
		}
	}
	defer n.results.end()
	return recorder{n}.all(ctx, results, op)
}

// Validate refuses a result that no action can have.
func (r Result) Validate() error {
	switch {
	case r.Claim == nil:
		return errors.New("a result has no claim")
	case r.LaneSeq <= 0:
		return fmt.Errorf("lane_seq %d is not positive", r.LaneSeq)
	case !slices.Contains([]Status{Done, Failed, Dead, Unknown, Parked, Processing, Superseded, Skipped, Dropped, Denied, WaitingApproval, WaitingBudget}, r.Status):
		return fmt.Errorf("status %q is no result", r.Status)
	case r.Attempt < 0 || r.Attempt > math.MaxInt32:
		return fmt.Errorf("attempt %d", r.Attempt)
	case (r.Status == Processing) != (r.Left > 0) || r.Silence < 0:
		return fmt.Errorf("status %s with a result in %s, silence up to %s", r.Status, r.Left, r.Silence)
	case r.Spent < 0 || r.Spent > math.MaxInt32:
		return fmt.Errorf("%d attempts are spent", r.Spent)
	case r.Status == Superseded && r.Attempt != 0 && r.Class != sink.Newer:
		return fmt.Errorf("superseded after attempt %d", r.Attempt)
	case r.CancelURL != "" && (r.Status != Processing || len(r.CancelURL) > sink.MaxCancelURL || pg.Clean(r.CancelURL, sink.MaxCancelURL) != r.CancelURL):
		return fmt.Errorf("status %s with a cancel URL of %d bytes", r.Status, len(r.CancelURL))
	case (r.Status.ByGuard() || r.Status.Waits()) && (r.Attempt != 0 || !r.Guarded):
		return fmt.Errorf("%s with attempt %d, by a guard: %t", r.Status, r.Attempt, r.Guarded)
	case r.NextIn < 0:
		return fmt.Errorf("next attempt in %s", r.NextIn)
	}
	return nil
}

// recorder records results in a namespace.
type recorder struct{ n *Namespace }

// all is Record of results that are valid.
func (rec recorder) all(ctx context.Context, results []Result, op string) (fenced map[int32]bool, err error) {
	w, err := writeOf(results)
	if err != nil {
		return nil, &schemas.Error{Kind: schemas.Internal, Op: op, Err: err}
	}
	defer func() {
		if err != nil {
			w.markUnknown()
		}
	}()
	var (
		last error
		slow slowTries
	)
	for try, refreshed := 0, 0; ; try++ {
		if err := pg.Backoff(ctx, try); err != nil {
			return nil, &schemas.Error{Kind: schemas.Unavailable, Op: op, Err: errors.Join(err, pg.Redact(last))}
		}
		fenced, err := rec.record(ctx, w)
		if err == nil {
			w.markCommitted()
			return fenced, nil
		}
		last = err
		switch t := troubleOf(err); {
		case ctx.Err() != nil:
			return nil, pg.Unavailable(op, err)
		case t == oldWindows && refreshed < maxRefresh:
			refreshed++
			_ = rec.n.loadWindows(ctx) // where it fails, the next attempt fails too, and says why
		case pg.IsMissed(err):
			if behind := rec.n.behind(ctx, w.claims); len(behind) > 0 {
				w.markUnknown()
				return rec.without(ctx, behind, results, op)
			}
			return nil, &schemas.Error{Kind: schemas.Internal, Op: op, Err: fmt.Errorf("%w: %w", ErrForgotten, pg.Redact(err))}
		case t == pg.Permanent, t == pg.BadData, t == oldWindows:
			return nil, &schemas.Error{Kind: schemas.Internal, Op: op, Err: pg.Redact(err)}
		}
		rec.n.results.add(err)
		rec.n.ledger.cfg.Logger.WarnContext(ctx, "ledger results failed; trying again", "subscription", rec.n.spec.Name, "try", try+1, "error", pg.Redact(err))
		if slow.split(err) && len(results) > 1 {
			w.markUnknown()
			return rec.halves(ctx, results, op)
		}
	}
}

// without records the results of all claims but those that know of more than the ledger, by fence, which count as fenced.
func (rec recorder) without(ctx context.Context, behind map[int32]bool, results []Result, op string) (map[int32]bool, error) {
	results = slices.DeleteFunc(slices.Clone(results), func(r Result) bool { return behind[r.Claim.ID] })
	if len(results) == 0 {
		return behind, nil
	}
	fenced, err := rec.all(ctx, results, op)
	if err == nil {
		maps.Copy(fenced, behind)
	}
	return fenced, err
}

// halves records results in two parts, one after the other.
func (rec recorder) halves(ctx context.Context, results []Result, op string) (map[int32]bool, error) {
	fenced, err := rec.all(ctx, results[:len(results)/2], op)
	if err != nil {
		return nil, err
	}
	more, err := rec.all(ctx, results[len(results)/2:], op)
	if err != nil {
		return nil, err
	}
	maps.Copy(fenced, more)
	return fenced, nil
}

// record makes one try of the transaction.
func (rec recorder) record(ctx context.Context, w *resultWrite) (fenced map[int32]bool, err error) {
	conn, err := rec.n.ledger.hot.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { pg.ReleaseAfter(conn, err) }()
	ctx, done := rec.n.ledger.hot.Bounded(ctx)
	defer func() { err = done(err) }() // before the connection is given back

	// lock
	p, held := &pg.Pipeline{Conn: conn}, fencesOf(w.claims...).params()
	fenced = map[int32]bool{}
	for _, c := range w.claims {
		fenced[c.ID] = true
	}
	err = errors.Join(
		p.Add(ctx, pg.Begin, nil),
		p.Add(ctx, fenceCheck, func(r *pg.Row) { delete(fenced, r.Int32()) }, held...),
		p.Add(ctx, notBehind, nil, revisionsOf(w.claims...)...),
	)
	if err != nil {
		return nil, err
	}

	// write
	l, err := w.steps(rec.n.windows.Load(), held)
	if err == nil {
		err = l.queue(ctx, p)
	}
	if err != nil {
		return nil, err
	}

	// commit
	if err = p.Add(ctx, pg.Commit, nil); err != nil {
		return nil, err
	}
	if err = p.Commit(ctx); err != nil {
		return nil, err
	}
	return fenced, nil
}

// steps returns the statements of a write. Windows ascend, and so do the lane_seqs in each. held are the parameters that name the fences.
// The error is errRotated if a window is not in use any more.
func (w *resultWrite) steps(win *windowSet, held [][]byte) (l steps, err error) {
	age := pg.Int64Param(time.Since(w.decided).Microseconds())
	for _, id := range slices.Sorted(maps.Keys(w.windows)) {
		wr := w.windows[id]
		complete, ok := win.q.complete[id]
		if !ok {
			return nil, errRotated
		}
		for _, c := range wr.completions {
			l = append(l, step{complete, c.params()})
		}
		l.add(win.q.update[id], held, wr.updates.columns, age)
		l.add(win.q.insert[id], held, wr.inserts.columns, age)
		l.add(win.q.attempt[id], held, wr.attempts.columns)
		l.add(win.q.standing[id], nil, wr.made.columns, held...)
		l.add(win.q.known[id], nil, wr.known.columns, held...)
	}
	for i := range w.reported {
		l = append(l, step{resultEnd, w.reported[i].resultParams()})
	}
	for i := range w.asked {
		r := &w.asked[i]
		id, _ := r.ID.Hash()
		l = append(l, step{approvalVoid, append(r.Claim.fenceParams(), id[:], []byte(r.Status))})
	}
	for _, low := range w.newLows {
		l = append(l, step{laneLowWrite, append(low.claim.fenceParams(), pg.Int64Param(low.laneSeq))})
	}
	return l, nil
}

// claimsOf returns the claims of results, each once, sorted by fence.
func claimsOf(results []Result) []*Claim {
	var claims []*Claim
	seen := map[*Claim]bool{}
	for i := range results {
		if c := results[i].Claim; !seen[c] {
			seen[c] = true
			claims = append(claims, c)
		}
	}
	return claimsSorted(claims)
}

// claimsSorted returns claims sorted by fence: the order in which fences are locked.
func claimsSorted(claims []*Claim) []*Claim {
	claims = slices.Clone(claims)
	slices.SortFunc(claims, func(a, b *Claim) int { return int(a.ID) - int(b.ID) })
	return claims
}
