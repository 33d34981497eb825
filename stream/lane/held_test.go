package lane

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/forebay-io/forebay/stream/destination"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/policy"
	"github.com/forebay-io/forebay/stream/sink"
)

// TestWithinStandsStillWhileHeld: a retry that a guard holds for three days, whatever it says and whether its head stays in memory or another
// owner takes over, has all its attempts, and after them no more than within.
func TestWithinStandsStillWhileHeld(t *testing.T) {
	holds := policy.Verdict{Status: ledger.WaitingBudget, Reason: policy.Budget, Text: "used up", Again: time.Hour}
	for name, c := range map[string]struct {
		says     policy.Verdict
		err      error
		handOver bool
	}{
		"a budget":             {says: holds},
		"an approval":          {says: waitsForApproval},
		"a guard that fails":   {err: errors.New("the ledger is away")},
		"and another owner":    {says: holds, handOver: true},
		"by nobody, as it was": {},
	} {
		t.Run(name, func(t *testing.T) {
			d := &desk{}
			change := guardedBy(d)
			in(t, change, func(t *testing.T, r *rig) {
				r.sink.do = failWith(sink.ClassBusy)
				r.add("a")
				synctest.Wait()
				same(t, "calls", len(r.sink.ids()), 1)
				d.say("a", c.says, c.err)
				held := c.says.Status != "" || c.err != nil
				if !held { // it is tried for all of within
					time.Sleep(72 * time.Hour)
					same(t, "calls", len(r.sink.ids()), 7)
					same(t, "in the end", r.mem.status(r.claim, 1), ledger.Dead)
					return
				}
				time.Sleep(72 * time.Hour)
				same(t, "calls while it is held", len(r.sink.ids()), 1)
				if c.handOver {
					r.handOver(t, change)
					time.Sleep(12 * time.Hour)
				}
				d.say("a", policy.Verdict{}, nil)
				time.Sleep(2 * time.Hour)
				same(t, "tried again", r.mem.status(r.claim, 1), ledger.Failed)
				time.Sleep(24 * time.Hour)
				same(t, "calls", len(r.sink.ids()), 7)
				same(t, "in the end", r.mem.status(r.claim, 1), ledger.Dead)
			})
		})
	}
}

// TestWithinStandsStillWithoutRate: the time in which a destination's rate is used up counts as little.
func TestWithinStandsStillWithoutRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newShared(t, destination.Policy{Concurrency: 1, Rate: destination.Rate{Limit: 1, Per: 30 * time.Hour, Burst: 1, OnLimit: destination.Queue}})
		r := setup(t, sharing(d, &script{}))
		defer r.stop()
		r.begin(t)
		r.sink.do = func(ctx context.Context, a sink.Action) (sink.Outcome, error) {
			if a.Attempt < 3 {
				return failWith(sink.ClassBusy)(ctx, a)
			}
			return sink.Outcome{}, nil
		}
		r.add("a")
		time.Sleep(100 * time.Hour)
		same(t, "calls", len(r.sink.ids()), 3)
		same(t, "in the end", r.mem.status(r.claim, 1), ledger.Done)
	})
}
