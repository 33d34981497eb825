package config

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const deciding = `version: 1
kafka: {brokers: ["127.0.0.1:9092"]}
postgres: {url: "postgres://127.0.0.1/forebay"}
destinations:
  pagers: {type: http, url: "${env:PAGERS}", secret: "${env:PAGERS_SECRET}", teams: [acme], headers: {Authorization: "Bearer hush-hush"}}
teams:
  acme:
    sources:
      orders: {preset: github, secrets: [orders-secret]}
    destinations:
      agent: {type: http, url: "https://agent.example/run"}
      unused: {type: http, url: "https://unused.example/run"}
    subscriptions:
      fulfil: {sources: [orders], owners: [ann], types: [issues.opened], gap: {wait: 20s}, actions: [{name: run, to: agent}, {name: page, to: pagers}]}
      other: {sources: [orders], actions: [{name: run, to: unused}]}
`

// What decides for a subscription has the keys of the files, and no secret: a change of another key or of a secret is none, and any other is.
func TestDecides(t *testing.T) {
	t.Parallel()
	of := func(text string, env map[string]string) map[string]string {
		t.Helper()
		c, err := Load(Options{Path: "forebay.yaml", Data: []byte(text), Roles: []Role{RoleStream}, Lookup: func(name string) (string, bool) { v, ok := env[name]; return v, ok }})
		if err != nil {
			t.Fatal(err)
		}
		return c.Decides("acme", "fulfil")
	}
	env := map[string]string{"PAGERS": "https://pagers.example/T0KEN-T0KEN", "PAGERS_SECRET": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}
	base := of(deciding, env)
	for key, want := range map[string]string{
		"teams.acme.subscriptions.fulfil.types[0]": "issues.opened", "teams.acme.subscriptions.fulfil.gap.wait": "20s", "teams.acme.subscriptions.fulfil.actions[1].to": "pagers",
		"teams.acme.destinations.agent.url": "https://agent.example/run", "destinations.pagers.url": "${env:PAGERS}", "teams.acme.sources.orders.topic": "events.acme.orders",
	} {
		if base[key] != want {
			t.Errorf("%s is %q, want %q", key, base[key], want)
		}
	}
	for key, value := range base {
		if strings.Contains(value, "hush-hush") || strings.Contains(value, "T0KEN") || strings.Contains(value, "whsec") || strings.Contains(key, "unused") || strings.Contains(key, "owners") || strings.Contains(key, "begin") {
			t.Errorf("%s: %q", key, value)
		}
	}
	for _, tt := range []struct{ from, to, key string }{
		{"issues.opened", "issues.closed", "teams.acme.subscriptions.fulfil.types[0]"},
		{"wait: 20s", "wait: 30s", "teams.acme.subscriptions.fulfil.gap.wait"},
		{"agent.example/run", "agent-2.example/run", "teams.acme.destinations.agent.url"},
		{"name: page, to: pagers}", "name: page, to: pagers, on_dead: continue}", "teams.acme.subscriptions.fulfil.actions[1].on_dead"},
		{"owners: [ann]", "owners: [bob]", ""}, {"unused.example", "elsewhere.example", ""}, {"orders-secret", "another-secret", ""},
	} {
		changed := of(strings.Replace(deciding, tt.from, tt.to, 1), env)
		var keys []string
		for _, key := range slices.Sorted(maps.Keys(changed)) {
			if changed[key] != base[key] {
				keys = append(keys, key)
			}
		}
		if d := cmp.Diff(tt.key, strings.Join(keys, " ")); d != "" {
			t.Errorf("%s: %s", tt.to, d)
		}
	}
}
