package integration

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/forebay-io/forebay/cmd/internal/rig"
)

// TestABrokenTeamFileHoldsUpNobody: while one team's file is no file, another one's new secret is taken without a restart, and the team with the
// broken file keeps what it had.
func TestABrokenTeamFileHoldsUpNobody(t *testing.T) {
	t.Parallel()
	r := deploy(t, rig.Fake(t), options{})
	broken, other := r.team+"-b", r.team+"-o"
	put := func(team, text string) { t.Helper(); r.put("teams/"+team+".yaml", text) }
	file := func(team, secret string) string {
		return "teams: {" + team + ": {sources: {github: {preset: github, secrets: [" + secret + "]}}}}\n"
	}
	put(broken, file(broken, "first"))
	put(other, file(other, "first"))
	r.edit("teams:\n  "+r.team+":\n", "teams_dir: teams\nteams:\n  "+r.team+":\n")
	r.command("topics", "apply", "-c", r.config)
	p := r.serve("intake")
	answered := func(team, secret string) int {
		t.Helper()
		d := issue(1, 1, 1)
		req := d.request(t.Context(), p.intake, team)
		req.Header.Set("X-Hub-Signature-256", "sha256="+sign(secret, d.body))
		return do(t, req)
	}
	if a, b := answered(broken, "first"), answered(other, "first"); a != http.StatusAccepted || b != http.StatusAccepted {
		t.Fatal(a, b)
	}
	put(broken, "teams: {"+broken+": {sources: nonsense}}\n")
	put(other, file(other, "second"))
	until(t, "the other team's secret is taken", func() bool { return answered(other, "second") == http.StatusAccepted })
	if got := answered(broken, "first"); got != http.StatusAccepted {
		t.Errorf("the team with the broken file is answered %d", got)
	}
	waits := func() int {
		var list attentionList
		if err := p.get("/v1/attention", url.Values{"kind": {"reload_refused"}}, &list); err != nil {
			t.Fatal(err)
		}
		return len(list.Items)
	}
	until(t, "the file waits for somebody", func() bool { return waits() == 1 })
	put(broken, file(broken, "third"))
	until(t, "the mended file waits for nobody", func() bool { return waits() == 0 })
	if got := answered(broken, "third"); got != http.StatusAccepted {
		t.Errorf("of the mended file, its secret is answered %d", got)
	}

	// A process that starts leaves out a team whose file refers to what is cut short, and takes it once that is mended.
	schema := func(text string) { t.Helper(); r.put("schemas/"+broken+".json", text) }
	whole := `{"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": "https://example.com/issue", "type": "object"}`
	r.edit("teams_dir: teams\n", "teams_dir: {path: teams, references: {files: [\"schemas/*\"]}}\n")
	schema(whole[:50])
	put(broken, strings.Replace(file(broken, "fourth"), "preset: github,", "preset: github, json_schema: {check: quarantine, own: \"${file:../schemas/"+broken+".json}\"},", 1))
	until(t, "the schema that is cut short waits for somebody", func() bool { return waits() == 1 })
	put(other, file(other, "third"))
	until(t, "the other team's secret is taken beside it", func() bool { return answered(other, "third") == http.StatusAccepted })
	if got := answered(broken, "third"); got != http.StatusAccepted {
		t.Errorf("the team with the cut schema is answered %d", got)
	}
	p.stop()
	p = r.serve("intake")
	if a, b := answered(broken, "fourth"), answered(other, "third"); a != http.StatusUnauthorized || b != http.StatusAccepted {
		t.Errorf("after a start the team with the cut schema is answered %d, want 401, and the other one %d, want 202", a, b)
	}
	var ready struct {
		Checks []struct{ Name, Note string }
	}
	if err := p.get("/readyz", nil, &ready); err != nil || !slices.ContainsFunc(ready.Checks, func(c struct{ Name, Note string }) bool {
		return c.Name == "configuration" && strings.Contains(c.Note, broken+".yaml") && strings.Contains(c.Note, "nothing of the team runs")
	}) {
		t.Errorf("readyz: %+v %v", ready, err)
	}
	if out, err := r.try(p.operator, "config", "check", "-c", r.config); err == nil || !strings.Contains(string(out), broken+".yaml:1: ") {
		t.Errorf("config check says %s (%v)", out, err)
	}
	if n := waits(); n != 1 {
		t.Errorf("%d files wait for somebody after the start", n)
	}
	schema(whole)
	until(t, "the mended schema's team runs", func() bool { return answered(broken, "fourth") == http.StatusAccepted })
}

// TestOneTeamsTimeoutFreezesNobody: a team changes a timeout of its own destination and a key that needs a restart; the secret that another team has
// rotated out is refused from then on, and the new one taken. What waits is told by `config diff`, without secrets.
func TestOneTeamsTimeoutFreezesNobody(t *testing.T) {
	t.Parallel()
	r := deploy(t, rig.Fake(t), options{})
	alpha, beta := r.team+"-a", r.team+"-b"
	put := func(team, text string) { t.Helper(); r.put("teams/"+team+".yaml", text) }
	ofAlpha := func(secret string) string {
		return "teams: {" + alpha + ": {sources: {github: {preset: github, secrets: [" + secret + "]}}}}\n"
	}
	ofBeta := func(timeout, rest string) string {
		return "teams: {" + beta + ": {sources: {github: {preset: github, secrets: [betas-own]" + rest + "}}, destinations: {log: {type: log, timeout: " + timeout + "}}, " +
			"subscriptions: {risk: {sources: [github], actions: [{name: a, to: log}]}}}}\n"
	}
	put(alpha, ofAlpha("first"))
	put(beta, ofBeta("10s", ""))
	r.edit("teams:\n  "+r.team+":\n", "teams_dir: teams\nteams:\n  "+r.team+":\n")
	r.command("topics", "apply", "-c", r.config)
	p := r.serve("intake,stream")
	answered := func(secret string) int {
		t.Helper()
		d := issue(1, 1, 1)
		req := d.request(t.Context(), p.intake, alpha)
		req.Header.Set("X-Hub-Signature-256", "sha256="+sign(secret, d.body))
		return do(t, req)
	}
	diff := func() string {
		t.Helper()
		out, err := r.try(p.operator, "config", "diff", "-o", "json", "--url", "http://"+p.operator)
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	if got := answered("first"); got != http.StatusAccepted {
		t.Fatal(got)
	}
	put(beta, ofBeta("20s", ", topic: events."+beta+".other"))
	until(t, "what waits is told", func() bool { return strings.Contains(diff(), "teams."+beta+".sources.github.topic") })
	if out := diff(); strings.Contains(out, "timeout") || strings.Contains(out, "betas-own") || !strings.Contains(out, "events."+beta+".other") {
		t.Errorf("config diff says\n%s", out)
	}
	put(alpha, ofAlpha("second"))
	until(t, "the new secret is taken", func() bool { return answered("second") == http.StatusAccepted })
	if got := answered("first"); got != http.StatusUnauthorized {
		t.Errorf("the secret that was rotated out is answered %d, want 401", got)
	}
	put(beta, ofBeta("20s", ""))
	until(t, "nothing waits any more", func() bool { return !strings.Contains(diff(), "needs_restart") })
}
