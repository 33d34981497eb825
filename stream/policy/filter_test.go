package policy_test

import (
	"strings"
	"testing"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/expression"
	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/policy"
	"github.com/forebay-io/forebay/stream/sink"
)

func opened(body string) *schemas.Event {
	return &schemas.Event{ID: "e-1", Source: "/acme/github", Type: "com.github.issues.opened", Entity: "1/42", Data: []byte(body)}
}

func TestMatch(t *testing.T) {
	t.Parallel()
	if match, err := policy.Select("", ""); match != nil || err != nil {
		t.Errorf("without a text: %v", err)
	}
	if _, err := policy.Select("body.", ""); err == nil {
		t.Error("what is no expression was taken")
	}
	match, err := policy.Select("body.state == 'open'", "")
	if err != nil {
		t.Fatal(err)
	}
	for body, want := range map[string]string{`{"state":"open"}`: "", `{"state":"closed"}`: "false", `{"state":7}`: "false", `{"secret":"hunter2"}`: "match fails at character 5", `no JSON`: "match cannot be made: the event's body cannot be read as JSON"} {
		got, _, err := match(opened(body))
		switch {
		case want == "" && (err != nil || !got), want == "false" && (err != nil || got):
			t.Errorf("%s: %v, %v", body, got, err)
		case want != "" && want != "false" && (err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2")):
			t.Errorf("%s: %v, want %s", body, err, want)
		}
	}
}

// TestSelect: what matches has the second key that its text says, and nothing else has one; the body is read once for both.
func TestSelect(t *testing.T) { // not parallel: it counts allocations
	const condition, key = "body.state != 'closed'", "body.?key.orValue('')"
	for _, wrong := range []string{"body.", "1 + 1", "action.name"} {
		if _, err := policy.Select(condition, wrong); err == nil {
			t.Errorf("%s was taken for a second key", wrong)
		}
	}
	both, err := policy.Select(condition, key)
	if err != nil {
		t.Fatal(err)
	}
	keyed, err := policy.Select("", key)
	if err != nil {
		t.Fatal(err)
	}
	for body, want := range map[string]struct {
		matches bool
		key     gate.Also
		fails   string
	}{
		`{"state":"open","key":"k"}`:   {true, policy.AlsoOf("k"), ""},
		`{"state":"open","key":""}`:    {true, gate.Also{}, ""},
		`{"state":"open"}`:             {true, gate.Also{}, ""},
		`{"state":"closed","key":"k"}`: {false, gate.Also{}, ""},
		`{"state":"closed","key":7}`:   {false, gate.Also{}, ""},
		`{"state":"open","key":7}`:     {true, gate.Also{}, "dedupe.also.key is no text"},
		`{"key":"k"}`:                  {false, gate.Also{}, "match fails at character 5"},
		`{"state":"open","key":`:       {false, gate.Also{}, "match cannot be made"},
	} {
		matches, key, err := both(opened(body))
		if matches != want.matches || key != want.key || (err != nil) != (want.fails != "") || err != nil && !strings.Contains(err.Error(), want.fails) {
			t.Errorf("%s: %v, %x, %v", body, matches, key, err)
		}
	}
	if matches, key, err := keyed(opened(`{"key":"k"}`)); !matches || key != policy.AlsoOf("k") || err != nil {
		t.Errorf("without a match: %v, %x, %v", matches, key, err)
	}
	if _, _, err := keyed(opened(`{`)); err == nil || !strings.Contains(err.Error(), "dedupe.also.key cannot be made") {
		t.Errorf("without a match: %v", err)
	}
	matched, err := policy.Select(condition, "")
	if err != nil {
		t.Fatal(err)
	}
	e := opened(`{"state":"open","key":"k"}`)
	allocations := func(f func(*schemas.Event) (bool, gate.Also, error)) float64 {
		return testing.AllocsPerRun(100, func() { _, _, _ = f(e) })
	}
	if n, apart := allocations(both), allocations(matched)+allocations(keyed); n >= apart {
		t.Errorf("%.0f allocations, and %.0f where each reads the body", n, apart)
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
