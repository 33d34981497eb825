package ledger

import (
	"context"
	"math"

	"github.com/jackc/pgx/v5"
)

// cutKinds are the stops of a log that was cut: it grows on with other records in old places.
var cutKinds = map[string]bool{"above_log_end": true, "truncated": true}

// outOfTheLog is the new log_offset of rows from a part of the log that was cut: below all offsets of a log, in their old order, and
// behind those that earlier cuts have moved there. Each claim (up to eight million) has a range of 2^40 such offsets, which begins at $2;
// see outOfLogFrom.
const outOfTheLog = `$2::bigint + log_offset`

// outOfLogFrom is where the range of a claim begins.
func outOfLogFrom(epoch int64) int64 { return math.MinInt64 + epoch<<40 }

// moveOutOfLog gives waiting events and rejected records from the cut part of the log, from offset cut on, offsets outside of the log. The
// ledger has their bytes, and other records will come with their old offsets. Records that were filtered there are left as they are: what
// comes with their offsets is decided again.
func moveOutOfLog(ctx context.Context, tx pgx.Tx, c *Claim, cut int64) error {
	windows, err := windowsOf(ctx, tx, c.ID)
	if err != nil {
		return err
	}
	var all []string
	for _, w := range windows {
		all = append(all, OfWindow(w, `UPDATE events_w{w} e SET log_offset = $2::bigint + e.log_offset FROM buffer b WHERE b.fence = $1 AND b.log_offset >= $3
			AND e.fence = b.fence AND b.window_id = {w} AND e.event_key = b.event_key AND e.log_offset = b.log_offset`),
			OfWindow(w, `UPDATE rejected_records_w{w} SET log_offset = `+outOfTheLog+` WHERE fence = $1 AND log_offset >= $3 AND decision <> 'filtered'`))
	}
	all = append(all,
		`UPDATE commands SET log_offset = `+outOfTheLog+` WHERE fence = $1 AND log_offset >= $3 AND ended_at IS NULL`,
		`UPDATE buffer SET log_offset = `+outOfTheLog+` WHERE fence = $1 AND log_offset >= $3`)
	for _, sql := range all {
		if _, err := tx.Exec(ctx, sql, c.ID, outOfLogFrom(c.Epoch), cut); err != nil {
			return err
		}
	}
	return nil
}
