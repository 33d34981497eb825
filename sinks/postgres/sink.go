package postgressink

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/sinks/guard"
	"github.com/forebay-io/forebay/sinks/redact"
	"github.com/forebay-io/forebay/sinks/template"
	"github.com/forebay-io/forebay/stream/sink"
)

// Config makes a [Sink].
type Config struct {
	// Database is a connection URL, postgres://user:password@...; never shown. Nothing but what it says is used: no PG* variable, no
	// file in the home directory. Required of [New]; nil is the ledger's own, for [NewInLedger].
	Database *schemas.Secret
	// Statement is executed for each action. Required.
	Statement string
	// Params are those that [Params] declares. Required.
	Params *template.Set
	// KeyTable is where keys are kept; default [DefaultKeyTable], found by the role's search path.
	KeyTable string
	// KeyRetention is how long keys are kept; default [DefaultKeyRetention]. Longer than actions may be attempted again.
	KeyRetention time.Duration
	// AllowNetworks lists private networks that may be reached, and reached without TLS.
	AllowNetworks []netip.Prefix
	// MaxConns bounds the connections of this process; default 8. It is to be the destination's concurrency: what waits for a
	// connection waits in the time of its attempt.
	MaxConns int32
	// Hidden is as in [spec.Destination].
	Hidden []schemas.Secret
	// Now is the clock by which old keys are looked for; default time.Now.
	Now func() time.Time
}

// DefaultKeyRetention is how long keys are kept unless configured.
const DefaultKeyRetention = 90 * 24 * time.Hour

const (
	pruneEvery = time.Hour
	// pruneFor is how long an attempt goes on with it, once it is due: its answer waits for that.
	pruneFor = 200 * time.Millisecond
)

// Sink executes a statement in a database of its own. Safe for concurrent use.
type Sink struct {
	sink.Opaque
	statement string
	params    *template.Set
	keys      keys
	retention time.Duration
	pool      *pgxpool.Pool
	guard     *guard.Client
	redact    *redact.Redactor
	now       func() time.Time
	pruned    atomic.Int64 // when there were last no more old keys, or they could not be forgotten, in Unix seconds
	pruning   sync.Mutex
}

var (
	_ sink.Sink    = (*Sink)(nil)
	_ sink.Checker = (*Sink)(nil)
)

// New makes a sink. It connects with the first action. Errors are of kind invalid and show nothing of the URL.
func New(cfg Config) (*Sink, error) {
	const op = "make a postgres destination"
	if strings.TrimSpace(cfg.Statement) == "" || cfg.Params == nil {
		return nil, schemas.Errorf(schemas.Invalid, op, "statement or params are missing")
	}
	s := &Sink{Opaque: "postgres destination", statement: cfg.Statement, params: cfg.Params, retention: cfg.KeyRetention, now: cfg.Now}
	if s.retention == 0 {
		s.retention = DefaultKeyRetention
	}
	if s.now == nil {
		s.now = time.Now
	}
	if cfg.KeyTable == "" {
		cfg.KeyTable = DefaultKeyTable
	}
	if err := CheckKeyTable(cfg.KeyTable); err != nil {
		return nil, schemas.Errorf(schemas.Invalid, op, "key_table: %w", err)
	}
	s.keys = newKeys(cfg.KeyTable)
	s.pruned.Store(s.now().Unix())
	var err error
	if s.guard, err = guard.New(guard.Config{AllowNetworks: cfg.AllowNetworks}); err != nil {
		return nil, err
	}
	if cfg.Database == nil || cfg.Database.IsZero() {
		return nil, schemas.Errorf(schemas.Invalid, op, "database is missing")
	}
	pool, err := poolConfig(cfg.Database.Reveal())
	if err != nil {
		return nil, schemas.Errorf(schemas.Invalid, op, "database %w", err)
	}
	s.redact = redact.New(redact.Words(append(slices.Clone(cfg.Hidden), *cfg.Database, schemas.NewSecret(pool.ConnConfig.Password))...)...)
	s.guarded(pool)
	pool.MaxConns = cfg.MaxConns
	if pool.MaxConns == 0 {
		pool.MaxConns = 8
	}
	bound(pool)
	if s.pool, err = pgxpool.NewWithConfig(context.Background(), pool); err != nil {
		return nil, schemas.Errorf(schemas.Invalid, op, "database cannot be used")
	}
	return s, nil
}

// guarded lets the pool connect to judged addresses alone.
func (s *Sink) guarded(pool *pgxpool.Config) {
	c := pool.ConnConfig
	plain := c.TLSConfig == nil
	for _, f := range c.Fallbacks {
		plain = plain || f.TLSConfig == nil
	}
	c.RuntimeParams["application_name"] = "forebay"
	c.LookupFunc = func(_ context.Context, host string) ([]string, error) { return []string{host}, nil } // the guard resolves
	c.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		return s.guard.Dial(ctx, network, address, plain)
	}
}

// Do makes one attempt: the action's key and its statement are committed in one transaction. If the key is there already, an earlier attempt
// has executed the statement: Do reports success and does not execute it again. A key table that does not exist is created. After a success,
// old keys are deleted now and then.
func (s *Sink) Do(ctx context.Context, a sink.Action) (sink.Outcome, error) {
	values, err := bind(s.params, a)
	if err != nil {
		return sink.Outcome{}, err
	}
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return sink.Outcome{}, s.redact.Err(classify(ctx, err, false))
	}
	defer release(conn)
	fresh, err := s.begin(ctx, conn, a)
	if missing(err) {
		rollback(conn)
		if err = s.keys.create(ctx, conn); err == nil {
			fresh, err = s.begin(ctx, conn, a)
		}
	}
	if err != nil {
		return sink.Outcome{}, s.redact.Err(classify(ctx, err, false))
	}
	if !fresh {
		return answer(""), nil
	}
	tag, err := s.executeAndCommit(ctx, conn, values)
	if err != nil && conn.Conn().IsClosed() { // nothing is refused: the next attempt finds out what became of it
		return sink.Outcome{}, s.redact.Err(classify(ctx, err, true))
	}
	if err != nil {
		return refusal(ctx, s.redact, err)
	}
	s.prune(ctx, conn)
	return answer(tag), nil
}

// session bounds the transaction in time, and lets nothing be acknowledged that a crash of the server would take back.
const session = `SELECT set_config('statement_timeout', $1, true), set_config('idle_in_transaction_session_timeout', '30000', true),
	CASE current_setting('synchronous_commit') WHEN 'off' THEN set_config('synchronous_commit', 'on', true) END`

// begin begins the transaction and takes the action's key. It waits for a transaction that has the key and has not
// ended; fresh is false if that, or one long ago, was committed.
func (s *Sink) begin(ctx context.Context, conn *pgxpool.Conn, a sink.Action) (fresh bool, err error) {
	var batch pgconn.Batch
	batch.ExecParams("BEGIN", nil, nil, nil, nil)
	batch.ExecParams(session, [][]byte{[]byte(remaining(ctx))}, nil, nil, nil)
	batch.ExecParams(s.keys.insert, [][]byte{[]byte(a.ID), []byte(a.Destination)}, nil, nil, nil)
	tags, err := run(ctx, conn, &batch)
	return err == nil && tags[2].RowsAffected() == 1, err
}

// executeAndCommit executes the statement in the transaction that begin has begun on conn, and commits that transaction. It returns the statement's command
// tag ("UPDATE 1"). After an error the caller ends the transaction; the commit may have happened nevertheless.
func (s *Sink) executeAndCommit(ctx context.Context, conn *pgxpool.Conn, values [][]byte) (string, error) {
	var batch pgconn.Batch
	batch.ExecParams(s.statement, values, nil, nil, nil)
	batch.ExecParams("COMMIT", nil, nil, nil, nil)
	tags, err := run(ctx, conn, &batch)
	if len(tags) == 2 && tags[1].String() == "COMMIT" { // whatever ends the session behind it
		return tags[0].String(), nil
	}
	if err == nil {
		err = fmt.Errorf("commit: the server said %s", tags[1])
	}
	return "", err
}

// run sends a batch in one round trip and gives the server's word on each of its statements.
func run(ctx context.Context, conn *pgxpool.Conn, batch *pgconn.Batch) (tags []pgconn.CommandTag, err error) {
	results := conn.Conn().PgConn().ExecBatch(ctx, batch)
	for results.NextResult() {
		tag, err := results.ResultReader().Close()
		if err != nil {
			break // Close of the whole says why
		}
		tags = append(tags, tag)
	}
	return tags, results.Close()
}

// prune forgets old keys, now and then: a batch with each attempt until there are none, since more may have grown old in an hour than
// one batch has. What fails is tried again an hour later: a role that may not DELETE is refused it every time.
func (s *Sink) prune(ctx context.Context, conn *pgxpool.Conn) {
	now, last := s.now().Unix(), s.pruned.Load()
	if now-last < int64(pruneEvery.Seconds()) || !s.pruning.TryLock() {
		return
	}
	defer s.pruning.Unlock()
	for begin := time.Now(); time.Since(begin) < pruneFor; {
		result := conn.Conn().PgConn().ExecParams(ctx, s.keys.prune, [][]byte{interval(s.retention)}, nil, nil, nil).Read()
		if result.Err != nil || result.CommandTag.RowsAffected() < pruneBatch {
			s.pruned.Store(now)
			return
		}
	}
}

// remaining returns the time until ctx ends, as statement_timeout takes it: what nobody waits for any more ends.
func remaining(ctx context.Context) string {
	end, ok := ctx.Deadline()
	if !ok {
		return "0"
	}
	return strconv.FormatInt(max(1, time.Until(end).Milliseconds()), 10)
}

// release gives a connection back, without a transaction.
func release(conn *pgxpool.Conn) {
	rollback(conn)
	conn.Release()
}

// rollback ends a transaction that is open, or the connection if that is not possible.
func rollback(conn *pgxpool.Conn) {
	raw := conn.Conn().PgConn()
	if raw.IsClosed() || raw.TxStatus() == 'I' {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if _, err := raw.Exec(ctx, "ROLLBACK").ReadAll(); err != nil {
		_ = raw.Close(ctx)
	}
}

// Check reports whether the database can be reached and lets the role in.
func (s *Sink) Check(ctx context.Context) error {
	return s.redact.Err(classify(ctx, s.pool.Ping(ctx), false))
}

// Close closes the connections. It waits for those in use.
func (s *Sink) Close(context.Context) error {
	s.pool.Close()
	s.guard.Close()
	return nil
}

// Idempotency returns idempotent: the key is in the transaction of the statement.
func (s *Sink) Idempotency() sink.Idempotency { return sink.Idempotent }
