package ledger

import (
	"context"
	"slices"
	"time"

	"github.com/forebay-io/forebay/stream/ledger/internal/pg"
	"github.com/jackc/pgx/v5"
)

// Now returns the time of the database's clock.
func (n *Namespace) Now(ctx context.Context) (now time.Time, err error) {
	if err := n.ledger.quick.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&now); err != nil {
		return now, pg.Unavailable("ask the database for the time", err)
	}
	return now, nil
}

// CaughtUp stores that the claims' partitions were processed to their end as of at. An idle partition has no batches that store it, and
// would keep every window. at is by the database's clock, which closes the windows: what [Namespace.Now] returned before the brokers were
// asked for the ends. A time in the future counts as now. Fenced claims are left out. It also gives rows to open actions that keep a
// closed window, see giveRows. A [BehindError] says which claims know of more than the ledger, and that what was asked for is written for all
// others: an idle partition has no batch that would find out.
func (n *Namespace) CaughtUp(ctx context.Context, at time.Time, claims []*Claim) error {
	behind := n.behind(ctx, claims)
	claims = slices.DeleteFunc(slices.Clone(claims), func(c *Claim) bool { return behind[c.ID] })
	err := recorder{n}.giveRowsNow(ctx, claims)
	if err == nil {
		err = n.ledger.transact(ctx, func(tx pgx.Tx) error { return caughtUp(ctx, tx, at, claims) })
	}
	if err != nil {
		return pg.Unavailable("note that "+n.spec.Name+" has caught up", err)
	}
	if len(behind) > 0 {
		return &BehindError{behind}
	}
	return nil
}

// processedWrite looks at the revision again: the ledger may just have come back older.
var processedWrite = pg.NewCountedAs(`-- processedWrite
UPDATE progress p SET processed_at = greatest(p.processed_at, least($4, now())), lane_low = greatest(p.lane_low, $5)
FROM fences f WHERE f.id = $1 AND f.epoch = $2 AND f.token = $3 AND p.fence = f.id AND p.revision >= $6`,
	`(SELECT count(*) FROM fences WHERE id = $1 AND epoch = $2 AND token = $3 AND NOT EXISTS (SELECT FROM progress WHERE fence = $1 AND revision < $6))`)

// caughtUp is CaughtUp in a transaction, without rows for open actions.
func caughtUp(ctx context.Context, tx pgx.Tx, at time.Time, claims []*Claim) error {
	for _, c := range claimsSorted(claims) {
		_, err := tx.Exec(ctx, processedWrite.SQL, c.ID, c.Epoch, c.Token, at, c.low(), c.revision.Load())
		if err := pg.OrMissed(processedWrite.Counted, err); err != nil {
			return err
		}
	}
	return nil
}
