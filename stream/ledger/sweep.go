package ledger

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/jackc/pgx/v5"
)

// SweepConfig says how long things are kept beyond what dedupe needs.
type SweepConfig struct {
	// Horizon is how long after an event its provider may still repeat it: a window is dropped only when every
	// partition has processed past the window's end plus this. Default 72 hours.
	Horizon time.Duration
	// Done and Dead are how long finished and dead actions stay readable, for subscriptions that do not say so themselves
	// (Spec.Done and Dead); 0 is 7 and 30 days.
	Done, Dead time.Duration
}

func (c SweepConfig) withDefaults() SweepConfig {
	day := 24 * time.Hour
	if c.Horizon == 0 {
		c.Horizon = 3 * day
	}
	if c.Done == 0 {
		c.Done = 7 * day
	}
	if c.Dead == 0 {
		c.Dead = 30 * day
	}
	return c
}

// Swept is what a sweep did, by window id.
type Swept struct {
	Opened, Dropped []int32
}

// forever is how long a window of a subscription that never forgets is written.
const forever = 90 * 24 * time.Hour

// Sweep turns the dedupe windows of all subscriptions and drops the tables of those that nobody needs any more: the
// only way in which the ledger forgets. A window is written for as long as dedupe remembers, so at most three are read.
// It is safe to run in every process at once, and cheap when there is nothing to do. Run it every few minutes.
func (l *Ledger) Sweep(ctx context.Context, cfg SweepConfig) (Swept, error) {
	cfg = cfg.withDefaults()
	var swept Swept
	fail := func(err error) (Swept, error) {
		return swept, &schemas.Error{Kind: schemas.Unavailable, Op: "sweep the ledger", Err: redact(err)}
	}
	rows, err := l.read.Query(ctx, `SELECT id FROM subscriptions ORDER BY id`)
	if err != nil {
		return fail(err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[int32])
	if err != nil {
		return fail(err)
	}
	for _, id := range ids {
		opened, err := l.rotate(ctx, id)
		if err != nil {
			return fail(err)
		}
		if opened != 0 {
			swept.Opened = append(swept.Opened, opened)
		}
		dropped, err := l.dropWindows(ctx, id, cfg)
		swept.Dropped = append(swept.Dropped, dropped...)
		if err == nil {
			err = l.forget(ctx, id, cfg)
		}
		if err != nil {
			return fail(err)
		}
	}
	return swept, nil
}

// forgotten bounds what one sweep takes out of each table of words and questions.
const forgotten = 10_000

// forget takes out what people and the gate asked of owners and what has long ended. These tables have a row per question,
// not per event, and an index by their end: nothing is scanned.
func (l *Ledger) forget(ctx context.Context, subscription int32, cfg SweepConfig) error {
	for _, table := range []string{"backfills", "commands", "results"} {
		_, err := l.read.Exec(ctx, `DELETE FROM `+table+` WHERE id = ANY (ARRAY(
			SELECT t.id FROM fences f JOIN subscriptions s ON s.id = f.subscription
			CROSS JOIN LATERAL (SELECT id FROM `+table+` WHERE fence = f.id AND ended_at <= now() - coalesce(s.keep_dead, $2) ORDER BY ended_at LIMIT $3) t
			WHERE s.id = $1 LIMIT $3))`, subscription, cfg.Dead, forgotten)
		if err != nil {
			return err
		}
	}
	return nil
}

// lockTimeout bounds how long DDL waits for its lock, and with it everybody who waits behind it.
const lockTimeout = `SET LOCAL lock_timeout = '2s'`

// rotate opens the window ahead once the current one has been written for its time, and creates the next one ahead.
// It holds out the batches for as long as that takes: those in flight are waited for, those that come see the new one.
func (l *Ledger) rotate(ctx context.Context, subscription int32) (opened int32, err error) {
	err = l.transact(ctx, func(tx pgx.Tx) error {
		opened = 0
		if _, err := tx.Exec(ctx, lockTimeout); err != nil {
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
		opened, err = turn(ctx, tx, subscription, current)
		return err
	})
	if err == nil && opened != 0 {
		l.cfg.Logger.InfoContext(ctx, "dedupe window opened", "window", opened)
	}
	return opened, err
}

func turn(ctx context.Context, tx pgx.Tx, subscription, current int32) (opened int32, err error) {
	// Sorted locks: sweeps of other processes and registrations wait at the subscription's row already.
	if _, err := tx.Exec(ctx, `SELECT id FROM windows WHERE subscription = $1 FOR UPDATE`, subscription); err != nil {
		return 0, err
	}
	if _, err := tx.Exec(ctx, fmt.Sprintf(`LOCK TABLE events_w%d IN SHARE MODE`, current)); err != nil {
		return 0, err
	}
	_, err = tx.Exec(ctx, `UPDATE windows SET state = 'closed', closed_at = now() WHERE id = $1`, current)
	if err != nil {
		return 0, err
	}
	err = tx.QueryRow(ctx, `UPDATE windows SET state = 'current', opened_at = now()
		WHERE subscription = $1 AND state = 'ahead' RETURNING id`, subscription).Scan(&opened)
	if err != nil {
		return 0, err
	}
	err = addWindow(ctx, tx, subscription, false)
	return opened, err
}

// past names closed windows that dedupe has forgotten and that have been kept long enough: every partition of a topic that is
// neither left nor created again has processed past their end plus the horizon, and nothing that began in them waits.
const past = `-- past: one row per closed window
SELECT w.id FROM windows w JOIN subscriptions s ON s.id = w.subscription
WHERE w.subscription = $1 AND w.state = 'closed' AND s.dedupe IS NOT NULL
  AND w.closed_at + greatest(s.dedupe, $2::interval, coalesce(s.keep_done, $3::interval)) <= now()
  AND NOT EXISTS (SELECT FROM fences f LEFT JOIN progress p ON p.fence = f.id LEFT JOIN topics t ON t.subscription = f.subscription AND t.topic = f.topic
                   WHERE f.subscription = w.subscription AND (p.processed_at IS NULL OR p.processed_at < w.closed_at + $2::interval)
                     AND NOT coalesce(t.topic_id <> f.topic_id OR t.left_at >= coalesce(f.claimed_at, '-infinity'), false))
  AND NOT EXISTS (SELECT FROM buffer b WHERE b.window_id = w.id)
ORDER BY w.id`

// droppable says of such a window whether nothing that began in it is open, no line is only told by its events, and what died in
// it has been kept long enough. It goes only once lane_low is past all of it, what has a row too: a claim takes what it finds
// neither ended nor with a row from there on for open.
const droppable = `-- droppable: below lane_low all is settled, what has a row is found by its own index
SELECT NOT EXISTS (SELECT FROM fences f JOIN {actions} a ON a.fence = f.id AND a.open JOIN effects x ON x.id = a.effect
                   WHERE f.subscription = s.id AND {w} IN (a.window_id, a.event_window)
                     AND (` + parksLane + ` OR a.finished_at > now() - coalesce(s.keep_dead, $2::interval)))
  AND NOT EXISTS (SELECT FROM fences f JOIN progress p ON p.fence = f.id
                    CROSS JOIN LATERAL (SELECT lane_seq + actions AS upto FROM events_w{w}
                         WHERE fence = f.id AND lane_seq IS NOT NULL AND lane_window IS NULL
                         ORDER BY fence DESC, lane_seq DESC LIMIT 1) e
                   WHERE f.subscription = s.id AND e.upto > least(p.lane_low, p.lines_low))
  AND NOT EXISTS (SELECT FROM fences f JOIN progress p ON p.fence = f.id JOIN actions_w{w} a ON a.fence = f.id AND a.lane_seq >= p.lane_low
                   WHERE f.subscription = s.id)
FROM subscriptions s WHERE s.id = $1`

func (l *Ledger) dropWindows(ctx context.Context, subscription int32, cfg SweepConfig) (dropped []int32, err error) {
	ids, err := l.windowIDs(ctx, past, subscription, cfg.Horizon, cfg.Done)
	if err != nil || len(ids) == 0 {
		return nil, err
	}
	for _, id := range ids {
		may, err := l.mayDrop(ctx, subscription, id, cfg)
		if err == nil && may {
			err = l.transact(ctx, func(tx pgx.Tx) error { return dropWindow(ctx, tx, id) })
		}
		if err != nil {
			return dropped, err
		}
		if !may {
			continue
		}
		dropped = append(dropped, id)
		l.cfg.Logger.InfoContext(ctx, "dedupe window dropped", "window", id)
	}
	return dropped, nil
}

// mayDrop asks droppable. A window that another process drops meanwhile is none of ours.
func (l *Ledger) mayDrop(ctx context.Context, subscription, id int32, cfg SweepConfig) (may bool, err error) {
	live, err := l.windowIDs(ctx, `SELECT id FROM windows WHERE subscription = $1 ORDER BY id`, subscription)
	if err != nil || !slices.Contains(live, id) {
		return false, err
	}
	err = l.read.QueryRow(ctx, ofWindow(id, ofWindows(live, droppable)), subscription, cfg.Dead).Scan(&may)
	if troubleOf(err) == oldWindows {
		return false, nil
	}
	return may, err
}

func (l *Ledger) windowIDs(ctx context.Context, sql string, args ...any) ([]int32, error) {
	rows, err := l.read.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[int32])
}

// dropWindow drops a window's children. The row goes with them, so that batches that still know it look again.
func dropWindow(ctx context.Context, tx pgx.Tx, id int32) error {
	if _, err := tx.Exec(ctx, lockTimeout); err != nil {
		return err
	}
	for _, table := range rotated {
		if _, err := tx.Exec(ctx, `DROP TABLE IF EXISTS `+table+`_w`+strconv.Itoa(int(id))); err != nil {
			return err
		}
	}
	_, err := tx.Exec(ctx, `DELETE FROM windows WHERE id = $1`, id)
	return err
}

// CaughtUp notes that the claims' partitions have been processed to their end as of at (the broker's clock): an idle partition
// has no records to tell by, and would keep every window. Claims that are fenced are left out.
func (n *Namespace) CaughtUp(ctx context.Context, at time.Time, claims []*Claim) error {
	err := n.gather(ctx, claims)
	if err == nil {
		err = n.caughtUp(ctx, at, claims)
	}
	if err != nil {
		return &schemas.Error{Kind: schemas.Unavailable, Op: "note that " + n.spec.Name + " has caught up", Err: redact(err)}
	}
	return nil
}

func (n *Namespace) caughtUp(ctx context.Context, at time.Time, claims []*Claim) error {
	return n.ledger.transact(ctx, func(tx pgx.Tx) error {
		for _, c := range claimsSorted(claims) {
			_, err := tx.Exec(ctx, `UPDATE progress p SET processed_at = greatest(p.processed_at, $4), lane_low = greatest(p.lane_low, $5)
				FROM fences f WHERE f.id = $1 AND f.epoch = $2 AND f.token = $3 AND p.fence = f.id`, c.ID, c.Epoch, c.Token, at, c.low())
			if err != nil {
				return err
			}
		}
		return nil
	})
}
