package stream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/record"
	"github.com/forebay-io/forebay/stream/ledger"
)

const (
	testTopic = "events.acme.orders"
	testGroup = "acme.triage"
	patience  = 30 * time.Second // how long a test waits for what must come
)

// rig is a broker in this process and what a test needs around it.
type rig struct {
	t       *testing.T
	cluster *kfake.Cluster
	client  *kgo.Client
	adm     *kadm.Client
	parts   int32  // of testTopic
	group   string // whose positions commit and committed are about
}

func newRig(t *testing.T, partitions int32, opts ...kfake.Opt) *rig {
	t.Helper()
	c, err := kfake.NewCluster(append(opts, kfake.NumBrokers(2), kfake.SeedTopics(partitions, testTopic),
		kfake.GroupMinSessionTimeout(time.Millisecond))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	r := &rig{t: t, cluster: c, parts: partitions, group: testGroup}
	r.client = r.newClient(kgo.RecordPartitioner(kgo.ManualPartitioner()))
	r.adm = kadm.NewClient(r.client)
	return r
}

func (r *rig) seed() kgo.Opt { return kgo.SeedBrokers(r.cluster.ListenAddrs()...) }

func (r *rig) newClient(opts ...kgo.Opt) *kgo.Client {
	r.t.Helper()
	cl, err := kgo.NewClient(append(opts, r.seed())...)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(cl.Close)
	return cl
}

func (r *rig) ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	r.t.Cleanup(cancel)
	return ctx
}

func event(i int) *schemas.Event {
	body := []byte(fmt.Sprintf(`{"n":%d}`, i))
	now := time.Unix(1_700_000_000, 0).UTC()
	return &schemas.Event{
		ID: fmt.Sprintf("e%d", i), Source: "/acme/orders", Type: "com.example.order.changed", Entity: "order/1",
		Time: now, RecordedTime: now, DataContentType: "application/json", Version: schemas.Version{Kind: schemas.None},
		Payload: schemas.Snapshot, Hash: schemas.HashBody(body), Data: body,
	}
}

func (r *rig) produce(partition int32, ids ...int) {
	r.t.Helper()
	for _, i := range ids {
		e := event(i)
		e.Entity = entityIn(partition, r.parts)
		rec := record.Encode(testTopic, e)
		rec.Partition = partition
		r.send(rec)
	}
}

// entityIn is an entity whose events belong in a partition; event's own where there is only one.
func entityIn(partition, parts int32) schemas.EntityKey {
	for n := 1; ; n++ {
		if e := fmt.Sprintf("order/%d", n); record.PartitionOf([]byte(e), parts) == partition {
			return schemas.EntityKey(e)
		}
	}
}

func (r *rig) send(recs ...*kgo.Record) {
	r.t.Helper()
	if err := r.client.ProduceSync(r.ctx(), recs...).FirstErr(); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) topicID() ledger.TopicID { return r.cluster.TopicInfo(testTopic).TopicID }

// commit sets the group's position as an operator's tool does: outside of any member, without metadata.
func (r *rig) commit(partition int32, at int64, metadata string) {
	r.t.Helper()
	var o kadm.Offsets
	o.Add(kadm.Offset{Topic: testTopic, Partition: partition, At: at, LeaderEpoch: -1, Metadata: metadata})
	if err := r.adm.CommitAllOffsets(r.ctx(), r.group, o); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) committed(partition int32) (kadm.OffsetResponse, bool) {
	r.t.Helper()
	all, err := r.adm.FetchOffsets(r.ctx(), r.group)
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
		r.t.Fatal(err)
	}
	at, ok := all.Lookup(testTopic, partition)
	return at, ok && at.At >= 0
}

// running is a Subscription whose Run runs.
type running struct {
	*Subscription
	cancel context.CancelFunc
	done   chan error
}

func (r *rig) config(l Ledger, lanes Lanes) Config {
	return Config{
		Group: testGroup, Topics: []string{testTopic}, Client: []kgo.Opt{r.seed()}, Begin: Begin{All: true},
		Ledger: l, Lanes: lanes, Registerer: prometheus.NewRegistry(), Logger: slog.New(slog.NewTextHandler(testLog{r.t}, nil)),
		SessionTimeout: 6 * time.Second, HeartbeatInterval: 100 * time.Millisecond, RebalanceTimeout: 10 * time.Second,
		MirrorInterval: 20 * time.Millisecond, GapSweep: 200 * time.Millisecond, DrainTimeout: 5 * time.Second,
	}
}

// testLog shows the log of a failing test.
type testLog struct{ t *testing.T }

func (l testLog) Write(b []byte) (int, error) { l.t.Log(string(b[:len(b)-1])); return len(b), nil }

func (r *rig) start(cfg Config) *running {
	r.t.Helper()
	s, err := New(cfg)
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	run := &running{Subscription: s, cancel: cancel, done: make(chan error, 1)}
	go func() { run.done <- s.Run(ctx); close(run.done) }()
	r.t.Cleanup(func() { run.stop(r.t) })
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

// stamp produces event i with an append time of its own.
func (r *rig) stamp(i int) {
	rec := record.Encode(testTopic, event(i))
	rec.Timestamp = r.appendTime(i)
	r.send(rec)
}

func (r *rig) appendTime(i int) time.Time {
	return time.Now().Truncate(24 * time.Hour).Add(time.Duration(i) * time.Minute)
}

// onMetadata tells asked of every question for a topic.
func (r *rig) onMetadata(topic string, asked chan<- struct{}) {
	r.cluster.ControlKey(int16(kmsg.Metadata), func(req kmsg.Request) (kmsg.Response, error, bool) {
		r.cluster.KeepControl()
		for _, t := range req.(*kmsg.MetadataRequest).Topics {
			if t.Topic != nil && *t.Topic == topic {
				select {
				case asked <- struct{}{}:
				default:
				}
			}
		}
		return nil, nil, false
	})
}

// until waits for a subscription's partitions to be as a test wants them. They are polled: production code has no
// signal for it.
func (r *running) until(t *testing.T, what string, ok func(parts []PartitionState) bool) []PartitionState {
	t.Helper()
	limit := time.After(patience)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		parts := r.Partitions()
		if ok(parts) {
			return parts
		}
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("never came: %s: %+v", what, parts)
		}
	}
}

func (r *running) untilRunning(t *testing.T, n int) {
	t.Helper()
	r.until(t, "running partitions", func(parts []PartitionState) bool {
		return len(parts) == n && !slices.ContainsFunc(parts, func(p PartitionState) bool { return p.State != Running })
	})
}

func (r *running) untilStopped(t *testing.T, number int32) []PartitionState {
	t.Helper()
	return r.until(t, "a stopped partition", func(parts []PartitionState) bool {
		return slices.ContainsFunc(parts, func(p PartitionState) bool { return p.Partition == number && p.State == Stopped })
	})
}

// counter is the sum over a counter's labels.
func counter(t *testing.T, reg *prometheus.Registry, name string) (sum float64) {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			for _, m := range f.GetMetric() {
				sum += m.GetCounter().GetValue()
			}
		}
	}
	return sum
}
