package config

import (
	"slices"
	"strings"
	"testing"
)

// sharing is a file in which payments reads a source of acme's; SHARE and SOURCES are filled in.
const sharing = `version: 1
kafka: {brokers: ["127.0.0.1:9092"]}
postgres: {url: "postgres://h/d"}
teams:
  acme:
    owners: [ann, bob]
    contact: "#acme"
    sources:
      github: {preset: github, secrets: [x], topics: {retention: 30d}SHARE}
      orders: {preset: generic, secrets: [x], verify: {signature_header: X-S}, event: {id: /id, type: /t, entity: [/e], version: {from: /rev, kind: sequence}}}
  payments:
    sources:
      github: {preset: github, secrets: [x]}
    destinations: {log: {type: log}}
    subscriptions:
      risk: {sources: [SOURCES], actions: [{name: a, to: log}]}
  other: {}
`

func loadSharing(share, sources string, o Options) (*Config, string) {
	c, problems := load(strings.NewReplacer("SHARE", share, "SOURCES", sources).Replace(sharing), nil, nil, o)
	if len(problems) > 0 {
		return nil, problems.Error()
	}
	return c, ""
}

func TestSharedSourceIsRead(t *testing.T) {
	t.Parallel()
	for _, share := range []string{", share: [payments]", ", share: [other, payments]", `, share: ["*"]`} {
		c, wrong := loadSharing(share, "github, acme/github", Options{})
		if wrong != "" {
			t.Fatal(wrong)
		}
		var topics, uris []string
		for _, s := range c.SourcesOf("payments", "risk") {
			topics, uris = append(topics, s.Topic), append(uris, s.URI())
		}
		if !slices.Equal(topics, []string{"events.payments.github", "events.acme.github"}) || !slices.Equal(uris, []string{"/payments/github", "/acme/github"}) {
			t.Errorf("it reads %v, %v", topics, uris)
		}
		if got := c.ReadersOf("acme", "github"); !slices.Equal(got, []string{"payments.risk"}) {
			t.Errorf("acme/github is read by %v", got)
		}
		// What is remembered goes by the longest retention of its sources, whoever has them.
		if got := c.Teams["payments"].Subscriptions["risk"].Dedupe.Window; got < mustDuration("30d") {
			t.Errorf("the window of dedupe is %s", got)
		}
	}
	// A default that depends on the sources does so for another team's.
	shared := strings.Replace(sharing, "kind: sequence}}}", "kind: sequence}}, share: [payments]}", 1)
	c, problems := load(strings.NewReplacer("SHARE", "", "SOURCES", "acme/orders").Replace(shared), nil, nil, Options{})
	if len(problems) > 0 || c.Teams["payments"].Subscriptions["risk"].Start != "first" {
		t.Errorf("%v", problems)
	}
}

func TestWhatIsNotSharedIsRefused(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ share, sources, want string }{
		{"", "acme/github", "forebay.yaml:16: teams.payments.subscriptions.risk.sources[0]: team acme does not share its source github with team payments: " +
			"ask team acme (ann or bob, #acme) to write share: [payments] at teams.acme.sources.github (forebay.yaml:9)"},
		{", share: [other]", "github, acme/github", "sources[1]: team acme does not share its source github with team payments: ask team acme (ann or bob, #acme) to write share: [other, payments]"},
		{", share: [payments]", "acme/orders", "does not share its source orders with team payments"},
		{"", "acme/githb", `team acme has no source "githb"; did you mean acme/github?`},
		{"", "acm/github", `there is no team "acm"; did you mean acme/github?`},
		{"", "zzzzzz/github", `there is no team "zzzzzz": another team's source is TEAM/SOURCE`},
		{"", "acme/github/x", `team acme has no source "github/x"`},
		{"", "/acme/github", `there is no team ""`},
		{"", "events.acme.github", `the team has no source "events.acme.github"`},
		{"", "github, payments/github", "sources[1]: source payments/github is listed twice"},
		{", share: [payments]", "acme/github, acme/github", "sources[1]: source acme/github is listed twice"},
		{", share: [acme]", "github", "teams.acme.sources.github.share[0]: is the team whose source it is"},
		{", share: [other, other]", "github", "share[1]: team other is listed twice"},
		{`, share: ["*", other]`, "github", "* is all teams: name no other beside it"},
		{", share: [Other]", "github", `share[0]: name "Other" must match`},
		{", share: payments", "github", "expected a list"},
	} {
		if _, wrong := loadSharing(tt.share, tt.sources, Options{}); !strings.Contains(wrong, tt.want) {
			t.Errorf("%s, sources: [%s]: no %q in\n%s", tt.share, tt.sources, tt.want, wrong)
		}
	}
	c, wrong := loadSharing(", share: [paymnts]", "github", Options{})
	if wrong != "" || !slices.ContainsFunc(c.Notes(), func(p Problem) bool {
		return strings.Contains(p.Message, "there is no team paymnts; did you mean payments?")
	}) {
		t.Errorf("a share with nobody is said: %s", wrong)
	}
}

// TestWhoeverRunsIsNotHeldUp: a process loads what config check refuses, and does not run that one subscription. Taking a share away is no
// change that needs a restart.
func TestWhoeverRunsIsNotHeldUp(t *testing.T) {
	t.Parallel()
	before, wrong := loadSharing(", share: [payments]", "acme/github", Options{Run: true})
	if wrong != "" || before.Barred("payments", "risk") != "" {
		t.Fatal(wrong)
	}
	after, wrong := loadSharing("", "acme/github", Options{Run: true})
	if wrong != "" || !strings.Contains(after.Barred("payments", "risk"), "does not share its source github") {
		t.Fatalf("%q, barred: %v", wrong, after)
	}
	if got := waitingPaths(before, after); len(got) != 0 {
		t.Errorf("a share that is taken away needs a restart of %v", got)
	}
	for _, sources := range []string{"acme/gone", "gone/github"} {
		if c, wrong := loadSharing("", sources, Options{Run: true}); wrong != "" || c.Barred("payments", "risk") == "" {
			t.Errorf("%s: %q", sources, wrong)
		}
	}
	// What acme has made of its source is no problem of payments' file either, once payments may not read it; nor is what becomes of defaults a change.
	file := func(share, orders, more string) string {
		text := strings.NewReplacer("SHARE", "", "SOURCES", "acme/orders", "kind: sequence}}}", "kind: sequence}}, "+share+", backfill: {url: 'https://x.example/{entity.0}', "+
			"event: {id: /id, type: /t, payload: delta, version: {from: /rev, kind: sequence}}}}", "actions: [{name: a", more+"actions: [{name: a").Replace(sharing)
		return strings.Replace(text, "      orders: {", "      "+orders+": {", 1)
	}
	for _, more := range []string{"", "start: first, ", "gap: {then: backfill}, ", "dedupe: {window: 100d}, ", "start: any, expire: 30d, "} {
		before, problems := load(file("share: [payments]", "orders", more), nil, nil, Options{Run: true})
		if len(problems) > 0 || before.Barred("payments", "risk") != "" {
			t.Fatalf("%q: %v", more, problems)
		}
		for _, text := range []string{file("share: [other]", "orders", more), file("share: [payments]", "orders2", more),
			strings.Replace(file("topics: {retention: 300d}", "orders", more), "kind: sequence", "kind: timestamp, clock: order", 1)} {
			after, problems := load(text, nil, nil, Options{Run: true})
			if len(problems) > 0 || after.Barred("payments", "risk") == "" {
				t.Errorf("%q: %v", more, problems)
				continue
			}
			if got := waitingPaths(before, after); slices.ContainsFunc(got, func(path string) bool { return strings.HasPrefix(path, "teams.payments") }) {
				t.Errorf("%q: a restart is needed of %v", more, got)
			}
		}
	}
	if _, wrong := loadSharing("", "gone", Options{Run: true}); wrong == "" {
		t.Error("a team's own source that is not there is a problem")
	}
}
