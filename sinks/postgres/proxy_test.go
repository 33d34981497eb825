package postgressink

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
)

// proxy stands between the sink and Postgres and breaks connections between any two statements, also inside a round
// trip. It speaks enough of the protocol to tell statements apart.
type proxy struct {
	net.Listener
	target string
	conns  sync.WaitGroup

	mu   sync.Mutex
	cut  *cut // nil: not armed; it fires once
	cuts int
}

// cut breaks the connection at a statement: before it is passed on, or after the server has executed it, whose answer the
// client never hears.
type cut struct {
	needle string // in the statement; "" is any
	skip   int
	before bool
	then   func() // runs when the server has ended the session, before the client hears of it
}

func newProxy(t testing.TB, target string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{Listener: l, target: target}
	p.conns.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			p.conns.Go(func() { p.serve(c) })
		}
	})
	t.Cleanup(func() { l.Close(); p.conns.Wait() })
	return p
}

func (p *proxy) arm(c *cut) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = c
}

func (p *proxy) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cuts
}

// hit is the cut, if this statement is where it is to be.
func (p *proxy) hit(unit []byte) *cut {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.cut
	if c == nil || !bytes.Contains(unit, []byte(c.needle)) {
		return nil
	}
	if c.skip > 0 {
		c.skip--
		return nil
	}
	p.cut = nil
	p.cuts++
	return c
}

func (p *proxy) serve(client net.Conn) {
	defer client.Close()
	conn, err := net.Dial("tcp", p.target)
	if err != nil {
		return
	}
	server := conn.(*net.TCPConn)
	defer server.Close()
	var mu sync.Mutex
	swallow := false
	ended := make(chan struct{})
	go func() { // what the server says, until it ends the session
		defer close(ended)
		buf := make([]byte, 64<<10)
		for {
			n, err := server.Read(buf)
			mu.Lock()
			quiet := swallow
			mu.Unlock()
			if !quiet && n > 0 {
				_, _ = client.Write(buf[:n])
			}
			if err != nil {
				if !quiet {
					client.Close()
				}
				return
			}
		}
	}()
	defer func() { server.Close(); client.Close(); <-ended }()
	in := bufio.NewReaderSize(client, 64<<10)
	unit, _, err := message(in, nil, true)
	for err == nil {
		if _, err = server.Write(unit); err != nil {
			return
		}
		unit = unit[:0]
		kind := byte('B')
		for err == nil && strings.IndexByte("PBDC", kind) >= 0 {
			unit, kind, err = message(in, unit, false)
		}
		if err != nil || kind != 'E' && kind != 'Q' || bytes.Contains(unit, []byte("-- ping")) {
			continue
		}
		c := p.hit(unit)
		if c == nil {
			continue
		}
		mu.Lock()
		swallow = true
		mu.Unlock()
		if !c.before {
			_, _ = server.Write(unit)
		}
		_ = server.CloseWrite() // the server executes what it has, then sees the end
		<-ended
		if c.then != nil {
			c.then()
		}
		return
	}
}

// message appends one message of a client; the first one of a connection has no type.
func message(in *bufio.Reader, to []byte, first bool) (all []byte, kind byte, err error) {
	at, n := len(to), 5
	if first {
		n = 4
	}
	to = append(to, make([]byte, n)...)
	if _, err = io.ReadFull(in, to[at:]); err != nil {
		return to[:at], 0, err
	}
	size := int(binary.BigEndian.Uint32(to[len(to)-4:])) - 4
	if size < 0 || size > 1<<28 {
		return to[:at], 0, io.ErrUnexpectedEOF
	}
	body := len(to)
	to = append(to, make([]byte, size)...)
	_, err = io.ReadFull(in, to[body:])
	return to, to[at], err
}
