package integration

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/rig"
)

// TestCapturedDelivery has somebody who has seen one delivery of GitHub send it again with other headers, which GitHub does not sign:
// under six ids of deliveries it is the one event that it was, and under the name of another event it is none.
func TestCapturedDelivery(t *testing.T) {
	t.Parallel()
	r := deploy(t, rig.SharedKafka(t), options{})
	r.edit("session_timeout: 6s", "session_timeout: 40s") // nobody is killed
	p := r.serve("intake,stream")
	captured := issue(7, 1, 1)
	send := func(name, id string) {
		t.Helper()
		req := captured.request(t.Context(), p.intake, r.team)
		req.Header.Set("X-GitHub-Event", name)
		req.Header.Set("X-GitHub-Delivery", id)
		if status := do(t, req); status != http.StatusAccepted {
			t.Errorf("%s %s was answered %d", name, id, status)
		}
	}
	send("issues", captured.guid())
	r.agent.waitActed(t, 1, time.Minute)
	for n := range 6 {
		send("issues", fmt.Sprintf("00000000-0000-4000-8000-%012d", n))
	}
	others := []string{"issue_comment", "pull_request", "push", "star", "repository", "issues.opened"}
	for _, name := range others {
		send(name, captured.guid())
	}
	send("issues", captured.guid()) // as GitHub delivers again
	// One more of the entity: what came before it has been decided once it has run.
	last := issue(7, 1, 2)
	r.deliver(last)
	r.agent.waitActed(t, 2, time.Minute)
	for _, i := range waitItems(t, r, p, 2, "--status", "done") {
		if i.EventID == captured.id && i.Duplicates != 7 || i.EventID == last.id && i.Duplicates != 0 {
			t.Errorf("%s came again %d times", i.EventID, i.Duplicates)
		}
	}
	r.sender.accepted[captured.id] = captured
	r.requireOnce(t)
	if calls := r.agent.snapshot(); len(calls) != 2 {
		t.Errorf("the agent was called %d times: %+v", len(calls), calls)
	}
	out := r.ask(p, "quarantine", "list", "--team", r.team, "--source", "github", "-o", "jsonl")
	n := 0
	for line := range strings.Lines(string(out)) {
		n += btoi(strings.Contains(line, "type_mismatch"))
	}
	if n != len(others) {
		t.Errorf("%d deliveries are in quarantine, want %d: %s", n, len(others), out)
	}

	// Each of its ids leads to the one event, after it is done and after a restart.
	p.stop()
	p = r.serve("intake,stream")
	for _, id := range []string{captured.guid(), "00000000-0000-4000-8000-000000000005"} {
		for _, i := range waitItems(t, r, p, 1, "--delivery", id) {
			if i.EventID != captured.id || i.Status != "done" || i.DeliveryID != id {
				t.Errorf("inbox list --delivery %s: %+v", id, i)
			}
		}
	}
}

// file writes a body to send, and returns its path.
func (r *deployment) file(body string) string {
	r.t.Helper()
	path := filepath.Join(r.dir, "body.json")
	if err := os.WriteFile(path, []byte(body), 0o600); err != nil {
		r.t.Fatal(err)
	}
	return path
}
