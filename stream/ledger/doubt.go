package ledger

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/forebay-io/forebay/stream/ledger/internal/pg"
)

// wasCommitted finds out whether a transaction whose COMMIT got no answer was committed, and if so brings the claims up to it: it was if
// the revision advanced under this claim's token. The row lock waits until that transaction has ended one way or the other, however long
// the server takes to notice that its client is gone.
func (b batchWriter) wasCommitted(ctx context.Context, parts []*partitionBatch) (committed bool, err error) {
	for try := 0; ; try++ {
		if err := pg.Backoff(ctx, try); err != nil {
			return false, err
		}
		advanced, mine, err := b.readRevisions(ctx, parts)
		if err == nil {
			return b.markCommittedAfterDoubt(parts, advanced, mine)
		}
		if ctx.Err() != nil || troubleOf(err) == pg.Permanent {
			return false, err
		}
	}
}

// readRevisions returns, by fence, which claims still hold theirs (mine), and of which of those the revision has advanced.
func (b batchWriter) readRevisions(ctx context.Context, parts []*partitionBatch) (advanced, mine map[int32]bool, err error) {
	advanced, mine = map[int32]bool{}, map[int32]bool{}
	err = pgx.BeginFunc(ctx, b.n.ledger.hot, func(tx pgx.Tx) error {
		for _, w := range parts {
			if w.fenced {
				continue
			}
			var held bool
			err := tx.QueryRow(ctx, `SELECT epoch = $2 AND token = $3 FROM fences WHERE id = $1 FOR UPDATE`,
				w.Claim.ID, w.Claim.Epoch, w.Claim.Token).Scan(&held)
			if err != nil {
				return err
			}
			var revision int64
			if err := tx.QueryRow(ctx, `SELECT revision FROM progress WHERE fence = $1`, w.Claim.ID).Scan(&revision); err != nil {
				return err
			}
			mine[w.Claim.ID], advanced[w.Claim.ID] = held, held && revision == w.Claim.revision.Load()+1
		}
		return nil
	})
	return advanced, mine, err
}

// markCommittedAfterDoubt reports whether the transaction was committed, which it was if one claim has advanced, and then brings the claims
// up to it. A claim that was fenced meanwhile counts as fenced, committed or not: its next owner reads what was written. That some claims
// have advanced and others not is an error: it cannot happen.
func (b batchWriter) markCommittedAfterDoubt(parts []*partitionBatch, advanced, mine map[int32]bool) (bool, error) {
	committed := false
	for _, w := range parts {
		committed = committed || advanced[w.Claim.ID]
	}
	if !committed {
		return false, nil
	}
	for _, w := range parts {
		if w.fenced { // when the transaction began
			continue
		}
		switch {
		case !mine[w.Claim.ID]:
			w.applied = Applied{Claim: w.Claim, Fenced: true}
		case !advanced[w.Claim.ID]:
			return false, pg.Refuse(fmt.Errorf("fence %d: a part of a transaction was committed", w.Claim.ID))
		default:
			w.markCommitted()
		}
	}
	return true, nil
}
