package pgtest

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/forebay-io/forebay/stream/ledger/internal/pg"
)

// Proxy stands between a client and Postgres and breaks connections between any two statements. It speaks enough of
// the protocol to tell them apart: a pipeline is one write of the client, and still breaks in its middle.
type Proxy struct {
	net.Listener
	target string
	Cut    atomic.Pointer[Cut] // nil: not armed. It fires once.
	Cuts   atomic.Int32
	Passed atomic.Int64 // statements, over all connections
	Trips  atomic.Int64 // round trips of statements, over all connections
	conns  sync.WaitGroup

	mu     sync.Mutex
	killed bool
	open   map[net.Conn]bool // of clients
	ports  []int32
}

// Cut breaks the connection at a statement: before it is passed on, or after the server has executed it, whose answer
// the client never hears.
type Cut struct {
	Needle []byte // in the statement's messages; nil: any statement
	Commit bool   // only a COMMIT, however it is sent
	Skip   int    // how many such statements pass first
	Before bool
	// During breaks it while the server executes the statement. What runs meanwhile is the test's to know.
	During bool
	// Fatal is a SQLSTATE with which the client hears the session end, in place of the answer to a pipeline whose last statement this is; with Told
	// behind the answer, in place of ReadyForQuery. Not with Before or During.
	Fatal string
	Told  bool
	// Then runs when the server has ended the session, before the client hears of it; with During, at once.
	Then func()
}

// NewProxy starts a proxy in front of the server at host:port, which ends with the test. A cut that never came fails that.
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{Listener: l, target: target, open: map[net.Conn]bool{}}
	p.conns.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			p.conns.Go(func() { p.serve(c) })
		}
	})
	t.Cleanup(func() {
		p.Close()
		p.conns.Wait()
		if c := p.Cut.Load(); c != nil && !p.killed {
			t.Errorf("a connection was to be cut at %q, and that was never sent", c.Needle)
		}
	})
	return p
}

// Ports are those by which the server knows its connections.
func (p *Proxy) Ports() []int32 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.ports)
}

// Kill ends every connection for good, as the end of the client's process would.
func (p *Proxy) Kill() {
	p.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.killed = true
	for c := range p.open {
		c.Close()
	}
}

// enter notes a connection; false: there are none any more.
func (p *Proxy) enter(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.killed {
		p.open[c] = true
	}
	return !p.killed
}

func (p *Proxy) leave(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.open, c)
}

func (p *Proxy) serve(client net.Conn) {
	defer client.Close()
	if !p.enter(client) {
		return
	}
	defer p.leave(client)
	server, err := net.Dial("tcp", p.target)
	if err != nil {
		return
	}
	defer server.Close()
	p.mu.Lock()
	p.ports = append(p.ports, int32(server.LocalAddr().(*net.TCPAddr).Port))
	p.mu.Unlock()
	var swallow swallow
	done := make(chan struct{})
	go func() {
		defer close(done)
		answers(client, server, &swallow)
	}()
	p.statements(client, server.(*net.TCPConn), &swallow, done)
	server.Close()
	client.Close()
	<-done
}

// swallow is whether the client hears no more, and then what it does not hear.
type swallow struct {
	atomic.Bool
	unheard []byte
}

// answer is what the client hears of a cut with Fatal.
func (c *Cut) answer(unheard []byte) (heard []byte) {
	if ready := len(unheard) - 6; c.Told && ready > 0 { // ReadyForQuery is the last, and has 6 bytes
		heard = unheard[:ready]
	}
	heard, _ = (&pgproto3.ErrorResponse{Severity: "FATAL", SeverityUnlocalized: "FATAL", Code: c.Fatal, Message: "the session ends"}).Encode(heard)
	return heard
}

// answers passes on what the server says until it ends the session.
func answers(client, server net.Conn, swallow *swallow) {
	buf := make([]byte, 64<<10)
	for {
		n, err := server.Read(buf)
		if err != nil {
			if !swallow.Load() {
				client.Close()
			}
			return
		}
		if swallow.Load() {
			swallow.unheard = append(swallow.unheard, buf[:n]...)
			continue
		}
		if _, err := client.Write(buf[:n]); err != nil && !swallow.Load() {
			return
		}
	}
}

// statements passes on what the client says, a statement at a time, up to the cut.
func (p *Proxy) statements(client net.Conn, server *net.TCPConn, swallow *swallow, done chan struct{}) {
	in := bufio.NewReaderSize(client, 64<<10)
	unit, _, err := message(in, nil, true)
	for err == nil {
		if _, err = server.Write(unit); err != nil {
			return
		}
		var kind byte
		unit = unit[:0]
		for kind = 'B'; err == nil && strings.IndexByte("PBDC", kind) >= 0; {
			unit, kind, err = message(in, unit, false)
		}
		if err == nil && (kind == 'S' || kind == 'Q') {
			p.Trips.Add(1)
		}
		if err != nil || kind != 'E' && kind != 'Q' || bytes.Contains(unit, []byte("-- ping\x00")) {
			continue
		}
		c := p.hit(unit)
		if c == nil {
			p.Passed.Add(1)
			continue
		}
		swallow.Store(true)
		if c.Fatal != "" {
			unit, _ = (&pgproto3.Sync{}).Encode(unit) // has the server answer
		}
		if !c.Before {
			_, _ = server.Write(unit)
		}
		_ = server.CloseWrite() // the server executes what it has, then sees the end
		if c.During {
			client.Close()
			c.Then()
			<-done
			return
		}
		<-done
		if c.Fatal != "" {
			_, _ = client.Write(c.answer(swallow.unheard))
		}
		if c.Then != nil {
			c.Then()
		}
		return
	}
}

// hit is the cut, if this statement is where it is to be.
func (p *Proxy) hit(unit []byte) *Cut {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.Cut.Load()
	if c == nil || !bytes.Contains(unit, c.Needle) || c.Commit && !isCommit(unit) {
		return nil
	}
	if c.Skip > 0 {
		c.Skip--
		return nil
	}
	p.Cut.Store(nil)
	p.Cuts.Add(1)
	return c
}

func isCommit(unit []byte) bool {
	return bytes.Contains(unit, []byte(pg.Commit.Name)) || bytes.Contains(unit, []byte("commit\x00"))
}

// message appends one message of a client; the first one of a connection has no type.
func message(in *bufio.Reader, to []byte, first bool) (all []byte, kind byte, err error) {
	at := len(to)
	n := 5
	if first {
		n = 4
	}
	to = append(to, make([]byte, n)...)
	if _, err = io.ReadFull(in, to[at:]); err != nil {
		return to[:at], 0, err
	}
	size := int(binary.BigEndian.Uint32(to[len(to)-4:])) - 4
	if size < 0 || size > 1<<28 {
		return to[:at], 0, fmt.Errorf("a message of %d bytes", size)
	}
	body := len(to)
	to = append(to, make([]byte, size)...)
	_, err = io.ReadFull(in, to[body:])
	return to, to[at], err
}
