package gate

import (
	"slices"

	"github.com/forebay-io/forebay/schemas"
)

// line is what happened to a line since it last began again.
func (m *model) line(k VersionLineKey) []fact {
	facts := m.events[k]
	for i, fact := range slices.Backward(facts) {
		if fact.what == "restart" {
			return facts[i+1:]
		}
	}
	return facts
}

func lastMove(facts []fact) int {
	for i, fact := range slices.Backward(facts) {
		if fact.what == "move" {
			return i
		}
	}
	return -1
}

func (m *model) position(k VersionLineKey) (at schemas.Version, begun bool) {
	facts := m.line(k)
	i := lastMove(facts)
	if i < 0 {
		return at, false
	}
	return facts[i].at, true
}

// spans are the skipped places of a line that are open, newest MaxSpans: after each fact again, what was skipped is cut
// at every value that was filled, and the lowest pieces that are too many are forgotten for good.
func (m *model) spans(k VersionLineKey) []Span {
	facts := m.line(k)
	var forgotten *int64
	var open []Span
	for n := range facts {
		if facts[n].what != "skip" && facts[n].what != "fill" {
			continue
		}
		open = pieces(facts[:n+1], forgotten)
		for len(open) > MaxSpans {
			forgotten = &open[0].To
			open = open[1:]
		}
	}
	return open
}

func pieces(facts []fact, forgotten *int64) (open []Span) {
	var filled []int64
	for _, f := range facts {
		if f.what == "fill" {
			filled = append(filled, f.from)
		}
	}
	slices.Sort(filled)
	for _, f := range facts {
		if f.what != "skip" || forgotten != nil && f.to <= *forgotten {
			continue
		}
		from, left := f.from, true
		if forgotten != nil && from <= *forgotten {
			from = *forgotten + 1
		}
		for _, v := range filled {
			if !left || v < from || v > f.to {
				continue
			}
			if v > from {
				open = append(open, Span{from, v - 1})
			}
			left = v < f.to
			from = v + 1
		}
		if left {
			open = append(open, Span{from, f.to})
		}
	}
	return open
}

func (m *model) skipped(k VersionLineKey, value int64) bool {
	return slices.ContainsFunc(m.spans(k), func(s Span) bool { return s.From <= value && value <= s.To })
}

// waiting is what waits on a line, in no order.
func (m *model) waiting(k VersionLineKey) (waits []*heldEvent) {
	for _, h := range m.held {
		if h.line == k {
			waits = append(waits, h)
		}
	}
	return waits
}

// lowest is the first of what waits on a line, nil where nothing does.
func (m *model) lowest(k VersionLineKey) (low *heldEvent) {
	for _, h := range m.held {
		if h.line == k && (low == nil || before(&h.Record, &low.Record)) {
			low = h
		}
	}
	return low
}

// pick takes an event out of the buffer.
func (m *model) pick(h *heldEvent) Record {
	if low := m.lowest(h.line); low == h {
		m.events[h.line] = append(m.events[h.line], fact{what: "left"})
	}
	i := slices.Index(m.held, h)
	m.held = slices.Delete(m.held, i, i+1)
	return h.Record
}

func lower(v, w schemas.Version) bool {
	switch {
	case v.Epoch != w.Epoch:
		return v.Epoch < w.Epoch
	case v.Value != w.Value:
		return v.Value < w.Value
	case v.Text != w.Text:
		return v.Text < w.Text
	}
	return v.Sub < w.Sub
}

// reaches reports whether no place is missing from at to v, which is not lower.
func reaches(at, v schemas.Version) bool {
	return v.Kind != schemas.Sequence || at.Value == v.Value || at.Value == v.Value-1 && v.Value > at.Value
}

func before(a, b *Record) bool {
	if lower(a.Version, b.Version) || lower(b.Version, a.Version) {
		return lower(a.Version, b.Version)
	}
	return a.Offset < b.Offset
}
