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
	c := newTrial(h)
	c.checkAuthentic()
	c.checkComplete()
	c.checkOnce()
	c.checkMembership()
	for _, l := range c.entities {
		c.checkOneAtATime(l)
		c.checkTakeover(l)
		c.checkOrder(l)
		c.checkGaps(l)
		c.checkPrompt(l)
	}
	return c.findings
}

// eventState is what the trial knows of one event.
type eventState struct {
	*delivered
	calls []*call
	done  time.Time // the first 2xx of the agent that went out; zero: none
}

func (s *eventState) first() time.Time { return s.sent[0] }

// surelyBefore reports whether s was in the log before o was even sent.
func (s *eventState) surelyBefore(o *eventState) bool {
	return !s.accepted.IsZero() && s.accepted.Before(o.first())
}

// maybeBefore reports whether s may be in the log before o.
func (s *eventState) maybeBefore(o *eventState) bool {
	return o.accepted.IsZero() || !s.first().After(o.accepted)
}

// lastHeard is until when the provider was at it.
func (s *eventState) lastHeard() time.Time {
	last := s.sent[len(s.sent)-1]
	if s.accepted.After(last) {
		return s.accepted
	}
	return last
}

// entityTrial is what is judged of one entity: its events by number, and the calls for them.
type entityTrial struct {
	entity string
	events []*eventState
	calls  []*call
}

// trial is a history in the order in which the rules ask for it, and what they have found.
type trial struct {
	history
	events   map[string]*eventState // authentic ones by id
	entities []*entityTrial
	findings []finding
}

func (c *trial) report(r rule, format string, args ...any) {
	c.findings = append(c.findings, finding{r, fmt.Sprintf(format, args...)})
}

func newTrial(h history) *trial {
	c := &trial{history: h, events: map[string]*eventState{}}
	lines := map[string]*entityTrial{}
	for _, t := range h.delivered {
		if t.forged {
			continue
		}
		s := &eventState{delivered: t}
		c.events[t.id] = s
		if lines[t.entity] == nil {
			lines[t.entity] = &entityTrial{entity: t.entity}
			c.entities = append(c.entities, lines[t.entity])
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
	slices.SortFunc(c.entities, func(a, b *entityTrial) int { return compare(a.entity, b.entity) })
	for _, l := range c.entities {
		slices.SortFunc(l.events, func(a, b *eventState) int { return a.number - b.number })
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

// checkAuthentic: nothing is accepted that the provider did not sign, and what is acted on is what it sent.
func (c *trial) checkAuthentic() {
	for _, t := range c.delivered {
		if t.forged && slices.ContainsFunc(t.statuses, func(s int) bool { return s/100 == 2 }) {
			c.report(forged, "%s was told %v", t.id, t.statuses)
		}
	}
	for _, call := range c.calls {
		switch s := c.events[call.id]; {
		case s == nil:
			c.report(forged, "the agent was called for %s, which nobody has signed", call.id)
		case s.sum != call.sum:
			c.report(forged, "the agent was called for %s with other bytes than were sent", call.id)
		case s.entity != call.entity:
			c.report(forged, "the agent was called for %s of entity %s", call.id, call.entity)
		case call.begin.Before(s.first()):
			c.report(forged, "the agent was called for %s before it was sent", call.id)
		}
	}
}

// checkComplete: what was told 2xx is acted on, unless a rule of the subscription's says otherwise, or its record was deleted and that was
// reported.
func (c *trial) checkComplete() {
	for _, l := range c.entities {
		for _, s := range l.events {
			if s.accepted.IsZero() || !s.done.IsZero() || c.forgiven[s.id] {
				continue
			}
			if !c.mayEndUnrun(l, s) {
				c.report(lost, "%s was told 2xx at %s and never done; %d calls", s.id, clock(s.accepted), len(s.calls))
			}
		}
	}
}

// mayEndUnrun reports whether the subscription's own rules let an event end without a call.
func (c *trial) mayEndUnrun(l *entityTrial, s *eventState) bool {
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
		if s.source == timestamp && snapshot && (c.excused[s.id] != "" || newer.maybeBefore(s)) {
			return true // stale, or its first record went, and another came behind the newer one
		}
		if s.source == sequence && snapshot && !c.policy.LateSnapshots && (c.excused[s.id] != "" || !s.accepted.Before(c.deadline(l, s.number))) {
			return true // stale: its place was skipped
		}
	}
	if s.source != sequence {
		return false
	}
	for _, k := range c.missingBefore(l, s) {
		switch c.policy.Then {
		case gate.ThenPark:
			if k == nil || k.accepted.IsZero() || c.mayBeUnknown(k, s) {
				return true
			}
		case gate.ThenDeadLetter:
			return true
		}
	}
	return false
}

// missingBefore returns the events with lower numbers that were not accepted before a wait for them may have ended; nil for one that was
// never sent.
func (c *trial) missingBefore(l *entityTrial, s *eventState) (out []*eventState) {
	for n := 1; n < s.number; n++ {
		k := l.byNumber(n)
		if k == nil || k.accepted.IsZero() || !k.accepted.Before(c.deadline(l, n)) || c.mayBeUnknown(k, s) {
			out = append(out, k)
		}
	}
	return out
}

// mayBeUnknown reports whether event k may be unknown to the version line of s although it was accepted: its record was removed, and that
// was reported, or the line has begun again, or k is in the topic as it was created again, which stands still until that is accepted.
func (c *trial) mayBeUnknown(k, s *eventState) bool {
	return c.excused[k.id] != "" && k.done.IsZero() || c.topicRecreated(k.first(), s.lastHeard()) || c.topicRecreated(s.first(), k.lastHeard())
}

func (l *entityTrial) byNumber(number int) *eventState {
	i, ok := slices.BinarySearchFunc(l.events, number, func(s *eventState, n int) int { return s.number - n })
	if !ok {
		return nil
	}
	return l.events[i]
}

// deadline returns the earliest time at which the wait for a number may end: it begins at the earliest when an event with a higher number is
// first sent.
func (c *trial) deadline(l *entityTrial, number int) (by time.Time) {
	for _, s := range l.events {
		if s.number > number && (by.IsZero() || s.first().Before(by)) {
			by = s.first()
		}
	}
	return by.Truncate(time.Microsecond).Add(c.policy.GapWait) // the database counts microseconds
}

// checkOnce: one event has one key, one key one event, and what was answered comes again only where something failed.
func (c *trial) checkOnce() {
	keyOf, eventOf, answered := map[string]string{}, map[string]string{}, map[string]*call{}
	for _, call := range c.calls {
		if k, ok := keyOf[call.id]; ok && k != call.key {
			c.report(twice, "%s has the keys %s and %s", call.id, k, call.key)
		}
		if e, ok := eventOf[call.key]; ok && e != call.id {
			c.report(twice, "key %s is of %s and of %s", call.key, e, call.id)
		}
		keyOf[call.id], eventOf[call.key] = call.key, call.id
		if before := answered[call.key]; before != nil && before.end.Before(call.begin) && !c.mayBeUnrecorded(before) {
			c.report(twice, "%s was answered %d at %s by %s's call and called again at %s by %s, though nothing had failed", call.id,
				before.status, clock(before.end), before.process, clock(call.begin), call.process)
		}
		if call.status/100 == 2 {
			answered[call.key] = call
		}
	}
}

// noBrokers is what a process is cut off by.
const noBrokers = "a stream process hears nothing of the brokers"

// noAgent holds up what a process calls: the agent has it when the fault is mended.
const noAgent = "a stream process hears nothing of the agent"

// heldUp reports whether a call may have begun before a moment, though the agent has had it later.
func (c *trial) heldUp(call *call, before time.Time) bool {
	return slices.ContainsFunc(c.facts, func(f fact) bool {
		return f.what == noAgent && f.node == call.process && f.begin.Before(before) && !call.begin.After(f.end.Add(time.Second))
	})
}

// checkMembership: a process that has not heard of the brokers for the session timeout makes no calls, nor does one that others may have taken
// out of the group.
func (c *trial) checkMembership() {
	for _, call := range c.calls {
		for _, f := range c.facts {
			if f.what == noBrokers && f.node == call.process && call.begin.After(f.begin.Add(sessionTimeout)) && call.begin.Before(f.end) {
				c.report(zombie, "%s was called at %s by %s, which has heard of no broker since %s", call.id, clock(call.begin), call.process, clock(f.begin))
			}
			if f.what == takenForGone && f.node == call.process && call.begin.After(f.begin.Add(time.Second)) && call.begin.Before(f.end) && !c.heldUp(call, f.begin.Add(time.Second)) {
				c.report(zombie, "%s was called at %s by %s, which may be taken for gone since %s", call.id, clock(call.begin), call.process, clock(f.begin))
			}
		}
	}
}

// recordWait is the longest pause of the lanes between two tries to record a result.
const recordWait = 5 * time.Second

// recordLinger is how long the lanes keep an answer for those of other attempts that are under way: lane.Config.Linger.
const recordLinger = time.Millisecond

// mayBeUnrecorded reports whether a fault may have kept an answer out of the ledger: one of its process that was there between the
// call's begin and the time when its answer is recorded. That is at most recordLinger after the answer comes or, if the ledger is away
// then, soon after it is back.
func (c *trial) mayBeUnrecorded(call *call) bool {
	recorded := call.end.Add(recordLinger)
	by := recorded
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
	return by.After(recorded) || slices.ContainsFunc(c.facts, func(f fact) bool {
		return (f.node == "" || f.node == call.process) && f.what != ledgerAway && f.what != moved && !f.end.Before(call.begin) && !f.begin.After(by)
	})
}

// ledgerAway is a fault that delays a record. A claim may be given up meanwhile, with the answers that wait for it.
const ledgerAway = "the ledger is away"

// checkOneAtATime: the head of an entity's lane is done before the next one is called.
func (c *trial) checkOneAtATime(l *entityTrial) {
	begun := map[string]*eventState{}
	for _, call := range l.calls {
		s := c.events[call.id]
		for id, other := range begun {
			if gone := other.done.IsZero() && c.excused[id] != ""; !gone && id != call.id && (other.done.IsZero() || other.done.After(call.begin)) {
				c.report(unordered, "%s was called at %s before %s was done", call.id, clock(call.begin), id)
			}
		}
		begun[call.id] = s
	}
}

// topicRecreated reports whether a topic was deleted and created again between two times: version lines begin again then.
func (c *trial) topicRecreated(from, to time.Time) bool {
	return slices.ContainsFunc(c.facts, func(f fact) bool { return f.what == recreated && !f.end.Before(from) && !f.begin.After(to) })
}

// checkTakeover: a process that takes an entity over makes no call while one of the process before it may still run, until its timeout.
func (c *trial) checkTakeover(l *entityTrial) {
	for i, call := range l.calls {
		for _, other := range l.calls[:i] {
			if other.process != call.process && other.over.After(call.begin) && call.begin.Before(other.begin.Add(agentTimeout)) {
				c.report(unordered, "%s was called at %s by %s while %s was at %s, since %s", call.id, clock(call.begin), call.process, other.process,
					other.id, clock(other.begin))
			}
		}
	}
}

// checkOrder: an entity's events are called for the first time in the order of their numbers, and none is called again after a newer one.
func (c *trial) checkOrder(l *entityTrial) {
	var newest *eventState
	called := map[string]bool{}
	for _, call := range l.calls {
		s := c.events[call.id]
		if newest != nil && s.number < newest.number {
			c.checkCallAfterNewer(l, s, newest, call, called[call.id])
		}
		if newest == nil || s.number > newest.number {
			newest = s
		}
		called[call.id] = true
	}
}

// checkCallAfterNewer judges a call for an event after a call for a newer one.
func (c *trial) checkCallAfterNewer(l *entityTrial, s, newest *eventState, call *call, again bool) {
	switch {
	case c.topicRecreated(newest.first(), call.begin), c.excused[s.id] != "": // its first record went, and another came
	case again && s.surelyBefore(newest):
		c.report(unordered, "%s was called again at %s, after %s", s.id, clock(call.begin), newest.id)
	case again:
	case s.surelyBefore(newest):
		c.report(unordered, "%s was called at %s for the first time after %s, and was there before it", s.id, clock(call.begin), newest.id)
	case c.payload == schemas.Snapshot && (s.source == timestamp || s.source == sequence && !c.policy.LateSnapshots):
		c.report(stale, "%s was called at %s after %s", s.id, clock(call.begin), newest.id)
	case s.source != arrival && !call.late:
		c.report(stale, "%s was called at %s after %s, and is not marked late", s.id, clock(call.begin), newest.id)
	}
}

// checkGaps: an event behind a gap runs once the gap is filled, or its wait is over.
func (c *trial) checkGaps(l *entityTrial) {
	for _, s := range l.events {
		if s.source != sequence || len(s.calls) == 0 {
			continue
		}
		at := s.calls[0].begin
		for n := 1; n < s.number; n++ {
			k := l.byNumber(n)
			if k != nil && (len(k.calls) > 0 && !k.calls[0].begin.After(at) || c.excused[k.id] != "" || len(k.calls) == 0 && c.mayEndUnrun(l, k)) {
				continue
			}
			switch by := c.deadline(l, n); {
			case c.policy.Then == gate.ThenPark:
				c.report(early, "%s was called at %s, and %d is missing: that parks", s.id, clock(at), n)
			case c.policy.Then == gate.ThenDeadLetter && !(k != nil && !k.accepted.IsZero()):
				if !c.mayFollowGivenUp(l, n, s, by) {
					c.report(early, "%s was called at %s, and %d is missing: that gives it up", s.id, clock(at), n)
				}
			case at.Before(by):
				c.report(early, "%s was called at %s, before %d, whose wait lasts until %s at least", s.id, clock(at), n, clock(by))
			case k != nil && !k.accepted.IsZero() && k.accepted.Before(by) && !c.topicRecreated(k.first(), at):
				c.report(early, "%s was called at %s, before %d, which was there at %s, before its wait was over at %s", s.id, clock(at), n,
					clock(k.accepted), clock(by))
			}
		}
	}
}

// mayFollowGivenUp reports whether an event may run although a number is missing: it came only after the events behind that gap were given
// up, or stood behind another gap.
func (c *trial) mayFollowGivenUp(l *entityTrial, number int, s *eventState, by time.Time) bool {
	for n := number + 1; n <= s.number; n++ {
		if k := l.byNumber(n); k == nil || k.accepted.IsZero() || !k.accepted.Before(by) {
			return true
		}
	}
	return false
}

// checkPrompt: where nothing failed, an event is called as soon as what is before it is done.
func (c *trial) checkPrompt(l *entityTrial) {
	if !c.good[l.entity] || l.events[0].source == sequence && c.policy.GapWait > 0 && c.hasHoles(l) {
		return
	}
	var before *eventState
	for _, s := range l.events {
		if s.accepted.IsZero() || len(s.calls) == 0 {
			continue
		}
		ready := s.accepted
		if before != nil && before.done.After(ready) {
			ready = before.done
		}
		at := s.calls[0].begin
		if wait := at.Sub(ready); wait > promptly && !c.anyFault(ready.Add(-recovery), at) {
			c.report(heldUp, "%s could run at %s and was called %s later", s.id, clock(ready), wait)
		}
		before = s
	}
}

const (
	promptly = 2 * time.Second
	recovery = time.Minute
)

func (c *trial) hasHoles(l *entityTrial) bool {
	for i, s := range l.events {
		if s.number != i+1 || s.accepted.IsZero() || i > 0 && !l.events[i-1].surelyBefore(s) {
			return true
		}
	}
	return false
}

func (c *trial) anyFault(from, to time.Time) bool {
	return slices.ContainsFunc(c.facts, func(f fact) bool { return !f.end.Before(from) && !f.begin.After(to) })
}

var epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) // where a bubble's clock begins

func clock(t time.Time) string { return fmt.Sprintf("%.3fs", t.Sub(epoch).Seconds()) }
