package gate

import (
	"slices"

	"github.com/forebay-io/forebay/schemas"
)

// asks: a wait on the line ends in a question before anything else.
func (m *model) asks(k VersionLineKey) bool {
	_, begun := m.position(k)
	return m.p.Then == ThenBackfill || !begun && m.p.Start == StartBackfill
}

// last: what a wait on the line comes to when all else has failed.
func (m *model) last(k VersionLineKey) Then {
	switch {
	case !m.asks(k):
		return m.p.Then
	case m.p.Otherwise == "":
		return ThenPark
	}
	return m.p.Otherwise
}

// backfilling: the gap before what waits on the line has been asked for, and nothing has left from there since.
func (m *model) backfilling(k VersionLineKey) bool {
	for _, f := range slices.Backward(m.line(k)) {
		if f.what == "ask" || f.what == "left" {
			return f.what == "ask"
		}
	}
	return false
}

// ask asks for all places that are missing below the lowest event that waits, one by one.
func (m *model) ask(k VersionLineKey) {
	low := m.lowest(k)
	r := Request{VersionLine: k, Before: low.Version, Reason: ReasonGap}
	at, begun := m.position(k)
	switch {
	case !begun && m.p.Start == StartBackfill:
		r.Reason = ReasonStartBackfill
	case !begun:
		r.Reason = ReasonStartGap
	}
	if low.Version.Kind == schemas.Sequence {
		r.To = low.Version.Value
		if r.To-1 < r.To { // there is one below
			r.To--
		}
		switch {
		case begun:
			r.From = at.Value + 1
		case low.First != nil:
			r.From = *low.First
		default:
			r.From = 1
		}
		if r.From > r.To {
			r.From = r.To
		}
	}
	m.requests = append(m.requests, r)
	m.events[k] = append(m.events[k], fact{what: "ask"})
}
