package retention

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forebay-io/forebay/stream/ledger/internal/pg"
	"github.com/forebay-io/forebay/stream/ledger/internal/window"
)

// forever is for how long a window is written if dedupe of its subscription never forgets.
const forever = 90 * 24 * time.Hour

// rotateLock bounds how long a rotation waits for batches, which end soon, and for an autovacuum, which gives way after deadlock_timeout (1 s): the
// batches that come after the rotation wait for it. So it is tried once a sweep.
const rotateLock = `SET LOCAL lock_timeout = '1500ms'`

// rotate opens the next window once the current one has been written for its time, and creates the one after it. Batches
// wait meanwhile: those in flight end first, those that come later see the new window. Where something else has locked the current window
// or the subscription for longer, it returns 0 and no error.
func (s *Sweeper) rotate(ctx context.Context, subscription int32) (opened int32, err error) {
	err = pgx.BeginFunc(ctx, s.hot, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, rotateLock); err != nil {
			return err
		}
		var width *time.Duration
		err := tx.QueryRow(ctx, `SELECT dedupe FROM subscriptions WHERE id = $1 FOR UPDATE`, subscription).Scan(&width)
		if err != nil {
			return err
		}
		if width == nil {
			width = new(forever)
		}
		var (
			current int32
			due     bool
		)
		err = tx.QueryRow(ctx, `SELECT id, opened_at + $2 <= now() FROM windows WHERE subscription = $1 AND state = 'current'`,
			subscription, *width).Scan(&current, &due)
		if err != nil || !due {
			return err
		}
		opened, err = openNextWindow(ctx, tx, subscription, current)
		return err
	})
	if pg.Locked(err) {
		s.log.WarnContext(ctx, "a dedupe window or its subscription is locked by another session; a later sweep will open the next one", "error", pg.Redact(err))
		return 0, nil
	}
	if err == nil && opened != 0 {
		s.log.InfoContext(ctx, "dedupe window opened", "window", opened)
	}
	return opened, err
}

// openNextWindow closes the current window, makes the one that is ahead the current one, and adds one that is ahead.
func openNextWindow(ctx context.Context, tx pgx.Tx, subscription, current int32) (opened int32, err error) {
	// Sorted locks: sweeps of other processes and registrations wait at the subscription's row already.
	if _, err := tx.Exec(ctx, `SELECT id FROM windows WHERE subscription = $1 FOR UPDATE`, subscription); err != nil {
		return 0, err
	}
	if _, err := tx.Exec(ctx, fmt.Sprintf(`LOCK TABLE events_w%d IN SHARE MODE`, current)); err != nil {
		return 0, err
	}
	err = pg.Exactly(tx.Exec(ctx, `UPDATE windows SET state = 'closed', closed_at = now() WHERE id = $1`, current))
	if err != nil {
		return 0, err
	}
	err = tx.QueryRow(ctx, `UPDATE windows SET state = 'current', opened_at = now()
		WHERE subscription = $1 AND state = 'ahead' RETURNING id`, subscription).Scan(&opened)
	if err != nil {
		return 0, err
	}
	err = window.Add(ctx, tx, subscription, false)
	return opened, err
}
