package integration

import (
	"net/http"
	"net/url"
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
		if err := p.get("/v1/attention", url.Values{"kind": {"broken_team_file"}}, &list); err != nil {
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
}
