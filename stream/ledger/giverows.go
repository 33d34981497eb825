package ledger

import "context"

const (
	// maxSpan is how far lane_low may stay behind the newest action. A lane that stands still for days would keep it back,
	// and this process and the next claim would have to keep the marks of everything that has ended since.
	maxSpan = 1 << 20
	// maxGivenRows bounds how many such rows one write makes.
	maxGivenRows = 512
)

// giveRows gives rows to the open actions that keep lane_low too far behind, or in a closed window, which could not be
// dropped. They stay pending. found is how many there were.
func (w *resultWrite) giveRows(c *Claim) (found int) {
	m := &c.marks
	bound := m.given - maxSpan
	if n := len(c.spans); n > 1 {
		bound = max(bound, c.spans[n-1].from)
	}
	if m.low >= bound {
		return 0
	}
	mine := make(map[laneRef]bool, len(w.recorded))
	for _, l := range w.recorded {
		mine[l] = true
	}
	for _, s := range m.plain(0, maxGivenRows) {
		if s >= bound {
			break
		}
		b, i := m.at(s)
		if b.ended.has(i) || b.maybeEnded.has(i) || mine[laneRef{c, s}] { // a completion is being written
			continue
		}
		b.withRow.set(i)
		w.window(c.windowOf(s)).insert(&Result{Claim: c, LaneSeq: s, Status: Pending})
		w.recorded = append(w.recorded, laneRef{c, s})
		found++
	}
	return found
}

// giveRowsNow does what giveRows does for claims that record no results at the moment.
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
