package ledger

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// EndStale ends an action that was to run again and is overtaken, under the fence. Errors are those of untilDone; ending the action again
// changes nothing. fenced says that the claim has lost its fence: then nothing was written.
func (n *Namespace) EndStale(ctx context.Context, c *Claim, laneSeq int64) (fenced bool, err error) {
	op := "end a stale action of " + n.spec.Name
	err = n.untilDone(ctx, op, func(tx pgx.Tx, win *windowSet) error {
		held, err := c.held(ctx, tx)
		w := win.windowOf(c, laneSeq)
		fenced = !held
		if err != nil || fenced || w == 0 {
			return err
		}
		if _, err = tx.Exec(ctx, OfWindow(w, win.own(staleWrite)), c.ID, laneSeq); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, OfWindow(w, `WITH p AS (UPDATE approvals SET reason = '`+movedOn+`'`+voidSet+`
			WHERE action_id = (SELECT action_id FROM actions_w{w} WHERE fence = $1 AND lane_seq = $2) AND state IN ('waiting', 'approved') RETURNING *) `+voidAudit), c.ID, laneSeq)
		return err
	})
	return fenced && err == nil, err
}

// staleWrite leaves the action its id, by which an operator has it run all the same; one that has died without an attempt gets it here.
const staleWrite = `UPDATE actions_w{w} a SET status = 'stale', open = false, finished_at = now(), next_at = NULL, packed = CASE WHEN ` + unexported + ` THEN packed END,
	action_id = coalesce(action_id, (SELECT action_id(s.name, coalesce(e.replay, s.generation), e.source, e.event_id, x.name)
		FROM fences f JOIN subscriptions s ON s.id = f.subscription JOIN effects x ON x.id = a.effect JOIN {events} e ON e.window_id = a.event_window AND e.event_key = a.event_key
		WHERE f.id = a.fence)),
	error = 'its entity had a newer version before it was to run again; a replay with --force runs it all the same'
	WHERE fence = $1 AND lane_seq = $2 AND status IN ('failed', 'waiting_approval', 'waiting_budget')`
