package ingest

import (
	"context"
	"net"
	"net/http"
	"time"
)

// door is what a [Connections.Door] was given, and how long a known sender's request may take to be there.
type door struct {
	probe  func(*http.Request) bool
	open   bool
	within time.Duration
}

// bodyWithin is how long the body of an unknown sender's request may take, with its header.
const bodyWithin = 10 * time.Second

// Door is Bind for a listener that people and programs ask who show who they are: by [Known]. Until then a request counts for its address,
// the oldest gives way, its body comes within bodyWithin, and its answer ends the connection. Those that probe selects count for no address.
// open says that nobody has to show anything: then answers end no connection. HTTP/2 is not spoken: a connection is one request at a time.
func (c *Connections) Door(s *http.Server, probe func(*http.Request) bool, open bool) {
	c.door = &door{probe, open, s.ReadTimeout}
	s.ReadTimeout = bodyWithin
	s.Protocols = new(http.Protocols)
	s.Protocols.SetHTTP1(true)
	answers := s.Handler
	s.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn := r.Context().Value(connKey{}).(departure).conn
		c.asks(conn, w.Header(), r)
		answers.ServeHTTP(w, r)
		if w.Header().Get("Connection") == "close" { // the server reads what is left of the body: not for long
			_ = conn.SetReadDeadline(time.Now().Add(time.Second))
		}
	})
	c.Bind(s)
}

// asks has a connection count for the address of a request whose header has come.
func (c *Connections) asks(conn net.Conn, answer http.Header, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.door.open {
		answer.Set("Connection", "close")
	}
	entry := c.all[conn]
	if entry == nil { // closed here
		return
	}
	c.unlist(entry)
	entry.answer = answer
	c.enlist(entry, conn, &c.silent)
	if !c.door.probe(r) {
		c.count(entry, conn, c.limits.AddressOf(r))
	}
}

// Known says that whoever sends the request of a context has shown who they are. Its connection gives way to no other, and is kept after the
// answer.
func Known(ctx context.Context) {
	if l, ok := ctx.Value(connKey{}).(departure); ok {
		l.of.known(l.conn)
	}
}

func (c *Connections) known(conn net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if entry := c.all[conn]; entry != nil && entry.answer != nil {
		c.unlist(entry)
		entry.answer.Del("Connection")
		entry.answer = nil
		_ = conn.SetReadDeadline(time.Now().Add(c.door.within))
	}
}
