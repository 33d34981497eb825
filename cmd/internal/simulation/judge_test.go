package simulation

import (
	"fmt"
	"slices"
	"sort"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
)

// history is all that the judge knows: what the provider was told, what the agent saw, what was configured, what was broken, and which
// events may be missing because a fault deleted their records and Forebay said so; see excused. The rules below read no word of Forebay's.
type history struct {
	delivered []*delivered
	calls     []*call // in the order of their begin
	policy    gate.Policy
	payload   schemas.PayloadKind
	latest    bool
	good      map[string]bool // entities with which the agent had no trouble
	facts     []fact
	excused   map[string]string // by event, what Forebay said of a record that the world has deleted: it may come late
	forgiven  map[string]bool   // of those, the ones that need not come at all
}

func (w *world) history() history {
	h := history{policy: w.plan.policy, payload: w.plan.payload, latest: w.plan.latest, good: map[string]bool{}, facts: w.facts, calls: w.agent.calls,
		excused: w.excused(), forgiven: w.forgiven()}
	for _, t := range w.sender.delivered {
		h.delivered = append(h.delivered, t)
	}
	for entity, bad := range w.plan.bad {
		// With next to no room for payloads and actions what hangs takes it from the others: that is what the caps are for.
		h.good[entity] = !bad && w.plan.laneBytes > 64<<10 && w.plan.maxOpen > 8
	}
	return h
}

// rule is what a finding breaks.
type rule string

const (
	lost      rule = "lost"                     // told 2xx, and nobody acted on it
	twice     rule = "twice in effect"          // one event under two keys, two events under one, or again though nothing had failed
	unordered rule = "out of order"             // before an older one of its entity was done
	stale     rule = "stale after newer"        // an older state for the first time after a newer one, unmarked
	forged    rule = "forged accepted"          // never signed by the provider, or not the bytes that it sent
	early     rule = "gap released early"       // before its filler, and before its wait was over
	zombie    rule = "acted while cut off"      // longer than the group counts a member in that it does not hear of
	heldUp    rule = "unrelated entity held up" // nothing of its own was in its way
)

type finding struct {
	rule rule
	text string
}

// judge says what was broken.
func judge(h history) []finding {
	sort.SliceStable(h.calls, func(i, k int) bool { return h.calls[i].begin.Before(h.calls[k].begin) })
	c := newCase(h)
	c.authentic()
	c.complete()
	c.once()
	c.alive()
	for _, l := range c.lines {
		c.serial(l)
		c.alone(l)
		c.ordered(l)
		c.gaps(l)
		c.prompt(l)
	}
	return c.findings
}

// state is what the case knows of one event.
type state struct {
	*delivered
	calls []*call
	done  time.Time // the first 2xx of the agent that went out; zero: none
}

func (s *state) first() time.Time { return s.sent[0] }

// surelyBefore reports whether s was in the log before o was even sent.
func (s *state) surelyBefore(o *state) bool {
	return !s.accepted.IsZero() && s.accepted.Before(o.first())
}

// maybeBefore reports whether s may be in the log before o.
func (s *state) maybeBefore(o *state) bool {
	return o.accepted.IsZero() || !s.first().After(o.accepted)
}

// lastHeard is until when the provider was at it.
func (s *state) lastHeard() time.Time {
	last := s.sent[len(s.sent)-1]
	if s.accepted.After(last) {
		return s.accepted
	}
	return last
}

// entityLine is the case of one entity: its events by number.
type entityLine struct {
	entity string
	events []*state
	calls  []*call
}

type trial struct {
	history
	events   map[string]*state // authentic ones by id
	lines    []*entityLine
	findings []finding
}

func (c *trial) find(r rule, format string, args ...any) {
	c.findings = append(c.findings, finding{r, fmt.Sprintf(format, args...)})
}

func newCase(h history) *trial {
	c := &trial{history: h, events: map[string]*state{}}
	lines := map[string]*entityLine{}
	for _, t := range h.delivered {
		if t.forged {
			continue
		}
		s := &state{delivered: t}
		c.events[t.id] = s
		if lines[t.entity] == nil {
			lines[t.entity] = &entityLine{entity: t.entity}
			c.lines = append(c.lines, lines[t.entity])
		}
		lines[t.entity].events = append(lines[t.entity].events, s)
	}
	for _, call := range h.calls {
		if s := c.events[call.id]; s != nil {
			s.calls = append(s.calls, call)
			lines[s.entity].calls = append(lines[s.entity].calls, call)
			if call.status/100 == 2 && (s.done.IsZero() || call.end.Before(s.done)) {
				s.done = call.end
			}
		}
	}
	slices.SortFunc(c.lines, func(a, b *entityLine) int { return compare(a.entity, b.entity) })
	for _, l := range c.lines {
		slices.SortFunc(l.events, func(a, b *state) int { return a.number - b.number })
	}
	return c
}

func compare(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// authentic: nothing is taken that the provider did not sign, and what is acted on is what it sent.
func (c *trial) authentic() {
	for _, t := range c.delivered {
		if t.forged && slices.ContainsFunc(t.statuses, func(s int) bool { return s/100 == 2 }) {
			c.find(forged, "%s was told %v", t.id, t.statuses)
		}
	}
	for _, call := range c.calls {
		switch s := c.events[call.id]; {
		case s == nil:
			c.find(forged, "the agent was called for %s, which nobody has signed", call.id)
		case s.sum != call.sum:
			c.find(forged, "the agent was called for %s with other bytes than were sent", call.id)
		case s.entity != call.entity:
			c.find(forged, "the agent was called for %s of entity %s", call.id, call.entity)
		case call.begin.Before(s.first()):
			c.find(forged, "the agent was called for %s before it was sent", call.id)
		}
	}
}

// complete: what was told 2xx is acted on, unless a rule of the subscription's says otherwise, or its record was deleted and that was
// reported.
func (c *trial) complete() {
	for _, l := range c.lines {
		for _, s := range l.events {
			if s.accepted.IsZero() || !s.done.IsZero() || c.forgiven[s.id] {
				continue
			}
			if !c.mayEndUnrun(l, s) {
				c.find(lost, "%s was told 2xx at %s and never done; %d calls", s.id, clock(s.accepted), len(s.calls))
			}
		}
	}
}

// mayEndUnrun reports whether the subscription's own rules let an event end without a call.
func (c *trial) mayEndUnrun(l *entityLine, s *state) bool {
	if s.accepted.IsZero() {
		return false
	}
	snapshot := c.payload == schemas.Snapshot
	for _, newer := range l.events {
		if newer.number <= s.number || newer.accepted.IsZero() && len(newer.calls) == 0 {
			continue
		}
		if c.latest && snapshot && len(s.calls) == 0 && s.source != arrival {
			return true // superseded
		}
		if s.source == timestamp && snapshot && newer.maybeBefore(s) {
			return true // stale
		}
	}
	if s.source != sequence {
		return false
	}
	for _, k := range c.missing(l, s) {
		switch c.policy.Then {
		case gate.ThenPark:
			if k == nil || k.accepted.IsZero() || c.vanished(k, s) {
				return true
			}
		case gate.ThenDeadLetter:
			return true
		}
	}
	return false
}

// missing are the places below an event whose filler was not accepted before the gap's wait can have been over; nil for one
// that was never sent.
func (c *trial) missing(l *entityLine, s *state) (out []*state) {
	for n := 1; n < s.number; n++ {
		k := l.at(n)
		if k == nil || k.accepted.IsZero() || !k.accepted.Before(c.deadline(l, n)) || c.vanished(k, s) {
			out = append(out, k)
		}
	}
	return out
}

// vanished reports whether the line of an event may know nothing of one that was accepted: its record went, which was reported, or
// its line began again.
func (c *trial) vanished(k, s *state) bool {
	return c.excused[k.id] != "" && k.done.IsZero() || c.restarted(k.first(), s.lastHeard())
}

func (l *entityLine) at(number int) *state {
	i, ok := slices.BinarySearchFunc(l.events, number, func(s *state, n int) int { return s.number - n })
	if !ok {
		return nil
	}
	return l.events[i]
}

// deadline is the earliest moment at which the wait for a place may end: a gap is first seen when something behind it has come.
func (c *trial) deadline(l *entityLine, number int) (by time.Time) {
	for _, s := range l.events {
		if s.number > number && (by.IsZero() || s.first().Before(by)) {
			by = s.first()
		}
	}
	return by.Truncate(time.Microsecond).Add(c.policy.GapWait) // the database counts microseconds
}

// once: one event has one key, one key one event, and what was answered comes again only where something failed.
func (c *trial) once() {
	keyOf, eventOf, answered := map[string]string{}, map[string]string{}, map[string]*call{}
	for _, call := range c.calls {
		if k, ok := keyOf[call.id]; ok && k != call.key {
			c.find(twice, "%s has the keys %s and %s", call.id, k, call.key)
		}
		if e, ok := eventOf[call.key]; ok && e != call.id {
			c.find(twice, "key %s is of %s and of %s", call.key, e, call.id)
		}
		keyOf[call.id], eventOf[call.key] = call.key, call.id
		if before := answered[call.key]; before != nil && before.end.Before(call.begin) && !c.unrecorded(before) {
			c.find(twice, "%s was answered %d at %s by %s's call and called again at %s by %s, though nothing had failed", call.id,
				before.status, clock(before.end), before.process, clock(call.begin), call.process)
		}
		if call.status/100 == 2 {
			answered[call.key] = call
		}
	}
}

// noBrokers is what a process is cut off by.
const noBrokers = "a stream process hears nothing of the brokers"

// alive: who has not heard of the group for the session timeout calls nobody.
func (c *trial) alive() {
	for _, call := range c.calls {
		for _, f := range c.facts {
			if f.what == noBrokers && f.node == call.process && call.begin.After(f.begin.Add(sessionTimeout)) && call.begin.Before(f.end) {
				c.find(zombie, "%s was called at %s by %s, which has heard of no broker since %s", call.id, clock(call.begin), call.process, clock(f.begin))
			}
		}
	}
}

// recordWait is the longest pause of the lanes between two tries to record a result.
const recordWait = 5 * time.Second

// unrecorded reports whether a fault may have kept an answer out of the ledger: one of its process that was there between the
// call's begin and its record. The record comes with the answer; where the ledger is away by then, once it is there again.
func (c *trial) unrecorded(call *call) bool {
	by := call.end
	for again := true; again; {
		again = false
		for _, f := range c.facts {
			if f.what != ledgerAway || f.node != "" && f.node != call.process || f.end.Before(call.end) || f.begin.After(by) {
				continue
			}
			if until := f.end.Add(recordWait); until.After(by) {
				by, again = until, true
			}
		}
	}
	return by.After(call.end) || slices.ContainsFunc(c.facts, func(f fact) bool {
		return (f.node == "" || f.node == call.process) && f.what != ledgerAway && f.what != moved && !f.end.Before(call.begin) && !f.begin.After(by)
	})
}

// ledgerAway is a fault that delays a record. A claim may be given up meanwhile, with the answers that wait for it.
const ledgerAway = "the ledger is away"

// serial: the head of an entity's lane is done before the next one is called.
func (c *trial) serial(l *entityLine) {
	begun := map[string]*state{}
	for _, call := range l.calls {
		s := c.events[call.id]
		for id, other := range begun {
			if gone := other.done.IsZero() && c.excused[id] != ""; !gone && id != call.id && (other.done.IsZero() || other.done.After(call.begin)) {
				c.find(unordered, "%s was called at %s before %s was done", call.id, clock(call.begin), id)
			}
		}
		begun[call.id] = s
	}
}

// restarted reports whether version lines may have begun again in a time: those of a topic that is created again do.
func (c *trial) restarted(from, to time.Time) bool {
	return slices.ContainsFunc(c.facts, func(f fact) bool { return f.what == recreated && !f.end.Before(from) && !f.begin.After(to) })
}

// alone: a process that takes an entity over waits for what the one before may have under way, until its timeout is over.
func (c *trial) alone(l *entityLine) {
	for i, call := range l.calls {
		for _, other := range l.calls[:i] {
			if other.process != call.process && other.over.After(call.begin) && call.begin.Before(other.begin.Add(agentTimeout)) {
				c.find(unordered, "%s was called at %s by %s while %s was at %s, since %s", call.id, clock(call.begin), call.process, other.process,
					other.id, clock(other.begin))
			}
		}
	}
}

// ordered: first calls follow the line, and a repeat never follows what is newer.
func (c *trial) ordered(l *entityLine) {
	var newest *state
	called := map[string]bool{}
	for _, call := range l.calls {
		s := c.events[call.id]
		if newest != nil && s.number < newest.number {
			c.behind(l, s, newest, call, called[call.id])
		}
		if newest == nil || s.number > newest.number {
			newest = s
		}
		called[call.id] = true
	}
}

// behind judges a call of an event after one of a newer event.
func (c *trial) behind(l *entityLine, s, newest *state, call *call, again bool) {
	switch {
	case c.restarted(newest.first(), call.begin), c.excused[s.id] != "": // its first record went, and another came
	case again && s.surelyBefore(newest):
		c.find(unordered, "%s was called again at %s, after %s", s.id, clock(call.begin), newest.id)
	case again:
	case s.surelyBefore(newest):
		c.find(unordered, "%s was called at %s for the first time after %s, and was there before it", s.id, clock(call.begin), newest.id)
	case s.source == timestamp && c.payload == schemas.Snapshot:
		c.find(stale, "%s was called at %s after %s", s.id, clock(call.begin), newest.id)
	case s.source != arrival && !call.late:
		c.find(stale, "%s was called at %s after %s, and is not marked late", s.id, clock(call.begin), newest.id)
	}
}

// gaps: what stands behind a gap runs once the gap is filled, or its wait is over.
func (c *trial) gaps(l *entityLine) {
	for _, s := range l.events {
		if s.source != sequence || len(s.calls) == 0 {
			continue
		}
		at := s.calls[0].begin
		for n := 1; n < s.number; n++ {
			k := l.at(n)
			if k != nil && (len(k.calls) > 0 && !k.calls[0].begin.After(at) || c.excused[k.id] != "" || len(k.calls) == 0 && c.mayEndUnrun(l, k)) {
				continue
			}
			switch by := c.deadline(l, n); {
			case c.policy.Then == gate.ThenPark:
				c.find(early, "%s was called at %s, and %d is missing: that parks", s.id, clock(at), n)
			case c.policy.Then == gate.ThenDeadLetter && !(k != nil && !k.accepted.IsZero()):
				if !c.behindDead(l, n, s, by) {
					c.find(early, "%s was called at %s, and %d is missing: that gives it up", s.id, clock(at), n)
				}
			case at.Before(by):
				c.find(early, "%s was called at %s, before %d, whose wait lasts until %s at least", s.id, clock(at), n, clock(by))
			case k != nil && !k.accepted.IsZero() && k.accepted.Before(by) && !c.restarted(k.first(), at):
				c.find(early, "%s was called at %s, before %d, which was there at %s, before its wait was over at %s", s.id, clock(at), n,
					clock(k.accepted), clock(by))
			}
		}
	}
}

// behindDead reports whether an event may have come only after what stood behind the gap at a place was given up, or behind
// another gap.
func (c *trial) behindDead(l *entityLine, number int, s *state, by time.Time) bool {
	for n := number + 1; n <= s.number; n++ {
		if k := l.at(n); k == nil || k.accepted.IsZero() || !k.accepted.Before(by) {
			return true
		}
	}
	return false
}

// prompt: where nothing failed, an event is called as soon as what is before it is done.
func (c *trial) prompt(l *entityLine) {
	if !c.good[l.entity] || l.events[0].source == sequence && c.policy.GapWait > 0 && c.holes(l) {
		return
	}
	var before *state
	for _, s := range l.events {
		if s.accepted.IsZero() || len(s.calls) == 0 {
			continue
		}
		ready := s.accepted
		if before != nil && before.done.After(ready) {
			ready = before.done
		}
		at := s.calls[0].begin
		if wait := at.Sub(ready); wait > promptly && !c.touchedAny(ready.Add(-recovery), at) {
			c.find(heldUp, "%s could run at %s and was called %s later", s.id, clock(ready), wait)
		}
		before = s
	}
}

const (
	promptly = 2 * time.Second
	recovery = time.Minute
)

func (c *trial) holes(l *entityLine) bool {
	for i, s := range l.events {
		if s.number != i+1 || s.accepted.IsZero() || i > 0 && !l.events[i-1].surelyBefore(s) {
			return true
		}
	}
	return false
}

func (c *trial) touchedAny(from, to time.Time) bool {
	return slices.ContainsFunc(c.facts, func(f fact) bool { return !f.end.Before(from) && !f.begin.After(to) })
}

var epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) // where a bubble's clock begins

func clock(t time.Time) string { return fmt.Sprintf("%.3fs", t.Sub(epoch).Seconds()) }
