package ledger

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// Cancel notes of an attempt that is processing that its result is not wanted any more, because its entity has a newer version: Open and what
// heartbeats read say so from then on. told notes, too, that its destination was told so at its cancel URL, which then goes. An attempt that is
// not processing stays as it is, and to note it again changes nothing. fenced says that the claim has lost its fence: then nothing was written.
// Errors are those of untilDone.
func (n *Namespace) Cancel(ctx context.Context, c *Claim, a AttemptRef, told bool) (fenced bool, err error) {
	op := "cancel an attempt of " + n.spec.Name
	err = n.untilDone(ctx, op, func(tx pgx.Tx, win *windowSet) error {
		held, err := c.held(ctx, tx)
		w := win.windowOf(c, a.LaneSeq)
		fenced = !held
		if err != nil || fenced || w == 0 {
			return err
		}
		_, err = tx.Exec(ctx, OfWindow(w, cancelWrite), c.ID, a.LaneSeq, a.Attempt, a.Epoch, told)
		return err
	})
	return fenced && err == nil, err
}

const cancelWrite = `UPDATE actions_w{w} SET newer_at = coalesce(newer_at, now()), cancel_url = CASE WHEN NOT $5 THEN cancel_url END
    WHERE fence = $1 AND lane_seq = $2 AND attempts = $3 AND attempt_epoch = $4 AND status = 'processing'`
