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

// overtakenLine finds the version line of an action's event: its row, and the newest event that the row lacks. Nearly always these say
// already that nothing newer has come.
const overtakenLine = `-- overtakenLine
SELECT kind, epoch, value, version_text, sub, event_key FROM version_lines WHERE fence = $1 AND entity = $2 AND clock = $3
UNION ALL SELECT e.kind, e.epoch, e.value, e.version_text, e.sub, e.event_key FROM progress p CROSS JOIN LATERAL (
    SELECT kind, epoch, value, version_text, sub, event_key FROM {events} v
     WHERE fence = $1 AND lane_seq >= p.dirty_lines_from AND lane_seq IS NOT NULL AND lane_window IS NULL
       AND entity = $2 AND clock = $3 AND decision = 'applied' AND reason = 'next' ORDER BY lane_seq DESC LIMIT 1) e
 WHERE p.fence = $1`

// overtakenBy lists the versions of events behind an action, of its entity and clock, whose action of the same name has been started: events
// that never waited for a gap through the index on (fence, lane_seq), the others through their actions' rows. Below lane_seq $6, actions
// without an attempt count too.
const overtakenBy = `-- overtakenBy: a walk over the lane_seqs behind it
WITH behind AS (
    SELECT e.* FROM {events} e WHERE e.fence = $1 AND e.lane_seq > $2 AND e.lane_seq IS NOT NULL AND e.lane_window IS NULL AND e.entity = $3 AND e.clock = $4
    UNION
    SELECT e.* FROM {actions} a JOIN {events} e ON e.window_id = a.event_window AND e.event_key = a.event_key
     WHERE a.fence = $1 AND a.lane_seq > $2 AND e.lane_window IS NOT NULL AND e.entity = $3 AND e.clock = $4
)` + startedBehind

// newestBy is overtakenBy for the events with the keys $7 alone.
const newestBy = `-- newestBy: probes by key
WITH behind AS (SELECT * FROM {events} v WHERE event_key = ANY ($7) AND fence = $1 AND lane_seq > $2 AND entity = $3 AND clock = $4)` + startedBehind

const startedBehind = `
SELECT e.kind, e.epoch, e.value, e.version_text, e.sub, e.event_key FROM behind e LEFT JOIN plans p ON p.id = e.plan CROSS JOIN LATERAL ` + ActionStates + `
JOIN effects f ON f.id = coalesce(x.effect, p.effects[n.i + 1])
WHERE f.name = $5 AND (c.at IS NOT NULL AND NOT c.superseded OR x.attempts > 0 OR x.status IN ('done', 'unknown') OR e.lane_seq + n.i < $6 AND coalesce(x.status, 'pending') = 'pending')`

// Overtaken reports whether an action of the same name of a newer version of a's entity, on the same clock, has been
// started (P4). That is possible only for an action that did not park its lane. With kind none or order: arrival nothing is newer. The
// caller owns the lane: a is its head. Below c.DoubtTo, any action behind a counts as started: an unclean owner may have called its
// destination and recorded nothing.
//
// Nearly always there is no newer version, or the newest has been started: that takes probes by key. Otherwise it takes a walk over what
// came to the partition since, of which few run at once, for 5 s each. The error wraps [ErrTooFar] if such a walk was not over by then; any
// other error, of kind Unavailable, means that another call may find out.
func (n *Namespace) Overtaken(ctx context.Context, c *Claim, a Action) (bool, error) {
	if a.Version.Kind == schemas.None {
		return false, nil
	}
	overtaken, err := overtaking{n, c, &a}.find(ctx)
	if err != nil {
		return false, &schemas.Error{Kind: schemas.Unavailable, Op: "look for newer actions of " + n.spec.Name, Err: pg.Redact(err)}
	}
	return overtaken, nil
}

// overtakenWithin bounds a walk, and all that comes before it.
const overtakenWithin = 5 * time.Second

var errOvertakenLater = errors.New("the check for newer actions takes longer than 5 s, or waits for other checks; trying again")

// ErrTooFar says that Overtaken cannot tell, however often it is asked.
var ErrTooFar = errors.New("too many actions came since: 5 s were not enough to check whether a newer one of its entity has been started; `dlq replay --force` runs it without that check")

// overtaking looks for what has overtaken an action.
type overtaking struct {
	n *Namespace
	c *Claim
	a *Action
}

// find reads the version line first, then its newest event, and only then all that is behind the action.
func (o overtaking) find(ctx context.Context) (bool, error) {
	soon, cancel := context.WithTimeoutCause(ctx, overtakenWithin, errOvertakenLater)
	defer cancel()
	keys, err := o.newer(soon, overtakenLine, o.c.ID, string(o.a.Entity), o.a.Version.Clock)
	// The line of a topic that was there before is gone with it, or has begun again.
	if err != nil || (len(keys) == 0 && o.a.LaneSeq >= o.c.lanesFrom) {
		return false, orCause(soon, err)
	}
	args := []any{o.c.ID, o.a.LaneSeq, string(o.a.Entity), o.a.Version.Clock, o.a.Name, o.c.DoubtTo}
	started, err := o.newer(soon, newestBy, append(args, keys)...)
	if err != nil || len(started) > 0 {
		return err == nil, orCause(soon, err)
	}
	select {
	case o.n.ledger.walking <- struct{}{}:
		defer func() { <-o.n.ledger.walking }()
	case <-soon.Done():
		return false, context.Cause(soon)
	}
	return o.walk(ctx, args)
}

// orCause returns err or, if that is because ctx has ended, the cause of this.
func orCause(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); err != nil && cause != nil {
		return cause
	}
	return err
}

// newer runs a query and returns the keys of the events that it finds whose versions are newer than the action's.
func (o overtaking) newer(ctx context.Context, sql string, args ...any) (keys [][16]byte, err error) {
	err = o.n.inWindows(ctx, func(win *windowSet) (err error) {
		keys, err = o.newerIn(ctx, o.n.ledger.hot, win.own(sql), args...)
		return err
	})
	return keys, err
}

// walk reads all that is behind the action. Only if the server itself ends the query for taking too long, the error is ErrTooFar: a server
// that does not answer has not said so.
func (o overtaking) walk(ctx context.Context, args []any) (overtaken bool, err error) {
	within := o.n.ledger.walkWithin
	ctx, cancel := context.WithTimeoutCause(ctx, within+overtakenWithin, errOvertakenLater)
	defer cancel()
	err = o.n.inWindows(ctx, func(win *windowSet) error {
		return pgx.BeginFunc(ctx, o.n.ledger.hot, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, fmt.Sprintf(`SET LOCAL statement_timeout = %d`, within.Milliseconds())); err != nil {
				return err
			}
			started, err := o.newerIn(ctx, tx, win.own(overtakenBy), args...)
			overtaken = len(started) > 0
			return err
		})
	})
	if pg.StatementTimeout(err) {
		err = ErrTooFar
	}
	return overtaken, orCause(ctx, err)
}

// newerVersion is a row of overtakenLine, overtakenBy and newestBy: a version of the action's line, and its event.
type newerVersion struct {
	Kind  schemas.VersionKind
	Epoch int64
	Value int64
	Text  string `db:"version_text"`
	Sub   int32
	Key   [16]byte `db:"event_key"`
}

// newerIn runs a query for versions of the action's line, and returns the keys of the events whose version is newer than the action's.
func (o overtaking) newerIn(ctx context.Context, db querier, sql string, args ...any) (keys [][16]byte, err error) {
	rows, err := db.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		f, err := pgx.RowToStructByName[newerVersion](rows)
		if err != nil {
			return nil, err
		}
		v := schemas.Version{Clock: o.a.Version.Clock, Kind: f.Kind, Epoch: f.Epoch, Value: f.Value, Text: f.Text, Sub: f.Sub}
		if v.Comparable(o.a.Version) && v.Compare(o.a.Version) > 0 {
			keys = append(keys, f.Key)
		}
	}
	return keys, rows.Err()
}
