package inbox

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/forebay-io/forebay/stream/ledger"
)

// HeldByBudget is how many actions wait for a budget. What stands behind them in their lanes is not counted.
type HeldByBudget struct {
	Team           string // whose subscription's they are
	Budget         string // its path and what is used up: "teams.acme.budget.runs"
	Source, Entity string // whose it is, of a budget that each entity has; empty: not of one
	Actions        int64
	Asked          int64 // those of them that have asked in vain, and ask again at a time to come; of a subscription that is paused none does
}

// HeldByBudgets counts the actions that wait for budgets, in all subscriptions of the ledger; nil if there is no time for that. Kind: Unavailable.
func (b *Inbox) HeldByBudgets(ctx context.Context) ([]HeldByBudget, error) {
	out := []HeldByBudget{}
	err := within(ctx, b.slow, countWithin, func(tx pgx.Tx) error {
		return bySubscription(ctx, tx, "", "", nil, func(s subscriptionWindows) error {
			rows, err := tx.Query(ctx, s.Scope.sql(`-- heldByBudgets: the rows through actions_w*_open, where most has no row
SELECT (SELECT split_part(s.name, '.', 1) FROM subscriptions s WHERE s.id = $1), split_part(a.error, ': ', 1), CASE WHEN x.each THEN e.source ELSE '' END, CASE WHEN x.each THEN e.entity ELSE '' END, count(*), count(*) FILTER (WHERE a.next_at > now())
FROM {actions} a CROSS JOIN LATERAL (SELECT strpos(a.error, ' of this entity') > 0 AS each) x
JOIN {events} e ON e.window_id = a.event_window AND e.event_key = a.event_key
WHERE a.open AND a.status = 'waiting_budget' GROUP BY 2, 3, 4`), s.ID)
			if err != nil {
				return err
			}
			list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[HeldByBudget])
			out = append(out, list...)
			return err
		})
	})
	switch {
	case tooSlow(ctx, err):
		return nil, nil
	case err != nil:
		return nil, ledger.Unavailable("count what waits for budgets", err)
	}
	return out, nil
}
