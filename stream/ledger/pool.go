package ledger

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Pool is a pool whose questions and transactions have deadlines of their own: see deadlines. What is sent on an acquired
// connection has those that its sender gives it.
type Pool struct {
	*pgxpool.Pool
	ledger *Ledger
	within time.Duration
}

// Query is [pgxpool.Pool.Query] with the pool's deadline, up to the last row.
func (p *Pool) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	ctx, done := p.ledger.bounded(ctx, p.within)
	return boundedRows(p.Pool.Query(ctx, sql, args...))(done)
}

// QueryRow is [pgxpool.Pool.QueryRow] with the pool's deadline.
func (p *Pool) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	ctx, done := p.ledger.bounded(ctx, p.within)
	return timedRow{p.Pool.QueryRow(ctx, sql, args...), done}
}

// Exec is [pgxpool.Pool.Exec] with the pool's deadline.
func (p *Pool) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	ctx, done := p.ledger.bounded(ctx, p.within)
	tag, err := p.Pool.Exec(ctx, sql, args...)
	return tag, done(err)
}

// Begin begins a transaction that has the pool's deadline as a whole.
func (p *Pool) Begin(ctx context.Context) (pgx.Tx, error) {
	conn, err := p.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	tx, err := p.begin(ctx, conn)
	if err != nil {
		conn.Release()
		return nil, err
	}
	tx.conn, tx.end = conn, tx.began.Add(p.within)
	return tx, nil
}

// begin begins a transaction on a connection, each of whose statements has the pool's deadline.
func (p *Pool) begin(ctx context.Context, conn *pgxpool.Conn) (*timedTx, error) {
	t := &timedTx{ledger: p.ledger, each: p.within, began: time.Now()}
	ctx, done := t.bounded(ctx)
	tx, err := conn.Conn().Begin(ctx)
	t.Tx = tx
	return t, done(err)
}

// timedTx is a transaction with a deadline, as a whole or for each of its statements.
type timedTx struct {
	pgx.Tx
	ledger *Ledger
	conn   *pgxpool.Conn // to be released at the end; nil: whoever began it does
	began  time.Time
	end    time.Time     // of the transaction; zero: each statement has its own
	each   time.Duration // 0: none but its context's
}

func (t *timedTx) bounded(ctx context.Context) (context.Context, func(error) error) {
	switch {
	case !t.end.IsZero():
		return t.ledger.until(ctx, t.began, t.end)
	case t.each > 0:
		return t.ledger.bounded(ctx, t.each)
	}
	return ctx, func(err error) error { return err }
}

func (t *timedTx) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	ctx, done := t.bounded(ctx)
	tag, err := t.Tx.Exec(ctx, sql, args...)
	return tag, done(err)
}

func (t *timedTx) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	ctx, done := t.bounded(ctx)
	return boundedRows(t.Tx.Query(ctx, sql, args...))(done)
}

func (t *timedTx) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	ctx, done := t.bounded(ctx)
	return timedRow{t.Tx.QueryRow(ctx, sql, args...), done}
}

// Commit commits; see committing.
func (t *timedTx) Commit(ctx context.Context) error {
	defer t.release()
	ctx, done := t.bounded(ctx)
	answered := committing(t.Conn().PgConn())
	err := t.Tx.Commit(ctx)
	if err == nil {
		answered()
	}
	return done(err)
}

// Rollback gives the connection back in whatever state it is. After Commit it does nothing.
func (t *timedTx) Rollback(ctx context.Context) error {
	defer t.release()
	return t.rollback(ctx)
}

func (t *timedTx) rollback(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, rollbackWithin)
	defer cancel()
	return t.Tx.Rollback(ctx)
}

func (t *timedTx) release() {
	if t.conn != nil {
		t.conn.Release()
		t.conn = nil
	}
}

type timedRow struct {
	pgx.Row
	done func(error) error
}

func (r timedRow) Scan(dest ...any) error { return r.done(r.Row.Scan(dest...)) }

type timedRows struct {
	pgx.Rows
	done func(error) error
	err  error
}

func boundedRows(rows pgx.Rows, err error) func(done func(error) error) (pgx.Rows, error) {
	return func(done func(error) error) (pgx.Rows, error) {
		if err != nil {
			return nil, done(err)
		}
		return &timedRows{Rows: rows, done: done}, nil
	}
}

func (r *timedRows) Next() bool {
	if r.Rows.Next() {
		return true
	}
	r.Close()
	return false
}

func (r *timedRows) Close() {
	r.Rows.Close()
	if r.done != nil {
		r.err, r.done = r.done(r.Rows.Err()), nil
	}
}

func (r *timedRows) Err() error {
	if r.done == nil {
		return r.err
	}
	return r.Rows.Err()
}
