package brokers

import (
	"context"
	"errors"
	"net"
	"os"
	"sync"
	"time"
)

// silence ends a Kafka client's connections that have gone silent together. A client has up to five to a broker; where one
// has waited for an answer in vain, those that have heard nothing since it asked are given up with it. Each on its own would be
// noticed by its next request only, and the one that joins the group waits 70 s: its answer may take a whole rebalance.
type silence struct {
	dial func(ctx context.Context, network, address string) (net.Conn, error)

	mu   sync.Mutex
	open map[*heardConn]bool
}

// inVain is how long a read must have waited to say something of the others: shorter ones end with their caller's patience.
const inVain = 5 * time.Second

func newSilence(d *net.Dialer) *silence {
	return &silence{dial: d.DialContext, open: map[*heardConn]bool{}}
}

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

// end closes the connections to the same place that have heard nothing since a time. Who uses one tries again on a new one.
func (s *silence) end(to net.Addr, since time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.open {
		if c.heard.Before(since) && c.RemoteAddr().String() == to.String() {
			c.Conn.Close()
		}
	}
}

// heardConn knows when it last heard something; silence's mutex guards that.
type heardConn struct {
	net.Conn
	silence *silence
	heard   time.Time
}

func (c *heardConn) Read(b []byte) (int, error) {
	began := time.Now()
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.silence.mu.Lock()
		c.heard = time.Now()
		c.silence.mu.Unlock()
	} else if errors.Is(err, os.ErrDeadlineExceeded) && time.Since(began) >= inVain {
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
