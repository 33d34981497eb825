package app

import (
	"sync"

	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/policy"
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
