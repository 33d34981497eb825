package ledger

const (
	// maxSpan is how far a claim's mark may stay behind the newest action. A lane that stands still for days would keep
	// the mark where it is, and with it the marks of everything that has ended since, here and in the next claim's read.
	maxSpan = 1 << 20
	// maxStragglers bounds how many rows one write gives to those who keep the mark.
	maxStragglers = 512
)

// stragglers gives rows of their own to the actions that keep the mark too far behind. They are pending as before.
func (w *resultWrite) stragglers(c *Claim) {
	m := &c.marks
	if m.given-m.low <= maxSpan {
		return
	}
	for _, s := range m.plain(0, maxStragglers) {
		if s >= m.given-maxSpan {
			return
		}
		b, i := m.at(s)
		if b.ended.has(i) { // on its way
			continue
		}
		b.rowed.set(i)
		wr := w.window(c.windowOf(s))
		wr.row(wr.inserts, &Result{Claim: c, LaneSeq: s, Status: Pending})
		w.settled = append(w.settled, laneRef{c, s})
	}
}
