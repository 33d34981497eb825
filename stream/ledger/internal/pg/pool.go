package pg

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Pool is a pool whose queries and transactions have deadlines of their own: see Deadlines. On an acquired connection, the caller sets
// deadlines.
type Pool struct {
	*pgxpool.Pool
	server *Server
	within time.Duration // the deadline of each query and transaction
}

// Bounded returns ctx with the pool's deadline, for use on an acquired connection. done must be called with the error of what was done under
// it, or nil, and returns the error to use: one for which IsSilent is true if the deadline has ended it.
func (p *Pool) Bounded(ctx context.Context) (_ context.Context, done func(error) error) {
	return p.server.bounded(ctx, p.within)
}

// Query is [pgxpool.Pool.Query] with the pool's deadline, up to the last row.
func (p *Pool) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	ctx, done := p.Bounded(ctx)
	return boundedRows(p.Pool.Query(ctx, sql, args...))(done)
}

// QueryRow is [pgxpool.Pool.QueryRow] with the pool's deadline.
func (p *Pool) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	ctx, done := p.Bounded(ctx)
	return timedRow{p.Pool.QueryRow(ctx, sql, args...), done}
}

// Exec is [pgxpool.Pool.Exec] with the pool's deadline.
func (p *Pool) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	ctx, done := p.Bounded(ctx)
	tag, err := p.Pool.Exec(ctx, sql, args...)
	return tag, done(err)
}

// Begin begins a transaction that has the pool's deadline as a whole.
func (p *Pool) Begin(ctx context.Context) (pgx.Tx, error) {
	conn, err := p.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	tx, err := p.BeginOn(ctx, conn)
	if err != nil {
		conn.Release()
		return nil, err
	}
	tx.conn, tx.end = conn, tx.began.Add(p.within)
	return tx, nil
}

// BeginOn begins a transaction on an acquired connection, each of whose statements has the pool's deadline.
func (p *Pool) BeginOn(ctx context.Context, conn *pgxpool.Conn) (*Tx, error) {
	t := &Tx{server: p.server, each: p.within, began: time.Now()}
	ctx, done := t.bounded(ctx)
	tx, err := conn.Conn().Begin(ctx)
	t.Tx = tx
	return t, done(err)
}

// Tx is a transaction with a deadline, as a whole or for each of its statements.
type Tx struct {
	pgx.Tx
	server *Server
	conn   *pgxpool.Conn // to be released at the end; nil: whoever began it does
	began  time.Time
	end    time.Time     // of the transaction; zero: each statement has its own
	each   time.Duration // 0: none but its context's
}

// bounded is [Pool.Bounded] with the deadline of the transaction or of a statement.
func (t *Tx) bounded(ctx context.Context) (context.Context, func(error) error) {
	switch {
	case !t.end.IsZero():
		return t.server.until(ctx, t.began, t.end)
	case t.each > 0:
		return t.server.bounded(ctx, t.each)
	}
	return ctx, func(err error) error { return err }
}

// Exec is [pgx.Tx.Exec] with the deadline of the transaction or the statement.
func (t *Tx) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	ctx, done := t.bounded(ctx)
	tag, err := t.Tx.Exec(ctx, sql, args...)
	return tag, done(err)
}

// Query is [pgx.Tx.Query] with the deadline of the transaction or the statement.
func (t *Tx) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	ctx, done := t.bounded(ctx)
	return boundedRows(t.Tx.Query(ctx, sql, args...))(done)
}

// QueryRow is [pgx.Tx.QueryRow] with the deadline of the transaction or the statement.
func (t *Tx) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	ctx, done := t.bounded(ctx)
	return timedRow{t.Tx.QueryRow(ctx, sql, args...), done}
}

// Commit commits; see Committing.
func (t *Tx) Commit(ctx context.Context) error {
	defer t.release()
	ctx, done := t.bounded(ctx)
	answered := Committing(t.Conn().PgConn())
	err := t.Tx.Commit(ctx)
	if err == nil {
		answered()
	}
	return done(err)
}

// Rollback rolls back and gives the connection back. After Commit it does nothing.
func (t *Tx) Rollback(ctx context.Context) error {
	defer t.release()
	return t.rollback(ctx)
}

func (t *Tx) rollback(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, rollbackWithin)
	defer cancel()
	return t.Tx.Rollback(ctx)
}

func (t *Tx) release() {
	if t.conn != nil {
		t.conn.Release()
		t.conn = nil
	}
}

// Unlimited ends the server's limit for the transaction as a whole. Each of its statements keeps its own deadline.
func (t *Tx) Unlimited(ctx context.Context) error {
	if !knowsTransactionTimeout(t.Conn().PgConn()) {
		return nil
	}
	_, err := t.Exec(ctx, `SELECT set_config('transaction_timeout', '0', true)`)
	return err
}

// Unbounded ends all limits of the statements that follow but those of their contexts.
func (t *Tx) Unbounded(ctx context.Context) error {
	t.each = 0
	if err := t.Unlimited(ctx); err != nil {
		return err
	}
	_, err := t.Exec(ctx, `SELECT set_config('statement_timeout', '0', true)`)
	return err
}

// timedRow calls done with the error of Scan.
type timedRow struct {
	pgx.Row
	done func(error) error
}

func (r timedRow) Scan(dest ...any) error { return r.done(r.Row.Scan(dest...)) }

// timedRows calls done after the last row.
type timedRows struct {
	pgx.Rows
	done func(error) error // nil after it was called
	err  error             // what done returned
}

// boundedRows returns a function that makes the results of Query call done after the last row, or at once if there is an error.
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

// rollbackWithin bounds a ROLLBACK, on a server that has just answered.
const rollbackWithin = 5 * time.Second

// RollbackAndRelease gives a connection back to its pool. It rolls back a transaction that is still open, and closes the connection if
// that fails. After a COMMIT it only gives the connection back.
func RollbackAndRelease(conn *pgxpool.Conn) {
	raw := conn.Conn().PgConn()
	if !raw.IsClosed() && raw.TxStatus() != 'I' {
		ctx, cancel := context.WithTimeout(context.Background(), rollbackWithin)
		defer cancel()
		if _, err := raw.Exec(ctx, rollback.SQL).ReadAll(); err != nil {
			_ = raw.Close(ctx)
		}
	}
	conn.Release()
}

// ReleaseAfter is RollbackAndRelease after a transaction that ended with err. Where that is an [OldPlan] the pool makes a new
// connection: this one would use its outdated prepared statements again.
func ReleaseAfter(conn *pgxpool.Conn, err error) {
	if err != nil && TroubleOf(err) == OldPlan {
		ctx, cancel := context.WithTimeout(context.Background(), rollbackWithin)
		defer cancel()
		_ = conn.Conn().Close(ctx)
	}
	RollbackAndRelease(conn)
}
