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
	read   pool // lists and counts
	quick  pool // probes by key, and commands

	behindWalk int // events; see the constant
}

// pool is one of the ledger's: each statement has its deadline.
type pool interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Begin(ctx context.Context) (pgx.Tx, error)
}

// New returns the inbox of a ledger. It uses the ledger's connections, and need not be closed.
func New(l *ledger.Ledger) *Inbox {
	read, quick := l.ReadPools()
	return &Inbox{ledger: l, read: read, quick: quick, behindWalk: behindWalk}
}
