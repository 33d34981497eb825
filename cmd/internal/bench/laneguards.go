package bench

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/forebay-io/forebay/schemas/expression"
	"github.com/forebay-io/forebay/stream/counter"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/policy"
	"github.com/forebay-io/forebay/stream/sink"
)

// The conditions of lanes/guarded, each of which lets every event go on, and its second key.
const (
	laneWhen  = "body.action != 'deleted' && event.type.startsWith('com.github.')"
	laneRisky = "body.issue.title.contains('rm -rf') || body.issue.number == 0"
	laneUsual = "body.sender.type == 'User'"
	laneKey   = "string(body.issue.number) + '/' + event.id"
)

const laneBudget = 1_000_000_000

// laneGuards are the guards of a subscription that has all of them, made as forebay makes them.
func laneGuards(l *ledger.Ledger, ns *ledger.Namespace, counters *counter.Counters) (policy.Guard, error) {
	var conditions []*expression.Expression
	for _, text := range []string{laneWhen, laneRisky, laneUsual} {
		x, err := expression.Condition(text)
		if err != nil {
			return nil, err
		}
		conditions = append(conditions, x)
	}
	metrics, err := policy.NewBudgetMetrics(prometheus.NewRegistry(), slog.New(slog.DiscardHandler), nil)
	if err != nil {
		return nil, err
	}
	limit := policy.Cap{Limit: laneBudget, Per: 24 * time.Hour}
	budgets := []policy.Allowance{
		{Path: "teams.bench.budget", Runs: limit, OnLimit: ledger.WaitingBudget},
		{Path: "teams.bench.destinations.noop.budget", Cost: limit, OnLimit: ledger.WaitingBudget},
		{Path: "teams.bench.subscriptions.all.budget", Runs: limit, Cost: limit, OnLimit: ledger.WaitingBudget},
	}
	return policy.NewChain([]policy.Guard{
		policy.Senders{Own: true, Automation: true}, policy.Conditions{"run": conditions[0]},
		&policy.Loops{Depth: 8, Runs: 30, Per: time.Hour, Agents: map[string][]string{"bench/noop": {"noop", "bench/noop"}}, Sayings: ns},
		&policy.Rules{Store: l, Levels: [][]policy.Rule{{{Name: "risky", If: conditions[1], Then: policy.Approve}, {Name: "usual", If: conditions[2], Then: policy.Allow}}}},
		policy.NewBudgets(counters, metrics, func(string, string) []policy.Allowance { return budgets }),
	}), nil
}

// paid is a noop that says what it has cost, another amount each time.
type paid struct {
	noop
	calls atomic.Int64
}

func (p *paid) Do(context.Context, sink.Action) (sink.Outcome, error) {
	return sink.Outcome{Code: 200, Cost: sink.Cost(10 + p.calls.Add(1)%90)}, nil
}
