package config

import (
	"slices"
	"strings"
	"time"

	"github.com/forebay-io/forebay/stream/sink"
)

// Budget is what the part of the file that it stands in may use up.
type Budget struct {
	// Of is what has one budget of its own each: "" is all of that part together.
	Of      string      `yaml:"of"`
	Runs    *RunsBudget `yaml:"runs"`
	Cost    *CostBudget `yaml:"cost"`
	OnLimit string      `yaml:"on_limit"`
}

// RunsBudget is a limit on runs.
type RunsBudget struct {
	Limit int      `yaml:"limit"`
	Per   Duration `yaml:"per"`
}

// CostBudget is a limit on what runs cost.
type CostBudget struct {
	Limit sink.Cost `yaml:"limit"`
	Per   Duration  `yaml:"per"`
}

// What a budget may be of, and what becomes of an action for which nothing is left.
const (
	OfSubscription = "subscription"
	OfEntity       = "entity"
	OfAction       = "action"
	BudgetHold     = "hold"
	BudgetPark     = "park"
	BudgetDrop     = "drop"
)

// NamedBudget is a budget that an action has to keep, and where the file has it.
type NamedBudget struct {
	*Budget
	Path string
}

// BudgetsOf returns the budgets that an action of a subscription has to keep, by its name and that of the destination that it goes to: its own,
// and those of subscription, destination and team. An action that the file has no more keeps those of the others.
func (c *Config) BudgetsOf(team, subscription, action, destination string) (list []NamedBudget) {
	add := func(path string, b *Budget) {
		if b != nil {
			list = append(list, NamedBudget{b, path + ".budget"})
		}
	}
	t := c.Teams[team]
	if t == nil {
		return nil
	}
	if s := t.Subscriptions[subscription]; s != nil {
		path := "teams." + team + ".subscriptions." + subscription
		if i := slices.IndexFunc(s.Actions, func(a Action) bool { return a.Name == action }); i >= 0 {
			add(path+".actions."+action, s.Actions[i].Budget)
		}
		if s.Budget != nil && s.Budget.Of == OfAction {
			list = append(list, NamedBudget{s.Budget, path + ".budget." + action})
		} else {
			add(path, s.Budget)
		}
	}
	if d, ok := c.Destination(team, strings.TrimPrefix(destination, team+"/")); ok { // which may have been moved to the top, or back
		add(d.Path(), d.Budget)
	}
	add("teams."+team, t.Budget)
	return list
}

// Budgets returns all budgets of the file, and where it has them.
func (c *Config) Budgets() (list []NamedBudget) {
	add := func(path string, b *Budget) {
		if b != nil {
			list = append(list, NamedBudget{b, path + ".budget"})
		}
	}
	for _, name := range keys(c.Teams) {
		t := c.Teams[name]
		add("teams."+name, t.Budget)
		for _, sub := range keys(t.Subscriptions) {
			s, path := t.Subscriptions[sub], "teams."+name+".subscriptions."+sub
			if s.Budget == nil || s.Budget.Of != OfAction {
				add(path, s.Budget)
			}
			for _, a := range s.Actions {
				add(path+".actions."+a.Name, a.Budget)
				if s.Budget != nil && s.Budget.Of == OfAction {
					list = append(list, NamedBudget{s.Budget, path + ".budget." + a.Name})
				}
			}
		}
	}
	for _, d := range c.AllDestinations() {
		add(d.Path(), d.Budget)
	}
	return list
}

// budget checks a budget of what stands at a path; nil is none. may are the values of its key of.
func (ck *checker) budget(path string, b *Budget, may ...string) {
	if b == nil {
		return
	}
	path += ".budget"
	day := Duration(24 * time.Hour)
	if b.Runs == nil && b.Cost == nil {
		ck.problem(path, "limits nothing: it needs runs, cost or both")
	}
	if b.Of != "" && !slices.Contains(may, b.Of) {
		ck.problem(path+".of", "must be one of %v here", may)
	}
	if b.Runs != nil {
		ck.atMost(path+".runs.limit", b.Runs.Limit, 1_000_000_000)
		ck.between(path+".runs.per", b.Runs.Per, Duration(time.Second), 366*day)
	}
	if b.Cost != nil {
		ck.between(path+".cost.per", b.Cost.Per, Duration(time.Second), 366*day)
	}
}
