package app

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/cmd/internal/rig"
	"github.com/forebay-io/forebay/schemas"
)

// TestFilters: match decides what is an event of the subscription, when what an action does; an error is never silence, and after the file is
// mended an operator's word runs what it kept.
func TestFilters(t *testing.T) {
	t.Parallel()
	agent := newAgent(t)
	r := deploy(t, agent.URL, newLedger(t), false)
	written := strings.NewReplacer("fulfil: {sources: [orders],", `fulfil: {sources: [orders], match: "body.order in ['a', 'd'] || body.order != 'b' && body.nope == 1",`,
		"then: park}, actions: [{name: run, to: agent}]", `then: park}, actions: [{name: run, to: agent, when: "action.to == 'agent' && (body.order == 'a' || body.rev < 2 && body.nope == 1)"}]`)
	r.text = written.Replace(r.text)
	r.createTopics()
	roles := []config.Role{config.RoleIntake, config.RoleStream}
	p := r.run(roles...)
	p.accepted("orders", "orders-secret", order("a", 1))
	p.accepted("orders", "orders-secret", order("b", 1))
	p.accepted("orders", "orders-secret", order("c", 1))
	p.accepted("orders", "orders-secret", order("d", 1))
	p.accepted("orders", "orders-secret", order("d", 2))
	p.item("fulfil", "orders", "a-1", "applied", "done")
	p.item("fulfil", "orders", "b-1", "filtered", "filtered")
	p.item("fulfil", "orders", "c-1", "quarantined", "")
	p.item("fulfil", "orders", "d-1", "applied", "dead_letter")
	p.item("fulfil", "orders", "d-2", "applied", "parked") // its when is false, and its turn has not come
	for id, want := range map[string]string{"b-1": "match", "c-1": "expression"} {
		if d, err := p.api.Item(t.Context(), "acme", "fulfil", "orders", id); err != nil || string(d.Reason) != want {
			t.Errorf("%s: %v, %v, want reason %s", id, d, err, want)
		}
	}
	if d, err := p.api.Item(t.Context(), "acme", "fulfil", "orders", "d-1"); err != nil || len(d.Actions) != 1 || d.Actions[0].Status != "dead_letter" || d.Attempts != 0 {
		t.Errorf("d-1: %+v, %v", d, err)
	}
	ask := api.RedriveRequest{By: "me", Reason: "mended"}
	if _, err := p.api.Redrive(t.Context(), "acme", "fulfil", "orders", "c-1", ask); schemas.KindOf(err) != schemas.Invalid || !strings.Contains(err.Error(), "it would be quarantined again: match fails at character") {
		t.Errorf("redriven before it is mended: %v", err)
	}
	if _, err := p.api.Redrive(t.Context(), "acme", "fulfil", "orders", "b-1", ask); schemas.KindOf(err) != schemas.Invalid || !strings.Contains(err.Error(), "the subscription's match leaves it out") {
		t.Errorf("a filtered one: %v", err)
	}
	// Both are mended in the file, which is read again while the process runs.
	r.text = strings.NewReplacer("body.order != 'b' && body.nope == 1", "body.order == 'c'", "body.rev < 2 && body.nope == 1", "body.rev < 2 && body.order != 'c'").Replace(r.text)
	r.reload(p, roles...)
	if _, err := p.api.Redrive(t.Context(), "acme", "fulfil", "orders", "c-1", ask); err != nil {
		t.Fatal(err)
	}
	p.item("fulfil", "orders", "c-1", "applied", "skipped") // by its when
	p.clean()
}

// TestReplaysHonourMatch: a plan counts by match, and a fill runs what match takes since it was written anew, and nothing else; a plan of another
// match is not started.
func TestReplaysHonourMatch(t *testing.T) {
	t.Parallel()
	agent := newAgent(t)
	r := deploy(t, agent.URL, newLedger(t), false)
	with := func(match string) {
		r.text = regexp.MustCompile(`fulfil: \{sources: \[orders\],( match: "[^"]*",)?`).ReplaceAllString(r.text, `fulfil: {sources: [orders], match: "`+match+`",`)
	}
	with("body.order in ['a', 'c']")
	r.createTopics()
	roles := []config.Role{config.RoleIntake, config.RoleStream}
	p := r.run(roles...)
	for _, o := range []string{"a", "b", "c"} {
		p.accepted("orders", "orders-secret", order(o, 1))
	}
	p.accepted("orders", "orders-secret", order("b", 2))
	p.item("fulfil", "orders", "a-1", "applied", "done")
	p.item("fulfil", "orders", "c-1", "applied", "done")
	p.item("fulfil", "orders", "b-2", "filtered", "filtered")
	plan := func(mode string, runs int64) string {
		t.Helper()
		got, err := p.api.PlanReplay(t.Context(), api.ReplayPlan{Team: "acme", Subscription: "fulfil", Mode: mode, By: "me"})
		for err == nil && got.State == "counting" {
			got, err = p.api.CountReplay(t.Context(), got.ID)
		}
		if err != nil || got.Runs != runs {
			t.Fatalf("%s: %+v, %v, want %d", mode, got, err, runs)
		}
		return got.ID
	}
	start := func(id string) {
		t.Helper()
		if _, err := p.api.AskReplay(t.Context(), id, "start", api.ReplayRequest{By: "me", Reason: "test"}); err != nil {
			t.Fatal(err)
		}
		var got *api.ReplayItem
		if !rig.Until(time.Minute, func() (done bool) {
			var err error
			if got, err = p.api.Replay(t.Context(), id); err != nil {
				t.Fatal(err)
			}
			return got.State == "done"
		}) {
			t.Fatalf("%+v", got)
		}
	}
	start(plan("fill", 0))
	p.item("fulfil", "orders", "b-2", "filtered", "filtered")
	stale := plan("fill", 0)
	with("body.order != 'a'")
	r.reload(p, roles...)
	if _, err := p.api.AskReplay(t.Context(), stale, "start", api.ReplayRequest{By: "me", Reason: "test"}); schemas.KindOf(err) != schemas.Conflict || !strings.Contains(err.Error(), "plan it again") {
		t.Errorf("a plan of another match: %v", err)
	}
	start(plan("fill", 2))
	p.item("fulfil", "orders", "b-1", "late", "done") // filtered, it has filled its place
	p.item("fulfil", "orders", "b-2", "applied", "done")
	start(plan("reprocess", 3)) // without a
	calls := map[string]int{}
	for _, c := range agent.wait(t, 7) {
		calls[c.Entity]++
	}
	if want := map[string]int{"a": 1, "b": 4, "c": 2}; !cmp.Equal(calls, want) {
		t.Errorf("the agent was called for %v, want %v", calls, want)
	}
	p.clean()
}
