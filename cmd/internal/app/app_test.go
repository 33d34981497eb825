package app

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/cmd/internal/rig"
	"github.com/forebay-io/forebay/schemas"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestWebhookBecomesOneAction is the main job: twice and shuffled in, once and in order out, over a restart.
func TestWebhookBecomesOneAction(t *testing.T) {
	t.Parallel()
	a := newAgent(t)
	r := deploy(t, a.URL, database(t), true)
	p := r.start(config.RoleIntake, config.RoleStream)
	p.ready()

	// Orders have dense versions: whatever the order of arrival, they run 1 to 5 for each.
	type delivery struct {
		name string
		rev  int
	}
	var all []delivery
	for _, name := range []string{"o-1", "o-2", "o-3"} {
		for rev := 1; rev <= 5; rev++ {
			all = append(all, delivery{name, rev}, delivery{name, rev})
		}
	}
	rand.New(rand.NewPCG(1, 2)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	for _, d := range all {
		p.accepted("orders", "orders-secret", order(d.name, d.rev))
	}
	calls := a.wait(t, 15)
	byEntity := map[string][]string{}
	for _, c := range calls {
		byEntity[c.Entity] = append(byEntity[c.Entity], c.ID)
	}
	for _, name := range []string{"o-1", "o-2", "o-3"} {
		want := []string{name + "-1", name + "-2", name + "-3", name + "-4", name + "-5"}
		if diff := cmp.Diff(want, byEntity[name]); diff != "" {
			t.Errorf("%s ran otherwise (-want +got):\n%s", name, diff)
		}
	}

	// GitHub's snapshots: the older one that comes late is stale and does not run.
	newerID, newer := issue(7, 2)
	olderID, older := issue(7, 1)
	p.accepted("github", "first-secret", newer)
	if calls := a.wait(t, 16); calls[15].ID != newerID {
		t.Errorf("call 16 is %+v, want %s", calls[15], newerID)
	}
	p.accepted("github", "first-secret", older)
	p.accepted("github", "first-secret", newer)
	if got := p.send("github", "a forger's", newer); got != http.StatusUnauthorized {
		t.Errorf("a forged delivery was answered %d", got)
	}
	p.item("triage", "github", olderID, "stale", "")
	p.clean()

	// After a restart what was done is not done again, and the inbox still knows it.
	p = r.start(config.RoleIntake, config.RoleStream)
	p.ready()
	p.accepted("orders", "orders-secret", order("o-1", 6))
	p.accepted("orders", "orders-secret", order("o-1", 3))
	if calls := a.wait(t, 17); calls[16].ID != "o-1-6" {
		t.Errorf("call 17 is %+v, want o-1-6", calls[16])
	}
	p.item("fulfil", "orders", "o-1-6", "applied", "done")
	p.item("fulfil", "orders", "o-2-5", "applied", "done")
	raw, err := p.api.Raw(t.Context(), "acme", "fulfil", "orders", "o-2-5")
	if err != nil || string(raw.Data) != `{"type":"order","order":"o-2","rev":5}` {
		t.Errorf("raw = %+v, %v", raw, err)
	}
	page, err := p.api.Items(t.Context(), api.InboxFilter{Team: "acme", Subscription: "fulfil", Entity: "o-2", Status: "done", Limit: 50})
	if err != nil || len(page.Items) != 5 {
		t.Errorf("inbox of o-2: %d items, %v", len(page.Items), err)
	}
	if got := len(a.wait(t, 17)); got != 17 {
		t.Errorf("the agent was called %d times, want 17", got)
	}
	p.clean()
}

// item waits until the inbox shows an event with a decision and, where given, a status.
func (p *process) item(subscription, source, event, decision, status string) {
	p.t.Helper()
	var d *api.InboxDetail
	var err error
	if !rig.Until(20*time.Second, func() bool {
		d, err = p.api.Item(p.t.Context(), "acme", subscription, source, event)
		return err == nil && string(d.Decision) == decision && (status == "" || d.Status == status)
	}) {
		text, _ := json.Marshal(d)
		p.t.Fatalf("inbox shows %s otherwise than %s %s: %s %v", event, decision, status, text, err)
	}
}

// repeated waits until the inbox has counted n repetitions of an event: whatever they would do, they have done.
func (p *process) repeated(subscription, source, event string, n int) {
	p.t.Helper()
	if !rig.Until(20*time.Second, func() bool {
		d, err := p.api.Item(p.t.Context(), "acme", subscription, source, event)
		return err == nil && d.Duplicates == n
	}) {
		p.t.Fatalf("the inbox does not count %d repetitions of %s", n, event)
	}
}

// TestIntakeNeedsNoPostgres runs the intake role with neither a Postgres URL nor destination secrets.
func TestIntakeNeedsNoPostgres(t *testing.T) {
	t.Parallel()
	r := deploy(t, "http://127.0.0.1:1", "", true)
	p := r.start(config.RoleIntake)
	p.ready()
	_, d := issue(1, 1)
	p.accepted("github", "first-secret", d)

	unusable := order("x", 1)
	unusable.Header.Del("X-Event-Id")
	unusable.Header.Set("X-Event-Id", strings.Repeat("long", 2000))
	p.accepted("orders", "orders-secret", unusable)
	kept, err := p.api.Quarantined(t.Context(), api.QuarantineFilter{Team: "acme", Source: "orders"})
	if err != nil || len(kept.Items) != 1 || kept.Items[0].Reason == "" || kept.Items[0].Bytes != len(unusable.Body) {
		t.Errorf("quarantine = %+v, %v", kept, err)
	}
	if _, err := p.api.Quarantined(t.Context(), api.QuarantineFilter{Team: "acme", Source: "none"}); schemas.KindOf(err) != schemas.NotFound {
		t.Errorf("quarantine of an unknown source: %v", err)
	}
	if _, err := p.api.Items(t.Context(), api.InboxFilter{}); schemas.KindOf(err) != schemas.Conflict || !strings.Contains(err.Error(), "no stream role") {
		t.Errorf("an intake was asked for the ledger: %v", err)
	}
	sources, err := p.api.Sources(t.Context())
	if err != nil || len(sources.Items) != 2 || sources.Items[0].Topic != "events.acme.github" {
		t.Errorf("sources = %+v, %v", sources, err)
	}
	p.clean()
}

// TestReloadSwapsSecrets rotates a secret in a running intake, and refuses what needs a restart.
func TestReloadSwapsSecrets(t *testing.T) {
	t.Parallel()
	r := deploy(t, "http://127.0.0.1:1", "", true)
	p := r.start(config.RoleIntake)
	p.ready()
	before := r.text
	r.text = strings.Replace(before, "secrets: [first-secret]", "secrets: [second-secret]", 1)
	if err := p.app.Reload(r.load(config.RoleIntake)); err != nil {
		t.Fatal(err)
	}
	_, d := issue(1, 1)
	if got := p.send("github", "first-secret", d); got != http.StatusUnauthorized {
		t.Errorf("the old secret is answered %d after the reload", got)
	}
	p.accepted("github", "second-secret", d)

	r.text = strings.Replace(r.text, "partitions: 3", "partitions: 4", 1)
	if err := p.app.Reload(r.load(config.RoleIntake)); schemas.KindOf(err) != schemas.Conflict || !strings.Contains(err.Error(), "needs a restart") {
		t.Errorf("a changed partition count: %v", err)
	}
	r.text = strings.Replace(before, "signature_header: X-Signature", `signature_header: X-Signature, signed: "nothing"`, 1)
	if err := p.app.Reload(r.load(config.RoleIntake)); err == nil {
		t.Error("a source that cannot be compiled was taken")
	}
	p.accepted("github", "second-secret", d)
	p.clean()
}

func TestMissingTopicsNameTheCommand(t *testing.T) {
	t.Parallel()
	r := deploy(t, "http://127.0.0.1:1", "", false)
	p := r.start(config.RoleIntake)
	err := <-p.done
	p.done = nil
	if schemas.KindOf(err) != schemas.NotFound || !strings.Contains(err.Error(), "forebay topics apply -c forebay.yaml") {
		t.Errorf("missing topics: %v", err)
	}
}

// TestTopicHeardOfLate: the broker that is asked first may not know yet what another one has created.
func TestTopicHeardOfLate(t *testing.T) {
	t.Parallel()
	r := deploy(t, "http://127.0.0.1:1", "", false)
	p := r.start(config.RoleIntake)
	_, d := issue(1, 1)
	if got := p.send("github", "first-secret", d); got != http.StatusServiceUnavailable {
		t.Errorf("a delivery without topics is answered %d, want 503", got)
	}
	r.createTopics()
	p.ready()
	p.accepted("github", "first-secret", d)
	p.clean()
}

func TestMissingSchemaNamesTheCommand(t *testing.T) {
	t.Parallel()
	r := deploy(t, "http://127.0.0.1:1", rig.Database(t), true)
	p := r.start(config.RoleStream)
	err := <-p.done
	p.done = nil
	if err == nil || !strings.Contains(err.Error(), "forebay migrate") {
		t.Errorf("no schema: %v", err)
	}
}

// TestWaitsForWhatIsAway starts without brokers: not ready, alive, refusing deliveries with 503, and stoppable.
func TestWaitsForWhatIsAway(t *testing.T) {
	t.Parallel()
	r := &deployment{t: t, text: fmt.Sprintf(deploymentText, "127.0.0.1:1", "", "http://127.0.0.1:1")}
	p := r.start(config.RoleIntake)
	_, d := issue(1, 1)
	if got := p.send("github", "first-secret", d); got != http.StatusServiceUnavailable {
		t.Errorf("a delivery before the start is answered %d, want 503", got)
	}
	resp, err := http.Get("http://" + p.app.Addr("operator").String() + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("readyz without brokers: %d", resp.StatusCode)
	}
	p.clean()
}

func TestNewRefusesUnknownRoles(t *testing.T) {
	t.Parallel()
	r := &deployment{t: t, text: fmt.Sprintf(deploymentText, "127.0.0.1:1", "", "http://127.0.0.1:1")}
	for _, roles := range [][]config.Role{nil, {"console"}} {
		if _, err := New(Config{File: r.load(config.RoleIntake), Roles: roles}); schemas.KindOf(err) != schemas.Invalid {
			t.Errorf("roles %v: %v", roles, err)
		}
	}
}
