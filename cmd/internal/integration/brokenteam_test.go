package integration

import (
	"bytes"
	"net/http"
	"testing"
	"time"

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
		return "teams: {" + team + ": {sources: {hooks: {preset: github, secrets: [" + secret + "]}}}}\n"
	}
	put(broken, file(broken, "first"))
	put(other, file(other, "first"))
	r.edit("teams:\n  "+r.team+":\n", "teams_dir: teams\nteams:\n  "+r.team+":\n")
	r.command("topics", "apply", "-c", r.config)
	p := r.serve("intake")
	answered := func(team, secret string) int {
		t.Helper()
		d := issue(1, 1, 1)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.intake+"/v1/in/"+team+"/hooks", bytes.NewReader(d.body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header = http.Header{"Content-Type": {"application/json"}, "X-Github-Event": {"issues"}, "X-Github-Delivery": {d.guid()}, "X-Hub-Signature-256": {"sha256=" + sign(secret, d.body)}}
		resp, err := r.sender.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp.StatusCode
	}
	if a, b := answered(broken, "first"), answered(other, "first"); a != http.StatusAccepted || b != http.StatusAccepted {
		t.Fatal(a, b)
	}
	put(broken, "teams: {"+broken+": {sources: nonsense}}\n")
	put(other, file(other, "second"))
	if !rig.Until(30*time.Second, func() bool { return answered(other, "second") == http.StatusAccepted }) {
		t.Fatalf("the other team's secret is not taken:\n%s", p.output())
	}
	if got := answered(broken, "first"); got != http.StatusAccepted {
		t.Errorf("the team with the broken file is answered %d", got)
	}
	waits := func() string { return string(r.ask(p, "attention", "--kind", "broken_team_file", "-o", "json")) }
	if !rig.Until(20*time.Second, func() bool {
		return containsAll(waits(), broken+".yaml has ", ", the first in line 1", "the team keeps what the file said before")
	}) {
		t.Errorf("attention does not list the file: %s", waits())
	}
	if !containsAll(p.output(), "these teams keep their last good configuration", broken+".yaml:1", "configuration reloaded") {
		t.Errorf("the log does not say so:\n%s", p.output())
	}
	put(broken, file(broken, "third"))
	if !rig.Until(30*time.Second, func() bool { return !containsAll(waits(), broken+".yaml") }) {
		t.Errorf("the mended file still waits: %s", waits())
	}
	if got := answered(broken, "third"); got != http.StatusAccepted {
		t.Errorf("of the mended file, its secret is answered %d", got)
	}
}
