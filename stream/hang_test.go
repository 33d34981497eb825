package stream

import (
	"context"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/stream/ledger"
)

// network is what a subscription's clients dial, and can hang: what is sent is lost, nothing comes, and nobody closes anything.
type network struct {
	mu    sync.Mutex
	deaf  bool // new connections hang, too
	lines []*wire
	ends  sync.WaitGroup
}

func (r *rig) network() *network {
	n := &network{}
	r.T.Cleanup(func() {
		for _, l := range n.lines {
			l.here.Close()
			l.there.Close()
		}
		n.ends.Wait()
	})
	return n
}

func (n *network) dial(ctx context.Context, network, host string) (net.Conn, error) {
	there, err := (&net.Dialer{}).DialContext(ctx, network, host)
	if err != nil {
		return nil, err
	}
	client, here := net.Pipe()
	n.mu.Lock()
	defer n.mu.Unlock()
	l := &wire{here: here, there: there}
	l.hung.Store(n.deaf)
	n.lines = append(n.lines, l)
	n.ends.Go(func() { l.pass(l.there, l.here) })
	n.ends.Go(func() { l.pass(l.here, l.there) })
	return client, nil
}

// hang has the connections that there are hang for good; with all, those that are made until answer as well.
func (n *network) hang(all bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.deaf = all
	for _, l := range n.lines {
		l.hung.Store(true)
	}
}

func (n *network) answer() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.deaf = false
}

type wire struct {
	here, there net.Conn
	hung        atomic.Bool
}

// pass passes on what comes, and the end of it, unless the wire hangs.
func (l *wire) pass(to, from net.Conn) {
	_, _ = io.Copy(passing{l, to}, from)
	if !l.hung.Load() {
		to.Close()
	}
}

type passing struct {
	*wire
	to net.Conn
}

func (p passing) Write(b []byte) (int, error) {
	if p.hung.Load() {
		return len(b), nil
	}
	return p.to.Write(b)
}

// Brokers that take no commit and no leave, and answer nothing, hold up the end no longer than it may take.
func TestEndsWhileBrokersHang(t *testing.T) {
	t.Parallel()
	for name, all := range map[string]bool{"connections": false, "brokers": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, 4)
			net := r.network()
			m, lanes := newMemory(), newLanes()
			cfg := r.config(m, lanes)
			cfg.Client = append(cfg.Client, kgo.Dialer(net.dial))
			cfg.DrainTimeout = 2 * time.Second
			run := r.start(cfg)
			run.untilRunning(t, 4)
			r.Produce(0, 1)
			m.until(t, "the record", func() bool { return len(m.lines) == 1 })
			net.hang(all)
			began := time.Now()
			run.stop(t)
			if took := time.Since(began); took > cfg.DrainTimeout+8*time.Second { // a client waits for an answer for 10 s
				t.Errorf("it took %s to end", took)
			}
			if m.take(m.claims[0].Partition.Number, -1).Unclean {
				t.Error("a fence is not released, although the ledger takes it")
			}
		})
	}
}

// A ledger that answers nothing does not hold it up either.
func TestEndsWhileTheLedgerHangs(t *testing.T) {
	t.Parallel()
	r := newRig(t, 2)
	m, lanes := newMemory(), newLanes()
	hangs := make(chan struct{}, 1)
	m.onApply = func(ctx context.Context, _ []ledger.Slice) error {
		hangs <- struct{}{}
		<-ctx.Done()
		return ctx.Err()
	}
	lanes.onClose = func(ctx context.Context) { <-ctx.Done() }
	cfg := r.config(m, lanes)
	cfg.DrainTimeout = 2 * time.Second
	run := r.start(cfg)
	run.untilRunning(t, 2)
	r.Produce(0, 1)
	<-hangs
	began := time.Now()
	run.stop(t)
	if took := time.Since(began); took > cfg.DrainTimeout+15*time.Second { // a transaction may take 20 s
		t.Errorf("it took %s to end", took)
	}
	defer lanes.lock()()
	if !lanes.has("drop 0") || !lanes.has("close 1") {
		t.Errorf("the transaction is to be cut off in time for the partition that is not in it to be drained: %q", lanes.calls)
	}
}

// Once new connections work, records are read on and positions mirrored within half a minute, whatever the old ones do.
func TestGoesOnAfterBrokersHung(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes the time of requests that are not answered")
	}
	r := newRig(t, 2)
	net := r.network()
	m := newMemory()
	cfg := r.config(m, newLanes())
	cfg.Client, cfg.SessionTimeout = append(cfg.Client, kgo.Dialer(net.dial)), 2*time.Second
	run := r.start(cfg)
	run.untilRunning(t, 2)
	r.Produce(0, 1)
	m.until(t, "the first", func() bool { return len(m.lines) == 1 })
	net.hang(true)
	r.Produce(0, 2)
	r.Produce(1, 3)
	<-time.After(2 * cfg.SessionTimeout) // the group has put the member out, and new connections hang as well
	net.answer()
	m.until(t, "all", func() bool { return len(m.lines) == 3 })
	r.untilCommitted(t, 0, 2)
	m.check(t)
}
