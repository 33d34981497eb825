package config

import (
	"testing"

	"github.com/forebay-io/forebay/ingest/provider"
	"github.com/forebay-io/forebay/schemas"
)

// The default of start follows what a source's versions are in the end: the file's word over its preset's.
func TestStartFollowsTheKindOfVersions(t *testing.T) {
	t.Parallel()
	file := func(event, sources string) string {
		return `version: 1
kafka: {brokers: ["127.0.0.1:9092"]}
postgres: {url: postgres://h/d}
teams:
  acme:
    sources:
      one: {preset: stripe, secrets: [s]` + event + `}
      two: {preset: github, secrets: [s]}
    destinations:
      log: {type: log}
    subscriptions:
      it: {sources: [` + sources + `], actions: [{name: log, to: log}]}
`
	}
	const dense = ", event: {version: {from: /rev, kind: sequence}}"
	for name, tt := range map[string]struct{ event, sources, start string }{
		"a preset's own":             {"", "one", "any"},
		"a preset's, made dense":     {dense, "one", "first"},
		"one that is not beside it":  {dense, "one, two", "any"},
		"a preset's, with new times": {", event: {version: {from: /at, kind: timestamp}}", "one", "any"},
	} {
		c, problems := load(file(tt.event, tt.sources), nil, nil, Options{})
		if len(problems) > 0 {
			t.Fatalf("%s: %v", name, problems)
		}
		if got := c.Teams["acme"].Subscriptions["it"].Start; got != tt.start {
			t.Errorf("%s: start: %s, want %s", name, got, tt.start)
		}
	}
	for _, p := range provider.Presets() { // or Source.Sequence has to look there
		for _, of := range append(p.Types, p.Fallback) {
			for _, v := range of.Versions {
				if v.Kind == schemas.Sequence {
					t.Errorf("preset %s gives %s versions of kind sequence, and start would be any", p.Name, of.Match)
				}
			}
		}
	}
}

// TestDedupeOutlastsRetries: what a provider may deliver again is still known by then.
func TestDedupeOutlastsRetries(t *testing.T) {
	t.Parallel()
	for _, p := range provider.Presets() {
		if p.RetryHorizon.Std() > RedeliveryHorizon.Std() {
			t.Errorf("%s repeats for %s, longer than the redelivery horizon %s", p.Name, p.RetryHorizon.Std(), RedeliveryHorizon)
		}
	}
}
