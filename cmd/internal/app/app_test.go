package app

import (
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/cmd/internal/rig"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger/pgtest"
)

func TestMain(m *testing.M) {
	_ = flag.Set("test.parallel", "4") // most of them wait most of the time
	// What the client of a Redis leaves of an attempt to connect ends within a second.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*call).DelayDo.func1"))
}

// item waits until the inbox shows an event with a decision and, where given, a status.
func (p *process) item(subscription, source, event, decision, status string) {
	p.t.Helper()
	var d *api.InboxDetail
	var err error
	if !rig.Until(time.Minute, func() bool {
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
	if !rig.Until(time.Minute, func() bool {
		d, err := p.api.Item(p.t.Context(), "acme", subscription, source, event)
		return err == nil && d.Duplicates == n
	}) {
		p.t.Fatalf("the inbox does not count %d repetitions of %s", n, event)
	}
}

// TestIntakeNeedsNoPostgres runs the intake role with neither a Postgres URL nor destination secrets.
func TestIntakeNeedsNoPostgres(t *testing.T) {
	t.Parallel()
	r := deploy(t, "http://127.0.0.1:1", nil, true)
	p := r.run(config.RoleIntake)
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

// A reload takes no source that cannot be compiled, and what runs goes on. What a reload changes is TestOneTeamsEditFreezesNobody.
func TestReloadOfASourceThatCannotBeCompiled(t *testing.T) {
	t.Parallel()
	r := deploy(t, "http://127.0.0.1:1", nil, true)
	p := r.run(config.RoleIntake)
	r.text = strings.Replace(r.text, "signature_header: X-Signature", `signature_header: X-Signature, signed: "nothing"`, 1)
	if err := p.app.Reload(r.load(config.RoleIntake)); err == nil {
		t.Error("it was taken")
	}
	_, d := issue(1, 1)
	p.accepted("github", "first-secret", d)
	p.clean()
}

func TestMissingTopicsNameTheCommand(t *testing.T) {
	t.Parallel()
	r := deploy(t, "http://127.0.0.1:1", nil, false)
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
	r := deploy(t, "http://127.0.0.1:1", nil, false)
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
	url, schema := pgtest.Schema(t)
	p := deploy(t, "http://127.0.0.1:1", &ledgerPlace{url, schema}, true).start(config.RoleStream)
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
