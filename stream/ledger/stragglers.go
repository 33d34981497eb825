package ledger

import "context"

const (
	// maxSpan is how far a claim's mark may stay behind the newest action. A lane that stands still for days would keep
	// the mark where it is, and with it the marks of everything that has ended since, here and in the next claim's read.
	maxSpan = 1 << 20
	// maxStragglers bounds how many rows one write gives to those who keep the mark.
	maxStragglers = 512
)

// stragglers gives rows of their own to the actions that keep the mark too far behind, or in a window that is not written
// any more: it could not be dropped. They are pending as before. It says how many there were.
func (w *resultWrite) stragglers(c *Claim) (found int) {
	m := &c.marks
	bound := m.given - maxSpan
	if n := len(c.spans); n > 1 {
		bound = max(bound, c.spans[n-1].from)
	}
	if m.low >= bound {
		return 0
	}
	mine := make(map[laneRef]bool, len(w.settled))
	for _, l := range w.settled {
		mine[l] = true
	}
	for _, s := range m.plain(0, maxStragglers) {
		if s >= bound {
			break
		}
		b, i := m.at(s)
		if b.ended.has(i) || b.doubt.has(i) || mine[laneRef{c, s}] { // on its way
			continue
		}
		b.rowed.set(i)
		w.window(c.windowOf(s)).insert(&Result{Claim: c, LaneSeq: s, Status: Pending})
		w.settled = append(w.settled, laneRef{c, s})
		found++
	}
	return found
}

// gather gives rows to all stragglers of claims for which no result comes that would do it.
func (n *Namespace) gather(ctx context.Context, claims []*Claim) error {
	for {
		w := &resultWrite{claims: claimsSorted(claims), windows: map[int32]*windowResults{}}
		found := 0
		for _, c := range w.claims {
			c.mu.Lock()
			found += w.stragglers(c)
			c.mu.Unlock()
		}
		if found == 0 {
			return nil
		}
		fenced, err := n.record(ctx, w)
		if err != nil {
			return err
		}
		w.settle()
		if len(fenced) > 0 {
			return nil
		}
	}
}
