package rig

import (
	"io"
	"net"
	"sync"
)

// Proxy stands between processes and one server, and can hang: it drops bytes and closes no connection, as a network does that loses
// packets. Neither side gets a reset, and the server keeps what its sessions hold.
type Proxy struct {
	listener net.Listener
	target   string                     // the server's address
	pass     func(client, server *link) // forwards both directions of one connection, until both have ended
	running  sync.WaitGroup             // the proxy's goroutines

	mu        sync.Mutex
	hangs     bool               // new connections hang, too
	open      map[net.Conn]*link // both ends of every connection
	hasClosed bool
}

// HangingProxy starts a proxy in front of the server at target, host:port.
func HangingProxy(t T, target string) *Proxy {
	t.Helper()
	return startProxy(t, target, func(client, server *link) {
		var both sync.WaitGroup
		both.Go(func() { client.copy(server) })
		server.copy(client)
		both.Wait()
	})
}

// startProxy starts a proxy whose connections pass forwards.
func startProxy(t T, target string, pass func(client, server *link)) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{listener: l, target: target, pass: pass, open: map[net.Conn]*link{}}
	p.running.Go(p.accept)
	t.Cleanup(p.close)
	return p
}

// Addr returns the proxy's address.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Hang makes the connections that are open now hang, for good. New ones work.
func (p *Proxy) Hang() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.open {
		l.hang()
	}
}

// HangAll is Hang, and new connections are accepted and hang as well, until Answer.
func (p *Proxy) HangAll() {
	p.mu.Lock()
	p.hangs = true
	p.mu.Unlock()
	p.Hang()
}

// Answer makes new connections work again. Those that hang stay as they are.
func (p *Proxy) Answer() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hangs = false
}

// Hanging counts the connections that hang and that their clients have not closed.
func (p *Proxy) Hanging() (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.open {
		if l.isClient && !l.ended() && l.isHung() {
			n++
		}
	}
	return n
}

// close closes the listener and all connections.
func (p *Proxy) close() {
	p.listener.Close()
	p.mu.Lock()
	p.hasClosed = true
	for c := range p.open {
		c.Close()
	}
	p.mu.Unlock()
	p.running.Wait()
}

// accept serves connections until the listener is closed.
func (p *Proxy) accept() {
	for {
		c, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.running.Go(func() { p.serve(c) })
	}
}

// serve connects a client to the server and forwards, until both ends have ended. If the client's end hangs from the start, there is no
// connection to the server.
func (p *Proxy) serve(c net.Conn) {
	client := p.enter(c, true)
	if client == nil {
		return
	}
	if client.isHung() {
		_, _ = io.Copy(io.Discard, c)
		p.leave(client)
		return
	}
	s, err := net.Dial("tcp", p.target)
	if err != nil {
		p.leave(client)
		return
	}
	server := p.enter(s, false)
	if server == nil {
		return
	}
	p.pass(client, server)
	p.leave(client)
	if server.isHung() { // the server is not told that the client has ended: the connection stays until the server closes it
		_, _ = io.Copy(io.Discard, s)
	}
	p.leave(server)
}

// enter registers one end of a connection; isClient says that the client is there. If the proxy is closed, it closes the connection and
// returns nil.
func (p *Proxy) enter(c net.Conn, isClient bool) *link {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.hasClosed {
		c.Close()
		return nil
	}
	l := &link{Conn: c, isClient: isClient, hung: p.hangs}
	p.open[c] = l
	return l
}

// leave closes one end of a connection and forgets it.
func (p *Proxy) leave(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.open, l.Conn)
	l.Close()
}

// link is one end of a connection through the proxy.
type link struct {
	net.Conn
	isClient bool // this is the client's end; false: the server's

	mu      sync.Mutex
	hung    bool // what is written to this end is dropped
	closing bool // its peer has closed it: nothing more comes from it
}

// hang drops everything that is written to this end from now on.
func (l *link) hang() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hung = true
}

func (l *link) isHung() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.hung
}

// end notes that nothing more comes from this end.
func (l *link) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closing = true
}

func (l *link) ended() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closing
}

// Write writes to this end. If it hangs, the bytes are dropped, and count as written.
func (l *link) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.hung {
		return len(b), nil
	}
	return l.Conn.Write(b)
}

// copy forwards from l to the other end until l ends, and then closes the other end, unless that hangs.
func (l *link) copy(to *link) {
	_, _ = io.Copy(to, l.Conn)
	l.end()
	if !to.isHung() {
		to.Conn.Close()
	}
}
