package ledger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger/internal/pg"
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

// Sweep opens new dedupe windows for all subscriptions and drops the tables of windows that are no longer needed: the
// only way in which the ledger forgets. A window is written for as long as dedupe remembers, so at most three are read.
// It is safe to run in every process at once, and cheap when there is nothing to do. Run it every few minutes. A failure of
// one subscription does not stop the others. One that fails again and again is left out of some sweeps.
func (l *Ledger) Sweep(ctx context.Context, cfg SweepConfig) (Swept, error) {
	const op = "sweep the ledger"
	cfg = cfg.withDefaults()
	var swept Swept
	rows, err := l.read.Query(ctx, `SELECT id, name || CASE generation WHEN 0 THEN '' ELSE '@' || generation END FROM subscriptions ORDER BY id`)
	if err != nil {
		return swept, &schemas.Error{Kind: schemas.Unavailable, Op: op, Err: pg.Redact(err)}
	}
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[sweptSubscription])
	if err != nil {
		return swept, &schemas.Error{Kind: schemas.Unavailable, Op: op, Err: pg.Redact(err)}
	}
	var failed []error
	for _, s := range all {
		if ctx.Err() != nil {
			failed = append(failed, context.Cause(ctx))
			break
		}
		if l.sweeps.skip(s.ID) {
			continue
		}
		err := l.sweepOne(ctx, s.ID, cfg, &swept)
		if l.sweeps.note(s.ID, err); err != nil {
			failed = append(failed, fmt.Errorf("subscription %s: %w", s.Name, pg.Redact(err)))
		}
	}
	if len(failed) > 0 {
		return swept, &schemas.Error{Kind: schemas.Unavailable, Op: op, Err: errors.Join(failed...)}
	}
	return swept, nil
}

type sweptSubscription struct {
	ID   int32
	Name string
}

func (l *Ledger) sweepOne(ctx context.Context, id int32, cfg SweepConfig, swept *Swept) error {
	opened, err := l.rotate(ctx, id)
	if opened != 0 {
		swept.Opened = append(swept.Opened, opened)
	}
	if err != nil {
		return err
	}
	dropped, err := l.dropWindows(ctx, id, cfg)
	swept.Dropped = append(swept.Dropped, dropped...)
	if err != nil {
		return err
	}
	return l.forget(ctx, id, cfg)
}

// sweeps remembers which subscriptions failed in the sweeps of this process.
type sweeps struct {
	mu             sync.Mutex
	bySubscription map[int32]*sweepFailures
}

// sweepFailures counts how often in a row a subscription has failed, and in how many sweeps it is still left out.
type sweepFailures struct{ failed, skipLeft int }

// maxLeftOut bounds how many sweeps in a row a subscription is left out of.
const maxLeftOut = 15

func (s *sweeps) skip(id int32) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.bySubscription[id]
	if f == nil || f.skipLeft == 0 {
		return false
	}
	f.skipLeft--
	return true
}

func (s *sweeps) note(id int32, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		delete(s.bySubscription, id)
		return
	}
	if s.bySubscription == nil {
		s.bySubscription = map[int32]*sweepFailures{}
	}
	f := s.bySubscription[id]
	if f == nil {
		f = &sweepFailures{}
		s.bySubscription[id] = f
	}
	f.skipLeft = min(1<<f.failed-1, maxLeftOut) // after the first failure it is in the next sweep
	f.failed = min(f.failed+1, 8)
}

// maxDeleted bounds how many rows one sweep deletes from each table of commands, results and backfills.
const maxDeleted = 10_000

// forget deletes commands, results and backfill requests that ended long ago. These tables have a row per request, not per
// event, and an index by their end: nothing is scanned.
func (l *Ledger) forget(ctx context.Context, subscription int32, cfg SweepConfig) error {
	for _, table := range []string{"backfills", "commands", "results"} {
		_, err := l.read.Exec(ctx, `DELETE FROM `+table+` WHERE id = ANY (ARRAY(
			SELECT t.id FROM fences f JOIN subscriptions s ON s.id = f.subscription
			CROSS JOIN LATERAL (SELECT id FROM `+table+` WHERE fence = f.id AND ended_at <= now() - coalesce(s.keep_dead, $2) ORDER BY ended_at LIMIT $3) t
			WHERE s.id = $1 LIMIT $3))`, subscription, cfg.Dead, maxDeleted)
		if err != nil {
			return err
		}
	}
	return nil
}

// How long DDL waits for a lock; all that comes after it waits too. A rotation waits for batches, which end soon. A DROP waits
// for readers too, of the window and of all windows, which may take as long as operators' questions do: it is tried a few
// times, and again with the next sweep.
const (
	rotateLock = `SET LOCAL lock_timeout = '500ms'`
	dropLock   = `SET LOCAL lock_timeout = '50ms'`
	dropTries  = 4
)

// rotate opens the next window once the current one has been written for its time, and creates the one after it. Batches
// wait meanwhile: those in flight end first, those that come later see the new window.
func (l *Ledger) rotate(ctx context.Context, subscription int32) (opened int32, err error) {
	err = l.transact(ctx, func(tx pgx.Tx) error {
		opened = 0
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
	if err == nil && opened != 0 {
		l.cfg.Logger.InfoContext(ctx, "dedupe window opened", "window", opened)
	}
	return opened, err
}

func openNextWindow(ctx context.Context, tx pgx.Tx, subscription, current int32) (opened int32, err error) {
	// Sorted locks: sweeps of other processes and registrations wait at the subscription's row already.
	if _, err := tx.Exec(ctx, `SELECT id FROM windows WHERE subscription = $1 FOR UPDATE`, subscription); err != nil {
		return 0, err
	}
	if _, err := tx.Exec(ctx, fmt.Sprintf(`LOCK TABLE events_w%d IN SHARE MODE`, current)); err != nil {
		return 0, err
	}
	err = exactly(tx.Exec(ctx, `UPDATE windows SET state = 'closed', closed_at = now() WHERE id = $1`, current))
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

// retiredWindows are closed windows that dedupe no longer needs and that were kept long enough: every partition of the
// subscription's topics has processed past their end plus the horizon, and no event of them waits.
const retiredWindows = `-- retiredWindows: one row per closed window
SELECT w.id FROM windows w JOIN subscriptions s ON s.id = w.subscription
WHERE w.subscription = $1 AND w.state = 'closed' AND s.dedupe IS NOT NULL
  AND w.closed_at + greatest(s.dedupe, $2::interval, coalesce(s.keep_done, $3::interval)) <= now()
  AND NOT EXISTS (SELECT FROM fences f LEFT JOIN progress p ON p.fence = f.id LEFT JOIN topics t ON t.subscription = f.subscription AND t.topic = f.topic
                   WHERE f.subscription = w.subscription AND NOT f.copy_void AND (p.processed_at IS NULL OR p.processed_at < w.closed_at + $2::interval)
                     AND NOT coalesce(t.topic_id <> f.topic_id OR t.left_at >= coalesce(f.claimed_at, '-infinity'), false))
  AND NOT EXISTS (SELECT FROM buffer b WHERE b.window_id = w.id)
ORDER BY w.id`

// droppable says whether such a window can be dropped: nothing of it is open, no dirty line needs its events, and its dead
// letters were kept long enough. lane_low must be past all of it, rows included: a claim takes any action from lane_low on
// that has neither ended nor a row for open.
const droppable = `-- droppable: below lane_low all is settled, what has a row is found by its own index
SELECT NOT EXISTS (SELECT FROM fences f JOIN {actions} a ON a.fence = f.id AND a.open JOIN effects x ON x.id = a.effect
                   WHERE f.subscription = s.id AND {w} IN (a.window_id, a.event_window)
                     AND (` + ParksLane + ` OR a.finished_at > now() - coalesce(s.keep_dead, $2::interval)))
  AND NOT EXISTS (SELECT FROM fences f JOIN progress p ON p.fence = f.id
                    CROSS JOIN LATERAL (SELECT lane_seq + actions AS upto FROM events_w{w}
                         WHERE fence = f.id AND lane_seq IS NOT NULL AND lane_window IS NULL
                         ORDER BY fence DESC, lane_seq DESC LIMIT 1) e
                   WHERE f.subscription = s.id AND e.upto > least(p.lane_low, p.dirty_lines_from))
  AND NOT EXISTS (SELECT FROM fences f JOIN progress p ON p.fence = f.id JOIN actions_w{w} a ON a.fence = f.id AND a.lane_seq >= p.lane_low
                   WHERE f.subscription = s.id)
FROM subscriptions s WHERE s.id = $1`

func (l *Ledger) dropWindows(ctx context.Context, subscription int32, cfg SweepConfig) (dropped []int32, err error) {
	ids, err := l.windowIDs(ctx, retiredWindows, subscription, cfg.Horizon, cfg.Done)
	if err != nil || len(ids) == 0 {
		return nil, err
	}
	for _, id := range ids {
		may, err := l.mayDrop(ctx, subscription, id, cfg)
		if err == nil && may {
			may, err = l.drop(ctx, id)
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

// drop drops a window, unless a reader holds it for longer than others may be made to wait.
func (l *Ledger) drop(ctx context.Context, id int32) (dropped bool, err error) {
	for try := range dropTries {
		if err := pg.Backoff(ctx, try); err != nil {
			return false, err
		}
		err = pgx.BeginFunc(ctx, l.hot, func(tx pgx.Tx) error { return dropWindow(ctx, tx, id) })
		if t := troubleOf(err); err == nil || !pg.Locked(err) && t != pg.Transient && t != pg.Lost {
			return err == nil, err
		}
	}
	if !pg.Locked(err) {
		return false, err
	}
	l.cfg.Logger.InfoContext(ctx, "dedupe window is being read; a later sweep will drop it", "window", id)
	return false, nil
}

// mayDrop asks droppable. False where another process has dropped the window meanwhile.
func (l *Ledger) mayDrop(ctx context.Context, subscription, id int32, cfg SweepConfig) (may bool, err error) {
	live, err := l.windowIDs(ctx, `SELECT id FROM windows WHERE subscription = $1 ORDER BY id`, subscription)
	if err != nil || !slices.Contains(live, id) {
		return false, err
	}
	err = l.read.QueryRow(ctx, OfWindow(id, OfWindows(live, droppable)), subscription, cfg.Dead).Scan(&may)
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
	if _, err := tx.Exec(ctx, dropLock); err != nil {
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

// Now is the database's clock.
func (n *Namespace) Now(ctx context.Context) (now time.Time, err error) {
	if err := n.ledger.quick.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&now); err != nil {
		return now, &schemas.Error{Kind: schemas.Unavailable, Op: "ask the database for the time", Err: pg.Redact(err)}
	}
	return now, nil
}

// CaughtUp notes that the claims' partitions were processed to their end as of at. An idle partition has no records that
// show it, and would keep every window. at is by the database's clock, which closes the windows: what [Namespace.Now] gave
// before the ends were asked for. A time in the future counts as now. Fenced claims are left out.
func (n *Namespace) CaughtUp(ctx context.Context, at time.Time, claims []*Claim) error {
	err := n.giveRowsNow(ctx, claims)
	if err == nil {
		err = n.caughtUp(ctx, at, claims)
	}
	if err != nil {
		return &schemas.Error{Kind: schemas.Unavailable, Op: "note that " + n.spec.Name + " has caught up", Err: pg.Redact(err)}
	}
	return nil
}

var processedWrite = pg.NewCountedAs(`-- processedWrite
UPDATE progress p SET processed_at = greatest(p.processed_at, least($4, now())), lane_low = greatest(p.lane_low, $5)
FROM fences f WHERE f.id = $1 AND f.epoch = $2 AND f.token = $3 AND p.fence = f.id`, fenceHeld)

func (n *Namespace) caughtUp(ctx context.Context, at time.Time, claims []*Claim) error {
	return n.ledger.transact(ctx, func(tx pgx.Tx) error {
		for _, c := range claimsSorted(claims) {
			_, err := tx.Exec(ctx, processedWrite.SQL, c.ID, c.Epoch, c.Token, at, c.low())
			if err := pg.OrMissed(processedWrite.Counted, err); err != nil {
				return err
			}
		}
		return nil
	})
}
