package lane

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/forebay-io/forebay/stream/destination"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/sink"
)

// TestActionsFollowTheirDestination: actions that were made when their destination had another name go to it under its present one, within
// the same bounds as those of now: one that teams share since, and one that the subscription does not name any more.
func TestActionsFollowTheirDestination(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		elsewhere := &script{}
		r := setup(t, func(c *Config) {
			to := c.Destinations[destName]
			d, err := destination.New(destination.Config{Name: "agent", Policy: destination.Policy{Concurrency: 8, Rate: destination.Rate{Limit: 1, Per: time.Second, Burst: 1, OnLimit: destination.Queue}}})
			if err != nil {
				t.Fatal(err)
			}
			to.Shared = d
			c.Destinations = map[string]DestinationConfig{"agent": to}
			c.Find = func(name string) (string, DestinationConfig, bool) {
				switch strings.TrimPrefix(name, "acme/") {
				case "agent":
					return "agent", to, true
				case "pagers":
					return "pagers", DestinationConfig{Sink: elsewhere}, true
				}
				return "", DestinationConfig{}, false
			}
		})
		defer r.stop()
		var names []string
		r.sink.do = func(_ context.Context, a sink.Action) (sink.Outcome, error) {
			names = append(names, a.Destination)
			return sink.Outcome{}, nil
		}
		for _, entity := range []string{"a", "b"} {
			r.make(entity, nil) // for acme/agent
		}
		r.make("c", func(a *ledger.Action) { a.Destination = "acme/pagers" })
		r.make("d", func(a *ledger.Action) { a.Destination = "pagers" })
		r.begin(t)
		e := r.make("e", func(a *ledger.Action) { a.Destination = "agent" })
		r.Add(r.claim, []Item{e})
		synctest.Wait()
		same(t, "called at once", names, []string{"agent"})
		same(t, "waiting", r.Waiting()["agent"].Actions, 2)
		time.Sleep(3 * time.Second)
		synctest.Wait()
		same(t, "called", names, []string{"agent", "agent", "agent"})
		if apart := r.sink.at[2].Sub(r.sink.at[0]); apart < 2*time.Second {
			t.Errorf("three calls in %s, at one a second", apart)
		}
		same(t, "elsewhere", len(elsewhere.calls), 2)
		for seq := range int64(5) {
			if res := r.mem.resultsOf(seq + 1); len(res) != 1 || res[0].Status != ledger.Done {
				t.Errorf("action %d: %+v", seq+1, res)
			}
		}
	})
}

// TestEntitiesOfTeamsAreNotOne: whose attempts fail is told by source and entity, since teams that share a destination call theirs alike.
func TestEntitiesOfTeamsAreNotOne(t *testing.T) {
	for sources, want := range map[int]destination.State{2: destination.StateRunning, 3: destination.StateOpen} {
		synctest.Test(t, func(t *testing.T) {
			d := newShared(t, destination.Policy{Concurrency: 8, Breaker: destination.Breaker{Failures: 3, Window: time.Hour, Wait: time.Hour, MaxWait: time.Hour}})
			r := setup(t, sharing(d, &script{}))
			defer r.stop()
			r.sink.do = failWith(sink.ClassBusy)
			for i := range sources {
				r.claim = claimOf(int32(i + 1))
				r.begin(t)
				r.Add(r.claim, []Item{r.make("o-1", func(a *ledger.Action) { a.Source = fmt.Sprintf("/team-%d/orders", i) })})
			}
			time.Sleep(10 * time.Minute)
			same(t, "state", d.Status().State, want)
		})
	}
}
