package ledger

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/forebay-io/forebay/schemas"
	"github.com/jackc/pgx/v5"
)

// exactly is err, or that a statement has not changed one row.
func exactly(tag interface{ RowsAffected() int64 }, err error) error {
	if err == nil && tag.RowsAffected() != 1 {
		return refusal{fmt.Errorf("%d rows were written, not one", tag.RowsAffected())}
	}
	return err
}

// overtakenLine finds the version line of an action's event, in its own row or in those of the events that it is behind:
// nearly always it says already that nothing newer has come.
const overtakenLine = `-- overtakenLine
SELECT kind, epoch, value, word, sub FROM lines WHERE fence = $1 AND entity = $2 AND clock = $3
UNION ALL SELECT e.kind, e.epoch, e.value, e.word, e.sub FROM progress p CROSS JOIN LATERAL (
    SELECT kind, epoch, value, word, sub FROM events
     WHERE fence = $1 AND lane_seq >= p.lines_low AND lane_seq IS NOT NULL AND lane_window IS NULL
       AND entity = $2 AND clock = $3 AND decision = 'applied' AND reason = 'next' ORDER BY lane_seq DESC LIMIT 1) e
 WHERE p.fence = $1`

// overtakenBy lists the versions of the entity whose action of the same name has been started behind an action: of events
// that were decided on their own by the index of their lanes, of those that left the gap buffer by their rows in actions.
// $6: what has no attempt counts as well.
const overtakenBy = `-- overtakenBy: a walk over the lane_seqs behind it
WITH behind AS (
    SELECT e.* FROM events e WHERE e.fence = $1 AND e.lane_seq > $2 AND e.lane_seq IS NOT NULL AND e.lane_window IS NULL AND e.entity = $3 AND e.clock = $4
    UNION
    SELECT e.* FROM actions a JOIN events e ON e.window_id = a.event_window AND e.event_key = a.event_key
     WHERE a.fence = $1 AND a.lane_seq > $2 AND e.lane_window IS NOT NULL AND e.entity = $3 AND e.clock = $4
)
SELECT e.kind, e.epoch, e.value, e.word, e.sub FROM behind e LEFT JOIN plans p ON p.id = e.plan CROSS JOIN LATERAL ` + actionStates + `
JOIN effects f ON f.id = coalesce(x.effect, p.effects[n.i + 1])
WHERE f.name = $5 AND (c.at IS NOT NULL AND NOT c.superseded OR x.attempts > 0 OR x.status IN ('done', 'unknown') OR $6 AND coalesce(x.status, 'pending') = 'pending')`

// Overtaken reports whether an action of the same name of a newer version of a's entity, on the same clock, has been
// started (P4). Only an action that did not park its lane can be. Where versions are not told apart, by kind none or by
// order: arrival, nothing is newer. The caller owns the lane: a is its head. After an unclean claim, what stands behind it
// may have been started by the owner before.
func (n *Namespace) Overtaken(ctx context.Context, c *Claim, a Action) (bool, error) {
	if a.Version.Kind == schemas.None {
		return false, nil
	}
	newer := func(r pgx.CollectableRow) (bool, error) {
		v := schemas.Version{Clock: a.Version.Clock}
		err := r.Scan(&v.Kind, &v.Epoch, &v.Value, &v.Word, &v.Sub)
		return v.Comparable(a.Version) && v.Compare(a.Version) > 0, err
	}
	if found, err := n.newer(ctx, newer, overtakenLine, c.ID, string(a.Entity), a.Version.Clock); err != nil || !found {
		return false, err
	}
	return n.newer(ctx, newer, overtakenBy, c.ID, a.LaneSeq, string(a.Entity), a.Version.Clock, a.Name, c.Unclean)
}

// newer asks for versions and says whether one of them is newer.
func (n *Namespace) newer(ctx context.Context, newer pgx.RowToFunc[bool], sql string, args ...any) (bool, error) {
	rows, err := n.ledger.hot.Query(ctx, sql, args...)
	var all []bool
	if err == nil {
		all, err = pgx.CollectRows(rows, newer)
	}
	if err != nil {
		return false, n.overtakenFailed(err)
	}
	return slices.Contains(all, true), nil
}

// EndStale ends an action that was to run again and is overtaken, under the fence. It tries until ctx ends; to end it again
// changes nothing.
func (n *Namespace) EndStale(ctx context.Context, c *Claim, laneSeq int64) (fenced bool, err error) {
	op := "end a stale action of " + n.spec.Name
	for try := 0; ; try++ {
		if wait := backoff(ctx, try); wait != nil {
			return false, &schemas.Error{Kind: schemas.Unavailable, Op: op, Err: errors.Join(wait, redact(err))}
		}
		err = pgx.BeginFunc(ctx, n.ledger.hot, func(tx pgx.Tx) error {
			held, err := c.held(ctx, tx)
			if fenced = !held; err != nil || fenced {
				return err
			}
			_, err = tx.Exec(ctx, `UPDATE actions SET status = 'stale', open = false, finished_at = now(), next_at = NULL, packed = CASE WHEN `+unexported+` THEN packed END,
				error = 'a newer one of its entity had been started before it was to run again; forced, it runs all the same'
				WHERE fence = $1 AND lane_seq = $2 AND status = 'failed'`, c.ID, laneSeq)
			return err
		})
		switch {
		case err == nil:
			return fenced, nil
		case ctx.Err() == nil && (troubleOf(err) == permanent || troubleOf(err) == badData):
			return false, &schemas.Error{Kind: schemas.Internal, Op: op, Err: redact(err)}
		}
	}
}

// held locks the claim's fence against the next claim, until tx ends, and says whether it is still the claim's.
func (c *Claim) held(ctx context.Context, tx pgx.Tx) (held bool, err error) {
	err = tx.QueryRow(ctx, `SELECT true FROM fences WHERE id = $1 AND epoch = $2 AND token = $3 FOR KEY SHARE`, c.ID, c.Epoch, c.Token).Scan(&held)
	if errors.Is(err, pgx.ErrNoRows) {
		err = nil
	}
	return held, err
}

func (n *Namespace) overtakenFailed(err error) error {
	return &schemas.Error{Kind: schemas.Unavailable, Op: "look for newer actions of " + n.spec.Name, Err: redact(err)}
}
