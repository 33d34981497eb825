package app

import (
	"fmt"

	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/schemas/expression"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/policy"
	"github.com/forebay-io/forebay/stream/sink"
)

// guarding is what the guards of a subscription are made of. What a guard reads of the file outside the subscription belongs into
// sameSubscription, so that another word of it has the subscription begin again.
type guarding struct {
	streams *streams
	file    *config.Config
	at      nameInTeam
	ledger  *ledger.Ledger
	space   *ledger.Namespace
}

// guardMakers make the guards of a subscription, in the order in which they are asked.
// One gives nil if the file has nothing for it to decide.
var guardMakers = []func(guarding) (policy.Guard, error){written, senders, whens, loops, policyGuard, budgetGuard}

// written makes the guard against actions that the file has not, or has with the parameters of another destination.
func written(of guarding) (policy.Guard, error) {
	its := map[string]config.Action{}
	g := &policy.Written{Unfit: func(a sink.Action) error { return of.streams.a.file().Unfit(of.at.team, its[a.Name], a) }}
	for _, a := range subscriptionIn(of.file, of.at).Actions {
		g.Actions, its[a.Name] = append(g.Actions, a.Name), a
	}
	return g, nil
}

// senders makes the guard of senders.
func senders(of guarding) (policy.Guard, error) {
	s := subscriptionIn(of.file, of.at).Senders
	g := policy.Senders{Own: s.Own == config.SendersDrop, Automation: s.Automation == config.SendersDrop}
	if g == (policy.Senders{}) {
		return nil, nil
	}
	return g, nil
}

// loops makes the guard of loop.
func loops(of guarding) (policy.Guard, error) {
	l := subscriptionIn(of.file, of.at).Loop
	agents := map[string][]string{}
	for _, one := range of.file.AllDestinations() {
		d, ok := of.file.Destination(of.at.team, one.Name)
		if !ok {
			continue
		}
		own := of.at.team + "/" + d.Name
		names := []string{d.Name, own}
		if d.Agent != "" {
			names = []string{d.Agent}
		}
		agents[d.Name], agents[own] = names, names // an open action has the name from before the destination was moved to the top, or back
	}
	return &policy.Loops{Depth: l.Depth, Runs: l.Runs.Limit, Per: l.Runs.Per.Std(), Agents: agents, Sayings: of.space}, nil
}

// whens makes the guard of when.
func whens(of guarding) (policy.Guard, error) {
	conditions := policy.Conditions{}
	for _, a := range subscriptionIn(of.file, of.at).Actions {
		if a.When == "" {
			continue
		}
		x, err := expression.Condition(a.When)
		if err != nil {
			return nil, err // config.Load has checked it
		}
		conditions[a.Name] = x
	}
	if len(conditions) == 0 {
		return nil, nil
	}
	return conditions, nil
}

// guards returns the guards of a subscription; nil if it has none.
func guards(of guarding) (policy.Guard, error) {
	var chain []policy.Guard
	for _, make := range guardMakers {
		g, err := make(of)
		if err != nil {
			return nil, fmt.Errorf("guards of %s.%s: %w", of.at.team, of.at.name, err)
		}
		if g != nil {
			chain = append(chain, g)
		}
	}
	if len(chain) == 0 {
		return nil, nil
	}
	return policy.NewChain(chain), nil
}
