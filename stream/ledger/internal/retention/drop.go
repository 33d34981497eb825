package retention

import (
	"context"
	"errors"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/forebay-io/forebay/stream/ledger/internal/pg"
	"github.com/forebay-io/forebay/stream/ledger/internal/window"
)

// A DROP waits for readers too, of the window and of all windows, which may take as long as operators' questions do, and all statements that
// come after it wait for it. So it gives up soon, is tried a few times, and again with the next sweep.
const (
	dropLock  = `SET LOCAL lock_timeout = '50ms'`
	dropTries = 4
)

// replayed is true of a window w whose subscription has a replay under way.
const replayed = `EXISTS (SELECT FROM replay_parts y JOIN fences f ON f.id = y.fence WHERE f.subscription = w.subscription AND y.ended_at IS NULL)`

// retiredWindows finds closed windows that dedupe no longer needs and that were kept long enough: every partition of the
// subscription's topics has processed past their end plus the horizon, none of their events waits, and no replay of the subscription asks
// them what was decided.
const retiredWindows = `-- retiredWindows: one row per closed window
SELECT w.id FROM windows w JOIN subscriptions s ON s.id = w.subscription
WHERE w.subscription = $1 AND w.state = 'closed' AND s.dedupe IS NOT NULL
  AND w.closed_at + greatest(s.dedupe, $2::interval, coalesce(s.keep_done, $3::interval)) <= now()
  AND NOT EXISTS (SELECT FROM fences f LEFT JOIN progress p ON p.fence = f.id LEFT JOIN topics t ON t.subscription = f.subscription AND t.topic = f.topic
                   WHERE f.subscription = w.subscription AND NOT f.copy_void AND (p.processed_at IS NULL OR p.processed_at < w.closed_at + $2::interval)
                     AND NOT coalesce(t.topic_id <> f.topic_id OR t.left_at >= coalesce(f.claimed_at, '-infinity'), false))
  AND NOT EXISTS (SELECT FROM buffer b WHERE b.window_id = w.id)
  AND NOT ` + replayed + `
ORDER BY w.id`

// droppable is true if a retired window can be dropped: none of its actions is open, no version line that is written later needs its events,
// and its dead letters were kept long enough. lane_low must be past all its actions, those with rows too: a claim takes any action from
// lane_low on that has neither a completion nor a row for open.
const droppable = `-- droppable: below lane_low all is settled, what has a row is found by its own index
SELECT NOT EXISTS (SELECT FROM fences f JOIN {actions} a ON a.fence = f.id AND a.open JOIN effects x ON x.id = a.effect
                   WHERE f.subscription = s.id AND {w} IN (a.window_id, a.event_window)
                     AND (` + window.ParksLane + ` OR a.finished_at > now() - coalesce(s.keep_dead, $2::interval)))
  AND NOT EXISTS (SELECT FROM fences f JOIN progress p ON p.fence = f.id
                    CROSS JOIN LATERAL (SELECT lane_seq + actions AS upto FROM events_w{w}
                         WHERE fence = f.id AND lane_seq IS NOT NULL AND lane_window IS NULL
                         ORDER BY fence DESC, lane_seq DESC LIMIT 1) e
                   WHERE f.subscription = s.id AND e.upto > least(p.lane_low, p.dirty_lines_from))
  AND NOT EXISTS (SELECT FROM fences f JOIN progress p ON p.fence = f.id JOIN actions_w{w} a ON a.fence = f.id AND a.lane_seq >= p.lane_low
                   WHERE f.subscription = s.id)
FROM subscriptions s WHERE s.id = $1`

// dropWindows drops the retired windows that nothing needs any longer.
func (s *Sweeper) dropWindows(ctx context.Context, subscription int32, cfg Config) (dropped []int32, err error) {
	ids, err := s.windowIDs(ctx, retiredWindows, subscription, cfg.Horizon, cfg.Done)
	if err != nil || len(ids) == 0 {
		return nil, err
	}
	for _, id := range ids {
		gone, err := s.mayDrop(ctx, subscription, id, cfg)
		if err == nil && gone {
			gone, err = s.Drop(ctx, id) // false if it is needed after all
		}
		if err != nil {
			return dropped, err
		}
		if !gone {
			continue
		}
		dropped = append(dropped, id)
		s.log.InfoContext(ctx, "dedupe window dropped", "window", id)
	}
	return dropped, nil
}

// Drop drops a window. If readers hold it for so long that others would have to wait for the DROP, it returns false and no error.
func (s *Sweeper) Drop(ctx context.Context, id int32) (dropped bool, err error) {
	var kept bool
	for try := range dropTries {
		if err := pg.Backoff(ctx, try); err != nil {
			return false, err
		}
		err = pgx.BeginFunc(ctx, s.hot, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, dropLock); err != nil {
				return err
			}
			// A replay that begins locks the rows of the windows, too: it has them, or finds them gone. Whether there is one is asked in a
			// statement of its own: that which waits for the lock goes on with what it saw before.
			if err := tx.QueryRow(ctx, `SELECT false FROM windows w WHERE w.id = $1 FOR UPDATE`, id).Scan(&kept); err != nil {
				return err
			}
			if err := tx.QueryRow(ctx, `SELECT `+replayed+` FROM windows w WHERE w.id = $1`, id).Scan(&kept); err != nil || kept {
				return err
			}
			return window.Drop(ctx, tx, id)
		})
		if err == nil {
			return !kept, nil
		}
		if errors.Is(err, pgx.ErrNoRows) { // another process has dropped it
			return false, nil
		}
		if trouble := pg.TroubleOf(err); !pg.Locked(err) && trouble != pg.Transient && trouble != pg.Lost {
			return false, err
		}
	}
	if !pg.Locked(err) {
		return false, err
	}
	s.log.InfoContext(ctx, "dedupe window is being read; a later sweep will drop it", "window", id)
	return false, nil
}

// mayDrop reports whether a window is droppable; false if another process has dropped it meanwhile.
func (s *Sweeper) mayDrop(ctx context.Context, subscription, id int32, cfg Config) (may bool, err error) {
	live, err := s.windowIDs(ctx, `SELECT id FROM windows WHERE subscription = $1 ORDER BY id`, subscription)
	if err != nil || !slices.Contains(live, id) {
		return false, err
	}
	err = s.read.QueryRow(ctx, window.Of(id, window.OfMany(live, droppable)), subscription, cfg.Dead).Scan(&may)
	if pg.TroubleOf(err) == pg.NoTable {
		return false, nil
	}
	return may, err
}

func (s *Sweeper) windowIDs(ctx context.Context, sql string, args ...any) ([]int32, error) {
	return pg.CollectInt32(s.read.Query(ctx, sql, args...))
}
