package integration

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/rig"
)

// TestGuardsOverAKill: two processes act under one budget and one breaker of loops. One of them is killed with what it has taken ahead: never does the
// agent get more calls than the budget has runs, what is left of it is used, and once there is more, all goes on. The breaker counts on where the
// dead have counted.
func TestGuardsOverAKill(t *testing.T) {
	t.Parallel()
	const limit, entities, each, wasted = 256, 80, 5, 16
	r := deploy(t, rig.Fake(t), options{latency: 20 * time.Millisecond})
	r.edit("actions: [{name: run, to: shop}]",
		fmt.Sprintf("actions: [{name: run, to: shop}]\n        budget: {runs: {limit: %d, per: 7d}, on_limit: hold}", limit))
	r.edit("actions: [{name: run, to: agent, on_dead: park}]", "actions: [{name: run, to: agent}]\n        loop: {runs: {limit: 30, per: 7d}}")
	db := connect(t, r.dbURL)
	r.serve("intake")
	doomed, other := r.serve("stream"), r.serve("stream")
	calls := func(of string) (n int) {
		for _, c := range r.agent.snapshot() {
			if strings.HasPrefix(c.entity, of) {
				n++
			}
		}
		return n
	}
	said := 0
	comments := func(n int) {
		for range n {
			said++
			body := fmt.Appendf(nil, `{"action":"created","repository":{"id":9},"issue":{"number":4},`+
				`"comment":{"id":%d,"updated_at":"2026-11-29T10:00:00Z","body":"thanks"},"sender":{"id":6,"login":"reviewer","type":"Bot"}}`, said)
			r.deliver(delivery{source: "github", id: bodyID(body), entity: "9/4", number: said, event: "issue_comment", body: body})
		}
	}
	comments(20)
	until(t, "twenty comments are acted on", func() bool { return calls("9/4") == 20 })

	var sending sync.WaitGroup
	for part := range 8 {
		sending.Go(func() {
			for rev := 1; rev <= each; rev++ {
				for e := part; e < entities; e += 8 {
					if err := r.sender.deliver(t.Context(), order(fmt.Sprintf("o%03d", e), rev)); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	until(t, "both processes act", func() bool {
		return calls("o") > limit/4 && count(t, db, `SELECT count(DISTINCT presence) FROM forebay.members WHERE NOT judged`) == 2
	})
	doomed.kill()
	sending.Wait()
	// Every entity has come to its end, or its head waits for the budget.
	stands := func() bool {
		waits := count(t, db, `SELECT count(*) FROM forebay.actions WHERE status = 'waiting_budget'`)
		over := map[string]map[string]bool{}
		for _, c := range r.agent.snapshot() {
			if c.status == 200 && strings.HasPrefix(c.entity, "o") {
				if over[c.entity] == nil {
					over[c.entity] = map[string]bool{}
				}
				over[c.entity][c.event] = true
			}
		}
		ended := 0
		for _, events := range over {
			if len(events) == each {
				ended++
			}
		}
		return waits > 0 && waits+ended == entities
	}
	until(t, "the budget holds all that is left", stands)
	if n := calls("o"); n > limit || n < limit-wasted {
		t.Errorf("%d calls under a budget of %d runs, of which a kill may waste %d", n, limit, wasted)
	}

	other.kill()
	last := r.serve("stream")
	until(t, "the budget holds in the next process, too", stands)
	if n := calls("o"); n > limit {
		t.Errorf("%d calls under a budget of %d runs", n, limit)
	}
	comments(15)
	until(t, "the breaker parks the entity", func() bool {
		return count(t, db, `SELECT count(*) FROM forebay.actions WHERE status = 'dead_letter' AND class = 'loop'`) == 1
	})
	if n := calls("9/4"); n != 30 {
		t.Errorf("%d of 35 comments of a program were acted on, want 30", n)
	}

	r.edit(fmt.Sprintf("limit: %d,", limit), "limit: 10000,")
	until(t, "all goes on where there is more", func() bool {
		var done []string
		for _, c := range r.agent.snapshot() {
			if c.status == 200 && strings.HasPrefix(c.entity, "o") {
				done = append(done, c.event)
			}
		}
		slices.Sort(done)
		return len(slices.Compact(done)) == entities*each
	})
	last.stop()
}
