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
	unordered []string // an older event of the entity after a newer one
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
		if _, again := v.first[c.key]; again {
			v.repeated = append(v.repeated, c)
		} else {
			v.first[c.key] = c
		}
		if d.number < newest[c.entity] {
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

// require fails the test on anything lost, unknown, under two keys or out of order.
func (v verdict) require(t *testing.T) {
	t.Helper()
	for what, ids := range map[string][]string{
		"accepted but never acted on": v.lost, "acted on but never accepted": v.unknown,
		"under more than one key": v.rekeyed, "out of order": v.unordered,
	} {
		if len(ids) > 0 {
			t.Errorf("%d events %s, for example %s", len(ids), what, ids[0])
		}
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

// near reports whether at lies at most slack before, or anywhere after, one of the faults and before its repeat.
func near(at time.Time, faults []time.Time, slack time.Duration) bool {
	for _, f := range faults {
		if d := f.Sub(at); d <= slack && d >= -slack {
			return true
		}
	}
	return false
}
