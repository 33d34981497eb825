package ledger

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger/internal/pg"
)

// proxy stands between the ledger and Postgres and breaks connections between any two statements. It speaks enough of
// the protocol to tell them apart: a pipeline is one write of the client, and still breaks in its middle.
type proxy struct {
	net.Listener
	target string
	cut    atomic.Pointer[cut] // nil: not armed. It fires once.
	cuts   atomic.Int32
	passed atomic.Int64 // statements, over all connections
	conns  sync.WaitGroup

	mu     sync.Mutex
	killed bool
	open   map[net.Conn]bool // of clients
	ports  []int32           // by which the server knows its connections
}

// cut breaks the connection at a statement: before it is passed on, or after the server has executed it, whose answer
// the client never hears.
type cut struct {
	needle []byte // in the statement's messages; nil: any statement
	commit bool   // only a COMMIT, however it is sent
	skip   int    // how many such statements pass first
	before bool
	// during breaks it while the server executes the statement. What runs meanwhile is the test's to know.
	during bool
	// then runs when the server has ended the session, before the client hears of it; with during, at once.
	then func()
}

func newProxy(t testing.TB, target string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{Listener: l, target: target, open: map[net.Conn]bool{}}
	p.conns.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			p.conns.Go(func() { p.serve(c) })
		}
	})
	return p
}

// kill ends every connection for good, as the end of the client's process would.
func (p *proxy) kill() {
	p.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.killed = true
	for c := range p.open {
		c.Close()
	}
}

// enter notes a connection; false: there are none any more.
func (p *proxy) enter(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.killed {
		p.open[c] = true
	}
	return !p.killed
}

func (p *proxy) leave(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.open, c)
}

func (p *proxy) serve(client net.Conn) {
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
	var swallow atomic.Bool
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

// answers passes on what the server says until it ends the session.
func answers(client, server net.Conn, swallow *atomic.Bool) {
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
			continue
		}
		if _, err := client.Write(buf[:n]); err != nil && !swallow.Load() {
			return
		}
	}
}

// statements passes on what the client says, a statement at a time, up to the cut.
func (p *proxy) statements(client net.Conn, server *net.TCPConn, swallow *atomic.Bool, done chan struct{}) {
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
		if err != nil || kind != 'E' && kind != 'Q' || bytes.Contains(unit, []byte("-- ping\x00")) {
			continue
		}
		c := p.hit(unit)
		if c == nil {
			p.passed.Add(1)
			continue
		}
		swallow.Store(true)
		if !c.before {
			_, _ = server.Write(unit)
		}
		_ = server.CloseWrite() // the server executes what it has, then sees the end
		if c.during {
			client.Close()
			c.then()
			<-done
			return
		}
		<-done
		if c.then != nil {
			c.then()
		}
		return
	}
}

// hit is the cut, if this statement is where it is to be.
func (p *proxy) hit(unit []byte) *cut {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.cut.Load()
	if c == nil || !bytes.Contains(unit, c.needle) || c.commit && !isCommit(unit) {
		return nil
	}
	if c.skip > 0 {
		c.skip--
		return nil
	}
	p.cut.Store(nil)
	p.cuts.Add(1)
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

// throughProxy opens the fixture's ledger again behind a proxy.
func throughProxy(t testing.TB, f *fixture, change ...func(*Spec)) (*proxy, *fixture) {
	t.Helper()
	u, err := url.Parse(databaseURL(t))
	if err != nil {
		t.Fatal(err)
	}
	p := newProxy(t, u.Host)
	u.Host = p.Addr().String()
	q := u.Query()
	q.Set("sslmode", "disable")
	u.RawQuery = q.Encode()
	g := &fixture{t: t, cfg: f.cfg}
	g.cfg.URL = schemas.NewSecret(u.String())
	t.Cleanup(func() {
		p.Close()
		p.conns.Wait()
		if c := p.cut.Load(); c != nil && !p.killed {
			t.Errorf("a connection was to be cut at %q, and that was never sent", c.needle)
		}
	})
	g.l = open(t, g.cfg)
	g.n = g.namespace(change...)
	return p, g
}

// The connection breaks while COMMIT is on its way. Whether the server got it or not, the batch is applied once, and
// the caller gets the same answer.
func TestConnectionCutAtCommit(t *testing.T) {
	t.Parallel()
	for _, before := range []bool{true, false} {
		t.Run(fmt.Sprintf("before=%t", before), func(t *testing.T) {
			t.Parallel()
			f := setup(t)
			p, g := throughProxy(t, f)
			c := g.claim(0)
			g.apply(c, seq(0, "e", 1), seq(1, "e", 3)) // every statement is prepared now
			p.cut.Store(&cut{needle: []byte(pg.Commit.Name), before: before})
			a := g.apply(c, seq(2, "e", 2), seq(3, "x", 1))
			if p.cuts.Load() != 1 {
				t.Fatal("the proxy did not cut")
			}
			if got := strings.Join(lanes(a.Actions), " "); got != "2:e-2:run 3:e-3:run 4:x-1:run" {
				t.Error(got)
			}
			if string(a.Actions[1].Packed) != "packed e-3" {
				t.Errorf("payload %q", a.Actions[1].Packed)
			}
			got := one[string](f, `SELECT concat_ws(' ', (SELECT count(*) FROM events), (SELECT sum(actions) FROM events), (SELECT count(*) FROM buffer),
				(SELECT next_offset FROM progress), (SELECT next_lane_seq FROM progress))`)
			if got != "4 4 0 4 5" {
				t.Error(got)
			}
			if a = g.apply(c, seq(4, "e", 4)); a.Outcomes[0].Decision != "applied" {
				t.Error(decisions(a))
			}
		})
	}
}

// The same for an expiry, which moves no offset to tell by.
func TestConnectionCutAtCommitOfExpire(t *testing.T) {
	t.Parallel()
	f := setup(t)
	p, g := throughProxy(t, f)
	c := g.claim(0)
	g.apply(c, seq(0, "e", 1), seq(1, "e", 3), seq(2, "x", 1), seq(3, "x", 3))
	g.overdue()
	p.cut.Store(&cut{needle: []byte(pg.Commit.Name)})
	a, err := g.n.Expire(t.Context(), c)
	if err != nil || p.cuts.Load() != 1 {
		t.Fatal(p.cuts.Load(), err)
	}
	if got := strings.Join(lanes(a.Actions), " "); got != "3:e-3:run 4:x-3:run" {
		t.Error(got)
	}
	if got := one[int](f, `SELECT sum(actions) FROM events`); got != 4 {
		t.Errorf("%d actions", got)
	}
}

func TestConnectionCutAtRecordAndClaim(t *testing.T) {
	t.Parallel()
	f := setup(t)
	p, g := throughProxy(t, f)
	c := g.claim(0)
	g.apply(c, seq(0, "e", 1))
	if _, err := g.n.Record(t.Context(), []Result{{Claim: c, LaneSeq: 1, Status: Failed, Attempt: 1, Class: "timeout"}}); err != nil {
		t.Fatal(err)
	}
	p.cut.Store(&cut{needle: []byte(pg.Commit.Name)})
	if _, err := g.n.Record(t.Context(), []Result{{Claim: c, LaneSeq: 1, Status: Failed, Attempt: 2, Class: "timeout"}}); err != nil {
		t.Fatal(err)
	}
	if got := one[string](f, `SELECT (SELECT attempts FROM actions) || ' ' || (SELECT count(*) FROM attempts)`); got != "2 2" {
		t.Error(got)
	}
	p.cut.Store(&cut{needle: []byte("commit\x00")})
	if got := g.claim(0); got.Epoch != 2 {
		t.Errorf("epoch %d", got.Epoch)
	}
	if p.cuts.Load() != 2 {
		t.Errorf("%d cuts", p.cuts.Load())
	}
}
