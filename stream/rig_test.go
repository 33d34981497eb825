package stream

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/stream/internal/streamtest"
	"github.com/forebay-io/forebay/stream/owner"
	"github.com/forebay-io/forebay/stream/reader"
)

const (
	testTopic = streamtest.Topic
	testGroup = streamtest.Group
	patience  = streamtest.Patience
)

var (
	event    = streamtest.Event
	entityIn = streamtest.EntityIn
	placed   = streamtest.Placed
	counter  = streamtest.Counter
)

// rig is brokers, and what a test of a subscription does with them.
type rig struct{ *streamtest.Rig }

func newRig(t *testing.T, partitions int32, opts ...kfake.Opt) *rig {
	t.Helper()
	return &rig{streamtest.NewRig(t, partitions, opts...)}
}

// marker is the metadata of our own commit of a position.
func (r *rig) marker(at int64) string {
	id := r.TopicID()
	return fmt.Sprintf("fb1:%s:0:%x:%d", testGroup, id[:], at)
}

func (r *rig) payloads(opts ...func(*reader.PayloadsConfig)) *reader.LogPayloads {
	r.T.Helper()
	cfg := reader.PayloadsConfig{Client: []kgo.Opt{r.Seed()}, LostAfter: 300 * time.Millisecond}
	for _, o := range opts {
		o(&cfg)
	}
	l, err := reader.NewPayloads(cfg)
	if err != nil {
		r.T.Fatal(err)
	}
	r.T.Cleanup(l.Close)
	return l
}

// running is a Subscription whose Run runs.
type running struct {
	*Subscription
	cancel context.CancelFunc
	done   chan error
}

// setup is a subscription and the lanes that it runs with.
type setup struct {
	Config
	lanes Lanes
}

func (r *rig) config(l Ledger, lanes Lanes) setup {
	return setup{lanes: lanes, Config: Config{
		Group: testGroup, Topics: []string{testTopic}, Client: []kgo.Opt{r.Seed()}, Begin: owner.Begin{All: true},
		Ledger: l, Registerer: prometheus.NewRegistry(), Logger: slog.New(slog.NewTextHandler(testLog{r.T}, nil)),
		SessionTimeout: 15 * time.Second, HeartbeatInterval: 100 * time.Millisecond, RebalanceTimeout: 10 * time.Second,
		MirrorInterval: 20 * time.Millisecond, GapSweep: 200 * time.Millisecond, DrainTimeout: 5 * time.Second,
	}}
}

// testLog shows the log of a failing test.
type testLog struct{ t *testing.T }

func (l testLog) Write(b []byte) (int, error) { l.t.Log(string(b[:len(b)-1])); return len(b), nil }

func (r *rig) start(cfg setup) *running {
	r.T.Helper()
	s, err := New(cfg.Config)
	if err != nil {
		r.T.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	run := &running{Subscription: s, cancel: cancel, done: make(chan error, 1)}
	go func() { run.done <- s.Run(ctx, cfg.lanes); close(run.done) }()
	r.T.Cleanup(func() { run.stop(r.T) })
	return run
}

func (r *running) stop(t *testing.T) {
	t.Helper()
	r.cancel()
	select {
	case err := <-r.done:
		if err != nil {
			t.Errorf("run: %v", err)
		}
	case <-time.After(patience):
		t.Error("run does not end")
	}
}

// until waits for a subscription's partitions to be as a test wants them. They are polled: production code has no
// signal for it.
func (r *running) until(t *testing.T, what string, ok func(parts []owner.PartitionState) bool) []owner.PartitionState {
	t.Helper()
	var parts []owner.PartitionState
	if !streamtest.Until(func() bool { parts = r.Partitions(); return ok(parts) }) {
		t.Fatalf("never came: %s: %+v", what, parts)
	}
	return parts
}

func (r *running) untilRunning(t *testing.T, n int) {
	t.Helper()
	r.until(t, "running partitions", func(parts []owner.PartitionState) bool {
		return len(parts) == n && !slices.ContainsFunc(parts, func(p owner.PartitionState) bool { return p.State != owner.Running })
	})
}

// untilReady waits for the group to confirm the member, which may come after its first records.
func (r *running) untilReady(t *testing.T) {
	t.Helper()
	var err error
	if !streamtest.Until(func() bool { err = r.Ready(); return err == nil }) {
		t.Errorf("not ready: %v", err)
	}
}

func (r *running) untilStopped(t *testing.T, number int32) []owner.PartitionState {
	t.Helper()
	return r.until(t, "a stopped partition", func(parts []owner.PartitionState) bool {
		return slices.ContainsFunc(parts, func(p owner.PartitionState) bool { return p.Partition == number && p.State == owner.Stopped })
	})
}
