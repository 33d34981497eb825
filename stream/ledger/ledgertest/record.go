package ledgertest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/sink"
)

// Record is [ledger.Namespace.Record].
func (p *Process) Record(ctx context.Context, results []ledger.Result) (fenced map[int32]bool, err error) {
	op := "record results of " + p.spec.Name
	if err := CheckResults(results); err != nil {
		return nil, err
	}
	if len(results) == 0 {
		return nil, nil
	}
	claims := claimsOf(results)
	sorted := byAction(results)
	if err := p.m.checkHad(sorted); err != nil {
		return nil, &schemas.Error{Kind: schemas.Internal, Op: op, Err: err}
	}
	decided := time.Now()
	err = p.untilDone(ctx, "record", shared, idsOf(claims), 0, func() error {
		fenced = map[int32]bool{}
		return p.m.record(sorted, fenced, time.Since(decided))
	})
	if err == nil {
		p.m.markRecorded(sorted)
		return fenced, nil
	}
	p.m.markUnknown(sorted)
	if final(err) {
		return nil, &schemas.Error{Kind: schemas.Internal, Op: op, Err: err}
	}
	return nil, unavailable(op, err)
}

// byAction sorts results as they are written: by fence and action, those of one action in their order.
func byAction(results []ledger.Result) []*ledger.Result {
	sorted := make([]*ledger.Result, len(results))
	for i := range results {
		sorted[i] = &results[i]
	}
	slices.SortStableFunc(sorted, func(a, b *ledger.Result) int {
		return cmp.Or(cmp.Compare(a.Claim.ID, b.Claim.ID), cmp.Compare(a.LaneSeq, b.LaneSeq))
	})
	return sorted
}

// lastOfAction reports whether result i is the last of its action: it is the action's status.
func lastOfAction(sorted []*ledger.Result, i int) bool {
	return i+1 == len(sorted) || sorted[i].Claim != sorted[i+1].Claim || sorted[i].LaneSeq != sorted[i+1].LaneSeq
}

// claimsOf are the claims of results, each once, sorted.
func claimsOf(results []ledger.Result) []*ledger.Claim {
	var claims []*ledger.Claim
	for i := range results {
		if c := results[i].Claim; !slices.Contains(claims, c) {
			claims = append(claims, c)
		}
	}
	return claimsSorted(claims)
}

// checkHad refuses results of actions that their claim never had. What comes before them may have ended.
func (m *Memory) checkHad(sorted []*ledger.Result) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, r := range sorted {
		if c := m.claims[r.Claim]; c == nil || r.LaneSeq >= c.laneSeq {
			m.markMaybeEnded(sorted[:i])
			return errors.New("a result of an action that the claim never had")
		}
	}
	return nil
}

// record writes results, all or none. The caller holds mu.
func (m *Memory) record(sorted []*ledger.Result, fenced map[int32]bool, waited time.Duration) error {
	for i, r := range sorted {
		f := m.fenceOf(r.Claim)
		if f == nil {
			fenced[r.Claim.ID] = true
			continue
		}
		a := f.actions[r.LaneSeq]
		if lastOfAction(sorted, i) && !a.finishedForGood() && r.Status == ledger.Superseded && a.attempts > 0 && r.Class != sink.Newer {
			return badData{fmt.Errorf("action %d is superseded after %d attempts", r.LaneSeq, a.attempts)}
		}
	}
	added := map[int]bool{} // attempts of the action at hand
	for i, r := range sorted {
		f := m.fenceOf(r.Claim)
		if f == nil {
			continue
		}
		a := f.actions[r.LaneSeq]
		if kept(r) && !added[r.Attempt] {
			added[r.Attempt] = true
			a.addAttempt(r)
		}
		if lastOfAction(sorted, i) {
			clear(added)
			m.applyResult(a, r, m.claims[r.Claim].completes(r), waited)
		}
		if r.Reported {
			m.endApplied(ledger.AttemptRef{Fence: r.Claim.ID, LaneSeq: r.LaneSeq, Attempt: r.Attempt, Epoch: cmp.Or(r.Epoch, r.Claim.Epoch)})
		}
	}
	return nil
}

// finishedForGood says that no result changes the action any more.
func (a *action) finishedForGood() bool {
	return a.status == ledger.Done || a.status == ledger.Superseded || a.status.ByGuard()
}

// kept says that an attempt has a row.
func kept(r *ledger.Result) bool {
	return r.Attempt > 0 && r.Status != ledger.Processing && (r.Attempt > 1 || r.Status != ledger.Done || r.Marked)
}

// addAttempt keeps an attempt. The end of one that was marked before its call takes the mark's place; else what stands there stays.
func (a *action) addAttempt(r *ledger.Result) {
	row := attemptRow{r.Attempt, r.Status, ledger.Clean(r.Class, 40), true}
	i := slices.IndexFunc(a.attemptRows, func(t attemptRow) bool { return t.attempt == r.Attempt })
	switch {
	case i < 0:
		a.attemptRows = append(a.attemptRows, row)
	case a.attemptRows[i].status == ledger.Unknown && a.attemptRows[i].class == "":
		a.attemptRows[i] = row
	}
}

// plain reports a first attempt that succeeded, or an action that is superseded without one: a completion says all of it.
func plain(r *ledger.Result) bool {
	return r.Status == ledger.Superseded && r.Attempt == 0 || r.Status == ledger.Done && r.Attempt == 1 && r.Class == "" && r.Error == "" && !r.Reported
}

// completes reports whether a result is written as a completion: it is plain, and no row was to be written of its action before.
func (c *claim) completes(r *ledger.Result) bool { return plain(r) && !c.rowTried[r.LaneSeq] }

// applyResult brings an action to what its last result says. An action that has ended does not change.
func (m *Memory) applyResult(a *action, r *ledger.Result, completes bool, waited time.Duration) {
	if a.finishedForGood() {
		return
	}
	now := m.now()
	if !a.withRow && completes {
		a.completed, a.status, a.finished = true, r.Status, now
		a.attempts = r.Attempt
		return
	}
	if r.Attempt > 0 && a.first.IsZero() {
		since := r.Latency
		if !r.Began.IsZero() {
			since = max(since, time.Since(r.Began)-waited)
		}
		a.first = now.Add(-since - waited)
	}
	if _, ok := r.ID.Hash(); ok {
		a.identified = true
	}
	if !r.DoubtEnd.IsZero() && a.doubtEnd.IsZero() {
		a.doubtEnd = now.Add(-time.Since(r.DoubtEnd))
	}
	if r.Attempt > a.attempts {
		a.attempts, a.epoch = r.Attempt, cmp.Or(r.Epoch, r.Claim.Epoch)
	}
	a.guarded = r.Guarded
	a.withRow, a.status, a.spent = true, r.Status, max(a.spent, r.Spent)
	a.next, a.finished, a.resultBy, a.beat = zero, zero, zero, zero
	a.code, a.class, a.err, a.response, a.silence = r.Code, ledger.Clean(r.Class, 40), ledger.Clean(r.Error, ledger.MaxErrorText), response(r), r.Silence
	a.cancelURL, a.newer = r.CancelURL, false
	switch r.Status {
	case ledger.Failed, ledger.WaitingApproval, ledger.WaitingBudget:
		a.next = now.Add(r.NextIn)
	case ledger.Done, ledger.Dead, ledger.Superseded, ledger.Skipped, ledger.Dropped, ledger.Denied:
		a.finished = now
	case ledger.Processing:
		a.resultBy, a.beat = now.Add(r.Left), now
	}
	switch {
	case r.Status.Closed():
		a.packed = nil
	case a.packed == nil && r.Packed != nil:
		a.packed = slices.Clone(r.Packed)
	}
}

func response(r *ledger.Result) []byte {
	if len(r.Response) == 0 {
		return nil
	}
	return slices.Clone(r.Response[:min(len(r.Response), ledger.MaxResponse)])
}

// markRecorded notes in the claim of each action that its result is committed, and that the action ended with its first result if that was
// plain: no row was written for it.
func (m *Memory) markRecorded(sorted []*ledger.Result) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, r := range sorted {
		if !lastOfAction(sorted, i) {
			continue
		}
		c := m.claims[r.Claim]
		if !c.recorded[r.LaneSeq] && c.completes(r) { // also in a claim that is fenced, which nobody reads
			c.ended[r.LaneSeq] = true
		}
		c.recorded[r.LaneSeq] = true
		delete(c.maybeEnded, r.LaneSeq)
	}
}

// markUnknown notes in the claims that a write got no answer: the results come again, and until then no copy is written of
// their actions.
func (m *Memory) markUnknown(sorted []*ledger.Result) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.markMaybeEnded(sorted)
}

func (m *Memory) markMaybeEnded(sorted []*ledger.Result) {
	for i, r := range sorted {
		c := m.claims[r.Claim]
		switch {
		case !lastOfAction(sorted, i) || c.recorded[r.LaneSeq]:
		case c.completes(r):
			c.maybeEnded[r.LaneSeq] = true
		default:
			c.rowTried[r.LaneSeq] = true
		}
	}
}
