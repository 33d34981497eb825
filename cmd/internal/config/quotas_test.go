package config

import (
	"slices"
	"strings"
	"testing"
)

// crowded is a file with quotas, and a team with two sources of 3 and 4 partitions and one subscription: 10 partitions in five topics.
const crowded = `version: 1
kafka: {brokers: ["127.0.0.1:9092"]}
postgres: {url: "postgres://h/d"}
quotas: QUOTAS
teams:
  acme:
    sources:
      a: {preset: github, secrets: [x], topics: {partitions: 3}}
      b: {preset: github, secrets: [x], topics: {partitions: 4}}
    destinations: {log: {type: log}}
    subscriptions:
      sub: {sources: [a], actions: [{name: a, to: log}]}
  small: {sources: {a: {preset: github, secrets: [x], topics: {partitions: 1}}}}
`

func loadCrowded(quotas string) (*Config, string) {
	c, problems := load(strings.Replace(crowded, "QUOTAS", quotas, 1), nil, nil, Options{})
	if len(problems) > 0 {
		return nil, problems.Error()
	}
	return c, ""
}

func TestQuotas(t *testing.T) {
	t.Parallel()
	for quotas, want := range map[string]string{
		"{}": "",
		"{default: {sources: 2, subscriptions: 1, partitions: 10}}":              "",
		"{default: {sources: 1}}":                                                "forebay.yaml:7: teams.acme.sources: team acme has 2 sources and its quota is 1: take some out, or ask whoever has the main file for more (quotas.default.sources, forebay.yaml:4)",
		"{default: {partitions: 9}}":                                             "teams.acme.sources: team acme has 10 partitions in all its topics, of quarantine and dead letters too, and its quota is 9",
		"{default: {sources: 9}, teams: {acme: {subscriptions: 0, sources: 1}}}": "its quota is 1: take some out, or ask whoever has the main file for more (quotas.teams.acme.sources",
		"{default: {sources: 1}, teams: {acme: {sources: 2}}}":                   "",
		"{default: {sources: 1}, teams: {acme: {sources: 0}}}":                   "",
		"{default: {sources: 1}, teams: {acme: {partitions: 10}}}":               "its quota is 1",
		"{default: {subscriptions: 1}, teams: {acme: {partitions: 9}}}":          "its quota is 9",
		"{default: {sources: -1}}":                                               "must be at least 0",
		"{default: {rate: {}}}":                                                  "quotas.default.rate: limit is missing",
		"{default: {rate: {limit: 0}}}":                                          "must be at least 1",
		"{default: {rate: {limit: 9999999}}}":                                    "quotas.default.rate.limit: 9999999 is more than 1000000",
		"{teams: {acme: {rate: {limit: 1, per: 0s}}}}":                           "quotas.teams.acme.rate.per: 0s is not between",
		"{acme: {sources: 1}}":                                                   "quotas.acme: unknown key",
	} {
		_, wrong := loadCrowded(quotas)
		if want == "" && wrong != "" || !strings.Contains(wrong, want) {
			t.Errorf("%s: no %q in %q", quotas, want, wrong)
		}
	}
	if _, wrong := loadCrowded("{default: {subscriptions: 1, sources: 2}}"); wrong != "" {
		t.Error(wrong)
	}
	c, wrong := loadCrowded("{default: {rate: {limit: 100}}, teams: {acme: {rate: {limit: 6, per: 1m, burst: 2}}, smal: {sources: 1}}}")
	if wrong != "" {
		t.Fatal(wrong)
	}
	if acme, small := c.Quota("acme").Rate, c.Quota("small").Rate; acme.PerSecond() != 0.1 || acme.Burst != 2 || small.Limit != 100 || small.Burst != 100 {
		t.Errorf("acme may %+v, small %+v", acme, small)
	}
	if !slices.ContainsFunc(c.Notes(), func(p Problem) bool { return strings.Contains(p.Message, "there is no team smal; did you mean small?") }) {
		t.Error("a quota for nobody is said")
	}
	before, _ := loadCrowded("{}")
	if got := waitingPaths(before, c); len(got) != 0 {
		t.Errorf("quotas need a restart of %v", got)
	}
}
