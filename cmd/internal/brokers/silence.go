package brokers

import (
	"context"
	"errors"
	"net"
	"os"
	"sync"
	"time"
)

// silence closes a Kafka client's connections to a broker that hangs. A client has up to five connections to a broker. When a read on one
// of them has timed out, those that have received nothing since that read began are closed as well. Without this, each connection would
// notice the broker by the timeout of its own next request; that of joining the group is 70 s, as its answer may take a whole
// rebalance.
type silence struct {
	dial func(ctx context.Context, network, address string) (net.Conn, error)

	mu   sync.Mutex
	open map[*heardConn]bool
}

// longRead is how long a read must have waited for its timeout to say something about the broker. A shorter deadline is its caller's
// impatience.
const longRead = 5 * time.Second

// newSilence makes a silence whose connections d dials.
func newSilence(d *net.Dialer) *silence {
	return &silence{dial: d.DialContext, open: map[*heardConn]bool{}}
}

// connect dials a connection that silence watches until it is closed.
func (s *silence) connect(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := s.dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	c := &heardConn{Conn: conn, silence: s, heard: time.Now()}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open[c] = true
	return c, nil
}

// end closes the connections to an address that have received nothing since a time. The client's requests on them fail, and it makes
// them again on a new connection.
func (s *silence) end(to net.Addr, since time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.open {
		if c.heard.Before(since) && c.RemoteAddr().String() == to.String() {
			c.Conn.Close()
		}
	}
}

// heardConn is a connection that knows when it last received something.
type heardConn struct {
	net.Conn
	silence *silence
	heard   time.Time // when it last received something; guarded by silence.mu
}

// Read reads. If it times out after longRead or more, it ends the connections that have been silent as long.
func (c *heardConn) Read(b []byte) (int, error) {
	began := time.Now()
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.silence.mu.Lock()
		c.heard = time.Now()
		c.silence.mu.Unlock()
	} else if errors.Is(err, os.ErrDeadlineExceeded) && time.Since(began) >= longRead {
		c.silence.end(c.RemoteAddr(), began)
	}
	return n, err
}

func (c *heardConn) Close() error {
	c.silence.mu.Lock()
	delete(c.silence.open, c)
	c.silence.mu.Unlock()
	return c.Conn.Close()
}
