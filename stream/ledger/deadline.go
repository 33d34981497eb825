package ledger

import (
	"context"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger/internal/pg"
	"github.com/jackc/pgx/v5"
)

// NextDeadline returns, by the fence's id, how long it is until the first wait of each claim ends by the database's clock, negative if it is
// overdue. A claim on which nothing waits with a deadline is left out. Expire then ends only waits that were overdue at this moment: the
// caller observes the end of the log in between.
func (n *Namespace) NextDeadline(ctx context.Context, claims []*Claim) (map[int32]time.Duration, error) {
	rows, err := n.ledger.hot.Query(ctx, `-- nextDeadline: one step into buffer_by_deadline per fence
SELECT c.id, (extract(epoch FROM b.deadline - now()) * 1000000)::bigint, now() FROM unnest($1::int[]) AS c(id)
CROSS JOIN LATERAL (SELECT deadline FROM buffer WHERE fence = c.id AND deadline IS NOT NULL ORDER BY fence, deadline LIMIT 1) b`, idsOf(claims))
	out := map[int32]time.Duration{}
	if err == nil {
		var (
			id int32
			us int64
			at time.Time
		)
		_, err = pgx.ForEachRow(rows, []any{&id, &us, &at}, func() error {
			out[id] = time.Duration(us) * time.Microsecond
			for _, c := range claims {
				if c.ID == id {
					c.overdueAt = pg.Time(at)
				}
			}
			return nil
		})
	}
	if err != nil {
		return nil, &schemas.Error{Kind: schemas.Unavailable, Op: "read the deadlines of " + n.spec.Name, Err: pg.Redact(err)}
	}
	return out, nil
}
