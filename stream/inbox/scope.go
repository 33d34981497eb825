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
	rows, err := b.slow.Query(ctx, `SELECT w.id FROM subscriptions s JOIN windows w ON w.subscription = s.id AND w.state <> 'ahead'
		WHERE $1 IN ('', split_part(s.name, '.', 1)) AND $2 IN ('', substr(s.name, strpos(s.name, '.') + 1)) ORDER BY w.id`, team, subscription)
	if err != nil {
		return err
	}
	windows, err := pgx.CollectRows(rows, pgx.RowTo[int32])
	if err != nil || len(windows) == 0 {
		return err
	}
	return f(windows)
}
