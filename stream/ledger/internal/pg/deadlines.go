package pg

import (
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// Deadlines are what ends what. A server may go away without a word: its connections stay open, and what is sent is even acknowledged,
// by a proxy or a machine on the way. It may live on, with our transaction and its locks, and not know that we cannot be
// reached. So the server ends what stands still before the client gives up on it, and what the client then tries on a new
// connection finds the locks free. With T = Deadlines.Tx, 20 s by default (postgres.transaction_timeout of the file):
//
//	an idle connection answers a ping           T/4    5 s   client, before it is used after a second of idleness
//	packets are acknowledged                    T/2   10 s   both: keepalive, and TCP_USER_TIMEOUT
//	a transaction that waits for its client     T/2   10 s   server: idle_in_transaction_session_timeout
//	a lock                                      T/2   10 s   server: lock_timeout
//	a statement                                3T/4   15 s   server: statement_timeout
//	a transaction, but for a claim            9T/10   18 s   server, from 17 on: transaction_timeout, nine tenths of the pool's deadline
//	a transaction, or a claim's next answer       T   20 s   client
//	a probe that somebody waits for        T/4, T/2  5, 10 s  server, client
//	the end of the process waits              T/4    5 s   client
//	what operators ask, and sweeps          5T/4, 7T/5 25, 28 s  server, client
//
// So work goes on T after the last answer at the latest, and the time of one try later: within 30 s. All connections that
// are idle then are given up too, or each next try would take the next hung one.
//
// All of it is set for the session by its first statement, so that what a role or a database has by default does not apply to what follows. A COMMIT has no limit on
// the server, which ends these timers before it commits: one would not undo it, but end its wait for a synchronous standby.
// So would a request to cancel, and none is sent; see wire in commit.go.
type Deadlines struct{ Tx time.Duration }

// Idle is how long the server waits for a client that has a transaction open.
func (d Deadlines) Idle() time.Duration { return d.Tx / 2 }

func (d Deadlines) ping() time.Duration      { return d.Tx / 4 }
func (d Deadlines) closing() time.Duration   { return d.Tx / 4 }
func (d Deadlines) network() time.Duration   { return d.Tx / 2 }
func (d Deadlines) lock() time.Duration      { return d.Tx / 2 }
func (d Deadlines) statement() time.Duration { return d.Tx * 3 / 4 }

// sessionIdle ends sessions that nobody can reach and that are in no transaction: pools give up theirs after half of it.
const sessionIdle = time.Hour

// Settings returns the settings of a session.
func (d Deadlines) Settings() map[string]string {
	seconds := func(t time.Duration) string { return strconv.Itoa(max(1, int(t/time.Second))) }
	return map[string]string{
		"statement_timeout":                   Milliseconds(d.statement()),
		"lock_timeout":                        Milliseconds(d.lock()),
		"idle_in_transaction_session_timeout": Milliseconds(d.Idle()),
		"idle_session_timeout":                Milliseconds(sessionIdle),
		"tcp_keepalives_idle":                 seconds(d.network() / 2),
		"tcp_keepalives_interval":             seconds(d.network() / 4),
		"tcp_keepalives_count":                "2",
		"tcp_user_timeout":                    Milliseconds(d.network()),
	}
}

// Milliseconds returns a duration as a setting of Postgres.
func Milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// dialer returns a dialer whose connections break when the peer acknowledges nothing for the network deadline.
func (d Deadlines) dialer() *net.Dialer {
	return &net.Dialer{
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: d.network() / 2, Interval: d.network() / 4, Count: 2},
		Control:         userTimeout(d.network()),
	}
}

// only changes a dialer so that it connects to no address for which allow returns an error, and returns it. A nil allow allows all.
func only(d *net.Dialer, allow func(network, address string) error) *net.Dialer {
	if allow == nil {
		return d
	}
	control := d.Control
	d.Control = func(network, address string, c syscall.RawConn) error {
		if err := allow(network, address); err != nil {
			return err
		}
		if control == nil {
			return nil
		}
		return control(network, address, c)
	}
	return d
}

// Only has a connection made to an address alone that may returns nil for; nil: to any.
func Only(c *pgconn.Config, may func(network, address string) error) {
	if may != nil {
		c.DialFunc = only(&net.Dialer{KeepAlive: 5 * time.Minute}, may).DialContext // as pgconn's own
	}
}

// transactionTimeout is a setting that servers have from Postgres 17 on.
const transactionTimeout = "transaction_timeout"

func knowsTransactionTimeout(conn *pgconn.PgConn) bool {
	var major int
	_, err := fmt.Sscanf(conn.ParameterStatus("server_version"), "%d", &major)
	return err == nil && major >= 17
}

// setWithin bounds the statement of Set, on a server that has just answered.
const setWithin = 10 * time.Second

// Set has each connection of a configuration begin with settings, after those that it has been given before. They are no parameters of the
// connection: an older server refuses one that it does not know, and a pooler all but a few, or drops them without a word.
func Set(c *pgconn.Config, settings map[string]string) {
	before := c.AfterConnect
	c.AfterConnect = func(ctx context.Context, conn *pgconn.PgConn) error {
		if before != nil {
			if err := before(ctx, conn); err != nil {
				return err
			}
		}
		var calls []string
		var params [][]byte
		for _, name := range slices.Sorted(maps.Keys(settings)) {
			if name == transactionTimeout && !knowsTransactionTimeout(conn) {
				continue
			}
			params = append(params, []byte(name), []byte(settings[name]))
			calls = append(calls, fmt.Sprintf("set_config($%d, $%d, false)", len(params)-1, len(params)))
		}
		ctx, cancel := context.WithTimeout(ctx, setWithin)
		defer cancel()
		return conn.ExecParams(ctx, "SELECT "+strings.Join(calls, ", "), params, nil, nil, nil).Read().Err
	}
}
