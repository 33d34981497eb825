package pg

import (
	"net"
	"sync/atomic"
)

// joined sends in one write what is written in two: statements, and the Sync behind them, which pgconn writes. With statements and no Sync the
// server waits with a transaction open, and none of its deadlines runs: a process that is frozen between two writes would hold its fences for
// as long as it is. One goroutine writes at a time.
//
// A write that fails closes the connection, and the server is not asked to cancel what it may not have read: it may read nothing at all.
type joined struct {
	net.Conn
	holds  bool
	held   []byte
	broken atomic.Bool
}

// Write implements [net.Conn]. What was held goes first, with the first write that is not held.
func (j *joined) Write(b []byte) (int, error) {
	if j.broken.Load() {
		return 0, net.ErrClosed
	}
	if j.holds {
		j.held = append(j.held, b...)
		return len(b), nil
	}
	all := b
	if len(j.held) > 0 {
		j.held = append(j.held, b...)
		all = j.held
	}
	_, err := j.Conn.Write(all)
	if j.held = j.held[:0]; cap(j.held) > maxKept {
		j.held = nil
	}
	if err != nil {
		j.broken.Store(true)
		_ = j.Conn.Close()
		return 0, err
	}
	return len(b), nil
}
