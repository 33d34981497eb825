package config

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/access"
	"github.com/forebay-io/forebay/cmd/internal/alerts"
	"github.com/forebay-io/forebay/cmd/internal/names"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/expression"
	"github.com/forebay-io/forebay/sinks/template"
	"github.com/forebay-io/forebay/stream/policy"
)

// PolicyRule says what becomes of the actions that its condition holds for.
type PolicyRule struct {
	Name   string `yaml:"name"`
	If     string `yaml:"if"`
	Then   string `yaml:"then"`
	Reason string `yaml:"reason"`
	Ask    string `yaml:"ask"` // of one that says approve: the destination that is told of each question; empty: none is
}

// Approval is a person's word that an action needs.
type Approval struct {
	Roles    []string `yaml:"roles"`
	Expires  Duration `yaml:"expires"`
	FourEyes bool     `yaml:"four_eyes"`
	Ask      string   `yaml:"ask"` // the destination that is told of each question; empty: none is
}

// WithDefaults returns whose word is asked for, and how; also where a rule alone asks for it.
func (a *Approval) WithDefaults() Approval {
	if a == nil {
		a = &Approval{Expires: Duration(24 * time.Hour)}
	}
	out := *a
	if len(out.Roles) == 0 {
		out.Roles = []string{"approver"}
	}
	return out
}

// policy checks the rules of a team, or where that is empty those at the top.
func (ck *checker) policy(path, team string, rules []PolicyRule) {
	listed := map[string]bool{}
	for i, r := range rules {
		at := path + "[" + itoa(i) + "]"
		if r.Name != "" && !validName(r.Name) {
			ck.problem(at+".name", "name %q must match [a-z0-9-]{1,40}", clip(r.Name))
		} else if r.Name != "" && listed[r.Name] {
			ck.problem(at+".name", "rule %s is listed twice", r.Name)
		}
		listed[r.Name] = true
		if r.If == "" || ck.unresolved(at+".if") {
			continue
		}
		x, err := expression.Condition(r.If)
		if err != nil {
			ck.problem(at+".if", "%s", err)
			continue
		}
		ck.ruleAsks(at+".ask", team, &r, x)
	}
}

// ruleAsks checks the destination that a rule has told. One at the top is for each team that has actions.
func (ck *checker) ruleAsks(path, team string, r *PolicyRule, about *expression.Expression) {
	if r.Ask == "" || ck.unresolved(path) {
		return
	}
	if r.Then != string(policy.Approve) {
		ck.problem(path, "nobody is asked where then is %s", clip(r.Then))
		return
	}
	teams := []string{team}
	if team == "" {
		if teams = keys(ck.c.Teams); ck.c.Destinations[r.Ask] == nil {
			ck.problem(path, "there is no shared destination %q%s", clip(r.Ask), names.DidYouMean(r.Ask, keys(ck.c.Destinations)))
			return
		}
	}
	for _, t := range teams {
		switch d, ok := ck.c.Destination(t, r.Ask); {
		case team == "" && (ck.c.Teams[t] == nil || len(ck.c.Teams[t].Subscriptions) == 0):
		case team == "" && !ok: // its own file may be to blame, which keeps it alone out
			ck.problem("teams."+t, "rule %s at the top asks shared destination %s, which is not for this team: add it to destinations.%[2]s.teams", r.Name, r.Ask)
		case ok && ck.asksOf(path, t, d, r, about):
			return
		case !ck.ask(path, t, r.Ask):
			return
		}
	}
}

// asksOf reports as a problem where a rule is about an action, whatever the event, that goes to the destination which is told.
func (ck *checker) asksOf(path, team string, d NamedDestination, r *PolicyRule, about *expression.Expression) bool {
	for _, u := range ck.c.usesOf(d) {
		in := expression.Input{Event: &schemas.Event{}, Action: u.action().Name, To: u.action().To}
		if holds, err := in.True(about); u.team == team && holds && err == nil {
			ck.problem(path, "rule %s is about action %s of %s.%s, which goes to destination %s itself: ask one to which no such action goes", r.Name,
				u.action().Name, team, u.subscription, r.Ask)
			return true
		}
	}
	return false
}

// approval checks whose word an action needs.
func (ck *checker) approval(path, team string, a *Approval) {
	if a == nil {
		return
	}
	may := access.RolesWith(access.Approve)
	for i, role := range a.Roles {
		if !slices.Contains(may, role) {
			ck.problem(path+".roles["+itoa(i)+"]", "role %q may approve nothing: %s may", clip(role), strings.Join(may, ", "))
		}
	}
	ck.between(path+".expires", a.Expires, Duration(time.Minute), Duration(30*24*time.Hour))
	if a.Ask != "" && !ck.unresolved(path+".ask") {
		ck.ask(path+".ask", team, a.Ask)
	}
}

// ask checks the destination that is told of each question, and reports whether it found nothing.
func (ck *checker) ask(path, team, name string) bool {
	d, ok := ck.c.Destination(team, name)
	if !ok {
		ck.noDestination(path, team, name)
		return false
	}
	if !slices.Contains(receiverTypes, d.Type) {
		ck.problem(path, "destination %s is of type %s, and a question is told by one of %s", name, d.Type, strings.Join(receiverTypes, ", "))
		return false
	}
	for _, u := range ck.c.usesOf(d) {
		if u.team == team && u.action().Approval != nil {
			ck.problem(path, "action %s of %s.%s goes to destination %s, and needs an approval itself: ask one to which no such action goes", u.action().Name,
				team, u.subscription, name)
			return false
		}
	}
	if d.Keys == nil || ck.unresolvedBelow(d.Path()+".params") {
		return true
	}
	params := d.ForQuestions().Params
	set, known := ck.questions[d.FullName()]
	if !known { // once, however many ask it
		set, _ = template.NewSet(d.about().Params, params.Values(), nil)
		ck.questions[d.FullName()] = set
	}
	if set == nil {
		return false // the destination's own, and reported there
	}
	for _, p := range d.about().Params {
		if _, given := params[p.Name]; p.Required && p.Default == "" && !given {
			ck.problem(path, "params.%s is missing at destination %s: %s", p.Name, name, p.Doc)
			return false
		}
	}
	sample, err := alerts.SampleQuestion().Do(d.FullName(), d.Type)
	if err == nil {
		_, err = set.Render(sample)
	}
	if err != nil {
		if slices.ContainsFunc(keys(ck.c.references), func(at string) bool { return strings.HasPrefix(at, d.Path()+".params.") }) {
			err = errors.New("one of its params cannot be made of a question") // the error may show a part of them, which may be a secret
		}
		ck.problem(path, "destination %s cannot tell a question: %v; its params are for the events of actions alone: write them at the actions, or ask a destination of its own", name, err)
	}
	return err == nil
}

// ForQuestions returns the destination with the params of a question: its own, and those of its type where it has none.
func (d NamedDestination) ForQuestions() NamedDestination {
	tells := *d.Destination
	if tells.Params = maps.Clone(questionParams[d.Type]); tells.Params == nil {
		tells.Params = Params{}
	}
	maps.Copy(tells.Params, d.Params)
	d.Destination = &tells
	return d
}

// ForEnds returns the destination with the params of a question that has ended: those of the question, but for what its type says of an end.
func (d NamedDestination) ForEnds() NamedDestination {
	d = d.ForQuestions()
	maps.Copy(d.Params, endParams[d.Type])
	return d
}

// endParams are what takes a question back, by the type of its destination: Slack's message is changed, whatever it said.
var endParams = map[string]Params{
	"slack":     {"text": paramOf("{{body.text}}"), "blocks": paramOf("{{null}}")},
	"pagerduty": {"event_action": paramOf("resolve")},
}

// questionParams are what questions have for params, by the type of their destination.
var questionParams = map[string]Params{
	"slack": {"text": paramOf("{{body.text}}")},
	"pagerduty": {
		"severity": paramOf("warning"), "summary": paramOf("{{body.summary}}"), "class": paramOf("approval"),
		"custom_details": map[string]any{"text": paramOf("{{body.text}}")},
		"links":          []any{map[string]any{"href": paramOf("{{body.url}}"), "text": paramOf("Approval")}},
	},
}
