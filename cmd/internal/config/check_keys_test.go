package config

import (
	"strings"
	"testing"
)

// TestWeakKeysAreNoted: each weak secret and tolerance by its key, in the main file and in a team's; nothing is refused for it.
func TestWeakKeysAreNoted(t *testing.T) {
	t.Parallel()
	v := newVillage(t, `{env: ["TEAM_{TEAM}_*"]}`)
	v.env["TEAM_A_SHORT"], v.env["TEAM_A_SAME"] = "fifteen letters", "the secret of two sources, and more"
	v.env["TEAM_A_LONG"] = "sixteen letters!"
	v.write("teams/a.yaml", `teams:
  a:
    sources:
      one: {preset: stripe, secrets: ["${env:TEAM_A_SHORT}", "${env:TEAM_A_LONG}", "${env:TEAM_A_SAME}"], verify: {tolerance: 61m}}
      two: {preset: github, on_broker_outage: refuse, secrets: ["${env:TEAM_A_SAME}"]}
      three: {preset: linear, secrets: ["${env:TEAM_A_LONG}x"]}
      four: {preset: stripe, secrets: ["${env:TEAM_A_LONG}y"], verify: {tolerance: 1h}}
`)
	c, problems := v.load()
	if problems != "" {
		t.Fatal(problems)
	}
	want := map[string]string{ // in the order of names, one is before two
		"teams.a.sources.one.secrets[0]":       "shorter than 16 characters",
		"teams.a.sources.one.verify.tolerance": "more than 1h",
		"teams.a.sources.two.secrets[0]":       "also the secret of another source",
	}
	for _, n := range c.Notes() {
		if strings.Contains(n.Message, "letters") || strings.Contains(n.Message, "two sources") {
			t.Errorf("a note shows a secret: %s", n)
		}
		if about, ok := want[n.Path]; ok && strings.Contains(n.Message, about) {
			delete(want, n.Path)
		} else if strings.HasPrefix(n.Path, "teams.a.sources") {
			t.Errorf("a note that is not wanted: %s", n)
		}
	}
	for path, about := range want {
		t.Errorf("no note at %s that it is %s", path, about)
	}
}
