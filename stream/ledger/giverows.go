package ledger

import "context"

// Rows for actions that keep lane_low back. An action without a row that does not end would keep the marks of all that came after it, and
// its window; see internal/marks.

const (
	// laneLowEvery is how many recorded actions lane_low may be behind: a claim reads that many needlessly.
	laneLowEvery = 8192
	// maxSpan is how far lane_low may stay behind the newest action. A lane that stands still for days would keep it back,
	// and this process and the next claim would have to keep the marks of all actions that have ended since.
	maxSpan = 1 << 20
	// maxGivenRows bounds how many rows giveRows makes in one write.
	maxGivenRows = 512
)

// lowDue reports whether lane_low is to be written: after laneLowEvery actions, or when it has moved on and the written one is that of an
// action in a closed window, which it would keep from being dropped. The caller holds mu.
func (c *Claim) lowDue() bool {
	m := &c.marks
	return m.Unsaved >= laneLowEvery || (m.SavedLow < c.closedBelow() && m.Low > m.SavedLow)
}

// giveRows adds to a write rows, with status pending, for the open actions that keep lane_low too far behind, or in a closed window, which
// could not be dropped then. found is how many. The caller holds the claim's mu.
func (w *resultWrite) giveRows(c *Claim) (found int) {
	m := &c.marks
	bound := max(m.Given-maxSpan, c.closedBelow())
	if m.Low >= bound {
		return 0
	}
	mine := make(map[laneRef]bool, len(w.recorded))
	for _, l := range w.recorded {
		mine[l] = true
	}
	for _, s := range m.Plain(0, maxGivenRows) {
		if s >= bound {
			break
		}
		if mine[laneRef{c, s}] || !m.MayGiveRow(s) {
			continue
		}
		m.GiveRow(s)
		w.window(c.windowOf(s)).insert(&Result{Claim: c, LaneSeq: s, Status: Pending})
		w.recorded = append(w.recorded, laneRef{c, s})
		found++
	}
	return found
}

// giveRowsNow writes the rows of giveRows for claims that may record no results at the moment, until none is found or one of the claims has
// lost its fence.
func (rec recorder) giveRowsNow(ctx context.Context, claims []*Claim) error {
	for {
		w := &resultWrite{claims: claimsSorted(claims), windows: map[int32]*windowResults{}}
		found := 0
		for _, c := range w.claims {
			c.mu.Lock()
			found += w.giveRows(c)
			c.mu.Unlock()
		}
		if found == 0 {
			return nil
		}
		fenced, err := rec.record(ctx, w)
		if err != nil {
			return err
		}
		w.markCommitted()
		if len(fenced) > 0 {
			return nil
		}
	}
}
