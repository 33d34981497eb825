package lane

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/forebay-io/forebay/stream/destination"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/sink"
)

// TestPausedSubscription: nothing is attempted while a subscription is paused, new heads and retries alike; what was under way ends and is
// recorded. Others at the same destination go on. Then all of it runs, in order, each at its first attempt.
func TestPausedSubscription(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newShared(t, destination.Policy{Concurrency: 1})
		r := setup(t, sharing(d, &script{}))
		defer r.stop()
		r.begin(t)
		release := make(chan struct{})
		r.sink.do = func(context.Context, sink.Action) (sink.Outcome, error) {
			<-release
			return sink.Outcome{Code: 200}, nil
		}
		r.add("a", "a", "b")
		synctest.Wait()
		r.SetPauses(Pauses{Since: time.Now()})
		close(release)
		time.Sleep(time.Hour)
		synctest.Wait()
		same(t, "calls", r.sink.ids(), []string{"a#1"})
		same(t, "what was under way", r.mem.status(r.claim, 1), ledger.Done)
		r.s.mu.Lock()
		same(t, "workers that wait", r.s.q.dispatch.sleeping, r.cfg.MaxInFlight)
		r.s.mu.Unlock()
		// The slot is free for another subscription at once, and its turn is not this one's to keep.
		other := d.Join("payments", func() {})
		answer, permit := other.Take()
		same(t, "another subscription's turn", answer, destination.Go)
		other.End(permit, nil)
		other.Leave()
		r.SetPauses(Pauses{})
		time.Sleep(time.Minute)
		synctest.Wait()
		same(t, "calls in the end", r.sink.ids(), []string{"a#1", "b#3", "a#2"})
		for i := int64(1); i <= 3; i++ {
			same(t, "attempts", r.mem.action(r.claim, i).Attempts, 1)
		}
	})
}

// TestPauseCountsForNoRetry: an action that has failed is retried after a pause that is longer than it may be retried for.
func TestPauseCountsForNoRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := setup(t, func(c *Config) {
			own := c.Destinations[destName]
			own.Retry = sink.RetryPolicy{Attempts: 3, Within: time.Hour, Min: time.Minute, Max: time.Minute}
			c.Destinations[destName] = own
		})
		defer r.stop()
		r.begin(t)
		r.sink.do = failWith(sink.ClassBusy)
		r.add("a")
		synctest.Wait()
		began := time.Now()
		r.SetPauses(Pauses{Since: began})
		time.Sleep(48 * time.Hour)
		same(t, "calls while paused", len(r.sink.ids()), 1)
		r.SetPauses(Pauses{Ended: []ledger.Span{{From: began, To: time.Now()}}})
		time.Sleep(time.Second)
		synctest.Wait()
		same(t, "calls", len(r.sink.ids()), 2)
		same(t, "what comes of the second failure", r.mem.status(r.claim, 1), ledger.Failed)
	})
}
