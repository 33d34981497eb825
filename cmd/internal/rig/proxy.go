package rig

import (
	"io"
	"net"
	"sync"
)

// Proxy stands between processes and one server, and can hang: it stops passing things on and closes nothing, as a
// network does that has lost its way without a word. Nobody hears of a reset, and the server keeps what it holds.
type Proxy struct {
	listener net.Listener
	target   string
	pass     func(client, server *link) // passes on what one connection has to say
	ends     sync.WaitGroup

	mu   sync.Mutex
	deaf bool // new connections hang, too
	open map[net.Conn]*link
	over bool
}

// HangingProxy starts a proxy in front of a server that is at host:port.
func HangingProxy(t T, target string) *Proxy {
	t.Helper()
	return startProxy(t, target, func(client, server *link) {
		var both sync.WaitGroup
		both.Go(func() { client.copy(server) })
		server.copy(client)
		both.Wait()
	})
}

func startProxy(t T, target string, pass func(client, server *link)) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{listener: l, target: target, pass: pass, open: map[net.Conn]*link{}}
	p.ends.Go(p.accept)
	t.Cleanup(p.close)
	return p
}

// Addr returns where processes find the server.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Hang has the connections that there are hear nothing any more, for good. New ones work.
func (p *Proxy) Hang() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.open {
		l.hang()
	}
}

// HangAll is Hang, and new connections are taken and hear nothing, until Answer.
func (p *Proxy) HangAll() {
	p.mu.Lock()
	p.deaf = true
	p.mu.Unlock()
	p.Hang()
}

// Answer has new connections work again. Those that hang stay as they are.
func (p *Proxy) Answer() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.deaf = false
}

// Hanging returns how many connections of clients that have not been closed hang.
func (p *Proxy) Hanging() (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.open {
		if l.client && !l.ended() && l.isHung() {
			n++
		}
	}
	return n
}

func (p *Proxy) close() {
	p.listener.Close()
	p.mu.Lock()
	p.over = true
	for c := range p.open {
		c.Close()
	}
	p.mu.Unlock()
	p.ends.Wait()
}

func (p *Proxy) accept() {
	for {
		c, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.ends.Go(func() { p.serve(c) })
	}
}

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
	if server.isHung() { // whose client's end it never hears of
		_, _ = io.Copy(io.Discard, s)
	}
	p.leave(server)
}

// enter registers one end of a connection. It closes the connection and returns nil if the proxy is closed.
func (p *Proxy) enter(c net.Conn, client bool) *link {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over {
		c.Close()
		return nil
	}
	l := &link{Conn: c, client: client, hung: p.deaf}
	p.open[c] = l
	return l
}

func (p *Proxy) leave(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.open, l.Conn)
	l.Close()
}

// link is one end of a connection through the proxy.
type link struct {
	net.Conn
	client bool // the end at which the client is

	mu   sync.Mutex
	hung bool
	over bool // nothing comes from it any more
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

func (l *link) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over = true
}

func (l *link) ended() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.over
}

// Write drops the bytes if the link hangs.
func (l *link) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.hung {
		return len(b), nil
	}
	return l.Conn.Write(b)
}

// copy copies from l to the other end until l ends, and then closes the other end, unless that hangs.
func (l *link) copy(to *link) {
	_, _ = io.Copy(to, l.Conn)
	l.end()
	if !to.isHung() {
		to.Conn.Close()
	}
}
