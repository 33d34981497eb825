package ledger

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// What ends what. A server may go away without a word: its connections stay open, and what is sent is even acknowledged,
// by a proxy or a machine on the way. It may live on, with our transaction and its locks, and not know that we cannot be
// reached. So the server ends what stands still before the client gives up on it, and what the client then tries on a new
// connection finds the locks free. With T = Config.TxTimeout, 20 s by default (postgres.transaction_timeout of the file):
//
//	an idle connection answers a ping           T/4    5 s   client, before it is used after a second of idleness
//	packets are acknowledged                    T/2   10 s   both: keepalive, and TCP_USER_TIMEOUT
//	a transaction that waits for its client     T/2   10 s   server: idle_in_transaction_session_timeout
//	a lock                                      T/2   10 s   server: lock_timeout
//	a statement                                3T/4   15 s   server: statement_timeout
//	a transaction, but for a claim            9T/10   18 s   server, from 17 on: transaction_timeout
//	a transaction, or a claim's next answer       T   20 s   client
//	a probe that somebody waits for        T/4, T/2  5, 10 s  server, client
//	the end of the process waits              T/4    5 s   client
//	what operators ask                      5T/4, 7T/5 25, 28 s  server, client
//
// So work goes on T after the last answer at the latest, and the time of one try later: within 30 s. All connections that
// are idle then are given up too, or each next try would take the next hung one.
//
// All of it is set for the session, so that what a role or a database has by default does not apply. A COMMIT has no limit on
// the server, which ends these timers before it commits: one would not undo it, but end its wait for a synchronous standby.
// So would a request to cancel, and none is sent; see wire.
type deadlines struct{ tx time.Duration }

func (d deadlines) ping() time.Duration        { return d.tx / 4 }
func (d deadlines) closing() time.Duration     { return d.tx / 4 }
func (d deadlines) network() time.Duration     { return d.tx / 2 }
func (d deadlines) idle() time.Duration        { return d.tx / 2 }
func (d deadlines) lock() time.Duration        { return d.tx / 2 }
func (d deadlines) statement() time.Duration   { return d.tx * 3 / 4 }
func (d deadlines) transaction() time.Duration { return d.tx * 9 / 10 }

// sessionIdle ends sessions that nobody can reach and that are in no transaction: pools give up theirs after half of it.
const sessionIdle = time.Hour

func (d deadlines) settings() map[string]string {
	seconds := func(t time.Duration) string { return strconv.Itoa(max(1, int(t/time.Second))) }
	return map[string]string{
		"statement_timeout":                   milliseconds(d.statement()),
		"lock_timeout":                        milliseconds(d.lock()),
		"idle_in_transaction_session_timeout": milliseconds(d.idle()),
		"idle_session_timeout":                milliseconds(sessionIdle),
		"tcp_keepalives_idle":                 seconds(d.network() / 2),
		"tcp_keepalives_interval":             seconds(d.network() / 4),
		"tcp_keepalives_count":                "2",
		"tcp_user_timeout":                    milliseconds(d.network()),
	}
}

func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// dialer notices a peer that acknowledges nothing.
func (d deadlines) dialer() *net.Dialer {
	return &net.Dialer{
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: d.network() / 2, Interval: d.network() / 4, Count: 2},
		Control:         userTimeout(d.network()),
	}
}

// transactionTimeout is the first server that knows transaction_timeout.
const transactionTimeout = 17

// limitTransactions sets transaction_timeout on servers that have it. It cannot be a parameter of the connection, because
// an older server refuses a connection with a setting that it does not know.
func (d deadlines) limitTransactions(ctx context.Context, conn *pgx.Conn) error {
	if !knowsTransactionTimeout(conn.PgConn()) {
		return nil
	}
	_, err := conn.Exec(ctx, `SELECT set_config('transaction_timeout', $1, false)`, milliseconds(d.transaction()))
	return err
}

func knowsTransactionTimeout(conn *pgconn.PgConn) bool {
	var major int
	_, err := fmt.Sscanf(conn.ParameterStatus("server_version"), "%d", &major)
	return err == nil && major >= transactionTimeout
}

// errNoAnswer is why a deadline of ours has ended a wait for the server.
var errNoAnswer = errors.New("postgres has not answered in time")

// silence is an error after which nobody knows whether the server has heard of what was asked.
type silence struct {
	after time.Duration
	err   error
}

func (s silence) Error() string {
	return fmt.Sprintf("no answer from postgres within %s: %v", s.after, s.err)
}
func (s silence) Unwrap() error { return s.err }

// bounded is ctx with the deadline of a transaction that begins now. done says what an error under it means, and must be
// called.
func (l *Ledger) bounded(ctx context.Context, within time.Duration) (_ context.Context, done func(error) error) {
	began := time.Now()
	return l.until(ctx, began, began.Add(within))
}

func (l *Ledger) until(ctx context.Context, began, end time.Time) (_ context.Context, done func(error) error) {
	ctx, cancel := context.WithDeadlineCause(ctx, end, errNoAnswer)
	return ctx, func(err error) error {
		late := context.Cause(ctx) == errNoAnswer //nolint:errorlint // it is our own, and the cause itself
		cancel()
		if _, answered := errors.AsType[*pgconn.PgError](err); err == nil || answered || !late {
			return err
		}
		l.suspect(began)
		return silence{end.Sub(began).Round(time.Millisecond), err}
	}
}

// suspect gives up all connections that are idle: one that was in use since began is hung. Those in use have deadlines of
// their own, and are closed when they come back.
func (l *Ledger) suspect(began time.Time) {
	l.suspected.Lock()
	defer l.suspected.Unlock()
	if began.Before(l.suspectedAt) {
		return // those that were idle then are gone
	}
	l.suspectedAt = time.Now()
	for _, p := range l.pools() {
		p.Reset()
	}
}

// wire is what pgconn does not let us say of a connection: whether it may ask the server to cancel what runs on it.
type wire struct {
	made       atomic.Bool
	committing atomic.Bool
}

const wireKey = "forebay wire"

// withWire has each connection of cfg know its wire. What pgconn dials once a connection is made is a request to cancel.
func withWire(cfg *pgconn.Config) {
	w, dial, after := &wire{}, cfg.DialFunc, cfg.AfterConnect
	cfg.AfterConnect = func(ctx context.Context, c *pgconn.PgConn) error {
		w.made.Store(true)
		c.CustomData()[wireKey] = w
		if after != nil {
			return after(ctx, c)
		}
		return nil
	}
	cfg.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		if w.made.Load() && w.committing.Load() {
			return nil, errors.New("a COMMIT is not cancelled")
		}
		return dial(ctx, network, address)
	}
}

// committing tells the wire that a COMMIT is on its way: cancelled, it would end its wait for a synchronous standby as if
// that had the data. done says that it has been answered.
func committing(conn *pgconn.PgConn) (done func()) {
	w, ok := conn.CustomData()[wireKey].(*wire)
	if !ok {
		return func() {}
	}
	w.committing.Store(true)
	return func() { w.committing.Store(false) }
}
