package lane

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/sink"
)

// TestForgottenActionsAreCounted: what is open in the ledger and in no lane is counted, once two looks have found it, for as long as it is so.
// What is only on its way, in memory, parked or left in the ledger by its lane, is not.
func TestForgottenActionsAreCounted(t *testing.T) {
	in(t, func(c *Config) { c.LaneWindow = 2 }, func(t *testing.T, r *rig) {
		r.sink.do = func(ctx context.Context, a sink.Action) (sink.Outcome, error) {
			if a.Event.Entity == "dead" { // parked
				return failWith(sink.ClassRejected)(ctx, a)
			}
			<-ctx.Done() // the attempt's timeout, again and again
			return sink.Outcome{}, &sink.AttemptError{Class: sink.ClassTimeout, Err: ctx.Err()}
		}
		for range 100 {
			r.add("full", "dead")
		}
		counted := func(want int) {
			t.Helper()
			time.Sleep(10 * auditEvery) // some pages
			synctest.Wait()
			r.s.mu.Lock()
			defer r.s.mu.Unlock()
			same(t, "forgotten", r.s.q.forgotten(), float64(want))
			r.s.mu.Unlock()
			said := r.Forgotten()
			r.s.mu.Lock()
			same(t, "partitions with forgotten actions", len(said), min(want, 1))
			same(t, "said of the partition", said[r.claim.Partition], want)
		}
		counted(0)
		lost := []Item{r.make("lost", nil), r.make("lost", nil)}
		r.s.mu.Lock()
		p := r.s.q.partitions[r.claim]
		p.loadedTo = lost[1].LaneSeq // a lane that lost what it was given
		r.s.mu.Unlock()
		counted(2)
		r.mem.mu.Lock()
		for _, i := range lost {
			r.mem.rows[r.claim.ID][i.LaneSeq].Status = ledger.Done
		}
		r.mem.mu.Unlock()
		counted(0)
	})
}
