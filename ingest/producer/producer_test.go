package producer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"github.com/forebay-io/forebay/ingest"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/record"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	topic = "events.acme.orders"
	aside = "quarantine.acme.orders"
)

var never time.Time // no deadline

func setup(t *testing.T, change func(*Config)) (*Producer, *kfake.Cluster) {
	t.Helper()
	return setupOn(t, 1, change)
}

// setupOn is setup on so many brokers.
func setupOn(t *testing.T, brokers int, change func(*Config)) (*Producer, *kfake.Cluster) {
	t.Helper()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(brokers), kfake.SeedTopics(3, topic, aside))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	c := Config{Brokers: cluster.ListenAddrs(), MaxBody: 1 << 20}
	if change != nil {
		change(&c)
	}
	p, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer cancel()
		_ = p.Close(ctx)
	})
	return p, cluster
}

func event(id string) *schemas.Event {
	return &schemas.Event{ID: id, Source: "/acme/orders", Type: "t", Entity: schemas.NewEntityKey(id), Time: time.Unix(1, 0).UTC(),
		Payload: schemas.Delta, Version: schemas.Version{Kind: schemas.None}, Hash: schemas.HashBody([]byte(id)), Data: []byte(id)}
}

// read gives the n records of a topic, and fails when there are more.
func read(t *testing.T, cluster *kfake.Cluster, topic string, n int) []*kgo.Record {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.ConsumeTopics(topic), kgo.FetchMaxWait(100*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	written := func() (all int64) {
		for partition := range int32(3) {
			all += cluster.PartitionInfo(topic, partition).HighWatermark
		}
		return all
	}
	var records []*kgo.Record
	for len(records) < n || int64(len(records)) < written() {
		if records = append(records, client.PollFetches(ctx).Records()...); ctx.Err() != nil {
			break
		}
	}
	if len(records) != n {
		t.Fatalf("%d records in %s, want %d", len(records), topic, n)
	}
	return records
}

// TestRepublishKeepsTheRecord: a record goes out as it stands, null and empty told apart, to the partition of its key, and says where it is.
func TestRepublishKeepsTheRecord(t *testing.T) {
	t.Parallel()
	p, cluster := setup(t, nil)
	sent := &kgo.Record{Topic: "elsewhere", Partition: 7, Offset: 99, Key: []byte("o-1"), Value: []byte("\x00\xff no event"),
		Headers: []kgo.RecordHeader{{Key: "ce_id", Value: []byte("1")}, {Key: "null"}, {Key: "ce_id", Value: []byte{}}}}
	partition, offset, err := p.Republish(t.Context(), topic, sent)
	if err != nil || partition != record.PartitionOf(sent.Key, 3) || offset != 0 {
		t.Fatalf("%d@%d %v", partition, offset, err)
	}
	if _, offset, err = p.Republish(t.Context(), topic, sent); offset != 1 || err != nil {
		t.Fatalf("once more: %d %v", offset, err)
	}
	for _, r := range read(t, cluster, topic, 2) {
		if string(r.Key) != "o-1" || string(r.Value) != string(sent.Value) || r.Partition != partition {
			t.Errorf("%+v", r)
		}
		if diff := cmp.Diff(sent.Headers, r.Headers); diff != "" {
			t.Error(diff)
		}
	}
	sent.Key = nil
	if _, _, err := p.Republish(t.Context(), topic, sent); schemas.KindOf(err) != schemas.Invalid {
		t.Errorf("without a key: %v", err)
	}
	sent.Key, sent.Value = []byte("o-1"), make([]byte, 3<<20)
	if _, _, err := p.Republish(t.Context(), topic, sent); schemas.KindOf(err) != schemas.TooLarge {
		t.Errorf("too large for its topic: %v", err)
	}
}

// TestProduceAll: of records in order it counts those that are durable from the first on, and says why the next one is not.
func TestProduceAll(t *testing.T) {
	t.Parallel()
	p, cluster := setup(t, nil)
	made := func(ids ...string) (records []*kgo.Record) {
		for _, id := range ids {
			e := event(id)
			e.Entity = "o"
			records = append(records, p.Record(topic, e))
		}
		return records
	}
	if n, err := p.ProduceAll(t.Context(), never, made("1", "2", "3")); n != 3 || err != nil {
		t.Fatal(n, err)
	}
	large := made("4", "5", "6")
	large[1].Value = make([]byte, 2<<20)
	if n, err := p.ProduceAll(t.Context(), never, large); n != 1 || schemas.KindOf(err) != schemas.TooLarge || errors.Is(err, kerr.MessageTooLarge) {
		t.Errorf("%d %v", n, err)
	}
	if n, err := p.ProduceAll(t.Context(), time.Now().Add(-time.Second), made("7")); n != 0 || schemas.KindOf(err) != schemas.Unavailable {
		t.Errorf("%d %v", n, err)
	}
	for i, r := range read(t, cluster, topic, 5) {
		if want := []string{"1", "2", "3", "4", "6"}[i]; record.EventID(r) != want {
			t.Errorf("%s at %d, want %s", record.EventID(r), i, want)
		}
	}
	if n, err := p.ProduceAll(t.Context(), never, []*kgo.Record{p.QuarantineRecord(aside, &ingest.Delivery{Reason: "no_id"})}); n != 1 || err != nil {
		t.Error(n, err)
	}
	if r := read(t, cluster, aside, 1)[0]; r.Key != nil || header(r, headerReason) != "no_id" {
		t.Errorf("%+v", r)
	}
}

func TestAppend(t *testing.T) {
	t.Parallel()
	p, cluster := setup(t, nil)
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			if err := p.Append(t.Context(), never, topic, event(fmt.Sprint(i))); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	partitions := map[string]int32{}
	for _, r := range read(t, cluster, topic, 50) {
		e, err := record.Decode(r)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(event(e.ID), e); diff != "" {
			t.Error(diff)
		}
		partitions[e.ID] = r.Partition
	}
	if err := p.Append(t.Context(), never, topic, event("7")); err != nil {
		t.Fatal(err)
	}
	for _, r := range read(t, cluster, topic, 51) {
		if string(r.Key) == "7" && r.Partition != partitions["7"] {
			t.Error("an entity is in two partitions")
		}
	}
}

// The broker has the record and says so only at the third try: there is one copy.
func TestRetryLeavesOneCopy(t *testing.T) {
	t.Parallel()
	p, cluster := setup(t, nil)
	fault := cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: topic, Err: kerr.NotEnoughReplicasAfterAppend, Count: 2})
	if err := p.Append(t.Context(), never, topic, event("1")); err != nil {
		t.Fatal(err)
	}
	if fault.Hits() != 2 {
		t.Fatalf("%d answers were faults", fault.Hits())
	}
	read(t, cluster, topic, 1)
}

func TestErrors(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		err  *kerr.Error
		want schemas.Kind
	}{
		{"too large", kerr.MessageTooLarge, schemas.TooLarge},
		{"not allowed", kerr.TopicAuthorizationFailed, schemas.Internal},
		{"policy", kerr.PolicyViolation, schemas.Internal},
	} {
		p, cluster := setup(t, nil)
		cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: topic, Err: test.err, Count: -1})
		err := p.Append(t.Context(), never, topic, event("1"))
		if schemas.KindOf(err) != test.want || !errors.Is(err, test.err) || !strings.Contains(err.Error(), "produce to "+topic) {
			t.Errorf("%s: %s, %v", test.name, schemas.KindOf(err), err)
		}
	}
	p, _ := setup(t, nil)
	large := event("1")
	large.Data = make([]byte, 2<<20)
	if err := p.Append(t.Context(), never, topic, large); schemas.KindOf(err) != schemas.TooLarge || errors.Is(err, kerr.MessageTooLarge) {
		t.Errorf("over the batch, which is not the brokers' word: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := p.Append(ctx, never, "events.acme.none", event("1")); schemas.KindOf(err) != schemas.Unavailable || !strings.Contains(err.Error(), "forebay topics apply") && ctx.Err() == nil {
		t.Errorf("no such topic: %v", err)
	}
}

// TestNetworkErrors: a broker that is not reached, or is lost, is no fault of ours, and the provider's next try may find it.
func TestNetworkErrors(t *testing.T) {
	t.Parallel()
	for name, err := range map[string]error{
		"no broker answers":    fmt.Errorf("unable to dial: %w", &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}),
		"no broker has a name": fmt.Errorf("unable to dial: %w", &net.DNSError{Err: "no such host", Name: "b1"}),
		"a lost connection":    io.EOF,
	} {
		if got := mapError(topic, err); schemas.KindOf(got) != schemas.Unavailable || !errors.Is(got, err) {
			t.Errorf("%s: %s, %v", name, schemas.KindOf(got), got)
		}
	}
	if got := mapError(topic, errors.New("a fault")); schemas.KindOf(got) != schemas.Internal {
		t.Errorf("%s, %v", schemas.KindOf(got), got)
	}
}

// A topic that takes less than the largest source gets batches that fit it, however many records wait.
func TestSmallTopicGetsSmallBatches(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	largest := map[string]int{}
	p, cluster := setup(t, func(c *Config) {
		c.TopicMaxBody = func(name string) int64 {
			if name == aside {
				return 1 << 20
			}
			return 100 << 10
		}
		c.Linger = 200 * time.Millisecond
		c.Options = []kgo.Opt{kgo.WithCompressor(nil), kgo.ProducerBatchCompression(kgo.NoCompression())}
	})
	cluster.ControlKey(int16(kmsg.Produce), func(req kmsg.Request) (kmsg.Response, error, bool) {
		mu.Lock()
		defer mu.Unlock()
		for _, rt := range req.(*kmsg.ProduceRequest).Topics {
			for _, rp := range rt.Partitions {
				largest["batch"] = max(largest["batch"], len(rp.Records))
			}
		}
		return nil, nil, false
	})
	var wg sync.WaitGroup
	for range 40 {
		wg.Go(func() {
			e := event("same")
			e.Data = make([]byte, 20<<10)
			if err := p.Append(t.Context(), never, topic, e); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	mu.Lock()
	defer mu.Unlock()
	if b := largest["batch"]; b > 100<<10+Room || b < 40<<10 {
		t.Errorf("the largest batch has %d bytes, want many records within %d", b, 100<<10+Room)
	}
}

// hold makes the cluster silent on produce requests until release.
func hold(cluster *kfake.Cluster) (arrived chan struct{}, release func()) {
	arrived, gate := make(chan struct{}, 100), make(chan struct{})
	cluster.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		arrived <- struct{}{}
		cluster.SleepControl(func() { <-gate })
		return nil, nil, false
	})
	return arrived, sync.OnceFunc(func() { close(gate) })
}

// One caller that gives up takes nobody with it, and its record may land.
func TestContextEndsTheWaitOnly(t *testing.T) {
	t.Parallel()
	p, cluster := setup(t, nil)
	arrived, release := hold(cluster)
	defer release()
	ctx, cancel := context.WithCancelCause(t.Context())
	first, second := make(chan error, 1), make(chan error, 1)
	go func() { first <- p.Append(ctx, never, topic, event("same")) }()
	<-arrived
	go func() { second <- p.Append(t.Context(), never, topic, event("same")) }()
	cause := errors.New("the provider's deadline is near")
	cancel(cause)
	if err := <-first; schemas.KindOf(err) != schemas.Unavailable || !errors.Is(err, cause) {
		t.Errorf("%s, %v", schemas.KindOf(err), err)
	}
	if err := p.Append(ctx, never, topic, event("late")); schemas.KindOf(err) != schemas.Unavailable {
		t.Errorf("a context that is over: %v", err)
	}
	release()
	if err := <-second; err != nil {
		t.Errorf("the second was taken along: %v", err)
	}
	read(t, cluster, topic, 2)
}

// So does the provider's deadline; who comes after it produces nothing.
func TestDeadlineEndsTheWaitOnly(t *testing.T) {
	t.Parallel()
	p, cluster := setup(t, nil)
	arrived, release := hold(cluster)
	defer release()
	begin := time.Now()
	for wait := 200 * time.Millisecond; len(arrived) == 0; wait *= 2 { // in which the record has to arrive, on a busy machine, too
		by := time.Now().Add(wait)
		err := p.Append(t.Context(), by, topic, event("1"))
		if schemas.KindOf(err) != schemas.Unavailable || len(arrived) > 0 && !errors.Is(err, context.DeadlineExceeded) || time.Now().Before(by) {
			t.Errorf("%s, %v", schemas.KindOf(err), err)
		}
	}
	if err := p.Append(t.Context(), begin, topic, event("late")); schemas.KindOf(err) != schemas.Unavailable {
		t.Errorf("a deadline that is over: %v", err)
	}
	waiting := int(p.client.Load().BufferedProduceRecords())
	release()
	if err := p.Append(t.Context(), time.Now().Add(time.Minute), topic, event("2")); err != nil {
		t.Error(err)
	}
	read(t, cluster, topic, waiting+1)
}

// What a call has used is used again by the next one, also beside calls that were given up: no record shows anything of
// another, and no answer is another's.
func TestCallsAreUsedAgain(t *testing.T) {
	t.Parallel()
	p, cluster := setup(t, nil)
	const callers, each = 6, 12
	build := func(id string, n int) *schemas.Event {
		e := event(id)
		for i := range n % 5 {
			e.Headers = append(e.Headers, schemas.Header{Name: fmt.Sprintf("x-%d-%d", n, i), Value: strings.Repeat(id, n)})
		}
		return e
	}
	var produced atomic.Int64
	var acked sync.Map
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			for n := range each {
				by := never
				if n%4 == i%4 {
					by = time.Now().Add(time.Duration(n) * 100 * time.Microsecond)
				}
				id := fmt.Sprintf("%d-%d", i, n)
				switch err := p.Append(t.Context(), by, topic, build(id, n)); {
				case err == nil:
					acked.Store(id, true)
					produced.Add(1)
				case by == never || schemas.KindOf(err) != schemas.Unavailable:
					t.Error(err)
				case strings.Contains(err.Error(), "no answer in time"):
					produced.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if err := p.client.Load().Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, r := range read(t, cluster, topic, int(produced.Load())) {
		e, err := record.Decode(r)
		if err != nil {
			t.Fatal(err)
		}
		var i, n int
		if _, err := fmt.Sscanf(e.ID, "%d-%d", &i, &n); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(build(e.ID, n), e); diff != "" || string(r.Key) != string(e.Entity) {
			t.Errorf("key %s: %s", r.Key, diff)
		}
		acked.Delete(e.ID)
	}
	acked.Range(func(id, _ any) bool { t.Errorf("%s was acked and is not there", id); return true })
}

func TestFullIsThrottledAtOnce(t *testing.T) {
	t.Parallel()
	p, cluster := setup(t, func(c *Config) { c.MaxBody, c.MaxBuffered = 1<<10, 1<<10+Room })
	arrived, release := hold(cluster)
	defer release()
	first := make(chan error, 1)
	large := event("1")
	large.Data = make([]byte, 60<<10)
	go func() { first <- p.Append(t.Context(), never, topic, large) }()
	<-arrived
	again := event("2")
	again.Data = make([]byte, 60<<10)
	if err := p.Append(t.Context(), never, topic, again); schemas.KindOf(err) != schemas.Throttled {
		t.Errorf("%s, %v", schemas.KindOf(err), err)
	}
	release()
	if err := <-first; err != nil {
		t.Error(err)
	}
}

func TestBrokerGone(t *testing.T) {
	t.Parallel()
	p, cluster := setup(t, nil)
	if err := p.Append(t.Context(), never, topic, event("1")); err != nil {
		t.Fatal(err)
	}
	cluster.Close()
	ctx, cancel := context.WithTimeoutCause(t.Context(), 100*time.Millisecond, errors.New("too slow"))
	defer cancel()
	if err := p.Append(ctx, never, topic, event("2")); schemas.KindOf(err) != schemas.Unavailable || !strings.Contains(err.Error(), "too slow") {
		t.Errorf("%s, %v", schemas.KindOf(err), err)
	}
	if _, err := p.Check(ctx, topic); schemas.KindOf(err) != schemas.Unavailable {
		t.Errorf("check: %v", err)
	}
	if err := p.Close(ctx); schemas.KindOf(err) != schemas.Unavailable {
		t.Errorf("close with a record left: %v", err)
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	p, cluster := setup(t, nil)
	check := func(topics ...string) map[string]Trouble {
		t.Helper()
		wrong, err := p.Check(t.Context(), topics...)
		if err != nil {
			t.Fatal(err)
		}
		return wrong
	}
	if wrong := check(topic, aside); len(wrong) > 0 {
		t.Error(wrong)
	}
	const none = "events.acme.none"
	wrong := check(topic, none)
	if got := wrong[none]; len(wrong) != 1 || got.Part || schemas.KindOf(got.Err) != schemas.NotFound || !strings.Contains(got.Err.Error(), "forebay topics apply") {
		t.Error(wrong)
	}
	away := func(partitions ...int32) *kfake.FaultHandle {
		return cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Metadata}, Topic: topic, Partitions: partitions, Err: kerr.LeaderNotAvailable, Count: -1})
	}
	for _, tt := range []struct {
		partitions []int32
		part       bool
		want       string
	}{
		{[]int32{1}, true, "1 of 3 partitions"}, {[]int32{0, 1, 2}, false, "3 of 3 partitions"}, {nil, false, topic},
	} {
		fault := away(tt.partitions...)
		wrong := check(topic, aside)
		fault.Remove()
		if got := wrong[topic]; len(wrong) != 1 || got.Part != tt.part || schemas.KindOf(got.Err) != schemas.Unavailable || !strings.Contains(got.Err.Error(), tt.want) {
			t.Errorf("%v: %v", tt.partitions, wrong)
		}
	}
}

// buffered tells of records that are with the client.
type buffered chan struct{}

func (b buffered) OnProduceRecordPartitioned(*kgo.Record, int32) { b <- struct{}{} }

func TestCloseFlushes(t *testing.T) {
	t.Parallel()
	in := make(buffered, 1)
	p, cluster := setup(t, func(c *Config) { c.Linger, c.Options = 30*time.Second, []kgo.Opt{kgo.WithHooks(in)} })
	done := make(chan error, 2)
	// Two, one after the other: the client tells of a topic's first record before its flush can see the topic.
	for _, id := range []string{"1", "2"} {
		go func() { done <- p.Append(t.Context(), never, topic, event(id)) }()
		<-in
	}
	if err := p.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if err := errors.Join(<-done, <-done); err != nil {
		t.Error(err)
	}
	read(t, cluster, topic, 2)
	if err := p.Append(t.Context(), never, topic, event("3")); schemas.KindOf(err) != schemas.Unavailable {
		t.Errorf("after close: %v", err)
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]Config{
		"no brokers": {}, "body": {Brokers: []string{"x"}, MaxBody: 1 << 30}, "small memory": {Brokers: []string{"x"}, MaxBuffered: 1},
		"linger": {Brokers: []string{"x"}, Linger: -1}, "give up": {Brokers: []string{"x"}, GiveUp: 1},
	} {
		if _, err := New(c); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
