package app

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/expression"
	"github.com/forebay-io/forebay/stream/inbox"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/policy"
	"github.com/forebay-io/forebay/stream/reader"
	"github.com/forebay-io/forebay/stream/sink"
)

// notKnown is what actions are asked of a thin event, whose document is not fetched to look at it.
func notKnown(text string) api.FilterPart {
	return api.FilterPart{Text: text, Result: "not known", Error: "it is asked of the document that thin of the source fetches"}
}

// isThin reports whether the actions of an event get another body than it has: see [backfill.Thin].
func isThin(c *config.Config, at nameInTeam, e *schemas.Event) bool {
	return !e.Deleted && !e.Backfill && slices.ContainsFunc(c.SourcesOf(at.team, at.name), func(s config.NamedSource) bool { return s.URI() == e.Source && s.Thin != nil })
}

// filtersOf says which of a subscription's filters an event meets, as the file has them now; nil if the log has the event no more.
func filtersOf(sub *config.Subscription, e *schemas.Event, thin bool) (list []api.FilterItem) {
	if e.ID == "" {
		return nil
	}
	if len(sub.Types) > 0 {
		list = append(list, api.FilterItem{Key: "types", Parts: []api.FilterPart{{Text: strings.Join(sub.Types, ", "), Result: strconv.FormatBool(reader.Globs(sub.Types)(e.Type, e.Source)),
			Values: []api.FilterValue{{Name: "event.type", Value: strconv.Quote(e.Type)}}}}})
	}
	if sub.Match != "" {
		list = append(list, api.FilterItem{Key: "match", Parts: filterParts(expression.Explain(sub.Match, &expression.Input{Event: e}), 0)})
	}
	for _, a := range sub.Actions {
		if a.When != "" && thin {
			list = append(list, api.FilterItem{Key: "when", Action: a.Name, Parts: []api.FilterPart{notKnown(a.When)}})
		} else if a.When != "" {
			list = append(list, api.FilterItem{Key: "when", Action: a.Name, Parts: filterParts(expression.Explain(a.When, &expression.Input{Event: e, Action: a.Name, To: a.To}), 0)})
		}
	}
	return list
}

// filterParts returns an expression and its operands as the API has them.
func filterParts(p expression.Part, depth int) []api.FilterPart {
	out := api.FilterPart{Depth: depth, Text: p.Text, Result: p.Result, Error: p.Error}
	for _, v := range p.Values {
		out.Values = append(out.Values, api.FilterValue(v))
	}
	list := []api.FilterPart{out}
	for _, part := range p.Parts {
		list = append(list, filterParts(part, depth+1)...)
	}
	return list
}

// explain says what the filters and the guards of a subscription are for an event, as the file has them now: filters and conditions by their parts,
// what else decides with what it goes by. Nothing is counted or asked by that. It is nil if the log has the event no more.
func (i *inboxAPI) explain(ctx context.Context, at nameInTeam, item *inbox.Item, e *schemas.Event) []api.FilterItem {
	file := i.s.a.file()
	sub := subscriptionIn(file, at)
	thin := isThin(file, at, e)
	list := filtersOf(sub, e, thin)
	if e.ID == "" {
		return nil
	}
	i.s.mu.Lock()
	space := i.s.spaces[at]
	i.s.mu.Unlock()
	if also := sub.Dedupe.Also; also != nil {
		list = append(list, api.FilterItem{Key: "dedupe.also", Parts: []api.FilterPart{alsoPart(ctx, also, at, space, e)}})
	}
	for _, a := range sub.Actions {
		act := sink.Action{Name: a.Name, Subscription: at.team + "." + at.name, Event: e}
		if d, ok := file.Destination(at.team, a.To); ok {
			act.Destination = d.FullName()
		}
		for n := range item.Actions {
			if item.Actions[n].Name == a.Name {
				act.ID = item.Actions[n].ID
			}
		}
		list = append(list, sendersItem(ctx, sub, act), loopItem(ctx, guarding{file: file, at: at, space: space}, act))
		list = append(list, i.policyItems(ctx, at, a, act, thin)...)
	}
	return list
}

// alsoPart is what a second key is of an event, and the event that came first with it, where this process runs the subscription.
func alsoPart(ctx context.Context, also *config.Also, at nameInTeam, space *ledger.Namespace, e *schemas.Event) api.FilterPart {
	p := api.FilterPart{Text: also.Key, Result: "error"}
	key, err := policy.AlsoText(also.Key)
	var text string
	if err == nil {
		text, err = key(e)
	}
	if err != nil {
		p.Error = err.Error()
		return p
	}
	p.Result, p.Values = "true", []api.FilterValue{{Name: "key, for " + also.Window.String(), Value: asJSON(text)}}
	if space == nil || text == "" {
		return p
	}
	first := api.FilterValue{Name: "first event"}
	switch source, id, err := space.FirstWith(ctx, policy.AlsoOf(text)); {
	case err != nil:
		p.Error = err.Error()
	case source == e.Source && id == e.ID:
		first.Value = "this one"
	case id == "":
		first.Value = "none is remembered"
	default:
		first.Value = asJSON(strings.TrimPrefix(source, "/"+at.team+"/") + "/" + id)
	}
	p.Values = append(p.Values, first)
	return p
}

// guardPart is what a guard says of an action.
func guardPart(text string, v policy.Verdict, err error, values ...api.FilterValue) api.FilterPart {
	p := api.FilterPart{Text: text, Result: strconv.FormatBool(v.Status == ""), Error: v.Text, Values: values}
	if err != nil {
		p.Result, p.Error = "error", err.Error()
	}
	return p
}

func sendersItem(ctx context.Context, sub *config.Subscription, a sink.Action) api.FilterItem {
	s, by := sub.Senders, a.Event.Sender
	v, err := policy.Senders{Own: s.Own == config.SendersDrop, Automation: s.Automation == config.SendersDrop}.Before(ctx, a)
	return api.FilterItem{Key: "senders", Action: a.Name, Parts: []api.FilterPart{guardPart("own: "+s.Own+", automation: "+s.Automation, v, err,
		valueOf("sender.id", by.ID),
		valueOf("sender.login", by.Login), valueOf("sender.kind", string(by.Kind)), valueOf("sender.trust", string(by.Trust)))}}
}

func valueOf(name, text string) api.FilterValue {
	if text == "" {
		return api.FilterValue{Name: name}
	}
	return api.FilterValue{Name: name, Value: asJSON(text)}
}

// saidSoFar are sayings that are counted, and not noted.
type saidSoFar struct {
	space *ledger.Namespace // nil: this process does not run the subscription
	n     *int
}

// Said implements [policy.Sayings].
func (c saidSoFar) Said(ctx context.Context, s ledger.Saying) (int, error) {
	if c.space == nil {
		return 0, errNotStarted
	}
	n, err := c.space.CountSaid(ctx, s)
	*c.n = n
	return n, err
}

// Unsay implements [policy.Sayings].
func (saidSoFar) Unsay(context.Context, ledger.Saying) error { return nil }

func loopItem(ctx context.Context, of guarding, a sink.Action) api.FilterItem {
	g, _ := loops(of) // never fails
	l := g.(*policy.Loops)
	said := -1
	l.Sayings = saidSoFar{of.space, &said}
	v, err := l.Before(ctx, a)
	values := []api.FilterValue{{Name: "number of the call", Value: strconv.Itoa(a.Event.Chain.Then(a.Subscription).Depth)}, {Name: "chain.agents"},
		{Name: "agent", Value: asJSON(strings.Join(l.Agents[a.Destination], ", "))}, {Name: "said by programs", Value: "not counted: no conversation by a program"}}
	if agents := a.Event.Chain.Agents; len(agents) > 0 {
		values[1].Value = asJSON(agents)
	}
	if said >= 0 {
		values[3].Value = strconv.Itoa(said)
	}
	return api.FilterItem{Key: "loop", Action: a.Name, Parts: []api.FilterPart{guardPart(fmt.Sprintf("depth: %d, runs: {limit: %d, per: %s}", l.Depth,
		l.Runs, config.Duration(l.Per)), v, err, values...)}}
}

// ruleItems are the rules of policy, each with whether it lets the action go on: of a level the first whose condition holds decides, and what is
// behind it is not asked; nor is anything behind one that denies or fails. asks says that the action needs an approval, which of a thin event only
// the action itself says.
func ruleItems(file *config.Config, team string, a config.Action, e *schemas.Event, thin bool) (list []api.FilterItem, asks bool) {
	asks = a.Approval != nil
	ends := false
	for _, level := range [][]config.PolicyRule{file.Policy, file.Teams[team].Policy} {
		decided := ends
		for _, r := range level {
			rule := api.FilterPart{Text: "rule " + r.Name + ": " + r.Then, Result: "not asked"}
			if thin {
				rule = notKnown(rule.Text)
			}
			if decided || thin {
				list = append(list, api.FilterItem{Key: "policy", Action: a.Name, Parts: []api.FilterPart{rule}})
				continue
			}
			is := expression.Explain(r.If, &expression.Input{Event: e, Action: a.Name, To: a.To})
			decided = is.Result != "false"
			rule.Result = strconv.FormatBool(!decided || is.Result == "true" && r.Then == string(policy.Allow))
			asks = asks || decided && r.Then == string(policy.Approve)
			ends = ends || decided && (is.Result == "error" || r.Then == string(policy.Deny))
			list = append(list, api.FilterItem{Key: "policy", Action: a.Name, Parts: append([]api.FilterPart{rule}, filterParts(is, 1)...)})
		}
	}
	return list, asks && !ends
}

// policyItems are the rules of policy and, where the action needs one, how its approval stands.
func (i *inboxAPI) policyItems(ctx context.Context, at nameInTeam, a config.Action, act sink.Action, thin bool) []api.FilterItem {
	list, asks := ruleItems(i.s.a.file(), at.team, a, act.Event, thin)
	if !asks {
		return list
	}
	p := api.FilterPart{Text: "approval", Result: "true"}
	l, err := i.s.openLedger()
	var said ledger.Approval
	if err == nil {
		said, err = l.LastApproval(ctx, act.ID)
	}
	switch {
	case schemas.KindOf(err) == schemas.NotFound:
		p.Values = []api.FilterValue{{Name: "state", Value: "nobody was asked"}}
	case err != nil:
		p.Result, p.Error = "error", err.Error()
	default:
		p.Result = strconv.FormatBool(said.State == ledger.ApprovalApproved || said.State == ledger.ApprovalUsed)
		p.Values = []api.FilterValue{{Name: "approval", Value: strconv.FormatInt(said.ID, 10)}, {Name: "state", Value: asJSON(string(said.State))},
			{Name: "why", Value: asJSON(said.Why)}, valueOf("answered by", said.AnsweredBy)}
	}
	return append(list, api.FilterItem{Key: "approval", Action: a.Name, Parts: []api.FilterPart{p}})
}

func asJSON[T string | []string](v T) string {
	text, _ := json.Marshal(v) //nolint:errchkjson // texts never fail
	return string(text)
}
