package ledger

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/ledger/internal/pg"
)

// modelLedger is what the ledger must hold, kept in plain maps that never crash. What is decided it asks of the gate, over
// one state that lives for ever; how the gate decides is proven beside the gate.
type modelLedger struct {
	parts  map[int32]*modelPart
	events map[schemas.EventKey]*modelEvent
	window int32 // the current one
	now    int   // the machine's clock
}

type modelPart struct {
	claimed          bool
	number           int32
	fence            int32
	epoch            int64
	released         bool
	next, high, lane int64
	processed        time.Time
	seeks            []Seek
	state            *gate.State
	waits            map[int64]*modelWait    // by offset
	rejected         map[int64]modelRejected // by offset
	actions          map[int64]*modelAction
	attempts         map[laneAttempt]modelAttempt
	commands         map[int64]modelCommand
}

// modelEvent is an event that was decided and is remembered.
type modelEvent struct {
	Record
	part       int32
	window     int32 // of its row
	decision   gate.Decision
	reason     gate.Reason
	version    schemas.Version
	lane       int64
	actions    int
	duplicates int
}

// modelWait is a row of the gap buffer.
type modelWait struct {
	gate.Waiting // as it waits, or is held: then its decision is "held"
	line         gate.VersionLineKey
	packed       string
	window       int32
	aged         bool // it was first seen longer ago than any bound on its age
	overdue      int  // when its deadline passed, by the machine's clock; 0: it has not
}

type modelRejected struct {
	decision gate.Decision
	reason   gate.Reason
	id       string
	window   int32
}

type modelAction struct {
	key      schemas.EventKey
	effect   ActionSpec
	window   int32 // of its row, if it has one
	status   Status
	attempts int
	lost     bool   // its payload is
	gap      bool   // given up with a gap: it stops no lane
	packed   string // "": none
	unsure   bool   // whether it has a copy depends on how its batch was bisected
}

type (
	laneAttempt  struct{ lane, attempt int64 }
	modelAttempt struct {
		status Status
		window int32
	}
)

func newModelLedger(partitions int32) *modelLedger {
	m := &modelLedger{parts: map[int32]*modelPart{}, events: map[schemas.EventKey]*modelEvent{}}
	for n := range partitions {
		m.parts[n] = &modelPart{number: n, lane: 1, state: gate.NewState(), waits: map[int64]*modelWait{}, rejected: map[int64]modelRejected{},
			actions: map[int64]*modelAction{}, attempts: map[laneAttempt]modelAttempt{}, commands: map[int64]modelCommand{}}
	}
	return m
}

func (m *modelLedger) clone() *modelLedger {
	c := &modelLedger{parts: map[int32]*modelPart{}, events: map[schemas.EventKey]*modelEvent{}, window: m.window, now: m.now}
	for k, v := range m.events {
		c.events[k] = new(*v)
	}
	for n, p := range m.parts {
		q := *p
		q.seeks, q.rejected, q.attempts, q.commands = slices.Clone(p.seeks), maps.Clone(p.rejected), maps.Clone(p.attempts), maps.Clone(p.commands)
		q.waits, q.actions = map[int64]*modelWait{}, map[int64]*modelAction{}
		for k, v := range p.waits {
			q.waits[k] = new(*v)
		}
		for k, v := range p.actions {
			q.actions[k] = new(*v)
		}
		q.state = gate.NewState()
		q.state.Buffered, q.state.BufferedBytes = p.state.Buffered, p.state.BufferedBytes
		for k, l := range p.state.Lines {
			line := *l
			line.Skipped = slices.Clone(l.Skipped)
			q.state.Lines[k] = &line
		}
		for k, w := range p.state.Waiting {
			q.state.Waiting[k] = slices.Clone(w)
		}
		c.parts[n] = &q
	}
	return c
}

// seen is what dedupe remembers.
func (m *modelLedger) seen() map[schemas.EventKey]gate.Seen {
	seen := map[schemas.EventKey]gate.Seen{}
	for k, e := range m.events {
		seen[k] = gate.Seen{Hash: e.Hash, Decision: e.decision}
	}
	return seen
}

// mustSay is what an Applied must say of a slice, as text.
type mustSay struct {
	outcomes, actions  []string
	waiting, requested bool
	unsure             bool // whether it asked depends on how its batch was bisected
}

// apply decides a slice. sure is false where the batch is going to be bisected: which of its events came out of the buffer,
// with a copy, and which were released by the batch they came in, depends on where it is cut.
func (m *modelLedger) apply(part int32, s Slice, spec *Spec, sure bool) mustSay {
	policy := spec.Policy.Share(partitions)
	p := m.parts[part]
	records := make([]gate.Record, len(s.Records))
	for i := range s.Records {
		records[i] = s.Records[i].Record
		if s.Records[i].Type == poison {
			records[i] = gate.Record{Offset: records[i].Offset, Broken: gate.ReasonDataRejected}
		}
	}
	t := m.call(p, s.Records, spec, sure, func() []gate.Outcome { return gate.Decide(p.state, records, policy) })
	p.next = s.Next.Offset
	p.high = max(p.high, p.next)
	if n := len(s.Records); n > 0 {
		p.processed = later(p.processed, s.Records[n-1].AppendTime)
	}
	return t
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// expire ends the waits of the lines on which one was overdue when the claim asked; asked 0: it never did.
func (m *modelLedger) expire(part int32, asked int, spec *Spec) mustSay {
	p := m.parts[part]
	due := map[gate.VersionLineKey]bool{}
	for _, w := range p.waits {
		if w.Decision == gate.Buffered && w.overdue > 0 && (asked == 0 || w.overdue < asked) {
			due[w.line] = true
		}
	}
	lines := slices.SortedFunc(maps.Keys(due), compareKeys)
	return m.call(p, nil, spec, true, func() []gate.Outcome { return gate.Expire(p.state, lines, spec.Policy) })
}

// applyCommand does what an operator asked.
func (m *modelLedger) applyCommand(part int32, id int64, spec *Spec) mustSay {
	p := m.parts[part]
	c, asked := p.commands[id]
	delete(p.commands, id)
	w := p.waits[c.offset]
	if !asked || w == nil || w.Key != c.key {
		return m.call(p, nil, spec, true, func() []gate.Outcome { return nil })
	}
	lines := []gate.VersionLineKey{w.line}
	return m.call(p, nil, spec, true, func() []gate.Outcome {
		switch {
		case w.Decision != rowHeld && c.kind == Release:
			return gate.Release(p.state, lines, spec.Policy)
		case w.Decision != rowHeld:
			return nil
		case c.kind == Release:
			return []gate.Outcome{gate.Redrive(p.state, &w.Waiting)}
		}
		return []gate.Outcome{gate.Discard(&w.Waiting)}
	})
}

// longAgo, by the machine's clock, is before anybody asked for a deadline.
const longAgo = 1

// modelCommand is what an operator asked, and of which event.
type modelCommand struct {
	kind   CommandKind
	offset int64
	key    schemas.EventKey
}

// call asks the gate something and writes what follows.
func (m *modelLedger) call(p *modelPart, records []Record, spec *Spec, sure bool, ask func() []gate.Outcome) (t mustSay) {
	before := map[int64]modelWait{}
	for offset, w := range p.waits {
		before[offset] = *w
	}
	p.state.Seen, p.state.Requests = m.seen(), nil
	m.conclude(p, ask(), records, before, spec, sure, &t)
	var wanted []gate.VersionLineKey // what waits on them does so for a new answer
	for _, q := range p.state.Wanted() {
		wanted = append(wanted, q.VersionLine)
	}
	for _, waiting := range p.state.Waiting {
		for _, g := range waiting {
			w := p.waits[g.Offset]
			was := before[g.Offset]
			w.Decision, w.Stage = g.Decision, g.Stage
			changed := was.Key != w.Key || was.Decision != w.Decision || was.Stage != w.Stage || slices.Contains(wanted, w.line)
			if changed || w.Decision != gate.Buffered {
				w.overdue = 0
			}
			if changed && w.Decision == gate.Buffered && w.Stage == gate.Filling && spec.Policy.GapWait == 0 {
				w.overdue = m.now // a wait of no length
			}
			if changed && w.Decision == gate.Buffered && w.aged && spec.MaxAge > 0 {
				w.overdue = longAgo
			}
		}
	}
	t.waiting, t.requested, t.unsure = p.state.Buffered > 0, len(wanted) > 0, !sure
	return t
}

// conclude writes what follows from outcomes.
func (m *modelLedger) conclude(p *modelPart, out []gate.Outcome, records []Record, before map[int64]modelWait, spec *Spec, sure bool, t *mustSay) {
	for _, o := range out {
		t.outcomes = append(t.outcomes, fmt.Sprintf("%d:%s/%s", o.Record, o.Decision, o.Reason))
		var e *modelEvent
		if o.Record >= 0 {
			r := &records[o.Record]
			if e = m.decided(p, r, o); o.Decision == gate.Buffered || o.Decision == gate.Parked {
				delete(before, r.Offset) // it waits again, whatever stood there
			}
		} else {
			e = m.released(p, o)
		}
		if e == nil {
			continue
		}
		e.decision, e.reason, e.version = o.Decision, o.Reason, o.Version
		if !o.Decision.Runs() || len(spec.Actions) == 0 {
			continue
		}
		e.lane, e.actions = p.lane, len(spec.Actions)
		for _, effect := range spec.Actions {
			a := &modelAction{key: e.Key, effect: effect, window: m.window, status: Pending, unsure: !sure && o.Record < 0}
			if w := before[e.Offset]; o.Record < 0 && w.Key == e.Key {
				a.packed = w.packed
			}
			p.actions[p.lane] = a
			if o.Dead {
				a.status, a.gap, a.packed, a.unsure = Dead, true, string(e.Packed()), false
			} else {
				t.actions = append(t.actions, fmt.Sprintf("%d:%s:%s", p.lane, e.ID, effect.Name))
			}
			p.lane++
		}
	}
}

// decided is the row of a record, where it gets one that may run.
func (m *modelLedger) decided(p *modelPart, r *Record, o gate.Outcome) *modelEvent {
	if o.Decision == gate.Duplicate {
		if e := m.events[r.Key]; e != nil && r.Offset >= p.high {
			e.duplicates++
		}
		return nil
	}
	delete(p.rejected, r.Offset) // of an earlier reading
	if o.Decision == gate.Buffered || o.Decision == gate.Parked {
		w := &modelWait{Waiting: gate.Waiting{Record: r.Record, Decision: o.Decision}, packed: string(r.Packed()), window: m.window,
			line: gate.VersionLineKey{Entity: r.Entity, Clock: r.Version.Clock}}
		if w.Version = o.Version; o.Held {
			w.Decision = rowHeld
		}
		p.waits[r.Offset] = w
	}
	switch {
	case o.Decision == gate.Quarantined:
		p.rejected[r.Offset] = modelRejected{o.Decision, o.Reason, pg.Clean(r.ID, 512), m.window}
	case o.Decision == gate.Conflict:
		p.rejected[r.Offset] = modelRejected{o.Decision, o.Reason, r.ID, m.window}
	case r.Filtered:
		p.rejected[r.Offset] = modelRejected{gate.Filtered, r.FilteredBy(), r.ID, m.window}
	default:
		e := &modelEvent{Record: *r, part: p.number, window: m.window}
		m.events[r.Key] = e
		return e
	}
	return nil
}

// released is the row of an event that came out of the buffer, or was parked or held in it.
func (m *modelLedger) released(p *modelPart, o gate.Outcome) *modelEvent {
	w := p.waits[o.Released.Offset]
	switch {
	case o.Held:
		w.Waiting = *o.Released
		w.Decision, w.Stage, w.overdue = rowHeld, gate.Filling, 0
	case o.Decision != gate.Parked:
		delete(p.waits, o.Released.Offset)
	}
	if w.Filtered {
		return nil
	}
	return m.events[o.Released.Key]
}

// record takes results: the last of an action is the action's, all of them were attempts, of each the first; what is done stays
// done, and what is unknown of an attempt gives way to what is said of it later.
func (m *modelLedger) record(results []modelResult) {
	type attempt struct {
		part int32
		laneAttempt
	}
	said := map[attempt]bool{}
	for i, r := range results {
		p := m.parts[r.part]
		a := p.actions[r.LaneSeq]
		if r.Attempt > 0 && (r.Attempt != 1 || r.Status != Done) {
			k := laneAttempt{r.LaneSeq, int64(r.Attempt)}
			if was, ok := p.attempts[k]; !ok || was.status == Unknown && !said[attempt{r.part, k}] {
				p.attempts[k] = modelAttempt{r.Status, a.window}
			}
			said[attempt{r.part, k}] = true
		}
		last := !slices.ContainsFunc(results[i+1:], func(o modelResult) bool { return o.part == r.part && o.LaneSeq == r.LaneSeq })
		if !last || a.status == Done {
			continue
		}
		a.status, a.attempts, a.lost, a.gap = r.Status, max(a.attempts, r.Attempt), r.Class == "payload_lost", false
		switch {
		case r.Status == Done:
			a.packed, a.unsure = "", false
		case a.packed == "":
			a.packed = string(r.Packed)
		}
	}
}

type modelResult struct {
	part int32
	Result
}

// copy stores payload copies and says how many.
func (m *modelLedger) copy(part int32, copies []Copy) (stored int) {
	for _, c := range copies {
		if a := m.parts[part].actions[c.LaneSeq]; a.status != Done && a.packed == "" {
			a.packed = string(c.Packed)
			stored++
		}
	}
	return stored
}

// parks reports whether an action that is not done stops its lane.
func (a *modelAction) parks() bool { return a.status != Dead || a.effect.OnDead == Park && !a.gap }

// open lists the actions that a lane would load.
func (m *modelLedger) open(part int32) (out []string) {
	p := m.parts[part]
	for _, lane := range slices.Sorted(maps.Keys(p.actions)) {
		a := p.actions[lane]
		if a.status == Done || !a.parks() {
			continue
		}
		out = append(out, fmt.Sprintf("%d:%s:%s:%s:%d", lane, m.events[a.key].ID, a.effect.Name, a.status, a.attempts))
	}
	return out
}

// bare lists the lane_seqs of open actions without a copy, of events below an offset.
func (m *modelLedger) bare(part int32, before int64) (out []int64) {
	p := m.parts[part]
	for _, lane := range slices.Sorted(maps.Keys(p.actions)) {
		if a := p.actions[lane]; a.status != Done && a.packed == "" && !a.lost && m.events[a.key].Offset < before {
			out = append(out, lane)
		}
	}
	return out
}

// needs says who needs a window, as far as what happened in it goes; empty: nobody.
func (m *modelLedger) needs(window int32) (why string) {
	for _, n := range slices.Sorted(maps.Keys(m.parts)) {
		p := m.parts[n]
		for _, w := range p.waits {
			if w.window == window {
				why = cmp.Or(why, fmt.Sprintf("an event of it waits in partition %d", n))
			}
		}
		for lane, a := range p.actions {
			e := m.events[a.key]
			mine := e.window == window || a.window == window
			if mine && a.status != Done && a.parks() {
				why = cmp.Or(why, fmt.Sprintf("action %d of partition %d is %s", lane, n, a.status))
			}
		}
	}
	return why
}

// drop forgets a window.
func (m *modelLedger) drop(window int32) {
	for _, p := range m.parts {
		maps.DeleteFunc(p.rejected, func(_ int64, a modelRejected) bool { return a.window == window })
		maps.DeleteFunc(p.attempts, func(_ laneAttempt, a modelAttempt) bool { return a.window == window })
		maps.DeleteFunc(p.actions, func(_ int64, a *modelAction) bool { return m.events[a.key].window == window })
		for _, a := range p.actions {
			if a.window == window { // their rows went, their events are kept by an older window
				a.status, a.attempts, a.packed = Done, 1, ""
			}
		}
	}
	maps.DeleteFunc(m.events, func(_ schemas.EventKey, e *modelEvent) bool { return e.window == window })
}
