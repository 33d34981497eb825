package ledger

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/forebay-io/forebay/schemas"
)

// proxy stands between the ledger and Postgres and cuts connections at a chosen message.
type proxy struct {
	net.Listener
	target string
	// cut says before or after which client message the connection breaks; unarmed when nil. It fires once.
	cut   atomic.Pointer[cut]
	cuts  atomic.Int32
	conns sync.WaitGroup
}

// cut breaks the connection at a chunk from the client that contains needle: before it is passed on, or after the
// server has answered it (whose answer is swallowed).
type cut struct {
	needle []byte
	before bool
}

func newProxy(t *testing.T, target string) *proxy {
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
	return p
}

func (p *proxy) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", p.target)
	if err != nil {
		return
	}
	defer server.Close()
	var swallow atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer client.Close()
		buf := make([]byte, 64<<10)
		for {
			n, err := server.Read(buf)
			if swallow.Load() {
				return // the server has answered, the client never hears it
			}
			if err != nil {
				return
			}
			if _, err := client.Write(buf[:n]); err != nil {
				return
			}
		}
	}()
	buf := make([]byte, 1<<20)
	for {
		n, err := client.Read(buf)
		if err != nil {
			break
		}
		c := p.cut.Load()
		hit := c != nil && bytes.Contains(buf[:n], c.needle) && p.cut.CompareAndSwap(c, nil)
		if hit {
			p.cuts.Add(1)
			if c.before {
				break
			}
			swallow.Store(true)
		}
		if _, err := io.Copy(server, bytes.NewReader(buf[:n])); err != nil {
			break
		}
		if hit {
			<-done // the server has executed it
			return
		}
	}
	server.Close()
	<-done
}

// throughProxy opens the fixture's ledger again behind a proxy.
func throughProxy(t *testing.T, f *fixture) (*proxy, *fixture) {
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
	})
	g.l = open(t, g.cfg)
	g.n = g.namespace()
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
			p.cut.Store(&cut{needle: []byte(commit.name), before: before})
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
	p.cut.Store(&cut{needle: []byte(commit.name)})
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
	p.cut.Store(&cut{needle: []byte(commit.name)})
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
