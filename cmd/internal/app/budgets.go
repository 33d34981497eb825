package app

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/stream/inbox"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/policy"
	"github.com/forebay-io/forebay/stream/sink"
)

// onLimit is what becomes of an action for which nothing is left, by the word of the file.
var onLimit = map[string]ledger.Status{config.BudgetHold: ledger.WaitingBudget, config.BudgetPark: ledger.Dead, config.BudgetDrop: ledger.Dropped}

// budgetGuard makes the guard of a subscription's budgets. It reads them of the file as that is: a budget of the team or of a destination that is
// written there later holds, too.
func budgetGuard(of guarding) (policy.Guard, error) {
	allowances := &allowances{a: of.streams.a, at: of.at}
	return policy.NewBudgets(of.streams.counters, of.streams.budgets, allowances.of), nil
}

// allowances are the budgets of a subscription's actions, as the file of the process has them. Safe for concurrent use.
type allowances struct {
	a  *App
	at nameInTeam

	mu   sync.Mutex
	file *config.Config
	list map[[2]string][]policy.Allowance // of file, by destination and action
}

// of returns the budgets that an action has to keep.
func (l *allowances) of(destination, action string) []policy.Allowance {
	file := l.a.file()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file != file {
		l.file, l.list = file, map[[2]string][]policy.Allowance{}
	}
	key := [2]string{destination, action}
	list, ok := l.list[key]
	if !ok {
		list = allowancesOf(file, l.at, action, destination)
		l.list[key] = list
	}
	return list
}

func allowancesOf(file *config.Config, at nameInTeam, action, destination string) (list []policy.Allowance) {
	for _, b := range file.BudgetsOf(at.team, at.name, action, destination) {
		one := policy.Allowance{Path: b.Path, Entity: b.Of == config.OfEntity, OnLimit: onLimit[b.OnLimit]}
		if r := b.Runs; r != nil {
			one.Runs = policy.Cap{Limit: int64(r.Limit), Per: r.Per.Std()}
		}
		if c := b.Cost; c != nil {
			one.Cost = policy.Cap{Limit: int64(c.Limit), Per: c.Per.Std()}
		}
		list = append(list, one)
	}
	return list
}

// budgetCaps lists the caps of the file's budgets, each as PATH.runs or PATH.cost.
func (a *App) budgetCaps() (names []string) {
	for _, b := range a.file().Budgets() {
		if b.Runs != nil {
			names = append(names, b.Path+".runs")
		}
		if b.Cost != nil {
			names = append(names, b.Path+".cost")
		}
	}
	return names
}

// mostOfEntities is of how many entities what is used of a budget is listed: those that have used most.
const mostOfEntities = 20

// budgetItems lists the budgets of the file with what is used of them, or those of which nothing is left, without what they hold.
func (a *App) budgetItems(ctx context.Context, usedUp bool) (items []api.BudgetItem, err error) {
	l, err := a.stream.openLedger()
	if err != nil {
		return nil, err
	}
	now := time.Now()
	items = budgetLimits(a.file(), now)
	var names []string
	for i := range items {
		names = append(names, counterOf(&items[i]))
	}
	used, err := l.CountersOf(ctx, names)
	if err != nil {
		return nil, err
	}
	var all []api.BudgetItem
	for i := range items {
		item := &items[i]
		if u, ok := used[counterOf(item)]; ok && !item.Each {
			use(item, u, now)
		}
		all = append(all, *item)
		if !item.Each {
			continue
		}
		of, err := l.CountersUsed(ctx, counterOf(item)+" ", mostOfEntities)
		if err != nil {
			return nil, err
		}
		for _, u := range of {
			one := *item
			one.Source, one.Entity, _ = strings.Cut(strings.TrimPrefix(u.Name, counterOf(item)+" "), " ")
			if one.Team == "" {
				one.Teams = usersOf(a.file(), item.Budget, one.Source)
			}
			use(&one, u, now)
			all = append(all, one)
		}
	}
	if usedUp {
		return slices.DeleteFunc(all, func(i api.BudgetItem) bool { return !i.UsedUp }), nil
	}
	if len(all) == 0 {
		return nil, nil
	}
	return all, countHeld(ctx, l, all)
}

// budgetLimits are the limits of all budgets of a file, of which nothing is used.
func budgetLimits(file *config.Config, now time.Time) (items []api.BudgetItem) {
	for _, b := range file.Budgets() {
		if r := b.Runs; r != nil {
			items = append(items, budgetItem(file, b, "runs", float64(r.Limit), r.Per, now))
		}
		if c := b.Cost; c != nil {
			items = append(items, budgetItem(file, b, "cost", costOf(int64(c.Limit)), c.Per, now))
		}
	}
	return items
}

// budgetItem is a limit of a budget of which nothing is used.
func budgetItem(file *config.Config, b config.NamedBudget, of string, limit float64, per config.Duration, now time.Time) api.BudgetItem {
	i := api.BudgetItem{Budget: b.Path, Of: of, Each: b.Of == config.OfEntity, Limit: limit, Left: limit, Per: per.String(), OnLimit: b.OnLimit,
		Command: overBudget[b.OnLimit]}
	window := per.Std().Microseconds()
	i.RenewsAt = time.UnixMicro((now.UnixMicro()/window + 1) * window).UTC()
	if rest, ok := strings.CutPrefix(b.Path, "teams."); ok {
		i.Team, _, _ = strings.Cut(rest, ".")
		i.Command += " --team " + i.Team
	} else if d := file.Destinations[strings.TrimSuffix(strings.TrimPrefix(b.Path, "destinations."), ".budget")]; d != nil {
		i.Teams = d.Teams
	}
	return i
}

// usersOf returns whose actions the budget of an entity holds up that a shared destination has for each, and who is to know of it: not the team of
// the source, which may be another. budget is a path as in "destinations.<name>.budget".
func usersOf(file *config.Config, budget, source string) []string {
	name, _, _ := strings.Cut(strings.TrimPrefix(budget, "destinations."), ".")
	return file.UsersOf(name, source)
}

// use says in a row what its counter has.
func use(i *api.BudgetItem, u ledger.CounterUsed, now time.Time) {
	if i.Used = float64(u.Used); i.Of == "cost" {
		i.Used = costOf(u.Used)
	}
	i.Left, i.UsedUp, i.RenewsAt = max(0, i.Limit-i.Used), i.Used >= i.Limit, now.Add(u.Left).Round(time.Second).UTC()
}

// costOf returns a cost in the unit that the file has.
func costOf(n int64) float64 {
	f, _ := strconv.ParseFloat(sink.Cost(n).String(), 64) // it is a decimal
	return f
}

// counterOf is the name of the counter of a row that is no entity's.
func counterOf(i *api.BudgetItem) string { return policy.BudgetCounters + i.Budget + "." + i.Of }

// countHeld sets how many actions each holds, of those teams that who asks may ask about; of a budget that each entity has, the row without an
// entity says how many all of them hold.
func countHeld(ctx context.Context, l *ledger.Ledger, items []api.BudgetItem) error {
	held, err := inbox.New(l).HeldByBudgets(ctx)
	if err != nil || held == nil {
		return err
	}
	for n := range items {
		i := &items[n]
		i.Held = new(int64(0))
		for _, h := range held {
			if api.Asks(ctx).Of(h.Team) && h.Budget == i.Budget+"."+i.Of && (i.Entity == "" || h.Source == i.Source && h.Entity == i.Entity) {
				*i.Held += h.Actions
			}
		}
	}
	return nil
}
