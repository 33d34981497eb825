package ledger

import (
	"context"
	"time"

	"github.com/forebay-io/forebay/stream/ledger/internal/pg"
)

// confirm calls ask, a claim's Confirm, while the fence is locked, and returns its answer. However long Kafka takes, the transaction sends
// a statement four times within idle, after which the server ends transactions without one: so the server notices soon that this client is
// gone, and this client that the server is. If that happens, ask's context is cancelled, and confirm waits until ask has returned.
func confirm(ctx context.Context, tx *pg.Tx, idle time.Duration, ask func(context.Context, *Position) (Start, error), stored *Position) (Start, error) {
	if err := tx.Unlimited(ctx); err != nil {
		return Start{}, err
	}
	type answer struct {
		start Start
		err   error
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	answered := make(chan answer, 1)
	go func() {
		start, err := ask(ctx, stored)
		answered <- answer{start, err}
	}()
	tick := time.NewTicker(idle / 4)
	defer tick.Stop()
	for {
		select {
		case a := <-answered:
			if a.err != nil {
				return Start{}, confirmError{a.err}
			}
			return a.start, nil
		case <-tick.C:
			if _, err := tx.Exec(ctx, `SELECT 1`); err != nil {
				cancel(err)
				<-answered // wait for Confirm, which has ctx: after this returns, its answer must reach nobody
				return Start{}, err
			}
		}
	}
}
