package ledger

import (
	"errors"
	"slices"
	"time"

	"github.com/forebay-io/forebay/stream/ledger/internal/marks"
)

// resultWrite is what one Record writes. It is decided once: every try writes the same.
type resultWrite struct {
	decided  time.Time // when
	claims   []*Claim  // sorted
	windows  map[int32]*windowResults
	ended    []laneRef // actions that this write has marked as ended; taken back if it fails
	recorded []laneRef // actions to be marked as recorded once it is committed
	newLows  []laneRef // the new lane_low of claims
	reported []Result  // results that destinations reported later
	asked    []Result  // of actions that wait for a person's word no more
}

// laneRef names an action, or is a lane_seq of a claim.
type laneRef struct {
	claim   *Claim
	laneSeq int64
}

// windowResults are the rows for one window.
type windowResults struct {
	completions []*completions
	open        map[completionKey]*completions // those to which actions may be added
	updates     *resultRows                    // of actions whose rows are there
	inserts     *resultRows                    // of actions that have none
	attempts    *attemptRows
	made        *placeRows // actions that must have a row after the write
	known       *placeRows // actions that must have a row after the write, or be done
}

// writeOf decides where each result is written, and marks the actions in their claims. Of several results of one action the last one
// is the action's status; each of them was an attempt. The error is that a claim never had an action.
func writeOf(results []Result) (*resultWrite, error) {
	sorted := make([]*Result, len(results))
	for i := range results {
		sorted[i] = &results[i]
	}
	slices.SortStableFunc(sorted, func(a, b *Result) int {
		if a.Claim.ID != b.Claim.ID {
			return int(a.Claim.ID) - int(b.Claim.ID)
		}
		return int(a.LaneSeq - b.LaneSeq)
	})
	w := &resultWrite{decided: time.Now(), claims: claimsOf(results), windows: map[int32]*windowResults{}}
	for len(sorted) > 0 {
		c := sorted[0].Claim
		n := 1
		for n < len(sorted) && sorted[n].Claim == c {
			n++
		}
		if err := w.addClaim(c, sorted[:n]); err != nil {
			w.markUnknown()
			return nil, err
		}
		sorted = sorted[n:]
	}
	return w, nil
}

// addClaim adds the results of one claim to the write, ascending by lane_seq and those of one action in the order in which they came: its
// last result is its state, and the first that is kept of each attempt becomes that attempt's row.
func (w *resultWrite) addClaim(c *Claim, results []*Result) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	first := 0 // of the same action
	for i, r := range results {
		if r.LaneSeq != results[first].LaneSeq {
			first = i
		}
		window := c.windowOf(r.LaneSeq)
		if window == 0 {
			return errors.New("a result of an action that the claim never had")
		}
		wr := w.window(window)
		if i+1 == len(results) || results[i+1].LaneSeq != r.LaneSeq {
			w.action(wr, r)
		}
		if r.kept() && !slices.ContainsFunc(results[first:i], func(o *Result) bool { return o.Attempt == r.Attempt && o.kept() }) {
			wr.attempts.add(r)
		}
		if r.Reported {
			w.reported = append(w.reported, *r)
		}
		switch {
		case r.Status == WaitingApproval:
			c.asked[r.ID] = true
		case !r.Status.Waits() && c.asked[r.ID]:
			w.asked = append(w.asked, *r)
		}
	}
	w.giveRows(c)
	if c.lowDue() {
		w.newLows = append(w.newLows, laneRef{c, c.marks.Low})
	}
	return nil
}

// window returns the rows for a window.
func (w *resultWrite) window(id int32) *windowResults {
	wr := w.windows[id]
	if wr == nil {
		wr = &windowResults{open: map[completionKey]*completions{}, updates: newResultRows(), inserts: newResultRows(), attempts: newAttemptRows(),
			made: newActionRows(), known: newActionRows()}
		w.windows[id] = wr
	}
	return wr
}

// action adds an action's last result where it is to be written.
func (w *resultWrite) action(wr *windowResults, r *Result) {
	ref := laneRef{r.Claim, r.LaneSeq}
	switch r.Claim.marks.WayOf(r.LaneSeq, r.plain()) {
	case marks.BelowLow:
		wr.updates.add(r)
		wr.known.add(r.Claim.ID, r.LaneSeq)
	case marks.IntoRow:
		wr.updates.add(r)
		wr.made.add(r.Claim.ID, r.LaneSeq)
	case marks.Completion:
		wr.complete(r)
		w.ended, w.recorded = append(w.ended, ref), append(w.recorded, ref)
	case marks.NewRow:
		wr.insert(r)
		w.recorded = append(w.recorded, ref)
	}
}

// plain reports whether a completion says all of the result: a first attempt succeeded, or the action was superseded without one.
func (r *Result) plain() bool {
	firstSucceeded := r.Status == Done && r.Attempt == 1 && r.Class == "" && r.Error == "" && !r.Reported
	return r.Status == Superseded && r.Attempt == 0 || firstSucceeded
}

// insert has a row made for an action, which must be there after the write.
func (wr *windowResults) insert(r *Result) {
	wr.inserts.add(r)
	wr.made.add(r.Claim.ID, r.LaneSeq)
}

// kept reports whether the attempt gets a row of its own: it has ended, and is not a first one that simply succeeded and was not marked
// before its call.
func (r *Result) kept() bool {
	return r.Attempt > 0 && r.Status != Processing && (r.Attempt > 1 || r.Status != Done || r.Marked)
}

// markCommitted brings the claims' marks up to the write, which is committed.
func (w *resultWrite) markCommitted() {
	for _, l := range w.recorded {
		l.claim.mu.Lock()
		l.claim.marks.MarkRecorded(l.laneSeq)
		l.claim.mu.Unlock()
	}
	for _, c := range w.claims {
		c.mu.Lock()
		c.marks.Advance()
		c.mu.Unlock()
	}
	for i := range w.asked {
		c := w.asked[i].Claim
		c.mu.Lock()
		delete(c.asked, w.asked[i].ID)
		c.mu.Unlock()
	}
	for _, l := range w.newLows {
		l.claim.mu.Lock()
		l.claim.marks.LowSaved(l.laneSeq)
		l.claim.mu.Unlock()
	}
}

// markUnknown takes back that actions have ended, after a write that failed or whose COMMIT got no answer. The caller records the results
// again: a completion that is there twice does no harm, and rows are written by statements that do not mind whether they exist. Until
// then giveRows gives these actions no row, because a row that says pending would hide a completion.
func (w *resultWrite) markUnknown() {
	for _, l := range w.ended {
		l.claim.mu.Lock()
		l.claim.marks.Unknown(l.laneSeq)
		l.claim.mu.Unlock()
	}
}
