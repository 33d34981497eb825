package integration

import (
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/rig"
)

// issueLines returns n entities of a repository with their first states.
func issueLines(repository, n, states int) [][]delivery {
	lines := make([][]delivery, n)
	for i := range lines {
		for s := range states {
			lines[i] = append(lines[i], issue(repository, i+1, s+1))
		}
	}
	return lines
}

// TestFewFailingEntitiesHoldUpNobody has eight entities whose events always get 500, and that come first, so that nothing else
// says how the destination is. The 600 others need an eighth of what it can take.
func TestFewFailingEntitiesHoldUpNobody(t *testing.T) {
	eachBroker(t, func(t *testing.T, b rig.Broker) {
		const bad, good = 7, 8 // repositories
		r := deploy(t, b, options{latency: 100 * time.Millisecond})
		r.edit("agent: {type: http, url: \""+r.agent.URL+"/run\", timeout: 5s, retry: {attempts: 20,",
			"agent: {type: http, url: \""+r.agent.URL+"/run\", timeout: 5s, retry: {attempts: 1000,")
		r.sender.once = true
		fails := map[string]bool{}
		for _, line := range issueLines(bad, 8, 1) {
			fails[line[0].id] = true
		}
		r.agent.answer = func(c call) int {
			if fails[c.event] {
				return http.StatusInternalServerError
			}
			return http.StatusOK
		}
		r.serve("intake,stream")
		if err := r.sender.load(t.Context(), issueLines(bad, 8, 1), 8, 0); err != nil {
			t.Fatal(err)
		}
		if !rig.Until(30*time.Second, func() bool { return len(r.agent.snapshot()) >= 12 }) {
			t.Fatal("the failing entities were not tried")
		}
		if err := r.sender.load(t.Context(), issueLines(good, 600, 5), 20, 200*time.Millisecond); err != nil { // 100 a second
			t.Fatal(err)
		}
		r.agent.waitActed(t, 8+3000, 15*time.Second)
	})
}

// TestOneFailingEventPerEntityHoldsUpNobody has fifty entities whose third event gets 503 three times, all at about the same time.
func TestOneFailingEventPerEntityHoldsUpNobody(t *testing.T) {
	eachBroker(t, func(t *testing.T, b rig.Broker) {
		const entities, states = 50, 10
		r := deploy(t, b, options{latency: 20 * time.Millisecond})
		r.sender.once = true
		var mu sync.Mutex
		left := map[string]int{} // failures, by event
		for _, line := range issueLines(7, entities, states) {
			left[line[2].id] = 3
		}
		r.agent.answer = func(c call) int {
			mu.Lock()
			defer mu.Unlock()
			if left[c.event] > 0 {
				left[c.event]--
				return http.StatusServiceUnavailable
			}
			return http.StatusOK
		}
		p := r.serve("intake,stream")
		if err := r.sender.load(t.Context(), issueLines(7, entities, states), 16, 0); err != nil {
			t.Fatal(err)
		}
		r.agent.waitActed(t, entities*states, 90*time.Second)
		waitItems(t, r, p, entities*states, "--status", "done")
		judge(r.sender.acceptedByID(), r.agent.snapshot()).require(t)
	})
}

// TestOutageAndRestartCostNoRetries has a destination that is away for longer than within, with a restart in between: nothing is
// given up.
func TestOutageAndRestartCostNoRetries(t *testing.T) {
	t.Parallel()
	eachBroker(t, func(t *testing.T, b rig.Broker) {
		const entities = 20
		r := deploy(t, b, options{})
		r.edit("agent: {type: http, url: \""+r.agent.URL+"/run\", timeout: 5s, retry: {attempts: 20, within: 10m, min: 50ms, max: 500ms}",
			"agent: {type: http, url: \""+r.agent.URL+"/run\", timeout: 5s, retry: {attempts: 7, within: 60s, min: 500ms, max: 5s}")
		var away atomic.Bool
		r.agent.answer = func(call) int {
			if away.Load() {
				return http.StatusServiceUnavailable
			}
			return http.StatusOK
		}
		away.Store(true)
		p := r.serve("intake,stream")
		began := time.Now()
		if err := r.sender.load(t.Context(), issueLines(7, entities, 2), 4, 0); err != nil {
			t.Fatal(err)
		}
		until := func(d time.Duration) {
			select {
			case <-time.After(time.Until(began.Add(d))):
			case <-p.gone:
				t.Fatal("the process has ended")
			}
		}
		until(75 * time.Second) // the ledger has since when the breaker is open after a minute
		p.stop()
		p = r.serve("intake,stream")
		until(110 * time.Second)
		if dead := r.inbox(p, "--status", "dead_letter"); len(dead) > 0 {
			t.Errorf("%d actions were given up, for example %+v", len(dead), dead[0])
		}
		away.Store(false)
		r.agent.waitActed(t, 2*entities, time.Minute) // the breaker may open for 30 s
		waitItems(t, r, p, 2*entities, "--status", "done")
		judge(r.sender.acceptedByID(), r.agent.snapshot()).require(t)
	})
}

// TestSlowDestinationsLeaveRoom has five destinations of one subscription that hang, each with all attempts that it may have at once:
// the one that answers goes on.
func TestSlowDestinationsLeaveRoom(t *testing.T) {
	eachBroker(t, func(t *testing.T, b rig.Broker) {
		const slow, each = 5, 64 // the default concurrency
		r := deploy(t, b, options{})
		destinations, actions := "", "actions: [{name: fast, to: agent}"
		for i := range slow {
			destinations += fmt.Sprintf("      slow-%d: {type: http, url: %q, timeout: 5m, allow_networks: [127.0.0.0/8]}\n", i, fmt.Sprintf("%s/slow/%d", r.agent.URL, i))
			actions += fmt.Sprintf(", {name: slow-%d, to: slow-%d}", i, i)
		}
		r.edit("    destinations:\n", "    destinations:\n"+destinations)
		r.edit("actions: [{name: run, to: agent, on_dead: park}", actions)
		var from, hanging atomic.Int64 // destinations hang from this one on
		release := make(chan struct{}) // closed here
		r.agent.answer = func(c call) int {
			var n int64
			if _, err := fmt.Sscanf(c.path, "/slow/%d", &n); err == nil && n >= from.Load() {
				hanging.Add(1)
				<-release
			}
			return http.StatusOK
		}
		r.serve("intake,stream")
		defer close(release)
		for i := slow - 1; i >= 0; i-- {
			from.Store(int64(i))
			if err := r.sender.load(t.Context(), issueLines(10+i, each, 1), 8, 0); err != nil {
				t.Fatal(err)
			}
			want := int64((slow - i) * each)
			if !rig.Until(30*time.Second, func() bool { return hanging.Load() == want }) {
				t.Fatalf("%d attempts hang, want %d: there is no room for more", hanging.Load(), want)
			}
		}
		last := issue(99, 1, 1)
		if err := r.sender.deliver(t.Context(), last); err != nil {
			t.Fatal(err)
		}
		if !rig.Until(10*time.Second, func() bool { return r.agent.seen(last.id) == 1 }) {
			t.Error("the destination that answers was not called")
		}
	})
}
