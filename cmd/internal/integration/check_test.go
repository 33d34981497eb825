package integration

import (
	"testing"
	"time"
)

// verdict is what the checker concludes from what the provider was told and what the agent saw, and from nothing else.
type verdict struct {
	lost      []string // accepted, never acted on
	unknown   []string // acted on, never accepted
	rekeyed   []string // one event under two keys, or one key for two events
	unordered []string // an older event of the entity for the first time after a newer one
	overtaken []string // the same for a call that had been made before
	repeated  []call   // calls after the first of their key
	first     map[string]call
}

// judge reads the calls of one subscription.
func judge(told map[string]delivery, calls []call) verdict {
	v := verdict{first: map[string]call{}}
	keyOf, eventOf, newest := map[string]string{}, map[string]string{}, map[string]int{}
	answered := map[string]bool{}
	for _, c := range calls {
		d, ok := told[c.event]
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
		_, again := v.first[c.key]
		if again {
			v.repeated = append(v.repeated, c)
		} else {
			v.first[c.key] = c
		}
		switch behind := d.number < newest[c.entity]; {
		case behind && again:
			v.overtaken = append(v.overtaken, c.event)
		case behind:
			v.unordered = append(v.unordered, c.event)
		}
		newest[c.entity] = max(newest[c.entity], d.number)
	}
	for id := range told {
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

// requireNoRepeats fails on any second call of a key: nothing was killed, so nothing may repeat.
func (v verdict) requireNoRepeats(t *testing.T) {
	t.Helper()
	if len(v.repeated) > 0 {
		t.Errorf("%d calls were repeated although nothing failed, for example %+v", len(v.repeated), v.repeated[0])
	}
}

// requireRepeatsInFlight fails on a repeat whose first call had been answered longer than slack before the fault:
// only calls in flight, or answered but not yet committed, may run again.
func (v verdict) requireRepeatsInFlight(t *testing.T, faults []time.Time, slack time.Duration) {
	t.Helper()
	for _, c := range v.repeated {
		first := v.first[c.key]
		if !first.end.IsZero() && !near(first.end, faults, slack) {
			t.Errorf("%s of %s was answered %s and called again %s: not in flight at any fault", c.event, c.entity, first.end, c.begin)
		}
	}
}

// near reports whether at lies within slack of one of the faults.
func near(at time.Time, faults []time.Time, slack time.Duration) bool {
	for _, f := range faults {
		if d := f.Sub(at); d <= slack && d >= -slack {
			return true
		}
	}
	return false
}
