package inbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/jackc/pgx/v5"
)

// Redriven says that an operator had a quarantined record produced again.
type Redriven struct {
	At     time.Time `json:"at"`
	By     string    `json:"by"`
	Reason string    `json:"reason"`
}

// Redrive calls produce to write a quarantined record to the log again, and marks the record as redriven. Both happen in one
// transaction, so that of two callers at the same time only one produces. If the mark cannot be written after that, the error says
// that the record was produced; dedupe keeps the event from running twice. With once, a record that was redriven before is refused.
// Errors of produce are returned as they are. Kinds: Conflict if the item is not quarantined any more or, with once, was redriven
// before; Invalid if there is nothing to produce.
func (b *Inbox) Redrive(ctx context.Context, item Item, by, reason string, once bool, produce func(ctx context.Context, raw []byte) error) error {
	op := fmt.Sprintf("redrive %s/%d@%d", item.Topic, item.Partition, item.Offset)
	switch {
	case by == "" || reason == "":
		return schemas.Errorf(schemas.Invalid, op, "who asks and why is missing")
	case item.Decision != gate.Quarantined:
		return schemas.Errorf(schemas.Conflict, op, "it is %s (%s)", item.Decision, item.Reason)
	}
	produced := false
	err := pgx.BeginFunc(ctx, b.read, func(tx pgx.Tx) error {
		raw, err := markRedriven(ctx, tx, item, ledger.Clean(by, 200), ledger.Clean(reason, 1000), once, op)
		if err != nil {
			return err
		}
		if err := produce(ctx, raw); err != nil {
			return produceError{err}
		}
		produced = true
		return nil
	})
	if theirs, ok := errors.AsType[produceError](err); ok {
		return theirs.error
	}
	if _, ok := errors.AsType[*schemas.Error](err); ok || err == nil {
		return err
	}
	if produced {
		return schemas.Errorf(schemas.Unavailable, op, "it was produced again, and that is not noted, so that it can be redriven once more: %w", ledger.Redact(err))
	}
	return ledger.Unavailable(op, err)
}

// markRedriven marks the row, which stays locked until the transaction ends, and gives the record's bytes.
func markRedriven(ctx context.Context, tx pgx.Tx, item Item, by, reason string, once bool, op string) (raw []byte, err error) {
	var before *time.Time
	var who *string
	err = tx.QueryRow(ctx, `SELECT redriven_at, redriven_by, raw FROM rejected_records
		WHERE window_id = $1 AND fence = $2 AND log_offset = $3 AND decision = 'quarantined' FOR UPDATE`,
		item.window, item.Fence, item.Offset).Scan(&before, &who, &raw)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil, schemas.Errorf(schemas.Conflict, op, "it is not quarantined any more: after a rewind it was decided again")
	case err != nil:
		return nil, err
	case once && before != nil:
		return nil, schemas.Errorf(schemas.Conflict, op, "it was redriven at %s by %s already", before.UTC().Format(time.RFC3339), *who)
	case raw == nil:
		return nil, schemas.Errorf(schemas.Invalid, op, "its bytes were not kept")
	}
	marked, err := tx.Exec(ctx, `UPDATE rejected_records SET redriven_at = now(), redriven_by = $4, redriven_reason = $5
		WHERE window_id = $1 AND fence = $2 AND log_offset = $3`, item.window, item.Fence, item.Offset, by, reason)
	if err == nil && marked.RowsAffected() != 1 {
		err = fmt.Errorf("%d rows were marked, not one", marked.RowsAffected())
	}
	return raw, err
}

// produceError marks what produce returned.
type produceError struct{ error }
