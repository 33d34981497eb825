package integration

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/forebay-io/forebay/cmd/internal/rig"
)

// TestRetriesUnderOneKey shows that 503 is tried again with the same key, that every attempt is on record, and that
// what is behind it waits.
func TestRetriesUnderOneKey(t *testing.T) {
	t.Parallel()
	r := deploy(t, rig.Fake(t), options{})
	r.agent.answers(http.StatusServiceUnavailable, func(c call) bool { return c.event == issue(7, 1, 1).id && r.agent.seen(c.event) <= 2 })
	p := r.serve("intake,stream")
	for n := 1; n <= 2; n++ {
		r.deliver(issue(7, 1, n))
	}
	waitItems(t, r, p, 2, "--status", "done")
	calls := r.agent.snapshot()
	if len(calls) != 4 || calls[3].event != issue(7, 1, 2).id {
		t.Fatalf("the agent was called %d times, want three times for the first event and then once for the second: %+v", len(calls), calls)
	}
	judge(r.sender.acceptedByID(), calls).require(t)

	var item struct {
		Status   string
		Attempts int
		Actions  []struct {
			ID       string
			Status   string
			Attempts []struct {
				Attempt, Code int
				Class         string
			}
		}
	}
	out, err := r.try(p.operator, "inbox", "get", r.team+"/triage/github/"+issue(7, 1, 1).id, "-o", "json")
	if err == nil {
		err = json.Unmarshal(out, &item)
	}
	if err != nil || item.Status != "done" || item.Attempts != 3 || len(item.Actions) != 1 {
		t.Fatalf("inbox get: %s %v", out, err)
	}
	a := item.Actions[0]
	if a.ID != calls[0].key {
		t.Errorf("the inbox knows action %s, the agent saw key %s", a.ID, calls[0].key)
	}
	var codes []int
	for _, at := range a.Attempts {
		codes = append(codes, at.Code)
	}
	if len(codes) != 3 || codes[0] != 503 || codes[1] != 503 || codes[2] != 200 {
		t.Errorf("attempts on record: %+v", a.Attempts)
	}
}

// seen is how often the agent was called for an event.
func (a *agent) seen(event string) int {
	n := 0
	for _, c := range a.snapshot() {
		if c.event == event {
			n++
		}
	}
	return n
}
