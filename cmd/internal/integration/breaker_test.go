package integration

import (
	"net/http"
	"sync"
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
