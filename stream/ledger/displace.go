package ledger

import (
	"context"
	"math"

	"github.com/jackc/pgx/v5"
)

// cutKinds are the stops of a log that was cut: it grows on with other records in old places.
var cutKinds = map[string]bool{"above_log_end": true, "truncated": true}

// outOfTheLog is the place of what had its place in a log that was cut: below all of them, in the order it had, and behind what cuts
// before have put there. Each claim, of eight million, has a stretch of 2^40 places of its own, which begins at $2; see displaced.
const outOfTheLog = `$2::bigint + log_offset`

// displaced is where the stretch of a claim begins.
func displaced(epoch int64) int64 { return math.MinInt64 + epoch<<40 }

// displace gives what the ledger keeps with its bytes, waiting events and records set aside, places outside of the log
// where that was cut, so that it neither meets the records that come into its old ones nor is taken for them. What was
// filtered there is decided again.
func displace(ctx context.Context, tx pgx.Tx, c *Claim, cut int64) error {
	windows, err := windowsOf(ctx, tx, c.ID)
	if err != nil {
		return err
	}
	var all []string
	for _, w := range windows {
		all = append(all, OfWindow(w, `UPDATE events_w{w} e SET log_offset = $2::bigint + e.log_offset FROM buffer b WHERE b.fence = $1 AND b.log_offset >= $3
			AND e.fence = b.fence AND b.window_id = {w} AND e.event_key = b.event_key AND e.log_offset = b.log_offset`),
			OfWindow(w, `UPDATE asides_w{w} SET log_offset = `+outOfTheLog+` WHERE fence = $1 AND log_offset >= $3 AND decision <> 'filtered'`))
	}
	all = append(all,
		`UPDATE commands SET log_offset = `+outOfTheLog+` WHERE fence = $1 AND log_offset >= $3 AND ended_at IS NULL`,
		`UPDATE buffer SET log_offset = `+outOfTheLog+` WHERE fence = $1 AND log_offset >= $3`)
	for _, sql := range all {
		if _, err := tx.Exec(ctx, sql, c.ID, displaced(c.Epoch), cut); err != nil {
			return err
		}
	}
	return nil
}
