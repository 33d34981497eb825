package ledger

import (
	"context"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
	"github.com/jackc/pgx/v5"
)

// forgetLines is how many lines one call forgets at most.
const forgetLines = 1000

// linesForget finds what moved last in a window that was closed longer ago than lines are kept. It reads the partition's
// lines from end to end, which is done once for each turn of the windows.
const linesForget = `-- linesForget
DELETE FROM lines l WHERE (l.fence, l.entity, l.clock) IN (
    SELECT l.fence, l.entity, l.clock FROM lines l
     WHERE l.fence = $1 AND l.seen_in > 0 AND l.parked IS NULL
       AND l.seen_in < (SELECT min(id) FROM windows WHERE subscription = $2 AND state <> 'ahead'
                           AND (closed_at IS NULL OR closed_at > now() - $3::interval))
       AND NOT EXISTS (SELECT FROM buffer b WHERE b.fence = l.fence AND b.entity = l.entity AND b.clock = l.clock AND b.decision <> 'held')
     LIMIT $4)
RETURNING l.entity, l.clock`

// Forget forgets lines of a claim that no event has moved for Spec.Forget, and says whether there may be more; before, it
// writes what lines came to in windows that are closed. It costs nothing until the windows have turned, but one probe where
// something of a former topic is left. The caller is the goroutine that applies.
func (n *Namespace) Forget(ctx context.Context, c *Claim) (more bool, err error) {
	if err := n.inWindows(ctx, func(win *windowSet) error { return lowerPlaces(ctx, n.ledger.hot, win, c) }); err != nil {
		return false, &schemas.Error{Kind: schemas.Unavailable, Op: "forget lines of " + n.spec.Name, Err: redact(err)}
	}
	current := n.windows.Load().current
	forgets := n.spec.Forget > 0 && c.forgotIn != current
	// A line that has just moved must not go for the age of its row.
	if err := n.catchUp(ctx, c, forgets); err != nil || !forgets {
		return false, err
	}
	var gone []gate.LineKey
	err = n.ledger.transact(ctx, func(tx pgx.Tx) error {
		gone = nil
		var held bool
		err := tx.QueryRow(ctx, `SELECT epoch = $2 AND token = $3 FROM fences WHERE id = $1 FOR KEY SHARE`, c.ID, c.Epoch, c.Token).Scan(&held)
		if err != nil || !held {
			return err
		}
		rows, err := tx.Query(ctx, linesForget, c.ID, n.id, n.spec.Forget, forgetLines)
		if err != nil {
			return err
		}
		gone, err = pgx.CollectRows(rows, func(r pgx.CollectableRow) (k gate.LineKey, err error) { return k, r.Scan(&k.Entity, &k.Clock) })
		return err
	})
	if err != nil { // committed or not: what is cached may be gone
		c.cache = newLineCache(n.spec.CacheLines)
		return false, &schemas.Error{Kind: schemas.Unavailable, Op: "forget lines of " + n.spec.Name, Err: redact(err)}
	}
	for _, k := range gone {
		c.cache.drop(k)
	}
	if len(gone) == forgetLines {
		return true, nil
	}
	c.forgotIn = current
	return false, nil
}
