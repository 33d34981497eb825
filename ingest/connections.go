package ingest

import (
	"container/list"
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"runtime"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// Connections bounds the connections of a listener, so that no stranger keeps others out:
//
//   - One address may have AddressConnections that have not sent the header of a request yet; where another one comes, the oldest of
//     these is closed.
//   - Where there are more than Limits.Connections, the oldest is closed that has an answer and is about to end (after a refusal, the
//     server waits for half a second); else the oldest that has not sent a header yet; else the one that idles the longest between two
//     requests; else, where all others are being answered, the new one.
//
// Whoever sends a header at once is never the oldest for long: before one has to give way, those that were taken before get to read what is there.
// At a door ([Connections.Door]) a connection counts as one without a header until it is known who sends the request. Safe for concurrent use.
type Connections struct {
	limits   Limits
	door     *door                  // nil: of the intake
	closed   *prometheus.CounterVec // by why
	logTally tally[string]          // of the same, for the log

	mu     sync.Mutex
	all    map[net.Conn]*connection
	ending list.List                 // of net.Conn, the oldest first: they have an answer, and are about to be closed
	silent list.List                 // no header has come yet; at a door: nobody is known
	from   map[netip.Addr]*list.List // the same by address; not those of trusted proxies
	idle   list.List                 // between two requests
}

// connection is where a connection is in the lists: nowhere, while a request is answered.
type connection struct {
	in       *list.List    // ending, silent or idle
	at       *list.Element // there
	from     netip.Addr
	atSender *list.Element // in the list of from
	answer   http.Header   // at a door: of the answer to a request that is to end the connection
}

// Why a connection is closed.
const (
	manyOfAddress = "address_connections" // its address had too many without a request
	manyInAll     = "connections"         // there were too many
)

// NewConnections makes the limit of a listener; part is what the listener is of, for metric and log. The limits must have their defaults.
func NewConnections(l Limits, part string, r prometheus.Registerer, log *slog.Logger) *Connections {
	c := &Connections{limits: l, all: map[net.Conn]*connection{}, from: map[netip.Addr]*list.List{}, closed: prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "forebay", Subsystem: part, Name: "connections_closed_total",
		Help: "Connections closed since there were too many, of one address or in all: of those whose request has not come or whose sender is not known, and of those between two requests.",
	}, []string{"reason"})}
	c.logTally = tally[string]{every: tellEvery, tell: func(reason string, count int) {
		log.Info("connections closed: there were too many", "listener", part, "reason", reason, "count", count, "within", c.logTally.every)
	}}
	r.MustRegister(c.closed)
	return c
}

// connKey is the key of the context under which a request has its [departure].
type connKey struct{}

// departure says of a connection that it is about to end. The zero departure says nothing.
type departure struct {
	of   *Connections
	conn net.Conn
}

func (l departure) leaves() {
	if l.of != nil {
		l.of.leaves(l.conn)
	}
}

// Bind has a server's connections bounded. The server must have its handler, and have accepted nothing yet.
func (c *Connections) Bind(s *http.Server) {
	answers := s.Handler
	s.ConnState = c.changes
	s.ConnContext = func(ctx context.Context, conn net.Conn) context.Context {
		return context.WithValue(ctx, connKey{}, departure{c, conn})
	}
	s.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answers.ServeHTTP(w, r)
		if w.Header().Get("Connection") == "close" {
			r.Context().Value(connKey{}).(departure).leaves()
		}
	})
}

// leaves says that a connection has its answer, or gets one that ends it.
func (c *Connections) leaves(conn net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if entry := c.all[conn]; entry != nil && entry.in != &c.ending {
		c.unlist(entry)
		c.enlist(entry, conn, &c.ending)
	}
}

// changes is the server's hook ConnState.
func (c *Connections) changes(conn net.Conn, s http.ConnState) {
	if s == http.StateNew && c.crowded() {
		runtime.Gosched()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	entry := c.all[conn]
	if s == http.StateNew {
		c.enter(conn)
		return
	}
	if entry == nil || s == http.StateActive && c.door != nil { // closed here; asks knows more
		return
	}
	c.unlist(entry)
	switch s {
	case http.StateIdle:
		c.enlist(entry, conn, &c.idle)
	case http.StateClosed, http.StateHijacked:
		delete(c.all, conn)
	}
}

// crowded reports whether a new connection may have another one closed. The server takes connections in one goroutine, and a process that had no
// processor for a while finds hundreds of them: all would be taken, and the first ones closed, before any is read.
func (c *Connections) crowded() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.all) >= c.limits.Connections || c.silent.Len() >= c.limits.AddressConnections
}

// enter has a connection wait for its first header, and closes what is too much with it.
func (c *Connections) enter(conn net.Conn) {
	addr := peerOf(conn.RemoteAddr().String())
	entry := &connection{}
	c.all[conn] = entry
	c.enlist(entry, conn, &c.silent)
	if !c.limits.trusts(addr) { // a trusted proxy has senders behind it, whose requests count
		c.count(entry, conn, counted64(addr))
	}
	if len(c.all) <= c.limits.Connections {
		return
	}
	for _, l := range []*list.List{&c.ending, &c.silent, &c.idle} {
		if oldest := l.Front(); oldest != nil && oldest != entry.at {
			c.close(oldest, manyInAll)
			return
		}
	}
	c.close(entry.at, manyInAll)
}

// count has a connection count for an address, and closes the oldest of too many.
func (c *Connections) count(entry *connection, conn net.Conn, from netip.Addr) {
	entry.from = from
	l := c.from[from]
	if l == nil {
		l = list.New()
		c.from[from] = l
	}
	if entry.atSender = l.PushBack(conn); l.Len() > c.limits.AddressConnections {
		c.close(l.Front(), manyOfAddress)
	}
}

// close closes the connection that an element of a list is of.
func (c *Connections) close(e *list.Element, reason string) {
	conn := e.Value.(net.Conn)
	c.unlist(c.all[conn])
	delete(c.all, conn)
	c.closed.WithLabelValues(reason).Inc()
	c.logTally.add(reason)
	if t, ok := conn.(*tls.Conn); ok {
		conn = t.NetConn() // the other would write, and wait for who does not read
	}
	_ = conn.Close()
}

func (c *Connections) enlist(entry *connection, conn net.Conn, l *list.List) {
	entry.in, entry.at = l, l.PushBack(conn)
}

// unlist removes a connection from the lists.
func (c *Connections) unlist(entry *connection) {
	if entry.in != nil {
		entry.in.Remove(entry.at)
	}
	if entry.atSender != nil {
		if l := c.from[entry.from]; l.Len() == 1 {
			delete(c.from, entry.from)
		} else {
			l.Remove(entry.atSender)
		}
	}
	entry.in, entry.at, entry.atSender = nil, nil, nil
}
