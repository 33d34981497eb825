package ledger

import (
	"context"
	"time"
)

// confirm asks Kafka while the fence is locked. Meanwhile the transaction says now and then that it is still there: so the server ends
// it soon after its client is gone, however long Kafka takes, and the client knows soon that the server is.
func (t *timedTx) confirm(ctx context.Context, ask func(context.Context, *Position) (Start, error), stored *Position) (Start, error) {
	if err := t.unlimited(ctx); err != nil {
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
	tick := time.NewTicker(deadlines{t.ledger.cfg.TxTimeout}.idle() / 4)
	defer tick.Stop()
	for {
		select {
		case a := <-answered:
			if a.err != nil {
				return Start{}, confirmError{a.err}
			}
			return a.start, nil
		case <-tick.C:
			if _, err := t.Exec(ctx, `SELECT 1`); err != nil {
				cancel(err)
				<-answered // it is called with ctx, and nobody else may be told of what it finds out
				return Start{}, err
			}
		}
	}
}

// unlimited leaves the transaction as a whole the time that it needs, where the server would limit it: each of its statements has its own
// deadline.
func (t *timedTx) unlimited(ctx context.Context) error {
	if !knowsTransactionTimeout(t.Conn().PgConn()) {
		return nil
	}
	_, err := t.Exec(ctx, `SELECT set_config('transaction_timeout', '0', true)`)
	return err
}

// unbounded leaves the statements that follow the time of their context. To take up a topic that was created again, all that is
// remembered of a partition's old log goes in one transaction.
func (t *timedTx) unbounded(ctx context.Context) error {
	t.each = 0
	if err := t.unlimited(ctx); err != nil {
		return err
	}
	_, err := t.Exec(ctx, `SELECT set_config('statement_timeout', '0', true)`)
	return err
}
