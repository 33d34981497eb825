package inbox

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/forebay-io/forebay/stream/ledger"
)

// Inbox reads and asks on one ledger. Safe for concurrent use.
type Inbox struct {
	ledger *ledger.Ledger
	slow   pool // lists, counts, and redrives: these wait for the broker inside their transaction
	look   pool // probes by key, and commands

	summaries summaries

	behindReads, groupReads, windowsAtOnce, crowded, openReads int // the constants, fields for tests
}

// pool is one of the ledger's, where each statement has a deadline.
type pool interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Begin(ctx context.Context) (pgx.Tx, error)
}

// asking runs f, which writes an operator's word, in a transaction, unless the subscription is being moved: see [ledger.NotMoving].
func asking(ctx context.Context, db pool, op, about string, of any, f func(tx pgx.Tx) error) error {
	return pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
		if err := ledger.NotMoving(ctx, tx, op, about, of); err != nil {
			return err
		}
		return f(tx)
	})
}

// New returns the inbox of a ledger. It uses the ledger's connections, and need not be closed.
func New(l *ledger.Ledger) *Inbox {
	slow, look := l.ReadPools()
	return &Inbox{ledger: l, slow: slow, look: look, behindReads: behindReads, groupReads: groupReads, windowsAtOnce: windowsAtOnce, crowded: crowded, openReads: openReads}
}
