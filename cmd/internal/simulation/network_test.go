package simulation

import (
	"context"
	"errors"
	"net"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The ports of the one host that there is.
const (
	intakePort = 8080
	agentPort  = 9000
	brokerPort = 9092 // and those behind it
)

// network is kfake's network in memory, whose connections can be cut and can hang.
type network struct {
	kfake.VirtualNetwork

	mu    sync.Mutex
	links map[*link]struct{}
	hung  map[route]*hang
	dead  map[string]bool // nodes
	// spoil, by node, gets the answers of brokers to fetches, and reports whether it has changed one.
	spoil map[string]func(*kmsg.FetchResponse) bool
}

// hang keeps a route from carrying anything.
type hang struct {
	over chan struct{} // closed when it goes on
	by   int           // faults that want it so
}

// route is a node's connections to one port.
type route struct {
	node string
	port int
}

var (
	errCut  = errors.New("simulation: the connection was cut")
	errDead = errors.New("simulation: the process is dead")
)

func newNetwork() *network {
	return &network{links: map[*link]struct{}{}, hung: map[route]*hang{}, dead: map[string]bool{},
		spoil: map[string]func(*kmsg.FetchResponse) bool{}}
}

// dialer is how a node connects.
func (n *network) dialer(node string) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		_, port, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		number, err := strconv.Atoi(port)
		if err != nil {
			return nil, err
		}
		at := route{node, number}
		if err := n.wait(ctx, at); err != nil {
			return nil, err
		}
		conn, err := n.DialContext(ctx, network, address)
		if err != nil {
			return nil, &net.OpError{Op: "dial", Net: network, Err: err}
		}
		return n.add(at, conn)
	}
}

// wait returns when the route does not hang.
func (n *network) wait(ctx context.Context, at route) error {
	n.mu.Lock()
	dead, hung := n.dead[at.node], n.hung[at]
	n.mu.Unlock()
	if dead {
		return &net.OpError{Op: "dial", Err: errDead}
	}
	if hung == nil {
		return nil
	}
	select {
	case <-hung.over:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (n *network) add(at route, conn net.Conn) (net.Conn, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.dead[at.node] {
		conn.Close()
		return nil, errDead
	}
	l := &link{Conn: conn, net: n, at: at, closed: make(chan struct{})}
	n.links[l] = struct{}{}
	if at.port >= brokerPort {
		return &kafkaLink{link: l, pending: map[int32]request{}}, nil
	}
	return l, nil
}

// cut closes a node's connections to ports; to all ports if none is given.
func (n *network) cut(node string, ports ...int) {
	n.mu.Lock()
	var found []*link
	for l := range n.links {
		if l.at.node == node && (len(ports) == 0 || slices.Contains(ports, l.at.port)) {
			found = append(found, l)
		}
	}
	n.mu.Unlock()
	for _, l := range found {
		l.Close()
	}
}

// hang keeps bytes from arriving, and connections from being made, until heal.
func (n *network) hang(node string, ports ...int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, port := range ports {
		at := route{node, port}
		if n.hung[at] == nil {
			n.hung[at] = &hang{over: make(chan struct{})}
		}
		n.hung[at].by++
	}
}

func (n *network) heal(node string, ports ...int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, port := range ports {
		at := route{node, port}
		if h := n.hung[at]; h != nil {
			if h.by--; h.by == 0 {
				close(h.over)
				delete(n.hung, at)
			}
		}
	}
}

// kill ends all that a node has, for good.
func (n *network) kill(node string) {
	n.mu.Lock()
	n.dead[node] = true
	n.mu.Unlock()
	n.cut(node)
}

// link is the end of a connection at the node that made it.
type link struct {
	net.Conn
	net    *network
	at     route
	once   sync.Once
	closed chan struct{}

	mu              sync.Mutex
	readBy, writeBy time.Time
}

func (l *link) Close() error {
	l.once.Do(func() {
		close(l.closed)
		l.net.mu.Lock()
		delete(l.net.links, l)
		l.net.mu.Unlock()
	})
	return l.Conn.Close()
}

func (l *link) SetDeadline(t time.Time) error {
	l.mu.Lock()
	l.readBy, l.writeBy = t, t
	l.mu.Unlock()
	return l.Conn.SetDeadline(t)
}

func (l *link) SetReadDeadline(t time.Time) error {
	l.mu.Lock()
	l.readBy = t
	l.mu.Unlock()
	return l.Conn.SetReadDeadline(t)
}

func (l *link) SetWriteDeadline(t time.Time) error {
	l.mu.Lock()
	l.writeBy = t
	l.mu.Unlock()
	return l.Conn.SetWriteDeadline(t)
}

// wait returns when the route does not hang, or at the deadline.
func (l *link) wait(deadline *time.Time) error {
	l.net.mu.Lock()
	hung := l.net.hung[l.at]
	l.net.mu.Unlock()
	if hung == nil {
		return nil
	}
	l.mu.Lock()
	by := *deadline
	l.mu.Unlock()
	var late <-chan time.Time
	if !by.IsZero() {
		timer := time.NewTimer(time.Until(by))
		defer timer.Stop()
		late = timer.C
	}
	select {
	case <-hung.over:
		return nil
	case <-late:
		return os.ErrDeadlineExceeded
	case <-l.closed:
		return errCut
	}
}

func (l *link) Read(b []byte) (int, error) {
	if err := l.wait(&l.readBy); err != nil {
		return 0, err
	}
	n, err := l.Conn.Read(b)
	if err == nil {
		err = l.wait(&l.readBy) // what comes while it hangs is not there yet
		if err != nil {
			n = 0
		}
	}
	return n, err
}

func (l *link) Write(b []byte) (int, error) {
	if err := l.wait(&l.writeBy); err != nil {
		return 0, err
	}
	return l.Conn.Write(b)
}
