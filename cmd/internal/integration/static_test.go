package integration

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/rig"
)

// startAs starts a stream process with an instance id.
func (r *deployment) startAs(id string) *process {
	r.t.Helper()
	text, err := os.ReadFile(r.config)
	if err != nil {
		r.t.Fatal(err)
	}
	file := filepath.Join(r.dir, id+".yaml")
	if err := os.WriteFile(file, []byte(strings.Replace(string(text), "session_timeout: ", "instance_id: "+id+", session_timeout: ", 1)), 0o600); err != nil {
		r.t.Fatal(err)
	}
	return r.launch("serve", "-c", file, "--roles", "stream")
}

func (r *deployment) serveAs(id string) *process {
	r.t.Helper()
	p := r.startAs(id)
	p.waitReady(time.Minute)
	return p
}

// TestStaticMemberRestarts restarts static members within the session, one after the other: each has its partitions
// again, and the other keeps its own. The other does not even hear of it, except when it was the group's leader that
// restarted: its client then has the group look at the assignment once more, which moves nothing. (The embedded broker
// rebalances whenever a member joins with less to say about what it owns than before.)
func TestStaticMemberRestarts(t *testing.T) {
	t.Parallel()
	b := rig.SharedKafka(t)
	r := deploy(t, b, options{latency: 2 * time.Millisecond})
	r.edit("session_timeout: 6s", "session_timeout: 40s")
	r.serve("intake")
	leader := r.serveAs("stream-a")
	r.waitOwned(leader, 6)
	follower := r.serveAs("stream-b")
	r.waitOwned(leader, 3)
	r.waitOwned(follower, 3)
	sessions, claims := r.heard(leader)
	v := underLoad(t, r, func() []fault {
		follower.stop()
		follower = r.serveAs("stream-b")
		r.waitOwned(follower, 3)
		r.waitOwned(leader, 3)
		if s, c := r.heard(leader); s != sessions || c != claims {
			t.Errorf("the leader has seen %d sessions more and made %d claims more", s-sessions, c-claims)
		}
		_, claims = r.heard(follower)
		leader.stop()
		leader = r.serveAs("stream-a")
		r.waitOwned(leader, 3)
		r.waitOwned(follower, 3)
		if _, c := r.heard(follower); c != claims {
			t.Errorf("the follower has made %d claims more", c-claims)
		}
		return nil
	})
	v.requireNoRepeats(t)
}

// heard is how many sessions of the issues' group a process has seen, and how many partitions it has claimed.
func (r *deployment) heard(p *process) (sessions, claims int) {
	r.t.Helper()
	for line := range strings.SplitSeq(p.output(), "\n") {
		if strings.Contains(line, "subscription="+r.team+".triage ") {
			sessions += strings.Count(line, "group session begun")
			claims += strings.Count(line, "partition claimed")
		}
	}
	return sessions, claims
}

// TestTwoProcessesWithOneInstanceID: the newer takes over, the older writes nothing any more, is not ready and says why.
func TestTwoProcessesWithOneInstanceID(t *testing.T) {
	t.Parallel()
	r := deploy(t, rig.SharedKafka(t), options{})
	r.serve("intake")
	older := r.serveAs("stream-a")
	r.deliverAll(12, 1, issues)
	r.agent.waitActed(t, 12, time.Minute)
	waitItems(t, r, older, 12, "--subscription", "triage", "--status", "done")
	newer := r.serveAs("stream-a")
	r.waitOwned(newer, 6)
	r.waitOwned(older, 0)
	r.deliverAll(12, 2, issues)
	r.agent.waitActed(t, 24, time.Minute)
	var status int
	var body []byte
	if !rig.Until(time.Minute, func() bool {
		resp, err := http.Get("http://" + older.operator + "/readyz")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		status = resp.StatusCode
		body, _ = io.ReadAll(resp.Body)
		return status == http.StatusServiceUnavailable && containsAll(string(body), "another process has joined", "kafka.instance_id")
	}) {
		t.Fatalf("the older process answers %d: %s", status, body)
	}
	r.waitOwned(newer, 6)
	r.requireOnce(t)
}
