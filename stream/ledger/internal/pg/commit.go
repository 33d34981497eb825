package pg

import (
	"context"
	"errors"
	"net"
	"sync/atomic"

	"github.com/jackc/pgx/v5/pgconn"
)

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

// Committing tells the wire that a COMMIT is on its way: cancelled, it would end its wait for a synchronous standby as if
// that had the data. done says that it has been answered.
func Committing(conn *pgconn.PgConn) (done func()) {
	w, ok := conn.CustomData()[wireKey].(*wire)
	if !ok {
		return func() {}
	}
	w.committing.Store(true)
	return func() { w.committing.Store(false) }
}
