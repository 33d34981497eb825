package gate

import (
	"cmp"
	"slices"

	"github.com/forebay-io/forebay/schemas"
)

// modelOutcome is an outcome in a form that compares: the record by its place in the history, a released event by its key.
type modelOutcome struct {
	Record   int // -1 out of the buffer
	Key      schemas.EventKey
	Offset   int64
	Decision Decision
	Reason   Reason
	Version  schemas.Version
	Held     bool
	Dead     bool
}

// model is the gate as one would write it without a thought for speed or memory: it keeps everything that ever
// happened in plain lists and, for every question, reads them from the start.
type model struct {
	p        Policy
	outcomes []modelOutcome
	requests []Request
	ran      map[schemas.EventKey][]Record // what was placed under a key, filtered ones not
	events   map[VersionLineKey][]fact
	held     []*heldEvent // in no order
	said     []Record     // those that were the first with their second key
}

// fact is one thing that happened to a line.
type fact struct {
	what     string // "move", "skip", "fill", "restart"; "ask", "left" (the lowest of what waited)
	at       schemas.Version
	key      schemas.EventKey
	filtered bool
	from, to int64
}

type heldEvent struct {
	line   VersionLineKey
	parked bool
	Record
}

func newModel(h history) *model {
	m := &model{p: h.policy, ran: map[schemas.EventKey][]Record{}, events: map[VersionLineKey][]fact{}}
	n := 0
	for _, s := range h.steps {
		switch {
		case s.policy != nil:
			m.p = *s.policy
		case s.expire != nil:
			m.expire(s.expire)
		case s.release != nil:
			m.letGo(s.release)
		default:
			m.record(n, s.records[0])
			n++
		}
	}
	return m
}

func (m *model) addOutcome(n int, r Record, v schemas.Version, d Decision, why Reason) {
	m.outcomes = append(m.outcomes, modelOutcome{Record: n, Key: r.Key, Offset: r.Offset, Decision: d, Reason: why, Version: v})
	if !r.Filtered && n >= 0 {
		m.ran[r.Key] = append(m.ran[r.Key], r)
	}
}

// final tells what became of an event for good; the filter has the last word.
func (m *model) final(n int, r Record, v schemas.Version, d Decision, why Reason) {
	switch {
	case r.Filtered:
		d, why = Filtered, r.FilteredBy()
	case r.Repeats:
		d, why = Duplicate, ReasonKey
	}
	m.addOutcome(n, r, v, d, why)
}

func (m *model) record(n int, r Record) {
	if r.Broken != "" && (r.Broken != ReasonExpression || len(m.ran[r.Key]) == 0) {
		m.outcomes = append(m.outcomes, modelOutcome{Record: n, Key: r.Key, Offset: r.Offset, Decision: Quarantined, Reason: r.Broken, Version: r.Version})
		return
	}
	k := VersionLineKey{r.Entity, r.Version.Clock}
	before := m.ran[r.Key]
	if i := slices.IndexFunc(m.held, func(h *heldEvent) bool { return h.line == k && h.Key == r.Key && h.Filtered }); i >= 0 && len(before) == 0 {
		h := m.held[i]
		v, w := h.Version, r.Version
		if r.Filtered && h.Hash == r.Hash && v.Kind == w.Kind && v.Value == w.Value && v.Sub == w.Sub && (w.Epoch == 0 || v.Epoch == w.Epoch) {
			before = []Record{h.Record}
		} else {
			m.pick(h)
			m.final(-1, h.Record, h.Version, Filtered, h.FilteredBy())
		}
	}
	if len(before) > 0 {
		d, why := Duplicate, ReasonSeen
		if before[0].Hash != r.Hash {
			d, why = Conflict, ReasonBodyDiffers
		}
		m.outcomes = append(m.outcomes, modelOutcome{Record: n, Key: r.Key, Offset: r.Offset, Decision: d, Reason: why, Version: r.Version})
		return
	}
	if r.Also != (Also{}) && !r.Filtered {
		r.Repeats = slices.ContainsFunc(m.said, func(first Record) bool { return first.Also == r.Also && first.Key != r.Key })
		if !r.Repeats {
			m.said = append(m.said, r)
		}
	}
	m.place(n, k, r)
}

func (m *model) place(n int, k VersionLineKey, r Record) {
	v := r.Version
	if m.p.Order == OrderArrival {
		m.letGo([]VersionLineKey{k})
	}
	switch {
	case m.p.Order == OrderArrival, v.Kind == schemas.None:
		m.final(n, r, v, Applied, ReasonArrival)
		return
	case r.idle() && v.Kind != schemas.Sequence:
		m.final(n, r, v, Applied, ReasonArrival)
		return
	case v.Kind == schemas.Timestamp:
		v.Value = min(v.Value, r.AppendTime.UnixNano()+int64(m.p.FutureSkew))
	}
	at, begun := m.position(k)
	low := m.lowest(k)
	if was := at; low != nil || begun {
		if !begun {
			was = low.Version
		}
		if v.Epoch == 0 {
			v.Epoch = was.Epoch
		}
		r.Version.Epoch = v.Epoch
		why := ReasonFirst
		switch {
		case v.Epoch < was.Epoch:
			m.behind(n, k, r, v)
			return
		case v.Epoch > was.Epoch:
			why = ReasonNewEpoch
		}
		if why == ReasonNewEpoch || was.Kind != v.Kind || len(was.Text) > 0 != (len(v.Text) > 0) {
			for ; low != nil; low = m.lowest(k) {
				m.skip(k, m.last(k))
			}
			m.events[k] = append(m.events[k], fact{what: "restart"})
			m.begin(n, k, r, v, why)
			return
		}
	}
	if begun {
		m.compare(n, k, r, v, at)
		return
	}
	m.start(n, k, r, v, low != nil)
}

// start is an event of a line that has not begun.
func (m *model) start(n int, k VersionLineKey, r Record, v schemas.Version, waiting bool) {
	order := 1 // against the first value
	if v.Kind == schemas.Sequence && r.First != nil {
		order = cmp.Compare(v.Value, *r.First)
	}
	promised := v.Kind == schemas.Sequence && r.First != nil
	if truth := r.Backfill && !r.idle(); truth && r.Payload == schemas.Snapshot {
		m.begin(n, k, r, v, ReasonBackfilled)
		return
	} else if truth && m.p.Start == StartBackfill {
		m.begin(n, k, r, v, ReasonFirst)
		return
	}
	why := ReasonStartGap
	switch m.p.Start {
	case StartBackfill:
		why = ReasonStartBackfill
		if order > 0 && r.idle() && !waiting {
			m.final(n, r, v, Filtered, r.FilteredBy())
			return
		}
	case StartFirst:
		if !promised && !waiting {
			order = 0
		}
	default:
		if !waiting {
			order = 0
		}
	}
	switch {
	case order == 0:
		m.begin(n, k, r, v, ReasonFirst)
	case order < 0:
		m.behind(n, k, r, v)
	default:
		m.ahead(n, k, r, v, why)
	}
}

func (m *model) begin(n int, k VersionLineKey, r Record, v schemas.Version, why Reason) {
	m.move(k, r, v)
	m.final(n, r, v, Applied, why)
	m.release(k)
}

func (m *model) compare(n int, k VersionLineKey, r Record, v, at schemas.Version) {
	switch {
	case lower(v, at):
		m.behind(n, k, r, v)
	case !lower(at, v):
		m.equal(n, k, r, v, ReasonEqual)
	case r.Backfill && !r.idle() && r.Payload == schemas.Snapshot:
		m.begin(n, k, r, v, ReasonBackfilled)
	case !reaches(at, v):
		m.ahead(n, k, r, v, ReasonGap)
	default:
		m.begin(n, k, r, v, ReasonNext)
	}
}

func (m *model) behind(n int, k VersionLineKey, r Record, v schemas.Version) {
	at, _ := m.position(k)
	switch {
	case v.Kind == schemas.Sequence && at.Epoch == v.Epoch && m.skipped(k, v.Value):
		if !r.idle() {
			m.events[k] = append(m.events[k], fact{what: "fill", from: v.Value})
		}
		if r.Payload == schemas.Snapshot && !m.p.LateSnapshots {
			m.past(n, r, v, ReasonFiller, ReasonOlderHeld)
			return
		}
		m.final(n, r, v, Late, ReasonFiller)
	case r.Payload == schemas.Snapshot:
		m.past(n, r, v, ReasonOlder, ReasonOlderHeld)
	default:
		m.past(n, r, v, ReasonOlderDelta, ReasonOlderHeld)
	}
}

// past does what stale says.
func (m *model) past(n int, r Record, v schemas.Version, why, held Reason) {
	stale := m.p.Stale
	do := map[schemas.PayloadKind]StaleDo{schemas.Snapshot: stale.Snapshot, schemas.Delta: stale.Delta, "": stale.Delta}[r.Payload]
	switch {
	case do == StaleHold:
		m.person(n, r, v, held)
	case do == StaleDrop, do == "" && r.Payload == schemas.Snapshot:
		m.final(n, r, v, Stale, why)
	default:
		m.final(n, r, v, Late, why)
	}
}

// person sets one event aside, unless nobody wants it.
func (m *model) person(n int, r Record, v schemas.Version, why Reason) {
	m.final(n, r, v, Parked, why)
	m.outcomes[len(m.outcomes)-1].Held = !r.idle()
}

func (m *model) move(k VersionLineKey, r Record, v schemas.Version) {
	m.events[k] = append(m.events[k], fact{what: "move", at: v, key: r.Key, filtered: r.idle()})
}

func (m *model) twin(k VersionLineKey, r Record, v schemas.Version) {
	if facts := m.line(k); !r.idle() && facts[lastMove(facts)].filtered {
		m.move(k, r, v)
	}
}

func (m *model) equal(n int, k VersionLineKey, r Record, v schemas.Version, why Reason) {
	facts := m.line(k)
	ran := !facts[lastMove(facts)].filtered
	m.twin(k, r, v)
	switch {
	case ran && (r.Backfill || m.p.Equal == EqualFirst):
		m.past(n, r, v, ReasonEqualFirst, ReasonEqualHeld)
	case ran && m.p.Equal == EqualHold:
		m.person(n, r, v, ReasonEqualHeld)
	default:
		m.final(n, r, v, Applied, why)
	}
}

// overtaken: with last, a snapshot gives way to a wanted one of its version, later in the log, that waits.
func (m *model) overtaken(k VersionLineKey, r Record) bool {
	return m.p.Equal == EqualLast && r.Payload == schemas.Snapshot && slices.ContainsFunc(m.held, func(h *heldEvent) bool {
		same := !lower(h.Version, r.Version) && !lower(r.Version, h.Version)
		return h.line == k && same && h.Offset > r.Offset && h.Payload == schemas.Snapshot && !h.idle()
	})
}
