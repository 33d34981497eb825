package pg

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/jackc/pgx/v5"
)

// Transact runs f in a transaction and again after transient trouble, a lost connection included, or once after a deadline: f must
// be one that can be repeated even if it was committed.
func (p *Pool) Transact(ctx context.Context, log *slog.Logger, f func(pgx.Tx) error) error {
	for try := 0; ; try++ {
		if err := Backoff(ctx, try); err != nil {
			return err
		}
		err := pgx.BeginFunc(ctx, p, f)
		if err == nil || ctx.Err() != nil {
			return err
		}
		switch t := TroubleOf(err); {
		case t == Slow && try < 2, (t == Transient || t == Lost || t == OldPlan) && try < 8:
		default:
			return err
		}
		log.WarnContext(ctx, "ledger transaction failed; trying again", "try", try+1, "error", Redact(err))
	}
}

// Exactly is err, or that a statement has not changed one row.
func Exactly(tag interface{ RowsAffected() int64 }, err error) error {
	if err == nil && tag.RowsAffected() != 1 {
		return Refuse(fmt.Errorf("%d rows were written, not one", tag.RowsAffected()))
	}
	return err
}

// CollectInt32 reads the one column of a query.
func CollectInt32(rows pgx.Rows, err error) ([]int32, error) {
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[int32])
}
