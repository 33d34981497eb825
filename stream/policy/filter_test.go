package policy_test

import (
	"strings"
	"testing"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/expression"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/policy"
	"github.com/forebay-io/forebay/stream/sink"
)

func opened(body string) *schemas.Event {
	return &schemas.Event{ID: "e-1", Source: "/acme/github", Type: "com.github.issues.opened", Entity: "1/42", Data: []byte(body)}
}

func TestMatch(t *testing.T) {
	t.Parallel()
	if match, err := policy.Match(""); match != nil || err != nil {
		t.Errorf("without a text: %v", err)
	}
	if _, err := policy.Match("body."); err == nil {
		t.Error("what is no expression was taken")
	}
	match, err := policy.Match("body.state == 'open'")
	if err != nil {
		t.Fatal(err)
	}
	for body, want := range map[string]string{`{"state":"open"}`: "", `{"state":"closed"}`: "false", `{"state":7}`: "false", `{"secret":"hunter2"}`: "match fails at character 5", `no JSON`: "match cannot be made: the event's body cannot be read as JSON"} {
		got, err := match(opened(body))
		switch {
		case want == "" && (err != nil || !got), want == "false" && (err != nil || got):
			t.Errorf("%s: %v, %v", body, got, err)
		case want != "" && want != "false" && (err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2")):
			t.Errorf("%s: %v, want %s", body, err, want)
		}
	}
}

func TestWhen(t *testing.T) {
	t.Parallel()
	x, err := expression.Condition("action.to == 'coder' && body.n > 1")
	if err != nil {
		t.Fatal(err)
	}
	guard := policy.Conditions{"run": x}
	for _, tt := range []struct {
		name, to, body string
		status         ledger.Status
		reason         string
	}{
		{"run", "acme/coder", `{"n":2}`, "", ""},
		{"run", "coder", `{"n":2}`, "", ""}, // shared
		{"run", "acme/coder", `{"n":1}`, ledger.Skipped, policy.When},
		{"run", "acme/chat", `{}`, ledger.Skipped, policy.When},
		{"run", "acme/coder", `{}`, ledger.Dead, policy.Expression},
		{"tell", "acme/chat", `{}`, "", ""}, // has no when
	} {
		v, err := guard.Before(t.Context(), sink.Action{Name: tt.name, Subscription: "acme.triage", Destination: tt.to, Event: opened(tt.body)})
		if err != nil || v.Status != tt.status || v.Reason != tt.reason || (v.Text == "") != (tt.status == "") {
			t.Errorf("%+v: %+v, %v", tt, v, err)
		}
	}
}

// TestConditionsOfAChain: what one condition of a chain has the body read for, the others need not look for again.
func TestConditionsOfAChain(t *testing.T) { // not parallel: it counts allocations
	condition := func(text string) *expression.Expression {
		x, err := expression.Condition(text)
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	guards := func() []policy.Guard {
		return []policy.Guard{policy.Conditions{"run": condition("body.action == 'opened'")}, policy.Senders{Own: true}, &policy.Rules{Levels: [][]policy.Rule{
			{{Name: "a", If: condition("body.issue.state == 'closed'"), Then: policy.Deny}}, {{Name: "b", If: condition("body.sender.id == 7"), Then: policy.Allow}}}}}
	}
	a := sink.Action{Name: "run", Subscription: "acme.triage", Destination: "acme/coder", Event: opened(`{"action":"opened","issue":{"state":"open"},"sender":{"id":7}}`)}
	allocations := func(c policy.Chain) float64 {
		return testing.AllocsPerRun(100, func() {
			if v, err := c.Before(t.Context(), a); err != nil || v.Status != "" {
				t.Errorf("%+v, %v", v, err)
			}
		})
	}
	if n, apart := allocations(policy.NewChain(guards())), allocations(guards()); n >= apart {
		t.Errorf("%.0f allocations, and %.0f where each looks for what it names", n, apart)
	}
}
