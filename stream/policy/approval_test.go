package policy

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/expression"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/sink"
)

// book answers questions for approvals with what it says.
type book struct {
	says  ledger.Approval
	err   error
	asked []ledger.ApprovalRequest
}

func (b *book) AskApproval(_ context.Context, r ledger.ApprovalRequest) (ledger.Approval, error) {
	b.asked = append(b.asked, r)
	return b.says, b.err
}

func rule(t *testing.T, name, condition string, then Then) Rule {
	t.Helper()
	x, err := expression.Condition(condition)
	if err != nil {
		t.Fatal(err)
	}
	return Rule{Name: name, If: x, Then: then, Reason: "because"}
}

func deploy() sink.Action {
	return sink.Action{
		Name: "run", Subscription: "acme.ship", Destination: "acme/deploy", ID: "act_1",
		Event: &schemas.Event{ID: "e1", Source: "/acme/github", Type: "push", Entity: "repo", DataContentType: "application/json", Data: []byte(`{"env":"prod"}`)},
	}
}

// In each level the first rule that holds counts; of the levels and the action's own approval, the strictest.
func TestRules(t *testing.T) {
	t.Parallel()
	never, always, prod, to, fails := "false", "true", "body.env == 'prod'", "action.to == 'deploy' && action.name == 'run'", "body.nothing.there"
	_ = never
	for name, c := range map[string]struct {
		top, team []Rule
		own       bool
		want      ledger.Status
		reason    string
		why       string
	}{
		"nothing":                         {},
		"no rule holds":                   {top: []Rule{rule(t, "a", never, Deny)}},
		"denied":                          {top: []Rule{rule(t, "a", prod, Deny)}, want: ledger.Denied, reason: Policy},
		"the first counts":                {top: []Rule{rule(t, "a", to, Allow), rule(t, "b", always, Deny)}},
		"a team does not loosen a denial": {top: []Rule{rule(t, "a", always, Deny)}, team: []Rule{rule(t, "b", always, Allow)}, want: ledger.Denied, reason: Policy},
		"a team does not loosen a question": {top: []Rule{rule(t, "a", always, Approve)}, team: []Rule{rule(t, "b", always, Allow)},
			want: ledger.WaitingApproval, reason: Approval, why: "rule a of policy: because"},
		"a team is stricter":         {top: []Rule{rule(t, "a", always, Allow)}, team: []Rule{rule(t, "b", always, Deny)}, want: ledger.Denied, reason: Policy},
		"the action's own":           {own: true, want: ledger.WaitingApproval, reason: Approval, why: "approval of action run"},
		"no rule loosens its own":    {own: true, top: []Rule{rule(t, "a", always, Allow)}, want: ledger.WaitingApproval, reason: Approval, why: "approval of action run"},
		"an error is no silence":     {top: []Rule{rule(t, "a", fails, Allow)}, want: ledger.Dead, reason: Expression},
		"nor in a rule that denies":  {team: []Rule{rule(t, "a", fails, Deny)}, want: ledger.Dead, reason: Expression},
		"nor before one that allows": {top: []Rule{rule(t, "a", fails, Deny), rule(t, "b", always, Allow)}, want: ledger.Dead, reason: Expression},
	} {
		b := &book{says: ledger.Approval{ID: 7, State: ledger.ApprovalWaiting, ExpiresAt: time.Now().Add(time.Hour)}}
		g := &Rules{Levels: [][]Rule{c.top, c.team}, Default: Ask{Roles: []string{"approver"}, Expires: time.Hour}, Store: b, Sends: func(sink.Action) ([32]byte, string) { return [32]byte{1}, "shown" }}
		if c.own {
			g.Actions = map[string]Ask{"run": {Roles: []string{"operator"}, Expires: time.Minute, FourEyes: true}}
		}
		v, err := g.Before(t.Context(), deploy())
		if err != nil || v.Status != c.want || v.Reason != c.reason || (v.Text == "") != (c.want == "") {
			t.Errorf("%s: %+v %v", name, v, err)
		}
		if (len(b.asked) > 0) != (c.want == ledger.WaitingApproval) {
			t.Errorf("%s: %d questions", name, len(b.asked))
		}
		if len(b.asked) > 0 {
			r := b.asked[0]
			if r.Why != c.why || r.Digest != [32]byte{1} || r.Sends != "shown" || r.FourEyes != c.own || (r.Roles[0] == "operator") != c.own || r.Entity != "repo" || r.ActionID != "act_1" {
				t.Errorf("%s: asked %+v", name, r)
			}
		}
	}
}

// The action's own destination is told of its question, and without one that of the first rule that asks.
func TestRulesTell(t *testing.T) {
	t.Parallel()
	asks := func(name, tells string) Rule {
		r := rule(t, name, "true", Approve)
		r.Tells = tells
		return r
	}
	for own, want := range map[string]string{"": "top", "own": "own"} {
		b := &book{says: ledger.Approval{ID: 7, State: ledger.ApprovalWaiting, ExpiresAt: time.Now().Add(time.Hour)}}
		g := &Rules{Levels: [][]Rule{{asks("a", "top")}, {asks("b", "team")}}, Default: Ask{Expires: time.Hour}, Store: b,
			Sends: func(sink.Action) ([32]byte, string) { return [32]byte{}, "" }}
		if own != "" {
			g.Actions = map[string]Ask{"run": {Expires: time.Hour, Tells: own}}
		}
		if _, err := g.Before(t.Context(), deploy()); err != nil || len(b.asked) != 1 || b.asked[0].Asks != want {
			t.Errorf("own %q: %+v %v", own, b.asked, err)
		}
	}
}

// The longer a question stands, the less often is it looked at: a day of it costs 300 fetches of a thin event and not 1,440.
func TestAskedLessOften(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for age, want := range map[time.Duration]time.Duration{
		-time.Hour: time.Minute, 0: 5 * time.Second, 10 * time.Second: time.Minute, 12 * time.Minute: 3 * time.Minute, 9 * time.Hour: 5 * time.Minute,
	} {
		b := &book{says: ledger.Approval{ID: 7, State: ledger.ApprovalWaiting, AskedAt: now.Add(-age), ExpiresAt: now.Add(time.Hour)}}
		g := &Rules{Actions: map[string]Ask{"run": {Expires: time.Hour}}, Store: b, Sends: func(sink.Action) ([32]byte, string) { return [32]byte{}, "" }}
		if v, err := g.Before(t.Context(), deploy()); err != nil || v.Again.Truncate(time.Second) != want {
			t.Errorf("asked %s ago: again in %s, %v; want %s", age, v.Again, err, want)
		}
	}
}

// What a person has said decides; what nobody can tell is an error, and the action is asked for again.
func TestAnswers(t *testing.T) {
	t.Parallel()
	for state, want := range map[ledger.ApprovalState]ledger.Status{
		ledger.ApprovalApproved: "", ledger.ApprovalWaiting: ledger.WaitingApproval, ledger.ApprovalDenied: ledger.Denied, ledger.ApprovalExpired: ledger.Denied,
		ledger.ApprovalVoid: ledger.Denied,
	} {
		b := &book{says: ledger.Approval{ID: 7, State: state, AnsweredBy: "jo", Reason: "no", ExpiresAt: time.Now().Add(10 * time.Second)}}
		g := &Rules{Actions: map[string]Ask{"run": {Expires: time.Hour}}, Store: b, Sends: func(sink.Action) ([32]byte, string) { return [32]byte{}, "" }}
		v, err := g.Before(t.Context(), deploy())
		if err != nil || v.Status != want {
			t.Errorf("%s: %+v %v", state, v, err)
		}
		if state == ledger.ApprovalWaiting && (v.Again < 10*time.Second || v.Again > 12*time.Second) {
			t.Errorf("asked again in %s, and it expires in 10s", v.Again)
		}
		if state == ledger.ApprovalDenied && !strings.Contains(v.Text, "jo denied it: no") {
			t.Error(v.Text)
		}
		moved := deploy()
		moved.Overtaken = func(context.Context) (bool, error) { return true, nil }
		if _, err := g.Before(t.Context(), moved); err != nil || b.asked[0].Overtaken || !b.asked[1].Overtaken {
			t.Errorf("moved on: asked %+v %v", b.asked, err)
		}
		moved.Overtaken = func(context.Context) (bool, error) { return false, errors.New("nobody can tell") }
		if v, err := g.Before(t.Context(), moved); err == nil || len(b.asked) != 2 {
			t.Errorf("%+v while nobody can tell whether it moved on", v)
		}
		b.err = errors.New("the ledger is away")
		if v, err := g.Before(t.Context(), deploy()); err == nil {
			t.Errorf("%s: %+v while the ledger is away", state, v)
		}
	}
}
