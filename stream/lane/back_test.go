package lane

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/forebay-io/forebay/stream/destination"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/sink"
)

// waits has retries of a day with hours between them, by the longest chance.
func waits(c *Config) {
	d := c.Destinations[destName]
	d.Retry = sink.RetryPolicy{Attempts: 4, Within: 24 * time.Hour}
	c.Destinations[destName], c.Rand = d, func() float64 { return 1 }
}

// TestBack: once a destination is back, what waits for its next attempt there is tried at once, in the order of each entity, and what failed for another
// reason, or elsewhere, waits on.
func TestBack(t *testing.T) {
	in(t, waits, func(t *testing.T, r *rig) {
		r.sink.become(func(ctx context.Context, a sink.Action) (sink.Outcome, error) {
			if a.Event.Entity == "ours" {
				return failWith(sink.ClassBug)(ctx, a)
			}
			return failWith(sink.ClassNetwork)(ctx, a)
		})
		r.add("a", "b", "a", "ours")
		time.Sleep(time.Hour)
		before := len(r.sink.ids())
		r.sink.become(nil)
		same(t, "elsewhere", r.TryAgain("other", destination.AgainAway), false)
		time.Sleep(time.Second)
		same(t, "calls", len(r.sink.ids()), before)
		same(t, "here", r.TryAgain(destName, destination.AgainAway), true)
		time.Sleep(time.Second)
		same(t, "done", r.mem.count(r.claim, ledger.Done), 3)
		same(t, "the one of our own fault", r.mem.status(r.claim, 4), ledger.Failed)
		checkRepeats(t, r)
		r.TryAgain(destName, destination.AgainAll)
		time.Sleep(time.Second)
		same(t, "done, as an operator wants", r.mem.count(r.claim, ledger.Done), 4)
	})
}

// TestTooEarly: what fails although its destination is back has not used up an attempt, and is tried when it would have been; at most as many attempts as
// its policy allows are made beside those, but for what has surely not acted.
func TestTooEarly(t *testing.T) {
	for _, untouched := range []bool{false, true} {
		in(t, waits, func(t *testing.T, r *rig) {
			r.sink.become(func(context.Context, sink.Action) (sink.Outcome, error) {
				return sink.Outcome{}, &sink.AttemptError{Class: sink.ClassTimeout, Err: errors.New("scripted"), Untouched: untouched}
			})
			began := time.Now()
			r.add("a")
			time.Sleep(2 * time.Hour)
			same(t, "attempts", len(r.sink.ids()), 3)
			for range 10 {
				r.TryAgain(destName, destination.AgainAway)
				time.Sleep(time.Minute)
			}
			extra := 4
			if untouched {
				extra = 10
			}
			same(t, "attempts beside them", len(r.sink.ids()), 3+extra)
			time.Sleep(24 * time.Hour)
			at := r.sink.times()
			same(t, "all", len(at), 4+extra)
			same(t, "the last one at its time", at[len(at)-1].Sub(began) > 20*time.Hour, true)
			same(t, "dead then", r.mem.status(r.claim, 1), ledger.Dead)
			same(t, "not counted", r.mem.action(r.claim, 1).Spent, extra)
		})
	}
}

// TestProbe: one action that waits is tried, of those that were tried least the one that has waited longest.
func TestProbe(t *testing.T) {
	in(t, waits, func(t *testing.T, r *rig) {
		r.sink.become(failWith(sink.ClassBusy))
		r.add("a")
		time.Sleep(time.Second)
		r.add("b")
		time.Sleep(time.Hour)
		before := len(r.sink.ids())
		for range 3 {
			same(t, "one", r.TryAgain(destName, destination.AgainOne), true)
			time.Sleep(time.Minute)
		}
		same(t, "calls", r.sink.ids()[before:], []string{"a#1", "b#2", "a#1"})
	})
}

// TestBackWhatIsNotInMemory: what was spilled, and what a claim has not read yet, is tried at once, too.
func TestBackWhatIsNotInMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := setup(t, crowd)
		defer func() { r.stop() }()
		r.begin(t)
		var up atomic.Bool
		r.sink.do = badUntil(&up)
		r.many("bad", 50, nil)
		time.Sleep(3 * time.Hour)
		same(t, "some are spilled", r.spilledLanes() > 0, true)
		up.Store(true)
		r.TryAgain(destName, destination.AgainAway)
		time.Sleep(time.Minute)
		same(t, "done", r.mem.count(r.claim, ledger.Done), 100)
		checkRepeats(t, r)

		up.Store(false)
		r.many("bad", 50, nil)
		time.Sleep(3 * time.Hour)
		same(t, "closed", r.Close(t.Context(), r.claim), nil)
		r.stop()
		r.claimed(true)
		r.relaunch(t, crowd)
		r.begin(t)
		time.Sleep(time.Second)
		up.Store(true)
		r.TryAgain(destName, destination.AgainAway)
		time.Sleep(time.Minute)
		same(t, "done by the next owner", r.mem.count(r.claim, ledger.Done), 200)
		checkRepeats(t, r)
	})
}
