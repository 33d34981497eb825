package destination

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/forebay-io/forebay/stream/sink"
)

// TestSetPolicy: who waits goes on as soon as the new policy lets it; a breaker that is open stays so, unless there is none any more.
func TestSetPolicy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, err := New(Config{Name: "acme/agent", Policy: Policy{Concurrency: 1, Breaker: Breaker{Failures: 1, Window: time.Minute, Wait: time.Hour, MaxWait: time.Hour}}})
		if err != nil {
			t.Fatal(err)
		}
		set := func(p Policy) {
			t.Helper()
			if err := d.SetPolicy(p); err != nil {
				t.Fatal(err)
			}
		}
		called := 0
		first, second := d.Join("acme", func() {}), d.Join("acme", func() { called++ })
		answer, permit := first.Take()
		if waits, _ := second.Take(); answer != Go || waits != Wait {
			t.Fatal("one slot for two")
		}
		breaker := Breaker{Failures: 1, Window: time.Minute, Wait: time.Hour, MaxWait: time.Hour}
		set(Policy{Concurrency: 2, Breaker: breaker})
		if called != 1 || !second.HasTurn() {
			t.Error("who waits for a slot is not called when there are two")
		}
		second.Pass()
		first.End(permit, &Outcome{Class: sink.ClassNetwork, Error: "away"})
		set(Policy{Concurrency: 3, Breaker: breaker})
		if s := d.Status(); s.Breaker != Open {
			t.Errorf("the breaker is %s by a policy that says the same of it", s.Breaker)
		}
		set(Policy{Concurrency: 3})
		if answer, _ := first.Take(); answer != Go {
			t.Error("without a breaker, the open one goes on to hold attempts back")
		}
		if err := d.SetPolicy(Policy{Concurrency: -1}); err == nil {
			t.Error("a wrong policy was taken")
		}
	})
}
