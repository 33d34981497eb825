package ledger

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger/internal/pg"
	"github.com/google/go-cmp/cmp"
)

// hanger stands between the ledger and Postgres and stops forwarding without a word: what is sent on the connections that
// there are is taken, and acknowledged, and goes nowhere. New connections work. Neither side is told of the other's end.
type hanger struct {
	net.Listener
	t      *testing.T
	target string
	all    sync.WaitGroup
	hung   atomic.Int32 // how often
	lost   atomic.Int32 // how often a client has said something on a connection that was hung, but that it leaves

	mu    sync.Mutex
	conns []*hangable
	at    []byte // hangs where this is sent; nil: not armed
	skip  int    // how often it is sent before
	after bool   // the server still gets it
}

type hangable struct {
	client, server net.Conn
	dead           atomic.Bool
}

// behind opens the fixture's ledger again behind a hanger.
func behind(t *testing.T, f *fixture, within time.Duration) (*hanger, *fixture) {
	t.Helper()
	u, err := url.Parse(f.cfg.URL.Reveal())
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h := &hanger{Listener: l, t: t, target: u.Host}
	u.Host = l.Addr().String()
	g := &fixture{t: t, cfg: f.cfg}
	g.cfg.URL, g.cfg.TxTimeout = schemas.NewSecret(u.String()), within
	h.all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			h.all.Go(func() { h.serve(c) })
		}
	})
	t.Cleanup(h.end)
	g.l = open(t, g.cfg)
	g.n = g.namespace()
	return h, g
}

// end ends everything: what is still hung, too. A test whose connections never hung has shown nothing.
func (h *hanger) end() {
	h.Close()
	if h.hung.Load() == 0 {
		h.t.Error("no connection hung")
	}
	h.mu.Lock()
	for _, c := range h.conns {
		c.client.Close()
		c.server.Close()
	}
	h.mu.Unlock()
	h.all.Wait()
}

func (h *hanger) serve(client net.Conn) {
	server, err := net.Dial("tcp", h.target)
	if err != nil {
		client.Close()
		return
	}
	c := &hangable{client: client, server: server}
	h.mu.Lock()
	h.conns = append(h.conns, c)
	h.mu.Unlock()
	h.all.Go(func() { h.forward(c, client, server) })
	h.forward(c, server, client)
}

func (h *hanger) forward(c *hangable, to, from net.Conn) {
	buf := make([]byte, 1<<20)
	for {
		n, err := from.Read(buf)
		if n > 0 && c.dead.Load() && from == c.client && buf[0] != 'X' {
			h.lost.Add(1)
		}
		if n > 0 && !c.dead.Load() {
			passes := from == c.client && h.hit(buf[:n])
			if !c.dead.Load() || passes {
				_, _ = to.Write(buf[:n])
			}
		}
		if err != nil {
			if !c.dead.Load() {
				to.Close()
			}
			return
		}
	}
}

// hit hangs all connections that there are where what is sent is what the test waits for, and says whether the server still gets
// that.
func (h *hanger) hit(sent []byte) (passes bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.at == nil || !bytes.Contains(sent, h.at) {
		return false
	}
	if h.skip > 0 {
		h.skip--
		return false
	}
	h.at = nil
	h.hang()
	return h.after
}

func (h *hanger) hang() {
	for _, c := range h.conns {
		c.dead.Store(true)
	}
	h.hung.Add(1)
}

func (h *hanger) hangNow() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.hang()
}

func (h *hanger) arm(at string, skip int, after bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.at, h.skip, h.after = []byte(at), skip, after
}

// However the server is lost, and whatever it has heard: work goes on, on new connections, and what it did is done once. Without deadlines
// none of it would ever go on. In make soak they are what they are by default, and it takes under 30 s.
func TestGoesOnWhenConnectionsHang(t *testing.T) {
	t.Parallel()
	within, soak := 2*time.Second, os.Getenv("FOREBAY_SOAK") != ""
	if soak {
		within = 20 * time.Second
	}
	type scene struct {
		*fixture
		ctx context.Context // ends, so that what waits for ever is told from what is late
		h   *hanger
		c   *Claim
	}
	batch := func(s *scene) error {
		out, err := s.n.Apply(s.ctx, []Slice{slice(s.c, seq(2, "e", 2), seq(3, "x", 1))})
		if err == nil && len(out[0].Actions) != 3 {
			err = fmt.Errorf("%+v", out[0])
		}
		return err
	}
	record := func(s *scene) error {
		_, err := s.n.Record(s.ctx, []Result{{Claim: s.c, LaneSeq: 1, Status: Failed, Attempt: 1, Class: "timeout"}})
		return err
	}
	claim := func(s *scene) error {
		c, err := s.n.Claim(s.ctx, ClaimRequest{Partition: partition(0), Partitions: 8, Confirm: at(0)})
		s.c = c
		return err
	}
	for name, tt := range map[string]struct {
		at    string
		skip  int
		after bool
		now   bool
		idle  time.Duration // hung for so long before anybody wants it
		do    func(*scene) error
	}{
		"after the first round trip": {at: fenceCheck.Name, after: true, do: batch},
		"before COMMIT":              {at: pg.Commit.Name, do: batch},
		"after COMMIT":               {at: pg.Commit.Name, after: true, do: batch},
		"idle":                       {now: true, idle: within/4 + 100*time.Millisecond, do: batch},
		"a result after COMMIT":      {at: pg.Commit.Name, after: true, do: record},
		"a claim that has its fence": {at: "\x00", skip: 9, after: true, do: claim},
		"a claim after COMMIT":       {at: "commit\x00", after: true, do: claim},
		"a claim that asks Kafka": {do: func(s *scene) error {
			asked := 0
			c, err := s.n.Claim(s.ctx, ClaimRequest{Partition: partition(0), Partitions: 8, Confirm: func(ctx context.Context, p *Position) (Start, error) {
				if asked++; asked == 1 {
					s.h.hangNow()
					<-ctx.Done() // as long as Kafka likes
					return Start{}, ctx.Err()
				}
				return Start{Position: *p}, nil
			}})
			s.c = c
			return err
		}},
		"a question": {now: true, do: func(s *scene) error { _, err := TestInbox.List(s.ctx, s.l, "", ""); return err }},
		"readiness":  {now: true, do: func(s *scene) error { return s.l.Ping(s.ctx) }},
		"deadlines":  {at: "-- nextDeadline", do: func(s *scene) error { _, err := s.n.NextDeadline(s.ctx, []*Claim{s.c}); return err }},
		"a release": {at: "released = true", after: true, do: func(s *scene) error {
			if err := s.n.Release(s.ctx, s.c); err != nil {
				return err
			}
			return claim(s)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute+6*within)
			defer cancel()
			s := &scene{ctx: ctx}
			s.h, s.fixture = behind(t, setup(t), within)
			s.claim(7) // its statements are prepared
			s.c = s.claim(0)
			s.apply(s.c, seq(0, "e", 1), seq(1, "e", 3))
			s.idle()
			if tt.now {
				s.h.hangNow()
			} else if tt.at != "" {
				s.h.arm(tt.at, tt.skip, tt.after)
			}
			if tt.idle > 0 {
				<-time.After(tt.idle)
			}
			began := time.Now()
			err := tt.do(s)
			for range 2 { // what is not tried again by itself is asked once more
				if err != nil {
					t.Log(err)
					err = tt.do(s)
				}
			}
			took := time.Since(began)
			if err != nil || s.h.hung.Load() != 1 {
				t.Fatalf("%d hangs: %v", s.h.hung.Load(), err)
			}
			if t.Logf("went on after %s", took); soak && took > 30*time.Second {
				t.Error("that is too long")
			}
			lost := s.h.lost.Load()
			out, err := s.n.Apply(s.ctx, []Slice{slice(s.c, seq(s.c.Next.Offset, "later", 1))})
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff([]string{"0:applied/first"}, decisions(out[0])); d != "" {
				t.Error(d)
			}
			if s.h.lost.Load() != lost {
				t.Error("the next batch met a hung connection")
			}
			if got := one[string](s.fixture, `SELECT count(*) || ' ' || count(DISTINCT event_key) || ' ' || (SELECT count(*) FROM buffer) FROM events`); tt.at == pg.Commit.Name && got != "5 5 0" && got != "3 3 1" {
				t.Error(got)
			}
		})
	}
}

// idle has every pool hold all the connections that it may: each next try could take another hung one.
func (f *fixture) idle() {
	f.t.Helper()
	for _, p := range f.l.db.Pools() {
		for range p.Config().MaxConns {
			conn, err := p.Acquire(f.t.Context())
			if err != nil {
				f.t.Fatal(err)
			}
			defer conn.Release()
		}
	}
}

// The connection that listens says nothing when it hangs, and is made again.
func TestListensAgainWhenItsConnectionHangs(t *testing.T) {
	t.Parallel()
	h, f := behind(t, setup(t), time.Second)
	told := make(chan struct{}, 100)
	stop := f.n.Listen(func() { told <- struct{}{} })
	defer stop()
	<-told // it listens
	h.hangNow()
	select {
	case <-told: // it listens again
	case <-time.After(time.Minute):
		t.Fatal("it never listened again")
	}
}

// A process that ends does not wait for a server that does not answer.
func TestCloseDoesNotWaitForWhatHangs(t *testing.T) {
	t.Parallel()
	h, f := behind(t, setup(t), 12*time.Second)
	c := f.claim(0)
	f.apply(c, seq(0, "e", 1))
	h.arm(fenceCheck.Name, 0, true)
	ctx, cancel := context.WithCancel(t.Context())
	applied := make(chan error, 1)
	go func() { _, err := f.n.Apply(ctx, []Slice{slice(c, seq(1, "e", 2))}); applied <- err }()
	for h.hung.Load() == 0 {
		<-time.After(time.Millisecond)
	}
	f.l.Close()
	if len(applied) > 0 {
		t.Error("it has waited for what hangs")
	}
	cancel()
	if err := <-applied; err == nil {
		t.Error("a batch on a connection that hung was applied")
	}
	f.l.Close() // now it waits for all
}
