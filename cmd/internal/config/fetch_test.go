package config

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/forebay-io/forebay/ingest/provider"
)

const fetching = `version: 1
kafka: {brokers: ["127.0.0.1:9092"]}
postgres: {url: postgres://h/d}
teams:
  acme:
    sources:
      github:
        preset: github
        secrets: [s]
        backfill:
          url: https://api.github.com/repositories/{entity.0}/pulls/{entity.1}
          headers: {Authorization: "Bearer ${env:GITHUB_TOKEN}", X-GitHub-Api-Version: 2022-11-28}
          rate: {limit: 2}
          event:
            type: cel:'com.github.pull_request.backfilled'
            entity: [/base/repo/id, /number]
            version: {from: /updated_at, kind: timestamp, clock: pull_request, resolution: 1s}
            payload: snapshot
      orders:
        preset: generic
        secrets: [s]
        verify: {signature_header: X-Signature}
        event: {id: header:X-Event-Id, type: /type, entity: [/order/id], version: {from: /order/rev, kind: sequence}, payload: snapshot}
        backfill:
          url: http://127.0.0.1:8000/orders/{entity.0}?from={from}&to={to}
          allow_networks: [127.0.0.0/8]
          items: /revisions
          retry: {attempts: 3}
      carts:
        preset: generic
        secrets: [s]
        verify: {signature_header: X-Signature}
        event: {id: /id, type: header:X-Type, entity: [/cart]}
        thin: {url: "https://shop.example/carts/{entity}?event={id}", headers: {X-Api-Key: "${env:SHOP_KEY}"}, timeout: 3s}
    destinations:
      agent: {type: log}
    subscriptions:
      fulfil: {sources: [orders], gap: {then: park}, actions: [{name: run, to: agent}]}
`

var fetchEnv = map[string]string{"GITHUB_TOKEN": "gh-t0ken", "SHOP_KEY": "sh-t0ken"}

func TestFetches(t *testing.T) {
	t.Parallel()
	c, problems := load(fetching, fetchEnv, nil, Options{})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	github, orders, carts := c.Teams["acme"].Sources["github"].Backfill, c.Teams["acme"].Sources["orders"].Backfill, c.Teams["acme"].Sources["carts"].Thin
	if got := github.Headers["Authorization"].Reveal(); got != "Bearer gh-t0ken" || github.Headers["X-GitHub-Api-Version"].Reveal() != "2022-11-28" {
		t.Errorf("headers: %q", got)
	}
	if github.Rate.Burst != 2 || github.Timeout != mustDuration("10s") || github.MaxBody != 8<<20 ||
		github.Retry != (FetchRetry{Attempts: 5, Within: mustDuration("1m"), Min: mustDuration("500ms"), Max: mustDuration("44.329s")}) {
		t.Errorf("defaults: %+v", github)
	}
	if orders.Retry.Attempts != 3 || orders.Rate != nil || carts.Timeout != mustDuration("3s") {
		t.Errorf("what is written: %+v, %+v", orders, carts)
	}
	shown, err := c.YAML()
	if err != nil || strings.Contains(string(shown), "t0ken") {
		t.Errorf("config show leaks a token, or fails: %v\n%s", err, shown)
	}
	again := strings.ReplaceAll(string(shown), "url: <redacted>", "url: postgres://h/d")
	if _, problems := load(again, fetchEnv, nil, Options{}); len(problems) > 0 {
		t.Errorf("what config show prints does not load:\n%v\n%s", problems, shown)
	}
}

// The mapping of an element is its own, completed from the source's; ids are not, and the entity is the one asked for.
func TestBackfillEvent(t *testing.T) {
	t.Parallel()
	c, problems := load(fetching, fetchEnv, nil, Options{})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	want := &provider.EventConfig{Type: "/type", Version: &provider.VersionConfig{From: "/order/rev", Kind: "sequence"}, Payload: "snapshot", First: new(int64(1))}
	if diff := cmp.Diff(want, c.BackfillEvent("acme", "orders")); diff != "" {
		t.Error(diff)
	}
	own := c.BackfillEvent("acme", "github")
	if own.Entity == nil || own.Version.Clock != "pull_request" || own.First != nil {
		t.Errorf("%+v", own)
	}
}

// Only the stream fetches, so only it needs the tokens.
func TestOnlyTheStreamNeedsTokens(t *testing.T) {
	t.Parallel()
	for _, role := range []Role{RoleIntake, RoleTopics, RoleSend, RoleMigrate} {
		if _, problems := load(fetching, nil, nil, Options{Roles: []Role{role}}); len(problems) > 0 {
			t.Errorf("%s needs a token:\n%v", role, problems)
		}
	}
	_, problems := load(fetching, nil, nil, Options{Roles: []Role{RoleStream}})
	for _, want := range []string{
		"github.backfill.headers.Authorization: environment variable GITHUB_TOKEN is not set",
		"carts.thin.headers.X-Api-Key: environment variable SHOP_KEY is not set",
	} {
		if !strings.Contains(problems.Error(), want) {
			t.Errorf("no %q in\n%v", want, problems)
		}
	}
}

func TestFetchProblems(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, old, new, want string }{
		{"no url", "url: https://api.github.com/repositories/{entity.0}/pulls/{entity.1}", "items: /x", "sources.github.backfill: url is missing"},
		{"unknown place", "{entity.1}", "{number}", "forebay.yaml:11: teams.acme.sources.github.backfill.url: has {number}, which means nothing in backfill"},
		{"place of the other use", "event={id}", "event={from}", "carts.thin.url: has {from}, which means nothing in thin"},
		{"place in the host", "https://api.github.com/", "https://{entity.0}.github.com/", "in its scheme or host"},
		{"private host", "https://api.github.com/", "https://10.0.0.1/", "10.0.0.1 is in none of allow_networks"},
		{"plain http", "https://shop.example/", "http://shop.example/", "plain http is refused unless allow_networks"},
		{"timeout", "timeout: 3s", "timeout: 2m", "2m is not between 100ms and 1m"},
		{"largest document", "timeout: 3s", "timeout: 3s, max_body: 101MiB", "carts.thin.max_body: 101MiB is more than 100MiB"},
		{"retry", "attempts: 3", "attempts: 3, min: 1m, max: 30s", "1m is more than max 30s"},
		{"thin tries once", "timeout: 3s", "retry: {attempts: 3}", "carts.thin.retry: unknown key"},
		{"header twice", "{Authorization:", "{X-GitHub-Api-Version: a, Authorization:", "duplicate key"},
		{"no type", `            type: cel:'com.github.pull_request.backfilled'` + "\n", "", "github.backfill.event: type is missing"},
		{"no version", "            version: {from: /updated_at, kind: timestamp, clock: pull_request, resolution: 1s}\n", "", "version is missing: an event without one fills no gap"},
		{"kind none", "version: {from: /updated_at, kind: timestamp, clock: pull_request, resolution: 1s}", "version: {kind: none}", "kind none fills no gap"},
		{"version without from", "version: {from: /updated_at, kind: timestamp,", "version: {kind: timestamp,", "github.backfill.event.version: from is missing"},
		{"no payload", "            payload: snapshot\n", "", "payload is missing: snapshot where"},
		{"header of an element", "entity: [/base/repo/id, /number]", "entity: [header:X-Id]", "backfill.event.entity: header:X-Id means nothing: an element of an answer has no headers"},
		{"inherited header", "type: /type,", "type: header:X-Type,", "orders.backfill.event: type is missing: the source's own is header:X-Type"},
		{"within without backfill", "gap: {then: park}", "gap: {then: park, within: 1m}", "fulfil.gap.within: means nothing without then: backfill"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if !strings.Contains(fetching, test.old) {
				t.Fatalf("%q is not in the file", test.old)
			}
			_, problems := load(strings.Replace(fetching, test.old, test.new, 1), fetchEnv, nil, Options{})
			if !strings.Contains(problems.Error(), test.want) {
				t.Errorf("no %q in\n%v", test.want, problems)
			}
			if strings.Contains(problems.Error(), "t0ken") {
				t.Errorf("a problem shows a token: %v", problems)
			}
		})
	}
}

// What then: backfill and start: backfill need of the sources, and what they are filled with.
func TestBackfillNeedsAPlaceToAsk(t *testing.T) {
	t.Parallel()
	sequence := &provider.EventConfig{Version: &provider.VersionConfig{Kind: "sequence"}}
	team := &Team{Sources: map[string]*Source{
		"asked": {Event: sequence, Backfill: &Backfill{}}, "unasked": {Event: sequence}, "plain": {},
	}}
	for _, test := range []struct {
		start, then string
		sources     []string
		want        []string
	}{
		{"any", "backfill", []string{"asked", "plain"}, nil},
		{"any", "backfill", []string{"asked", "unasked"}, []string{"gap.then: then: backfill needs a place to ask: source unasked has no backfill"}},
		{"backfill", "skip", []string{"asked", "plain", "unasked"}, []string{
			"start: start: backfill needs a place to ask: source plain has no backfill", "start: start: backfill needs a place to ask: source unasked has no backfill"}},
		{"any", "skip", []string{"unasked"}, nil},
	} {
		sub := &Subscription{Sources: test.sources, Start: test.start, Gap: Gap{Then: test.then}}
		c := &Config{Teams: map[string]*Team{"acme": team}, places: map[string]place{}, unresolved: map[string]bool{}}
		sub.fill(c, c.sourcesOf("acme", sub))
		ck := &checker{c: c, options: &Options{}}
		ck.backfilled("s", "acme", c.sourcesOf("acme", sub), sub)
		var got []string
		for _, p := range ck.problems {
			got = append(got, strings.TrimPrefix(p.Path, "s.")+": "+p.Message)
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("start %s, then %s, %v: %q, want %q", test.start, test.then, test.sources, got, test.want)
		}
		if filled := sub.Gap.Within == mustDuration("1m") && sub.Gap.Otherwise == "park"; filled != sub.backfills() {
			t.Errorf("start %s, then %s: filled with %+v", test.start, test.then, sub.Gap)
		}
	}
}

func TestFetchesNeedARestart(t *testing.T) {
	t.Parallel()
	running, problems := load(fetching, fetchEnv, nil, Options{})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	for _, test := range []struct{ old, new, want string }{
		{"timeout: 3s", "timeout: 4s", ""},
		{"attempts: 3", "attempts: 4", ""},
		{"type: /type", "type: /kind", ""}, // an element's too
		{"id: header:X-Event-Id", "id: header:X-Id", ""},
	} {
		read, problems := load(strings.Replace(fetching, test.old, test.new, 1), fetchEnv, nil, Options{})
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		if got := strings.Join(waitingPaths(running, read), ","); got != test.want {
			t.Errorf("%s: %q, want %q", test.new, got, test.want)
		}
	}
	other := map[string]string{"GITHUB_TOKEN": "gh-t0ken-2", "SHOP_KEY": "sh-t0ken"}
	if read, _ := load(fetching, other, nil, Options{}); strings.Join(waitingPaths(running, read), ",") != "" {
		t.Errorf("a new token: %q", waitingPaths(running, read))
	}
}
