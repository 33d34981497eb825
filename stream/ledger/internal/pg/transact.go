package pg

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/jackc/pgx/v5"
)

// Transact runs f in a transaction. After a failure that may pass, a lost connection included, it runs f again, up to eight times; after a
// deadline twice. So f must be one that may be repeated even if it was committed.
func (p *Pool) Transact(ctx context.Context, log *slog.Logger, f func(pgx.Tx) error) error {
	for try := 0; ; try++ {
		if err := Backoff(ctx, try); err != nil {
			return err
		}
		err := pgx.BeginFunc(ctx, p, f)
		if err == nil || ctx.Err() != nil {
			return err
		}
		trouble := TroubleOf(err)
		mayPass := trouble == Transient || trouble == Lost || trouble == OldPlan
		if repeat := (trouble == Slow && try < 2) || (mayPass && try < 8); !repeat {
			return err
		}
		log.WarnContext(ctx, "ledger transaction failed; trying again", "try", try+1, "error", Redact(err))
	}
}

// Exactly returns err or, if a statement has not changed exactly one row, an error that says so.
func Exactly(tag interface{ RowsAffected() int64 }, err error) error {
	if err == nil && tag.RowsAffected() != 1 {
		return Refuse(fmt.Errorf("%d rows were written, not one", tag.RowsAffected()))
	}
	return err
}

// CollectInt32 returns the one column of a query.
func CollectInt32(rows pgx.Rows, err error) ([]int32, error) {
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[int32])
}
