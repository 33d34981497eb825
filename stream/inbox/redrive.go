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
	"github.com/jackc/pgx/v5/pgconn"
)

// Redriven says that an operator had a quarantined record produced again, or discarded a rejected one.
type Redriven struct {
	At     time.Time `json:"at"`
	By     string    `json:"by"`
	Reason string    `json:"reason"`
}

// Redrive writes a quarantined record to the log again by calling produce, and records who asked and why. In one transaction it locks the
// record's row, marks it as redriven, calls produce with the bytes that were kept, and commits the mark. So of several callers at the
// same time one produces after the other; with once, only the first, because a record that was redriven before is refused.
//
// If produce fails, the mark is rolled back and produce's error returned as it is; whether the record is in the log, that error says. If the commit fails after produce, the record is in
// the log and possibly not marked: the error says so, and dedupe keeps its event from running twice. Kinds: Invalid if by or reason is
// empty or no bytes were kept; Conflict if the item is not quarantined or, with once, was redriven before; Unavailable.
func (b *Inbox) Redrive(ctx context.Context, item Item, by, reason string, once bool, produce func(ctx context.Context, raw []byte) error) error {
	op := fmt.Sprintf("redrive %s/%d@%d", item.Topic, item.Partition, item.Offset)
	if err := schemas.CheckRequest(op, by, reason); err != nil {
		return err
	}
	if item.Decision != gate.Quarantined {
		return schemas.Errorf(schemas.Conflict, op, "it is %s (%s), not quarantined", item.Decision, item.Reason)
	}
	produced := false
	err := asking(ctx, b.slow, op, ledger.AboutFences, []int32{item.Fence}, func(tx pgx.Tx) error {
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
	if err == nil {
		return nil
	}
	if failed, ok := errors.AsType[produceError](err); ok {
		return failed.error
	}
	if produced {
		return schemas.Errorf(schemas.Unavailable, op, "it was produced again, but that may not be recorded: then it can be redriven once more: %w", ledger.Redact(err))
	}
	if _, refused := errors.AsType[*schemas.Error](err); refused {
		return err
	}
	return ledger.Unavailable(op, err)
}

// markRedriven marks the record's row as redriven and returns the record's bytes. The row stays locked until the transaction ends. With
// once it refuses a row that was redriven before. Refusals are of the kinds that Redrive names; any other error is from the database.
func markRedriven(ctx context.Context, tx pgx.Tx, item Item, by, reason string, once bool, op string) (raw []byte, err error) {
	var before *time.Time // when it was last redriven; nil: never
	var who *string
	done := "redriven"
	err = tx.QueryRow(ctx, `SELECT redriven_at, redriven_by, raw, CASE WHEN discarded THEN 'discarded' ELSE 'redriven' END FROM rejected_records
		WHERE window_id = $1 AND fence = $2 AND log_offset = $3 AND decision = 'quarantined' FOR UPDATE`,
		item.window, item.Fence, item.Offset).Scan(&before, &who, &raw, &done)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil, schemas.Errorf(schemas.Conflict, op, "it is not quarantined there any more: it was decided again after a rewind, or its retention has ended")
	case err != nil:
		return nil, err
	case once && before != nil:
		return nil, schemas.Errorf(schemas.Conflict, op, "it was %s at %s by %s already", done, before.UTC().Format(time.RFC3339), *who)
	case raw == nil:
		return nil, schemas.Errorf(schemas.Invalid, op, "its bytes were not kept")
	}
	marked, err := tx.Exec(ctx, `UPDATE rejected_records SET redriven_at = now(), redriven_by = $4, redriven_reason = $5, discarded = false
		WHERE window_id = $1 AND fence = $2 AND log_offset = $3`, item.window, item.Fence, item.Offset, by, reason)
	if err == nil && marked.RowsAffected() != 1 {
		err = fmt.Errorf("%d rows were marked, not one", marked.RowsAffected())
	}
	return raw, err
}

// Discard notes that an operator has seen a conflict or a quarantined record and leaves it at that: nothing waits for it, so nothing else
// changes. Kinds: Invalid if by or reason is empty; Conflict if it is neither, or was redriven or discarded before; Unavailable.
func (b *Inbox) Discard(ctx context.Context, item Item, by, reason string) error {
	op := fmt.Sprintf("discard %s/%d@%d", item.Topic, item.Partition, item.Offset)
	if err := schemas.CheckRequest(op, by, reason); err != nil {
		return err
	}
	var marked pgconn.CommandTag
	err := asking(ctx, b.look, op, ledger.AboutFences, []int32{item.Fence}, func(tx pgx.Tx) (err error) {
		marked, err = tx.Exec(ctx, `UPDATE rejected_records SET redriven_at = now(), redriven_by = $4, redriven_reason = $5, discarded = true
			WHERE window_id = $1 AND fence = $2 AND log_offset = $3 AND decision IN ('conflict', 'quarantined') AND redriven_at IS NULL`,
			item.window, item.Fence, item.Offset, ledger.Clean(by, 200), ledger.Clean(reason, 1000))
		return err
	})
	switch {
	case err != nil:
		return ledger.Unavailable(op, err)
	case marked.RowsAffected() == 0:
		return schemas.Errorf(schemas.Conflict, op, "it was read as %s (%s), %s: only a conflict, or a quarantined record that was neither redriven nor discarded, can be discarded",
			item.Decision, item.Reason, item.Status)
	}
	return nil
}

// produceError tells an error of produce from one of the database.
type produceError struct{ error }
