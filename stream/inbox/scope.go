package inbox

import (
	"context"

	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/jackc/pgx/v5"
)

// scope is which windows a list is read from; nil: those of all subscriptions. A plan over those of all is made over the tables of each, which
// takes hundreds of milliseconds where there are thousands of subscriptions.
type scope []int32

// sql is a statement on the windows of the scope.
func (s scope) sql(text string) string {
	if s == nil {
		return ledger.OfAll(text)
	}
	return ledger.OfSome(s, text)
}

// inScope calls f with the scope of a team, of a subscription (without its team) or, where both are empty, of all; not at all if there are no
// windows.
func (b *Inbox) inScope(ctx context.Context, team, subscription string, f func(scope) error) error {
	if team+subscription == "" {
		return f(nil)
	}
	return b.inWindows(ctx, `$1 IN ('', split_part(s.name, '.', 1)) AND $2 IN ('', substr(s.name, strpos(s.name, '.') + 1))`, f, team, subscription)
}

// inTeams calls f with the scope of some teams; not at all if they have no windows.
func (b *Inbox) inTeams(ctx context.Context, teams []string, f func(scope) error) error {
	return b.inWindows(ctx, `split_part(s.name, '.', 1) = ANY ($1)`, f, teams)
}

// inWindows calls f with the windows of the subscriptions s that meet a condition; not at all if they have none.
func (b *Inbox) inWindows(ctx context.Context, condition string, f func(scope) error, args ...any) error {
	rows, err := b.look.Query(ctx, `SELECT w.id FROM subscriptions s JOIN windows w ON w.subscription = s.id AND w.state <> 'ahead' WHERE `+condition+` ORDER BY w.id`, args...)
	if err != nil {
		return err
	}
	windows, err := pgx.CollectRows(rows, pgx.RowTo[int32])
	if err != nil || len(windows) == 0 {
		return err
	}
	return f(windows)
}

// bySubscription calls f for each subscription, and generation, that has one of the fences, or where there are none for all of a team, of a
// subscription (without its team) or at all: with its id and its windows. What is counted of partitions is counted so, as a plan over the
// windows of others looks into each of them for each partition.
func bySubscription(ctx context.Context, tx pgx.Tx, team, subscription string, fences []int32, f func(id int32, of scope) error) error {
	rows, err := tx.Query(ctx, `SELECT s.id, array_agg(w.id ORDER BY w.id) FROM subscriptions s JOIN windows w ON w.subscription = s.id AND w.state <> 'ahead'
		WHERE $1 IN ('', split_part(s.name, '.', 1)) AND $2 IN ('', substr(s.name, strpos(s.name, '.') + 1))
		  AND ($3::int[] IS NULL OR s.id IN (SELECT subscription FROM fences WHERE id = ANY ($3)))
		GROUP BY s.id ORDER BY s.name, s.generation`, team, subscription, fences)
	if err != nil {
		return err
	}
	type subscriptionWindows struct {
		ID      int32
		Windows []int32
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[subscriptionWindows])
	for _, s := range list {
		if err == nil {
			err = f(s.ID, s.Windows)
		}
	}
	return err
}
