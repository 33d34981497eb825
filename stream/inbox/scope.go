package inbox

import (
	"context"

	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/jackc/pgx/v5"
)

// scope is which windows a statement reads; nil: those of all subscriptions.
type scope []int32

// sql is a statement on the windows of the scope.
func (s scope) sql(text string) string {
	if s == nil {
		return ledger.OfAll(text)
	}
	return ledger.OfSome(s, text)
}

// windowsAtOnce is how many windows one statement reads, unless one subscription has more. A plan over n windows takes more than n times as
// long as one over a single one: the first page of the inbox took 0.15 s over 100 windows, and 12 to 36 s over 500.
const windowsAtOnce = 50

// inScope calls f with the windows of a subscription (without its team), of a team or, where both are empty, of all: with those of some
// subscriptions at a time, until f has had all or returns an error. It does not call f if there are none.
func (b *Inbox) inScope(ctx context.Context, team, subscription string, f func(scope) error) error {
	return b.inWindows(ctx, `$1 IN ('', split_part(s.name, '.', 1)) AND $2 IN ('', substr(s.name, strpos(s.name, '.') + 1))`, f, team, subscription)
}

// inTeams is inScope of some teams; nil: of all.
func (b *Inbox) inTeams(ctx context.Context, teams []string, f func(scope) error) error {
	return b.inWindows(ctx, `$1::text[] IS NULL OR split_part(s.name, '.', 1) = ANY ($1)`, f, teams)
}

// inWindows is inScope of the subscriptions s that meet a condition.
func (b *Inbox) inWindows(ctx context.Context, condition string, f func(scope) error, args ...any) error {
	rows, err := b.look.Query(ctx, `SELECT array_agg(w.id ORDER BY w.id) FROM subscriptions s JOIN windows w ON w.subscription = s.id AND w.state <> 'ahead'
		WHERE `+condition+` GROUP BY s.id ORDER BY s.id`, args...)
	if err != nil {
		return err
	}
	list, err := pgx.CollectRows(rows, pgx.RowTo[[]int32])
	if err != nil {
		return err
	}
	for len(list) > 0 {
		var part scope
		for len(list) > 0 && (part == nil || len(part)+len(list[0]) <= b.windowsAtOnce) {
			part, list = append(part, list[0]...), list[1:]
		}
		if err := f(part); err != nil {
			return err
		}
	}
	return nil
}

// subscriptionWindows are the windows of a subscription, or of a generation of it, and those of the fences that were asked for.
type subscriptionWindows struct {
	ID     int32
	Scope  scope
	Fences []int32
}

// bySubscription calls f for each subscription, and generation, that has one of the fences, or where these are nil for all of a team, of a
// subscription (without its team) or at all. What is counted of partitions is counted so: a plan over the windows of several looks into
// each of them for each partition.
func bySubscription(ctx context.Context, tx pgx.Tx, team, subscription string, fences []int32, f func(subscriptionWindows) error) error {
	rows, err := tx.Query(ctx, `SELECT s.id, array_agg(w.id ORDER BY w.id), ARRAY(SELECT f.id FROM fences f WHERE f.subscription = s.id AND f.id = ANY ($3))
		FROM subscriptions s JOIN windows w ON w.subscription = s.id AND w.state <> 'ahead'
		WHERE $1 IN ('', split_part(s.name, '.', 1)) AND $2 IN ('', substr(s.name, strpos(s.name, '.') + 1))
		  AND ($3::int[] IS NULL OR s.id IN (SELECT subscription FROM fences WHERE id = ANY ($3)))
		GROUP BY s.id ORDER BY s.name, s.generation`, team, subscription, fences)
	if err != nil {
		return err
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[subscriptionWindows])
	for _, s := range list {
		if err == nil {
			err = f(s)
		}
	}
	return err
}
