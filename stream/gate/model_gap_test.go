package gate

import (
	"slices"

	"github.com/forebay-io/forebay/schemas"
)

// ahead is a gap before r.
func (m *model) ahead(n int, k VersionLineKey, r Record, v schemas.Version, why Reason) {
	low := m.lowest(k)
	full := m.full(k, r)
	none := m.p.GapWait == 0 && v.Kind == schemas.Sequence && !m.asks(k)
	switch {
	case low != nil && low.parked:
		m.hold(n, k, r, v, true, ReasonBehindPark)
	case none && m.p.Then == ThenPark:
		m.park(k, ReasonGapExpired)
		m.hold(n, k, r, v, true, ReasonGapExpired)
	case none:
		for ; low != nil && before(&low.Record, &r); low = m.lowest(k) {
			m.skip(k, m.p.Then)
		}
		at, begun := m.position(k)
		if begun && (!lower(at, v) || reaches(at, v)) {
			m.compare(n, k, r, v, at)
			return
		}
		m.jump(n, k, r, v, m.p.Then)
	case full:
		m.park(k, ReasonOverflow)
		m.hold(n, k, r, v, true, ReasonOverflow)
	default:
		m.hold(n, k, r, v, false, why)
		if m.asks(k) && !m.backfilling(k) && (why == ReasonStartBackfill || m.p.GapWait == 0) {
			m.ask(k)
		}
	}
}

// full: with r in the buffer too, there is more in it than may be.
func (m *model) full(k VersionLineKey, r Record) bool {
	events, bytes := 1, r.Size
	onLine, bytesOnLine := 1, r.Size
	for _, h := range m.held {
		if !h.parked {
			events++
			bytes += h.Size
		}
		if h.line == k {
			onLine++
			bytesOnLine += h.Size
		}
	}
	over := func(n, most int64) bool { return most > 0 && n > most }
	return over(int64(events), int64(m.p.MaxBuffered)) || over(int64(onLine), int64(m.p.MaxPerEntity)) ||
		over(bytes, m.p.MaxBytes) || over(bytesOnLine, m.p.MaxBytesPerEntity)
}

func (m *model) hold(n int, k VersionLineKey, r Record, v schemas.Version, parked bool, why Reason) {
	r.Version = v
	m.held = append(m.held, &heldEvent{k, parked, r})
	m.addOutcome(n, r, v, map[bool]Decision{true: Parked, false: Buffered}[parked], why)
}

func (m *model) park(k VersionLineKey, why Reason) {
	waits := m.waiting(k)
	for i := range waits { // by selection
		for j := i + 1; j < len(waits); j++ {
			if before(&waits[j].Record, &waits[i].Record) {
				waits[i], waits[j] = waits[j], waits[i]
			}
		}
	}
	m.events[k] = append(m.events[k], fact{what: "left"})
	for _, w := range waits {
		w.parked = true
		m.addOutcome(-1, w.Record, w.Version, Parked, why)
	}
}

// release lets go of one event after the other that the line has reached, lowest first.
func (m *model) release(k VersionLineKey) {
	for {
		low := m.lowest(k)
		at, _ := m.position(k)
		if low == nil || lower(at, low.Version) && !reaches(at, low.Version) {
			return
		}
		r := m.pick(low)
		switch v := r.Version; {
		case lower(v, at):
			m.behind(-1, k, r, v)
		case m.overtaken(k, r):
			m.final(-1, r, v, Stale, ReasonEqualLast)
		case lower(at, v):
			m.move(k, r, v)
			m.final(-1, r, v, Applied, ReasonReleased)
		default:
			m.equal(-1, k, r, v, ReasonReleased)
		}
	}
}

func (m *model) expire(lines []VersionLineKey) {
	for i, k := range lines {
		low := m.lowest(k)
		switch {
		case slices.Contains(lines[:i], k) || low == nil || low.parked:
		case m.p.Order == OrderArrival:
			m.letGo(lines[i : i+1])
		case m.asks(k) && !m.backfilling(k):
			m.ask(k)
		case m.last(k) == ThenPark:
			m.park(k, ReasonGapExpired)
		default:
			m.skip(k, m.last(k))
		}
	}
}

// letGo skips gap after gap until nothing waits on the lines.
func (m *model) letGo(lines []VersionLineKey) {
	for _, k := range lines {
		for m.lowest(k) != nil {
			m.skip(k, ThenSkip)
		}
	}
}

func (m *model) skip(k VersionLineKey, then Then) {
	low := m.lowest(k)
	r := m.pick(low)
	if m.overtaken(k, r) {
		m.final(-1, r, r.Version, Stale, ReasonEqualLast)
		m.skip(k, then)
		return
	}
	m.jump(-1, k, r, r.Version, then)
}

func (m *model) jump(n int, k VersionLineKey, r Record, v schemas.Version, then Then) {
	why := ReasonGapSkipped
	if at, begun := m.position(k); begun {
		m.events[k] = append(m.events[k], fact{what: "skip", from: at.Value + 1, to: v.Value - 1})
	} else if m.p.Start == StartBackfill {
		why = ReasonFirst
	} else if v.Kind == schemas.Sequence && r.First != nil && *r.First < v.Value {
		m.events[k] = append(m.events[k], fact{what: "skip", from: *r.First, to: v.Value - 1})
	}
	from := len(m.outcomes)
	m.begin(n, k, r, v, why)
	for i := range m.outcomes[from:] {
		if s := &m.outcomes[from+i]; then == ThenDeadLetter && (s.Decision == Applied || s.Decision == Late) {
			s.Reason, s.Dead = ReasonGapDead, true
		}
	}
}
