package integration

import (
	"testing"
)

// verdict is what the checker concludes from what the provider was told and what the agent saw, and from nothing else.
type verdict struct {
	accepted  int
	lost      []string // accepted, never acted on
	unknown   []string // acted on, never accepted
	rekeyed   []string // one event under two keys, or one key for two events
	unordered []string // an older event of the entity for the first time after a newer one
	overtaken []string // the same for a call that had been made before
	repeated  []repeat // calls after the first of their key, in the order in which they began
}

// repeat is a call of a key that had been called before.
type repeat struct {
	call
	before call // the one before it
}

// judge reads the calls of one subscription.
func judge(accepted map[string]delivery, calls []call) verdict {
	v, last := verdict{accepted: len(accepted)}, map[string]call{} // by key
	keyOf, eventOf, newest := map[string]string{}, map[string]string{}, map[string]int{}
	answered := map[string]bool{}
	for _, c := range calls {
		d, ok := accepted[c.event]
		if !ok {
			v.unknown = append(v.unknown, c.event)
			continue
		}
		if !c.end.IsZero() {
			answered[c.event] = true
		}
		if k, ok := keyOf[c.event]; ok && k != c.key {
			v.rekeyed = append(v.rekeyed, c.event)
		}
		if e, ok := eventOf[c.key]; ok && e != c.event {
			v.rekeyed = append(v.rekeyed, c.event)
		}
		keyOf[c.event], eventOf[c.key] = c.key, c.event
		before, again := last[c.key]
		if again {
			v.repeated = append(v.repeated, repeat{c, before})
		}
		last[c.key] = c
		switch behind := d.number < newest[c.entity]; {
		case behind && again:
			v.overtaken = append(v.overtaken, c.event)
		case behind:
			v.unordered = append(v.unordered, c.event)
		}
		newest[c.entity] = max(newest[c.entity], d.number)
	}
	for id := range accepted {
		if !answered[id] {
			v.lost = append(v.lost, id)
		}
	}
	return v
}

// require fails the test on anything lost, unknown, under two keys or out of order, repeated calls included: the head
// of a lane is committed before the next one starts.
func (v verdict) require(t *testing.T) {
	t.Helper()
	v.requireComplete(t)
	v.requireOrderOfFirstCalls(t)
	report(t, "again after a newer one", v.overtaken)
}

func (v verdict) requireComplete(t *testing.T) {
	t.Helper()
	if v.accepted == 0 {
		t.Error("nothing was accepted")
	}
	report(t, "accepted but never acted on", v.lost)
	report(t, "acted on but never accepted", v.unknown)
	report(t, "under more than one key", v.rekeyed)
}

// requireOrderOfFirstCalls is order as a destination sees it that keeps to the keys.
func (v verdict) requireOrderOfFirstCalls(t *testing.T) {
	t.Helper()
	report(t, "out of order", v.unordered)
}

func report(t *testing.T, what string, events []string) {
	t.Helper()
	if len(events) > 0 {
		t.Errorf("%d events %s, for example %s", len(events), what, events[0])
	}
}

// requireNoRepeats fails on any second call of a key: no process that makes calls was killed, so nothing may repeat.
func (v verdict) requireNoRepeats(t *testing.T) {
	t.Helper()
	if len(v.repeated) > 0 {
		t.Errorf("%d calls were repeated although no process that makes them was killed, for example %+v", len(v.repeated), v.repeated[0])
	}
}

// requireOnce holds the agent's calls to what the provider was told: each event once and in order.
func (r *deployment) requireOnce(t *testing.T) {
	t.Helper()
	v := judge(r.sender.acceptedByID(), r.agent.snapshot())
	v.require(t)
	v.requireNoRepeats(t)
}
