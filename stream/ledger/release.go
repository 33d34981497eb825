package ledger

// The end of a claim, in one statement: it locks the fence by its update (id, epoch and token must be the claim's), and writes released,
// doubt_to, progress.lane_low and its updated_at. It reads nothing and decides nothing: what is in doubt, and where the open actions begin, the claim knows.

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/forebay-io/forebay/stream/ledger/internal/pg"
)

// Release marks the fence as released, after the lanes were drained: the next claim is clean then, and takes over c.DoubtTo. If the claim has
// lost its fence, or the ledger is behind it, nothing happens, and that is no error.
func (n *Namespace) Release(ctx context.Context, c *Claim) error {
	err := n.ledger.transact(ctx, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `WITH held AS (UPDATE fences SET released = true, doubt_to = $5 WHERE id = $1 AND epoch = $2 AND token = $3
				AND NOT EXISTS (SELECT FROM progress WHERE fence = $1 AND revision < $6) RETURNING id),
			hit AS (UPDATE progress p SET lane_low = greatest(p.lane_low, $4), updated_at = now() FROM held WHERE p.fence = held.id RETURNING 1)
			SELECT 1 / (count(*) = (SELECT count(*) FROM held))::int FROM hit`,
			c.ID, c.Epoch, c.Token, c.low(), c.DoubtTo, c.revision.Load())
		return pg.OrMissed("release", err)
	})
	return pg.Unavailable("release the fence of "+c.Partition.Topic, err)
}
