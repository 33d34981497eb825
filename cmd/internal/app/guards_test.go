package app

import (
	"slices"
	"testing"

	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/sink"
)

// TestMovedDestinationKeepsItsGuards: an action that is open for a destination by the name from before that was moved to the top, or back, is in its
// budget, and known to be a call of its agent.
func TestMovedDestinationKeepsItsGuards(t *testing.T) {
	t.Parallel()
	const coder = `{type: log, budget: {runs: {limit: 1, per: 1h}}, agent: the-coder`
	for name, tt := range map[string]struct{ top, team, path string }{
		"to the top": {"destinations: {coder: " + coder + ", teams: [acme]}}\n", "{}", "destinations.coder.budget"},
		"back":       {"", "{coder: " + coder + "}}", "teams.acme.destinations.coder.budget"},
	} {
		file, err := config.Load(config.Options{Path: "forebay.yaml", Data: []byte(`version: 1
kafka: {brokers: ["127.0.0.1:9092"]}
postgres: {url: postgres://h/d}
` + tt.top + `teams:
  acme:
    sources: {github: {preset: github, secrets: [s]}}
    destinations: ` + tt.team + `
    subscriptions: {triage: {sources: [github], actions: [{name: run, to: coder}]}}
  other:
    sources: {github: {preset: github, secrets: [s]}}
    destinations: {coder: {type: log, budget: {runs: {limit: 7, per: 1h}}, agent: nobody}}
    subscriptions: {triage: {sources: [github], actions: [{name: run, to: coder}]}}
`)})
		if err != nil {
			t.Fatal(err)
		}
		at := nameInTeam{"acme", "triage"}
		loops, _ := loops(guarding{file: file, at: at})
		for _, destination := range []string{"coder", "acme/coder"} {
			if list := allowancesOf(file, at, "run", destination); len(list) != 1 || list[0].Path != tt.path {
				t.Errorf("%s: budgets of what is open for %s: %+v, want %s", name, destination, list, tt.path)
			}
			for _, chain := range [][]string{{"the-coder"}, {"nobody"}} {
				v, err := loops.Before(t.Context(), sink.Action{Name: "run", Subscription: "acme.triage", Destination: destination,
					Event: &schemas.Event{Chain: schemas.Chain{Agents: chain, Depth: len(chain)}}})
				if err != nil || (v.Status == ledger.Dropped) != slices.Contains(chain, "the-coder") {
					t.Errorf("%s: a call to %s with chain %q: %+v %v", name, destination, chain, v, err)
				}
			}
		}
	}
}
