package integration

import (
	"fmt"
	"net/http"
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
// says how the destination is. The 150 others need an eighth of what it can take.
func TestFewFailingEntitiesHoldUpNobody(t *testing.T) {
	t.Parallel()
	const bad, good = 7, 8 // repositories
	r := deploy(t, rig.Fake(t), options{latency: 100 * time.Millisecond})
	r.edit("agent: {type: http, url: \""+r.agent.URL+"/run\", timeout: 5s, retry: {attempts: 20,",
		"agent: {type: http, url: \""+r.agent.URL+"/run\", timeout: 5s, retry: {attempts: 1000,")
	r.sender.once = true
	fails := map[string]bool{}
	for _, line := range issueLines(bad, 8, 1) {
		fails[line[0].id] = true
	}
	r.agent.answers(http.StatusInternalServerError, func(c call) bool { return fails[c.event] })
	r.serve("intake,stream")
	if err := r.sender.load(t.Context(), issueLines(bad, 8, 1), 8, 0); err != nil {
		t.Fatal(err)
	}
	until(t, "the failing entities were tried", func() bool { return len(r.agent.snapshot()) >= 12 })
	if err := r.sender.load(t.Context(), issueLines(good, 150, 5), 20, 200*time.Millisecond); err != nil { // 100 a second
		t.Fatal(err)
	}
	r.agent.waitActed(t, 8+750, time.Minute) // behind an open breaker they would take twelve
}

// TestOutageAndRestartCostNoRetries has a destination that is away for longer than within, with a restart in between: nothing is
// given up.
func TestOutageAndRestartCostNoRetries(t *testing.T) {
	t.Parallel()
	const entities = 10
	r := deploy(t, rig.Fake(t), options{})
	r.edit("agent: {type: http, url: \""+r.agent.URL+"/run\", timeout: 5s, retry: {attempts: 20, within: 10m, min: 50ms, max: 500ms}",
		"agent: {type: http, url: \""+r.agent.URL+"/run\", timeout: 5s, retry: {attempts: 7, within: 20s, min: 500ms, max: 5s}")
	var away atomic.Bool
	r.agent.answers(http.StatusServiceUnavailable, func(call) bool { return away.Load() })
	away.Store(true)
	p := r.serve("intake,stream")
	if err := r.sender.load(t.Context(), issueLines(7, entities, 2), 4, 0); err != nil {
		t.Fatal(err)
	}
	// It has since when the breaker is open after a minute.
	if !rig.Until(2*time.Minute, func() bool {
		return sqlAnswer(t, r.dbURL, `SELECT count(*) FROM forebay.destinations WHERE away_since IS NOT NULL`) == "1"
	}) {
		t.Fatal("the ledger does not have since when the breaker is open")
	}
	p.stop()
	tried := len(r.agent.snapshot())
	p = r.serve("intake,stream")
	until(t, "half of the entities were tried again", func() bool {
		again := map[string]bool{}
		for _, c := range r.agent.snapshot()[tried:] {
			again[c.entity] = true
		}
		return len(again) >= entities/2
	})
	if dead := r.inbox(p, "--status", "dead_letter"); len(dead) > 0 {
		t.Errorf("%d actions were given up, for example %+v", len(dead), dead[0])
	}
	away.Store(false)
	r.agent.waitActed(t, 2*entities, 90*time.Second) // the breaker may open for 30 s
	waitItems(t, r, p, 2*entities, "--status", "done")
	judge(r.sender.acceptedByID(), r.agent.snapshot()).require(t)
}

// TestSlowDestinationsLeaveRoom has five destinations of one subscription that hang, each with all attempts that it may have at once:
// the one that answers goes on.
func TestSlowDestinationsLeaveRoom(t *testing.T) {
	t.Parallel()
	const slow, each = 5, 64 // the default concurrency
	r := deploy(t, rig.Fake(t), options{})
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
		until(t, "all attempts hang that may", func() bool { return hanging.Load() == int64((slow-i)*each) })
	}
	last := issue(99, 1, 1)
	r.deliver(last)
	until(t, "the destination that answers is called", func() bool { return r.agent.seen(last.id) == 1 })
}
