package cli

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/cmd/internal/names"
)

// TestReconcileEvery: a source's provider is asked once in each interval, and not at the start; a source that a reload has taken out is not asked
// any more; the log says what came of it, and never the token.
func TestReconcileEvery(t *testing.T) {
	t.Parallel()
	intake := newReconciledIntake(t, "github")
	ago := func(id int64, guid string) githubAttempt {
		return githubAttempt{ID: id, GUID: guid, StatusCode: 500, Status: "said", DeliveredAt: time.Now().Add(-time.Hour).UTC(), Event: "issues", Action: "opened"}
	}
	f := newFakeGitHub(t, intake, "/repos/acme/shop/hooks/12", ago(1, "missed"))
	load := func(keys string) *config.Config {
		t.Helper()
		cfg, err := config.Load(config.Options{Path: "forebay.yaml", Roles: []config.Role{config.RoleIntake}, Run: true, Data: fmt.Appendf(nil,
			"version: 1\nkafka: {brokers: [\"127.0.0.1:1\"]}\nlisten: {intake: %q}\nteams: {acme: {sources: {hooks: {preset: github, secrets: [%q]%s}}}}\n", intake.Listener.Addr(), reconcileSecret, keys)})
		if err != nil {
			t.Fatal(err)
		}
		return cfg
	}
	var file atomic.Pointer[config.Config]
	file.Store(load(fmt.Sprintf(", reconcile: {every: 10m, token: %q, hook: acme/shop/12, api_url: %q}", reconcileToken, f.URL)))
	var lines bytes.Buffer
	ctx, stop := context.WithCancel(t.Context())
	r := newReconciler(ctx, &env{log: slog.New(slog.NewTextHandler(&lines, nil))}, "forebay.yaml", file.Load)
	now := time.Now()
	asked := func(at time.Duration, want ...string) {
		t.Helper()
		r.look(now.Add(at))
		r.all.Wait()
		if !slices.Equal(f.asked, want) {
			t.Fatalf("after %s GitHub was asked for %q, want %q\n%s", at, f.asked, want, lines.String())
		}
	}
	asked(0)
	asked(9 * time.Minute)
	asked(10*time.Minute, "1")
	f.log = append(f.log, ago(5, "again"))
	asked(19*time.Minute, "1")
	asked(20*time.Minute, "1", "5")
	f.log = append(f.log, ago(7, "unheard"))
	file.Store(load(""))
	asked(time.Hour, "1", "5")
	if len(intake.events) != 2 || strings.Contains(lines.String(), reconcileToken) || strings.Count(lines.String(), "source=acme/hooks missed=1") != 2 {
		t.Errorf("%d events\n%s", len(intake.events), lines.String())
	}
	lines.Reset()
	file.Store(load(fmt.Sprintf(", reconcile: {every: 10m, token: %q, hook: acme/other/12, api_url: %q}", reconcileToken, f.URL)))
	r.look(now.Add(70 * time.Minute))
	asked(80*time.Minute, "1", "5")
	if text := lines.String(); !strings.Contains(text, "reconcile.hook") || !strings.Contains(text, "reconcile.token") || strings.Contains(text, "--") {
		t.Errorf("in the words of the command: %s", text)
	}
	f.Close()
	file.Store(load(fmt.Sprintf(", reconcile: {every: 10m, token: %q, hook: acme/shop/12, api_url: %q}", reconcileToken, f.URL)))
	r.look(now.Add(2 * time.Hour))
	asked(3*time.Hour, "1", "5")
	if !strings.Contains(lines.String(), "trying again with the next interval") {
		t.Error(lines.String())
	}
	stop()
	r.run()
}

// TestReconcileKeys: what cannot be asked is refused when the file is checked.
func TestReconcileKeys(t *testing.T) {
	t.Parallel()
	for keys, want := range map[string]string{
		`preset: github, secrets: [aaaaaaaaaaaaaaaaaaaa], reconcile: {every: 10m, token: t}`:                        "teams.acme.sources.hooks.reconcile.hook",
		`preset: github, secrets: [aaaaaaaaaaaaaaaaaaaa], reconcile: {every: 10s, token: t, hook: app}`:             "teams.acme.sources.hooks.reconcile.every",
		`preset: github, secrets: [aaaaaaaaaaaaaaaaaaaa], reconcile: {every: 2h, since: 1h, token: t, hook: app}`:   "teams.acme.sources.hooks.reconcile.since",
		`preset: linear, secrets: [aaaaaaaaaaaaaaaaaaaa], reconcile: {every: 10m, token: t}`:                        "teams.acme.sources.hooks.reconcile",
		`preset: shopify, secrets: [aaaaaaaaaaaaaaaaaaaa], reconcile: {every: 10m, token: t}`:                       "teams.acme.sources.hooks.reconcile.hook",
		`preset: shopify, secrets: [aaaaaaaaaaaaaaaaaaaa], reconcile: {every: 1h, since: 5h, token: t, hook: x}`:    "teams.acme.sources.hooks.reconcile.since",
		`preset: stripe, secrets: [aaaaaaaaaaaaaaaaaaaa], reconcile: {every: 10m, hook: we_1}`:                      "teams.acme.sources.hooks.reconcile",
		`preset: stripe, secrets: [aaaaaaaaaaaaaaaaaaaa], reconcile: {every: 10m, token: t, hook: we_1, since: 7d}`: "",
		`preset: stripe, secrets: [aaaaaaaaaaaaaaaaaaaa], reconcile: {every: 10m, token: t, hook: we_1, since: 8d}`: "teams.acme.sources.hooks.reconcile.since",
	} {
		_, err := config.Load(config.Options{Path: "forebay.yaml", Roles: []config.Role{config.RoleIntake}, Data: fmt.Appendf(nil,
			"version: 1\nkafka: {brokers: [\"127.0.0.1:1\"]}\nteams: {acme: {sources: {hooks: {%s}}}}\n", keys)})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want+":")) {
			t.Errorf("%s: %v", keys, err)
		}
	}
}

// TestReconcileNotes: of an app, whose tokens end soon, it is told where the next one cannot come from.
func TestReconcileNotes(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "jwt")
	if err := os.WriteFile(file, []byte("t"), 0o600); err != nil {
		t.Fatal(err)
	}
	for keys, want := range map[string]bool{"token: t, hook: app": true, fmt.Sprintf("token: \"${file:%s}\", hook: app", file): false, "token: t, hook: acme/shop/12": false} {
		cfg, err := config.Load(config.Options{Path: "forebay.yaml", Roles: []config.Role{config.RoleIntake}, Data: fmt.Appendf(nil,
			"version: 1\nkafka: {brokers: [\"127.0.0.1:1\"]}\nteams: {acme: {sources: {hooks: {preset: github, secrets: [aaaaaaaaaaaaaaaaaaaa], reconcile: {every: 10m, %s}}}}}\n", keys)})
		if err != nil {
			t.Fatal(err)
		}
		if got := slices.ContainsFunc(cfg.Notes(), func(n config.Problem) bool { return n.Path == "teams.acme.sources.hooks.reconcile.token" }); got != want {
			t.Errorf("%s: noted %t: %v", keys, got, cfg.Notes())
		}
	}
}

// TestReconcileRests: what GitHub will not send again is asked for once, and what the intake refuses at longer and longer intervals while the file is
// the same; what did not come to the intake, at every turn. By hand all are asked for.
func TestReconcileRests(t *testing.T) {
	t.Parallel()
	intake := newReconciledIntake(t, "github")
	ago := func(id int64, guid string, status int, d time.Duration) githubAttempt {
		return githubAttempt{ID: id, GUID: guid, StatusCode: status, Status: "said", DeliveredAt: time.Now().Add(-d).UTC(), Event: "issues", Action: "opened"}
	}
	f := newFakeGitHub(t, intake, "/repos/acme/shop/hooks/12", ago(1, "refused", http.StatusRequestEntityTooLarge, time.Hour), ago(2, "too-old", http.StatusBadGateway, 2*time.Hour))
	load := func(token, own, others string) *config.Config {
		t.Helper()
		cfg, err := config.Load(config.Options{Path: "forebay.yaml", Roles: []config.Role{config.RoleIntake}, Run: true, Data: fmt.Appendf(nil,
			"version: 1\nkafka: {brokers: [\"127.0.0.1:1\"]}\nlisten: {intake: %q}\nteams: {acme: {sources: {hooks: {preset: github, secrets: [%q]%s, reconcile: {every: 10m, token: %q, hook: acme/shop/12, api_url: %q}}%s}}}\n",
			intake.Listener.Addr(), reconcileSecret, own, token, f.URL, others)})
		if err != nil {
			t.Fatal(err)
		}
		return cfg
	}
	thin := func(token string) string {
		return fmt.Sprintf(", thin: {url: \"https://api.example/{id}\", headers: {Authorization: %s}}", token)
	}
	r, cfg := newReconciler(t.Context(), &env{log: slog.New(slog.DiscardHandler)}, "forebay.yaml", nil), load(reconcileToken, thin("a"), "")
	turn := func(what string, want ...string) {
		t.Helper()
		f.asked = nil
		if r.ask(cfg, names.Name{Team: "acme", Name: "hooks"}, cfg.Teams["acme"].Sources["hooks"].Reconcile); !slices.Equal(f.asked, want) {
			t.Errorf("%s: GitHub was asked for %q, want %q", what, f.asked, want)
		}
	}
	intake.status = http.StatusRequestEntityTooLarge
	turn("at first", "2", "1") // whose new attempt is 1002
	turn("at once again")
	cfg = load(reconcileToken, thin("a"), ", more: {preset: github, secrets: [aaaaaaaaaaaaaaaaaaaa]}")
	turn("with another source")
	f.token = "another token, as an app has each ten minutes"
	cfg = load(f.token, thin("b"), "")
	turn("by other tokens")
	f.token = reconcileToken
	cfg = load(reconcileToken, ", max_body: 20MiB", "")
	turn("as a source that takes more", "2", "1002")
	f.log = slices.Delete(f.log, 1, 2) // the attempt before
	turn("at once again by that")
	r.settled[names.Name{Team: "acme", Name: "hooks"}].since = time.Now().Add(-time.Hour)
	f.log[0].DeliveredAt = time.Now().Add(-29 * time.Minute)
	f.log[1].DeliveredAt = time.Now().Add(-59 * time.Minute)
	turn("29 minutes behind one that was 30 behind the first")
	f.log[0].DeliveredAt = time.Now().Add(-31 * time.Minute)
	turn("31 minutes behind", "1002")
	if code, _, errs := intake.run(t, "github", f.URL, "--hook acme/shop/12"); code != exitFailed || len(f.asked) != 3 {
		t.Errorf("by hand: exit %d, asked for %q\n%s", code, f.asked, errs)
	}
	f.reads, intake.status = true, 0
	f.log = []githubAttempt{ago(3, "first", http.StatusBadGateway, 2*time.Hour), ago(4, "second", http.StatusBadGateway, time.Hour)}
	turn("by a token that may only read")
	if code, items, errs := intake.run(t, "github", f.URL, "--hook acme/shop/12"); code != exitNotFound || !slices.Equal(results(items), []string{"first left", "second left"}) {
		t.Errorf("exit %d, %q\n%s", code, results(items), errs)
	}
	f.reads = false
	turn("once it may", "3", "4")
	intake.status = http.StatusServiceUnavailable
	f.log = []githubAttempt{ago(5, "away", http.StatusBadGateway, time.Hour)}
	turn("not there", "5")
	turn("still not", "1001")
}
