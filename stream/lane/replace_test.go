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

// TestReplace: an attempt under way ends with the sink and the policy that it began with, and what is replaced is free then; the next one, of the
// same lane, is made with the new.
func TestReplace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newShared(t, destination.Policy{Concurrency: 1})
		r := setup(t, sharing(d, &script{}))
		defer r.stop()
		r.begin(t)
		release := make(chan struct{})
		r.sink.become(func(ctx context.Context, _ sink.Action) (sink.Outcome, error) {
			<-release
			return failWith(sink.ClassBusy)(ctx, sink.Action{})
		})
		r.add("a", "b")
		synctest.Wait()
		next := &script{}
		unused, err := r.Replace(destName, DestinationConfig{Sink: next, Timeout: time.Hour, Retry: sink.RetryPolicy{Attempts: 9, Within: 240 * time.Hour, Min: time.Hour, Max: time.Hour}})
		if err != nil {
			t.Fatal(err)
		}
		if err := d.SetPolicy(destination.Policy{Concurrency: 2}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		same(t, "calls of the new one while the slot is taken by the one before", next.ids(), []string{"b#2"})
		select {
		case <-unused:
			t.Fatal("the sink before is free while an attempt uses it")
		default:
		}
		close(release)
		synctest.Wait()
		<-unused
		same(t, "what becomes of the attempt under way", r.mem.status(r.claim, 1), ledger.Failed)
		time.Sleep(30 * time.Minute) // by the retry of before
		synctest.Wait()
		same(t, "calls of the new one", next.ids(), []string{"b#2", "a#1"})
		same(t, "calls of the one before", r.sink.ids(), []string{"a#1"})
		if _, err := r.Replace(destName, DestinationConfig{}); err == nil {
			t.Error("a destination without a sink was taken")
		}
		if unused, err := r.Replace("acme/unknown", DestinationConfig{Sink: next}); err != nil {
			t.Error(err)
		} else {
			<-unused
		}
	})
}
