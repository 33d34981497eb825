package inbox

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// A BRIN index knows nothing of pages that are not summarized yet, so each list reads all of them. Autovacuum summarizes once a minute: at
// 100,000 events a second that is a gigabyte. Whoever looks does it before: a page is summarized once, and read by every list else. Windows
// that are smaller than summarizedFrom are read as they are.
const (
	summarizedFrom = 2 << 20
	summarizedMost = 32 // windows
)

// summarizeNew works on the current windows, which alone grow.
var summarizeNew = fmt.Sprintf(`-- summarizeNew
SELECT sum(brin_summarize_new_values(format('events_w%%s_decided', w.id)::regclass)) FROM (SELECT id FROM windows
    WHERE state = 'current' AND ($1::int[] IS NULL OR id = ANY ($1)) AND pg_relation_size(format('events_w%%s', id)::regclass) >= %d LIMIT %d) w`, summarizedFrom, summarizedMost)

// summarize has what was decided since the last time found by its time. It waits for nobody: while a vacuum is at work, or another list does the
// same, and where the role does not own the index, lists read more. So its errors are none of theirs.
func (b *Inbox) summarize(ctx context.Context, of scope) {
	_ = pgx.BeginFunc(ctx, b.slow, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT set_config('lock_timeout', '10ms', true)`); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, summarizeNew, []int32(of))
		return err
	})
}
