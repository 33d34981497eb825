package integration

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/rig"
)

// deployLong is a deployment whose shop takes the orders of entities that begin with "slow" and says later what came of them.
func deployLong(t *testing.T, b rig.Broker, long string) *deployment {
	t.Helper()
	r := deploy(t, b, options{gap: "{wait: 60s, then: park}"})
	r.edit(`listen: {intake: "${env:INTAKE}",`, `agents: {public_url: "http://agents.test", secrets: ["a secret that every process of the deployment has"]}
listen: {agents: "${env:AGENTS}", intake: "${env:INTAKE}",`)
	r.edit("shop: {type: http,", "shop: {long: "+long+", type: http,")
	r.agent.answers(http.StatusAccepted, func(c call) bool { return strings.HasPrefix(c.entity, "slow") })
	return r
}

// callOf is the newest call for an event, which must be there.
func (a *agent) callOf(t *testing.T, event string) call {
	t.Helper()
	var found call
	for _, c := range a.snapshot() {
		if c.event == event {
			found = c
		}
	}
	if found.result == "" || found.token == "" {
		t.Fatalf("no call for %s that says how it may be finished: %+v", event, found)
	}
	return found
}

// at is a URL of agents.test at the process.
func (p *process) at(t *testing.T, public string) string {
	t.Helper()
	u, err := url.Parse(public)
	if err != nil || u.Host != "agents.test" {
		t.Fatal(public, err)
	}
	u.Host = p.agents
	return u.String()
}

// post sends a result, or a heartbeat, and gives status and body.
func (p *process) post(t *testing.T, public, token, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.at(t, public), strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

// statusURL is what the intake answers to a delivery, or to it again.
func (r *deployment) statusURL(d delivery) string {
	r.t.Helper()
	resp, err := http.DefaultClient.Do(d.request(r.t.Context(), r.intake.Load().intake, r.team))
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	var answer struct {
		StatusURL string `json:"status_url"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil || answer.StatusURL == "" {
		r.t.Fatalf("the intake answered %d without a status_url: %v", resp.StatusCode, err)
	}
	return answer.StatusURL
}

// waitStatus follows a status_url until it says so.
func (p *process) waitStatus(t *testing.T, public, want string) {
	t.Helper()
	last := ""
	if !rig.Until(time.Minute, func() bool {
		resp, err := http.Get(p.at(t, public))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		var answer struct{ Status string }
		if err = json.NewDecoder(resp.Body).Decode(&answer); err != nil || resp.StatusCode != http.StatusOK {
			t.Fatal(resp.StatusCode, err)
		}
		last = answer.Status
		return last == want
	}) {
		t.Fatalf("%s says %q, want %q", public, last, want)
	}
}

// TestLongWorkWhilePartitionsMove: work is out at a destination while partitions move to another process and the first owner
// is killed; the results come in at the one that owns nothing of it yet. Lanes behind long work wait, others do not, nothing
// runs twice, and who delivered sees it done.
func TestLongWorkWhilePartitionsMove(t *testing.T) {
	t.Parallel()
	r := deployLong(t, rig.SharedKafka(t), "{deadline: 5m, heartbeat: 2m}")
	r.serve("intake")
	first := r.serve("stream")
	const entities = 8
	slow := func(e, n int) delivery { return order(fmt.Sprintf("slow-%d", e), n) }
	quick := func(e, n int) delivery { return order(fmt.Sprintf("quick-%d", e), n) }
	for e := range entities {
		r.deliver(slow(e, 1))
		r.deliver(slow(e, 2))
		r.deliver(quick(e, 1))
	}
	for e := range entities {
		first.waitStatus(t, r.statusURL(slow(e, 1)), "processing")
		first.waitStatus(t, r.statusURL(quick(e, 1)), "done")
	}
	second := r.serve("stream") // some of the partitions move to it, with the work that is out
	for e := range entities {
		r.deliver(quick(e, 2))
	}
	for e := range entities {
		second.waitStatus(t, r.statusURL(quick(e, 2)), "done")
	}
	if n := r.agent.acted(); n != 3*entities {
		t.Errorf("the agent has seen %d events, want %d: what is behind long work waits", n, 3*entities)
	}
	// One result to an owner that lives, heartbeats to any, the others while the owner of some is dead.
	one := r.agent.callOf(t, slow(0, 1).id)
	if status, body := first.post(t, one.result, one.token, `{"status":"done"}`); status != http.StatusAccepted {
		t.Error(status, body)
	}
	first.waitStatus(t, r.statusURL(slow(0, 1)), "done")
	second.waitStatus(t, r.statusURL(slow(0, 2)), "processing") // so that it is not in flight when its owner dies
	first.kill()
	for e := 1; e < entities; e++ {
		c := r.agent.callOf(t, slow(e, 1).id)
		if status, body := second.post(t, strings.Replace(c.result, "/result", "/heartbeat", 1), c.token, ""); status != http.StatusOK {
			t.Error(status, body)
		}
		for _, want := range []int{http.StatusAccepted, http.StatusOK} { // recorded, and repeated
			if status, body := second.post(t, c.result, c.token, `{"status":"done","code":200,"response":"packed"}`); status != want {
				t.Error(status, body)
			}
		}
		if status, _ := second.post(t, c.result, one.token, `{"status":"done"}`); status != http.StatusUnauthorized {
			t.Errorf("the token of another action: %d", status)
		}
	}
	for e := range entities {
		second.waitStatus(t, r.statusURL(slow(e, 1)), "done")
		second.waitStatus(t, r.statusURL(slow(e, 2)), "processing")
		c := r.agent.callOf(t, slow(e, 2).id)
		if status, body := second.post(t, c.result, c.token, `{"status":"done"}`); status != http.StatusAccepted {
			t.Error(status, body)
		}
	}
	for e := range entities {
		second.waitStatus(t, r.statusURL(slow(e, 2)), "done")
	}
	v := judge(r.sender.acceptedByID(), r.agent.snapshot())
	v.require(t)
	v.requireNoRepeats(t)
	if strings.Contains(first.output()+second.output(), "fba2_") {
		t.Error("a token is in the log")
	}
}

// TestLongWorkOfAKilledOwner: the process is killed when the agent has taken its call and the ledger has not heard of it. The next
// process makes the same call again. What the agent then says of the first call, by its token, is refused with where to go on, and ends
// nothing of the second; only done counts, where the second call fails. A call whose 202 was recorded goes on as it was.
func TestLongWorkOfAKilledOwner(t *testing.T) {
	t.Parallel()
	r := deployLong(t, rig.Fake(t), "{deadline: 5m, heartbeat: 2m}")
	taken, lost, busy := order("slow-taken", 1), order("slow-lost", 1), order("slow-busy", 1)
	second, answer := make(chan struct{}, 1), make(chan struct{})
	r.agent.answer = func(c call) int {
		if r.agent.seen(c.event) == 1 {
			return http.StatusAccepted
		}
		select {
		case second <- struct{}{}:
			<-answer
		case <-answer:
		}
		if c.event == busy.id {
			return http.StatusServiceUnavailable
		}
		return http.StatusAccepted
	}
	c := &crash{deployment: r, db: connect(t, r.dbURL)}
	c.restart()
	c.order("slow-taken", 1)
	c.p.waitStatus(t, r.statusURL(taken), "processing")
	c.holdResults()
	c.order("slow-lost", 1)
	c.order("slow-busy", 1)
	r.agent.waitActed(t, 3, time.Minute)
	first := map[string]call{taken.id: r.agent.callOf(t, taken.id), lost.id: r.agent.callOf(t, lost.id), busy.id: r.agent.callOf(t, busy.id)}
	c.crash()
	c.restart()
	for range 2 {
		<-second
	}

	beat := func(c call) string { return strings.Replace(c.result, "/result", "/heartbeat", 1) }
	refused := func(what, public, token, body, words string) {
		t.Helper()
		if status, answer := c.p.post(t, public, token, body); status != http.StatusConflict || !strings.Contains(answer, words) {
			t.Errorf("%s: %d %s", what, status, answer)
		}
	}
	const again = "the call is made again, with another token"
	ofFirst := func(when string) {
		t.Helper()
		for _, d := range []delivery{lost, busy} {
			old := first[d.id]
			refused(when+", dead", old.result, old.token, `{"status":"dead","error":"my first try"}`, again)
			refused(when+", failed", old.result, old.token, `{"status":"failed","retry_after":3600}`, again)
			refused(when+", heartbeat", beat(old), old.token, "", again)
		}
	}
	ofFirst("while the second call is under way")
	if status, answer := c.p.post(t, first[busy.id].result, first[busy.id].token, `{"status":"done"}`); status != http.StatusAccepted {
		t.Errorf("done, while the second call is under way: %d %s", status, answer)
	}
	close(answer)
	c.p.waitStatus(t, r.statusURL(busy), "done") // the agent has answered it 503 since
	c.p.waitStatus(t, r.statusURL(lost), "processing")
	old, now := first[lost.id], r.agent.callOf(t, lost.id)
	if now.key != old.key || now.result != old.result || now.token == old.token {
		t.Errorf("%+v after %+v", now, old)
	}
	refused("dead, while the second call is waited for", old.result, old.token, `{"status":"dead"}`, again)
	refused("a heartbeat, while the second call is waited for", beat(old), old.token, "", again)
	refused("done, while the second call is waited for", old.result, old.token, `{"status":"done"}`, "too late")
	c.p.waitStatus(t, r.statusURL(lost), "processing")
	for _, of := range []call{first[taken.id], now} {
		if status, answer := c.p.post(t, beat(of), of.token, ""); status != http.StatusOK {
			t.Errorf("a heartbeat for %s: %d %s", of.event, status, answer)
		}
		if status, answer := c.p.post(t, of.result, of.token, `{"status":"done"}`); status != http.StatusAccepted {
			t.Errorf("done for %s: %d %s", of.event, status, answer)
		}
	}
	c.p.waitStatus(t, r.statusURL(taken), "done")
	c.p.waitStatus(t, r.statusURL(lost), "done")
	for d, want := range map[string]int{taken.id: 1, lost.id: 2} {
		if n := r.agent.seen(d); n != want {
			t.Errorf("%d calls for %s, want %d", n, d, want)
		}
	}
}
