package ledger

import (
	"context"
	"time"

	"github.com/forebay-io/forebay/stream/ledger/internal/pg"
	"github.com/jackc/pgx/v5"
)

// KeptByReplay is how long a wait is said to take that does not end before a replay does: ask again, since the replay may end at any time.
const KeptByReplay = time.Hour

// NextDeadline returns, by the fence's id, how long it is until the first wait of each claim ends by the database's clock, negative if it is
// overdue. A claim on which nothing waits with a deadline is left out; where all waits are kept by a replay, it is [KeptByReplay]. Expire then ends only waits that were overdue at this moment: the
// caller observes the end of the log in between.
func (n *Namespace) NextDeadline(ctx context.Context, claims []*Claim) (map[int32]time.Duration, error) {
	rows, err := n.ledger.hot.Query(ctx, `-- nextDeadline: one step into buffer_by_deadline per fence
SELECT c.id, coalesce((extract(epoch FROM b.deadline - now()) * 1000000)::bigint, $2), now() FROM unnest($1::int[]) AS c(id)
CROSS JOIN LATERAL (SELECT FROM buffer WHERE fence = c.id AND deadline IS NOT NULL LIMIT 1) waits
LEFT JOIN LATERAL (SELECT deadline FROM buffer l WHERE fence = c.id AND deadline IS NOT NULL AND `+notReplayed("c.id", "l.entity", "l.clock")+` ORDER BY fence, deadline LIMIT 1) b ON true`,
		idsOf(claims), KeptByReplay.Microseconds())
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
		return nil, pg.Unavailable("read the deadlines of "+n.spec.Name, err)
	}
	return out, nil
}
