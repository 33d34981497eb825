package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger/internal/pg"
	"github.com/jackc/pgx/v5"
)

// overtakenLine finds the version line of an action's event, in its own row or in those of the events that it is behind:
// nearly always it says already that nothing newer has come.
const overtakenLine = `-- overtakenLine
SELECT kind, epoch, value, version_text, sub, event_key FROM version_lines WHERE fence = $1 AND entity = $2 AND clock = $3
UNION ALL SELECT e.kind, e.epoch, e.value, e.version_text, e.sub, e.event_key FROM progress p CROSS JOIN LATERAL (
    SELECT kind, epoch, value, version_text, sub, event_key FROM {events} v
     WHERE fence = $1 AND lane_seq >= p.dirty_lines_from AND lane_seq IS NOT NULL AND lane_window IS NULL
       AND entity = $2 AND clock = $3 AND decision = 'applied' AND reason = 'next' ORDER BY lane_seq DESC LIMIT 1) e
 WHERE p.fence = $1`

// overtakenBy lists the versions of the entity whose action of the same name has been started behind an action: of events
// that were decided on their own by the index of their lanes, of those that left the gap buffer by their rows in actions.
// What has no attempt counts as well below $6.
const overtakenBy = `-- overtakenBy: a walk over the lane_seqs behind it
WITH behind AS (
    SELECT e.* FROM {events} e WHERE e.fence = $1 AND e.lane_seq > $2 AND e.lane_seq IS NOT NULL AND e.lane_window IS NULL AND e.entity = $3 AND e.clock = $4
    UNION
    SELECT e.* FROM {actions} a JOIN {events} e ON e.window_id = a.event_window AND e.event_key = a.event_key
     WHERE a.fence = $1 AND a.lane_seq > $2 AND e.lane_window IS NOT NULL AND e.entity = $3 AND e.clock = $4
)` + startedBehind

// newestBy is overtakenBy of the events $7 alone.
const newestBy = `-- newestBy: probes by key
WITH behind AS (SELECT * FROM {events} v WHERE event_key = ANY ($7) AND fence = $1 AND lane_seq > $2 AND entity = $3 AND clock = $4)` + startedBehind

const startedBehind = `
SELECT e.kind, e.epoch, e.value, e.version_text, e.sub, e.event_key FROM behind e LEFT JOIN plans p ON p.id = e.plan CROSS JOIN LATERAL ` + ActionStates + `
JOIN effects f ON f.id = coalesce(x.effect, p.effects[n.i + 1])
WHERE f.name = $5 AND (c.at IS NOT NULL AND NOT c.superseded OR x.attempts > 0 OR x.status IN ('done', 'unknown') OR e.lane_seq + n.i < $6 AND coalesce(x.status, 'pending') = 'pending')`

// Overtaken reports whether an action of the same name of a newer version of a's entity, on the same clock, has been
// started (P4). Only an action that did not park its lane can be. Where versions are not told apart, by kind none or by
// order: arrival, nothing is newer. The caller owns the lane: a is its head. Below c.DoubtTo, what stands behind it may have
// been started by an owner that did not come to say so.
//
// Nearly always the newest version of all has been started, or there is none; only else it is a walk over the partition, of
// which few run at once, for 5 s each: what cannot be told by then is [ErrTooFar], what had to wait for others Unavailable.
func (n *Namespace) Overtaken(ctx context.Context, c *Claim, a Action) (bool, error) {
	if a.Version.Kind == schemas.None {
		return false, nil
	}
	soon, cancel := context.WithTimeoutCause(ctx, overtakenWithin, errOvertakenLater)
	defer cancel()
	keys, err := n.newer(soon, a, overtakenLine, c.ID, string(a.Entity), a.Version.Clock)
	// The line of a topic that was there before is gone with it, or has begun again.
	if err != nil || len(keys) == 0 && a.LaneSeq >= c.lanesFrom {
		return false, n.overtakenFailed(soon, err)
	}
	args := []any{c.ID, a.LaneSeq, string(a.Entity), a.Version.Clock, a.Name, c.DoubtTo}
	started, err := n.newer(soon, a, newestBy, append(args, keys)...)
	if err != nil || len(started) > 0 {
		return err == nil, n.overtakenFailed(soon, err)
	}
	select {
	case n.ledger.walking <- struct{}{}:
		defer func() { <-n.ledger.walking }()
	case <-soon.Done():
		return false, n.overtakenFailed(soon, soon.Err())
	}
	return n.walk(ctx, a, args)
}

const overtakenWithin = 5 * time.Second

var errOvertakenLater = errors.New("it takes longer than 5 s, or has to wait for others that are asked about: it is tried again")

// ErrTooFar says that Overtaken cannot tell, however often it is asked.
var ErrTooFar = errors.New("so many have come since that 5 s do not tell whether a newer one of its entity has been started; forced (`dlq replay --force`) it runs without asking")

// walk asks for all that stands behind an action. It is the server that ends it: one that is not heard of has not said that it is too far.
func (n *Namespace) walk(ctx context.Context, a Action, args []any) (overtaken bool, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, n.ledger.walkWithin+overtakenWithin, errOvertakenLater)
	defer cancel()
	err = n.inWindows(ctx, func(win *windowSet) error {
		return pgx.BeginFunc(ctx, n.ledger.hot, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, fmt.Sprintf(`SET LOCAL statement_timeout = %d`, n.ledger.walkWithin.Milliseconds())); err != nil {
				return err
			}
			started, err := newerThan(ctx, tx, a, win.own(overtakenBy), args...)
			overtaken = len(started) > 0
			return err
		})
	})
	if pg.StatementTimeout(err) {
		err = ErrTooFar
	}
	return overtaken, n.overtakenFailed(ctx, err)
}

// newer is newerIn in a transaction of its own.
func (n *Namespace) newer(ctx context.Context, a Action, sql string, args ...any) (keys [][16]byte, err error) {
	err = n.inWindows(ctx, func(win *windowSet) (err error) {
		keys, err = newerThan(ctx, n.ledger.hot, a, win.own(sql), args...)
		return err
	})
	return keys, err
}

// newerThan runs a query for events of a's version line and returns the keys of those whose versions are newer than a's. The
// query selects kind, epoch, value, version_text, sub and event_key.
func newerThan(ctx context.Context, db querier, a Action, sql string, args ...any) (keys [][16]byte, err error) {
	rows, err := db.Query(ctx, sql, args...)
	if err == nil {
		v := schemas.Version{Clock: a.Version.Clock}
		var key [16]byte
		_, err = pgx.ForEachRow(rows, []any{&v.Kind, &v.Epoch, &v.Value, &v.Text, &v.Sub, &key}, func() error {
			if v.Comparable(a.Version) && v.Compare(a.Version) > 0 {
				keys = append(keys, key)
			}
			return nil
		})
	}
	return keys, err
}

// EndStale ends an action that was to run again and is overtaken, under the fence. It tries until ctx ends; to end it again
// changes nothing.
func (n *Namespace) EndStale(ctx context.Context, c *Claim, laneSeq int64) (fenced bool, err error) {
	op := "end a stale action of " + n.spec.Name
	for try := 0; ; try++ {
		if wait := pg.Backoff(ctx, try); wait != nil {
			return false, &schemas.Error{Kind: schemas.Unavailable, Op: op, Err: errors.Join(wait, pg.Redact(err))}
		}
		err = n.inWindows(ctx, func(win *windowSet) error {
			return pgx.BeginFunc(ctx, n.ledger.hot, func(tx pgx.Tx) error {
				held, err := c.held(ctx, tx)
				w := win.windowOf(c, laneSeq)
				if fenced = !held; err != nil || fenced || w == 0 {
					return err
				}
				_, err = tx.Exec(ctx, OfWindow(w, staleWrite), c.ID, laneSeq)
				return err
			})
		})
		switch {
		case err == nil:
			return fenced, nil
		case ctx.Err() == nil && (troubleOf(err) == pg.Permanent || troubleOf(err) == pg.BadData):
			return false, &schemas.Error{Kind: schemas.Internal, Op: op, Err: pg.Redact(err)}
		}
	}
}

const staleWrite = `UPDATE actions_w{w} SET status = 'stale', open = false, finished_at = now(), next_at = NULL, packed = CASE WHEN ` + unexported + ` THEN packed END,
	error = 'a newer one of its entity had been started before it was to run again; forced, it runs all the same'
	WHERE fence = $1 AND lane_seq = $2 AND status = 'failed'`

func (n *Namespace) overtakenFailed(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	return &schemas.Error{Kind: schemas.Unavailable, Op: "look for newer actions of " + n.spec.Name, Err: pg.Redact(err)}
}
