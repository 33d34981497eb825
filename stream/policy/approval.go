package policy

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/forebay-io/forebay/schemas/expression"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/sink"
)

// Then is what a rule says of an action that its condition holds for.
type Then string

// From the most lenient.
const (
	Allow   Then = "allow"
	Approve Then = "approve" // a person must say yes
	Deny    Then = "deny"
)

// Rule is one rule of a policy.
type Rule struct {
	Name   string
	If     *expression.Expression
	Then   Then
	Reason string
	Tells  string // of one that says approve: as that of Ask
}

// Ask is how a person's word is asked for.
type Ask struct {
	Roles    []string // whose word counts
	Expires  time.Duration
	FourEyes bool   // two persons must say yes
	Tells    string // the destination that is told of each question, as the team calls it; empty: none is
}

// Approvals keeps questions and answers: [ledger.Ledger].
type Approvals interface {
	AskApproval(ctx context.Context, r ledger.ApprovalRequest) (ledger.Approval, error)
}

// Rules decide by policy and approvals. It is a [Guard]. In each level the first rule whose condition holds counts, and of the levels and the
// action's own approval the strictest: so no team loosens what stands at the top.
type Rules struct {
	Levels [][]Rule // that of the top, and that of the team
	// Actions are the approvals that actions ask for themselves, by their names. Default is how it is asked where a rule alone wants it.
	Actions map[string]Ask
	Default Ask
	Store   Approvals
	// Sends returns what an action is to send: its digest, which an approval is bound to, and as text for who is asked, without secrets.
	Sends func(a sink.Action) (digest [32]byte, text string)
}

// askEvery and askSeldom are how often an action that waits looks for an answer of which nobody has told it, the longer it waits the less
// often: a thin event's body is fetched for each look. It looks first after askSoon: who answers at once may come before it is recorded that the
// action waits, and can tell nobody.
const askSoon, askEvery, askSeldom = 5 * time.Second, time.Minute, 5 * time.Minute

// Before implements [Guard].
func (r *Rules) Before(ctx context.Context, a sink.Action) (Verdict, error) {
	return r.before(ctx, a, Input(a))
}

func (r *Rules) conditions() (all []*expression.Expression) {
	for _, level := range r.Levels {
		for n := range level {
			all = append(all, level[n].If)
		}
	}
	return all
}

func (r *Rules) before(ctx context.Context, a sink.Action, in *expression.Input) (Verdict, error) {
	then, why := Allow, ""
	how, asks := r.Actions[a.Name]
	if asks {
		then, why = Approve, "approval of action "+a.Name
	} else {
		how = r.Default
	}
	for _, level := range r.Levels {
		rule, err := first(level, in)
		switch {
		case err != nil: // nobody knows what the rule would have said
			return Verdict{Status: ledger.Dead, Reason: Expression, Text: fmt.Sprintf("rule %s of policy %v; mend it, then replay", rule.Name, err)}, nil
		case rule != nil && rule.Then == Deny:
			return Verdict{Status: ledger.Denied, Reason: Policy, Text: says(rule)}, nil
		case rule != nil && rule.Then == Approve:
			if then = Approve; !asks {
				why = says(rule)
			}
			how.Tells = cmp.Or(how.Tells, rule.Tells)
		}
	}
	if then == Allow {
		return Verdict{}, nil
	}
	return r.ask(ctx, a, how, why)
}

// After implements [Guard].
func (r *Rules) After(sink.Action, sink.Outcome, sink.Class) {}

// ask answers by what a person has said.
func (r *Rules) ask(ctx context.Context, a sink.Action, how Ask, why string) (Verdict, error) {
	overtaken := false
	if a.Overtaken != nil {
		var err error
		if overtaken, err = a.Overtaken(ctx); err != nil {
			return Verdict{}, err
		}
	}
	digest, text := r.Sends(a)
	said, err := r.Store.AskApproval(ctx, ledger.ApprovalRequest{
		Fence: a.Fence, Epoch: a.Epoch, Token: a.Token, Subscription: a.Subscription, ActionID: a.ID, Action: a.Name, Destination: a.Destination, Digest: digest, Sends: text, Entity: string(a.Event.Entity),
		Version: a.Event.Version.Sortable(), Source: a.Event.Source, EventID: a.Event.ID, Type: a.Event.Type, Why: why, Roles: how.Roles, FourEyes: how.FourEyes,
		Expires: how.Expires, Asks: how.Tells, Since: a.Replayed, Overtaken: overtaken, Doubt: a.Doubt,
	})
	if err != nil {
		return Verdict{}, err
	}
	denied := Verdict{Status: ledger.Denied, Reason: Approval}
	switch said.State {
	case ledger.ApprovalApproved:
		return Verdict{}, nil
	case ledger.ApprovalDenied:
		denied.Text = fmt.Sprintf("%s denied it: %s", said.AnsweredBy, said.Reason)
	case ledger.ApprovalExpired:
		denied.Text = fmt.Sprintf("nobody with role %s has answered approval %d in time", strings.Join(said.Roles, ", "), said.ID)
	case ledger.ApprovalVoid:
		denied.Text = fmt.Sprintf("approval %d is void: %s", said.ID, said.Reason)
	default:
		age := time.Since(said.AskedAt)
		again := min(max(askEvery, age/4), askSeldom)
		if 0 <= age && age < askSoon { // by two clocks
			again = askSoon
		}
		return Verdict{
			Status: ledger.WaitingApproval, Reason: Approval, Again: min(again, max(0, time.Until(said.ExpiresAt))+time.Second),
			Text: fmt.Sprintf("approval %d, asked for by %s", said.ID, why),
		}, nil
	}
	return denied, nil
}

// first returns the first rule whose condition holds, nil if none does; with an error, the rule whose condition failed.
func first(level []Rule, in *expression.Input) (*Rule, error) {
	for n := range level {
		holds, err := in.True(level[n].If)
		if err != nil || holds {
			return &level[n], err
		}
	}
	return nil, nil
}

// says returns what a rule is called and why it is there.
func says(r *Rule) string {
	if r.Reason == "" {
		return "rule " + r.Name + " of policy"
	}
	return "rule " + r.Name + " of policy: " + r.Reason
}
