package ledger

// A ledger that comes back older under running processes, restored or failed over to a server that lacks the last seconds, gives lane_seqs
// again that a claim has for other actions. Nothing may be written that follows from what such a claim remembers: its results would end
// actions that have not run. So whoever writes beside batches, which are checked against the revision anyway, looks whether the ledger has
// the revision that the claim knows of.

import (
	"context"
	"fmt"

	"github.com/forebay-io/forebay/stream/ledger/internal/pg"
	"github.com/jackc/pgx/v5"
)

// BehindError says of which claims the ledger lacks what they know, by fence. Nothing was written for them; they must be claimed again.
type BehindError struct{ Fences map[int32]bool }

func (e *BehindError) Error() string {
	return fmt.Sprintf("the ledger lacks what %d claims have written", len(e.Fences))
}

// revisionsOf are the parameters of notBehind.
func revisionsOf(claims ...*Claim) [][]byte {
	var ids pg.Int32s
	var revisions pg.Int64s
	for _, c := range claims {
		ids.Add(c.ID)
		revisions.Add(c.revision.Load())
	}
	return [][]byte{ids.Param(), revisions.Param()}
}

// behind returns, by fence, those claims that know of more than the ledger has, and says so; none if it cannot be asked.
func (n *Namespace) behind(ctx context.Context, claims []*Claim) map[int32]bool {
	behind := map[int32]bool{}
	of, known := map[int32]*Claim{}, map[int32]int64{}
	for _, c := range claims {
		of[c.ID], known[c.ID] = c, c.revision.Load()
	}
	rows, err := n.ledger.hot.Query(ctx, `SELECT fence, revision FROM progress WHERE fence = ANY ($1)`, idsOf(claims))
	if err != nil {
		return nil
	}
	var fence int32
	var stored int64
	_, err = pgx.ForEachRow(rows, []any{&fence, &stored}, func() error {
		if c := of[fence]; stored < known[fence] {
			behind[fence] = true
			n.ledger.cfg.Logger.ErrorContext(ctx, "the ledger lacks what this process has written: it was restored, or failed over to an older state; the partition is claimed again",
				"subscription", n.spec.Name, "topic", c.Partition.Topic, "partition", c.Partition.Number, "revision", stored, "known", known[fence])
		}
		return nil
	})
	if err != nil {
		return nil
	}
	return behind
}
