package app

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/schemas/expression"
	"github.com/forebay-io/forebay/sinks/redact"
	"github.com/forebay-io/forebay/sinks/template"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/policy"
	"github.com/forebay-io/forebay/stream/sink"
)

// policyGuard makes the guard of policy rules and approvals.
func policyGuard(of guarding) (policy.Guard, error) {
	asks := func(a *config.Approval) policy.Ask {
		full := a.WithDefaults()
		return policy.Ask{Roles: full.Roles, Expires: full.Expires.Std(), FourEyes: full.FourEyes, Tells: full.Ask}
	}
	g := &policy.Rules{Actions: map[string]policy.Ask{}, Default: asks(nil), Store: of.ledger, Sends: of.streams.sends}
	for _, a := range subscriptionIn(of.file, of.at).Actions {
		if a.Approval != nil {
			g.Actions[a.Name] = asks(a.Approval)
		}
	}
	for _, level := range [][]config.PolicyRule{of.file.Policy, of.file.Teams[of.at.team].Policy} {
		var rules []policy.Rule
		for _, r := range level {
			x, err := expression.Condition(r.If)
			if err != nil {
				return nil, fmt.Errorf("if of rule %s %w", r.Name, err)
			}
			rules = append(rules, policy.Rule{Name: r.Name, If: x, Then: policy.Then(r.Then), Reason: r.Reason, Tells: r.Ask})
		}
		if len(rules) > 0 {
			g.Levels = append(g.Levels, rules)
		}
	}
	if len(g.Levels) == 0 && len(g.Actions) == 0 {
		return nil, nil
	}
	return g, nil
}

// sends returns what an action is to send by the file as it is now, its event and the parameters that are made of it: a digest, and a text without
// the secrets of the file.
func (s *streams) sends(a sink.Action) (sum [32]byte, text string) {
	h := sha256.New()
	add := func(part []byte) {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
		h.Write(part)
	}
	for _, part := range []string{a.Name, a.Destination, a.Event.Source, a.Event.Type, a.Event.DataContentType, string(a.Event.Data)} {
		add([]byte(part))
	}
	shown := "the event's body:\n" + string(a.Event.Data)
	team, _, _ := strings.Cut(a.Subscription, ".")
	if d, ok := s.a.file().Destination(team, a.To()); ok && d.Keys != nil {
		if params, err := paramsOf(s.a.file(), d, s.a.file); err == nil && params != nil {
			values, err := params.Render(a)
			text, unfit := json.Marshal(values)
			add(text)
			add(fmt.Append(nil, err, unfit)) // what cannot be made fails in the attempt
			shown = paramsText(values, err) + shown
		}
		shown = redact.New(redact.Words(s.a.file().HiddenOf(d)...)...).Text(shown)
	}
	if len(shown) > ledger.MaxApprovalSends {
		shown = strings.ToValidUTF8(shown[:ledger.MaxApprovalSends-len(cutMark)], "") + cutMark
	}
	return [32]byte(h.Sum(nil)), shown
}

// cutMark ends a text that is longer than is kept of it.
const cutMark = "\n(cut off: there is more)"

// paramsText returns parameters as people read them, in front of what comes behind; empty if there are none.
func paramsText(values template.Values, err error) string {
	if err != nil {
		return "the parameters cannot be made: " + err.Error() + "\n\n"
	}
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if len(values) == 0 {
		return ""
	}
	if err := e.Encode(values); err != nil {
		return "the parameters cannot be shown: " + err.Error() + "\n\n"
	}
	return "the parameters:\n" + b.String() + "\n"
}
