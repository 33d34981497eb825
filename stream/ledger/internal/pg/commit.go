package pg

import (
	"context"
	"errors"
	"net"
	"sync/atomic"

	"github.com/jackc/pgx/v5/pgconn"
)

// wire is the state of one connection from which its dialer knows whether pgconn may ask the server to cancel what runs on it.
type wire struct {
	conn       *joined
	made       atomic.Bool // the connection is made: what is dialled from now on is a request to cancel
	committing atomic.Bool // a COMMIT is on its way
}

const wireKey = "forebay wire"

// withWire gives the connection of cfg a wire, and has its dialer refuse requests to cancel while a COMMIT is on its way.
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
		if w.made.Load() && w.conn.broken.Load() {
			return nil, errors.New("what was not sent is not cancelled")
		}
		conn, err := dial(ctx, network, address)
		if err != nil || w.made.Load() {
			return conn, err
		}
		w.conn = &joined{Conn: conn} // below TLS, which pgconn knows by its type
		return w.conn, nil
	}
}

// hold has what is written to a connection wait for the next write after hold was called with false.
func hold(conn *pgconn.PgConn, holds bool) {
	if w, ok := conn.CustomData()[wireKey].(*wire); ok {
		w.conn.holds = holds
	}
}

// Committing is called before a COMMIT is sent, and forbids to cancel it: a COMMIT that is cancelled ends its wait for a synchronous standby
// as if that had the data. The caller calls done when the COMMIT has been answered.
func Committing(conn *pgconn.PgConn) (done func()) {
	w, ok := conn.CustomData()[wireKey].(*wire)
	if !ok {
		return func() {}
	}
	w.committing.Store(true)
	return func() { w.committing.Store(false) }
}
