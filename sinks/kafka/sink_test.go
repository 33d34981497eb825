package kafkasink

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/record"
	"github.com/forebay-io/forebay/sinks/template"
	"github.com/forebay-io/forebay/stream/sink"
	"github.com/forebay-io/forebay/stream/sink/sinktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const topic = "acme.projection"

func newCluster(t testing.TB) *kfake.Cluster {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(3, topic))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func params(t testing.TB, key string) *template.Set {
	t.Helper()
	given := map[string]any{}
	if key != "" {
		given["key"] = key
	}
	set, err := template.NewSet(Params(), given, nil)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func must(t testing.TB, c *kfake.Cluster, change func(*Config), more ...kgo.Opt) *Sink {
	t.Helper()
	cfg := Config{Client: append([]kgo.Opt{kgo.SeedBrokers(c.ListenAddrs()...)}, more...), Topic: topic, Params: params(t, ""), Timeout: time.Minute}
	if change != nil {
		change(&cfg)
	}
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close(context.Background()) })
	return s
}

// landed is everything in the topic, in the order of partitions and offsets.
func landed(t testing.TB, c *kfake.Cluster) (records []*kgo.Record) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var want int64
	for p := range int32(3) {
		want += c.PartitionInfo(topic, p).HighWatermark
	}
	for int64(len(records)) < want {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		records = append(records, fetches.Records()...)
	}
	return records
}

func header(r *kgo.Record, name string) string {
	for _, h := range r.Headers {
		if h.Key == name {
			return string(h.Value)
		}
	}
	return ""
}

func TestConformance(t *testing.T) {
	sinktest.Run(t, sinktest.Harness{Make: func(t testing.TB, _ sinktest.Target) sink.Sink { return must(t, newCluster(t), nil) }})
}

func TestRecord(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	a := sinktest.Action(7)
	a.Late = true
	a.Event.Data = []byte("{\"raw\" :  1.0, \"customer\": {\"id\": 12}}\r\n")
	a.Event.TraceState = "vendor=1"
	a.Event.Headers = []schemas.Header{{Name: "x-github-event", Value: "issues"}}
	for _, key := range []string{"", "customer-{{body.customer.id}}", "{{null}}", "{{''}}"} {
		out, err := must(t, c, func(cfg *Config) { cfg.Params = params(t, key) }).Do(t.Context(), a)
		if err != nil || !strings.HasPrefix(string(out.Response), topic+"/") {
			t.Fatalf("%s: %v", out.Response, err)
		}
	}
	all := landed(t, c)
	if len(all) != 4 {
		t.Fatalf("%d records", len(all))
	}
	var keys []string
	for _, r := range all {
		keys = append(keys, string(r.Key))
		if got := header(r, "ce_partitionkey"); got != string(r.Key) {
			t.Errorf("key %s, ce_partitionkey %s", r.Key, got)
		}
	}
	slices.Sort(keys)
	if diff := cmp.Diff([]string{"customer-12", "orders/7", "orders/7", "orders/7"}, keys); diff != "" {
		t.Errorf("keys:\n%s", diff)
	}
	r := all[slices.IndexFunc(all, func(r *kgo.Record) bool { return string(r.Key) == "orders/7" })]
	if string(r.Value) != string(a.Event.Data) {
		t.Errorf("value %q is not the provider's body", r.Value)
	}
	got := map[string]string{}
	for _, h := range r.Headers {
		got[h.Key] = string(h.Value)
	}
	parent := got["traceparent"]
	if !strings.HasPrefix(parent, a.Event.TraceParent[:36]) || parent == a.Event.TraceParent {
		t.Errorf("traceparent %s is no child of %s", parent, a.Event.TraceParent)
	}
	delete(got, "traceparent")
	delete(got, "ce_bodyhash")
	want := map[string]string{
		"forebay-action-id": string(a.ID), "forebay-late": "true", "tracestate": "vendor=1", "content-type": "application/json",
		"ce_specversion": "1.0", "ce_id": "delivery-7", "ce_source": "/acme/orders", "ce_type": "com.example.order.changed",
		"ce_time": "2026-03-01T10:00:00Z", "ce_recordedtime": "2026-03-01T10:00:01Z", "ce_subject": "orders/7", "ce_partitionkey": "orders/7",
		"ce_entityversion": "00000000000000000007", "ce_versionkind": "sequence", "ce_payloadkind": "snapshot",
		"ce_traceparent": a.Event.TraceParent, "ce_tracestate": "vendor=1", "http_x-github-event": "issues",
		"x-agent-call-chain": "acme.triage", "x-agent-call-depth": "1", "x-agent-trace-id": "0af7651916cd43dd8448eb211c80319c",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("headers (-want +got):\n%s", diff)
	}
	a.Late = false
	if _, err := must(t, c, nil).Do(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	all = landed(t, c)
	if late := slices.ContainsFunc(all, func(r *kgo.Record) bool { return header(r, "forebay-late") == "" }); !late || len(all) != 5 {
		t.Error("an action that is not late says so nowhere, or is missing")
	}
}

func TestTemplateThatFails(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	_, err := must(t, c, func(cfg *Config) { cfg.Params = params(t, "{{body.nobody.here}}") }).Do(t.Context(), sinktest.Action(1))
	if sink.ClassOf(err) != sink.ClassTemplate || len(landed(t, c)) != 0 {
		t.Errorf("%v, %d records", err, len(landed(t, c)))
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"", "events.acme.github", "quarantine.acme.github", "dead.acme.triage", "__consumer_offsets", "a b", "..", "a/b", strings.Repeat("x", 250),
	} {
		_, err := New(Config{Topic: name, Params: params(t, "")})
		if schemas.KindOf(err) != schemas.Invalid {
			t.Errorf("topic %.20q: %v", name, err)
		}
	}
	if _, err := New(Config{Topic: topic}); schemas.KindOf(err) != schemas.Invalid {
		t.Errorf("no params: %v", err)
	}
	for _, name := range []string{"acme.events", "eventsx", "deadline.acme", "a"} {
		if err := CheckTopic(name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestDeclaredKind(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	if got := must(t, c, nil).Idempotency(); got != sink.Idempotent {
		t.Error(got)
	}
	if got := must(t, c, func(cfg *Config) { cfg.Idempotent = new(false) }).Idempotency(); got != sink.Unsafe {
		t.Error(got)
	}
}

// Every refusal that a broker can answer with, and what follows from it.
func TestErrors(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		err       error
		class     sink.Class
		untouched bool
	}{
		{kerr.TopicAuthorizationFailed, sink.ClassDenied, true},
		{kerr.ClusterAuthorizationFailed, sink.ClassDenied, true},
		{kerr.SaslAuthenticationFailed, sink.ClassBusy, true},
		{kerr.MessageTooLarge, sink.ClassRejected, true},
		{kerr.RecordListTooLarge, sink.ClassRejected, true},
		{kerr.InvalidRecord, sink.ClassRejected, true},
		{kerr.InvalidTopicException, sink.ClassRejected, true},
		{kerr.UnknownTopicOrPartition, sink.ClassBusy, true},
		{kerr.InvalidRequiredAcks, sink.ClassNetwork, false},
		{kgo.ErrMaxBuffered, sink.ClassThrottled, true},
		{kgo.ErrRecordTimeout, sink.ClassTimeout, false},
		{kgo.ErrClientClosed, sink.ClassBusy, false},
		{errors.New("a surprise"), sink.ClassNetwork, false},
	} {
		err := classify(fmt.Errorf("wrapped: %w", tt.err))
		if sink.ClassOf(err) != tt.class || sink.Untouched(err) != tt.untouched {
			t.Errorf("%v: class %q, untouched %v", tt.err, sink.ClassOf(err), sink.Untouched(err))
		}
		k, ok := errors.AsType[*kerr.Error](tt.err)
		if !ok {
			continue
		}
		c := newCluster(t)
		c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: topic, Err: k, Count: -1})
		_, err = must(t, c, nil, kgo.MetadataMinAge(10*time.Millisecond)).Do(t.Context(), sinktest.Action(1))
		if got := sink.ClassOf(err); got != tt.class {
			t.Errorf("a broker that says %v: class %q: %v", k, got, err)
		}
	}
}

// A record that the topic does not take is given up, and none of those that the client had put into a batch with it.
func TestOneRefusedRecordRefusesNoOther(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	client, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if got, err := kadm.NewClient(client).AlterTopicConfigs(t.Context(), []kadm.AlterConfig{{Name: "max.message.bytes", Value: new("20000")}}, topic); err != nil || got[0].Err != nil {
		t.Fatal(got, err)
	}
	began := make(chan struct{})
	var once sync.Once
	c.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		once.Do(func() {
			close(began)
			c.SleepControl(func() { time.Sleep(300 * time.Millisecond) }) // what comes meanwhile is one batch
		})
		return nil, nil, false
	})
	s := must(t, c, nil, kgo.MaxProduceRequestsInflightPerBroker(1))
	const attempts, large = 16, 7
	errs := make([]error, attempts)
	var all sync.WaitGroup
	send := func(n int) {
		a := sinktest.Action(n + 1)
		a.Event.Entity = "e" // of one partition
		if n == large {
			a.Event.Data = make([]byte, 100_000)
			rand.NewChaCha8([32]byte{}).Read(a.Event.Data)
		}
		all.Go(func() { _, errs[n] = s.Do(t.Context(), a) })
	}
	send(0)
	<-began
	for n := 1; n < attempts; n++ {
		send(n)
	}
	all.Wait()
	for n, err := range errs {
		if n == large {
			if sink.ClassOf(err) != sink.ClassRejected || !sink.Untouched(err) {
				t.Errorf("the large one: %v", err)
			}
		} else if err != nil {
			t.Errorf("record %d: %v", n, err)
		}
	}
	if n := len(landed(t, c)); n != attempts-1 {
		t.Errorf("%d records", n)
	}
}

// Brokers that have not enough replicas are asked again by the client, within the attempt.
func TestWhatTheClientTriesAgain(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: topic, Err: kerr.NotEnoughReplicasAfterAppend, Count: 2})
	if _, err := must(t, c, nil).Do(t.Context(), sinktest.Action(1)); err != nil {
		t.Fatal(err)
	}
	if n := len(landed(t, c)); n != 1 {
		t.Errorf("%d records", n)
	}
}

func TestTopicThatIsNotThere(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	s := must(t, c, func(cfg *Config) { cfg.Topic = "acme.nowhere" })
	if err := s.Check(t.Context()); err == nil {
		t.Error("the check found it")
	}
	_, err := s.Do(t.Context(), sinktest.Action(1))
	if sink.ClassOf(err) != sink.ClassBusy || !strings.Contains(err.Error(), "create the topic") {
		t.Error(err)
	}
	if err := must(t, c, nil).Check(t.Context()); err != nil {
		t.Error(err)
	}
}

// A topic that was deleted and created again is written to again, which a client that knew it before never does.
func TestTopicThatIsCreatedAgain(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	s := must(t, c, nil)
	if _, err := s.Do(t.Context(), sinktest.Action(1)); err != nil {
		t.Fatal(err)
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	if _, err := admin.DeleteTopic(t.Context(), topic); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.CreateTopic(t.Context(), 3, 1, nil, topic); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); ; {
		if _, err = s.Do(t.Context(), sinktest.Action(2)); err == nil {
			break
		}
		if attempt, ok := errors.AsType[*sink.AttemptError](err); !ok || !attempt.Untouched || time.Now().After(end) {
			t.Fatal(err)
		}
	}
	if got := landed(t, c); len(got) != 1 {
		t.Errorf("%d records", len(got))
	}
}

func TestBrokerThatIsAway(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	s := must(t, c, nil)
	c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err := s.Do(ctx, sinktest.Action(1))
	if sink.ClassOf(err) != sink.ClassTimeout || sink.Untouched(err) {
		t.Error(err)
	}
}

// breaker dials the brokers and breaks connections at a produce request.
type breaker struct {
	mu   sync.Mutex
	mode string        // "", before, after, answering
	left int           // how many requests are broken; negative: all
	hit  chan struct{} // one was broken
}

func (b *breaker) arm(mode string, n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mode, b.left = mode, n
}

// take says how a produce request that is about to be sent goes.
func (b *breaker) take() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.mode == "" || b.left == 0 {
		return ""
	}
	b.left--
	return b.mode
}

func (b *breaker) opt() kgo.Opt {
	return kgo.Dialer(func(ctx context.Context, network, host string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, host)
		return &broken{Conn: conn, b: b}, err
	})
}

type broken struct {
	net.Conn
	b *breaker

	mu   sync.Mutex
	mode string // of the produce request that waits for its answer
}

func (c *broken) Write(p []byte) (int, error) {
	if len(p) < 6 || binary.BigEndian.Uint16(p[4:]) != uint16(kmsg.Produce) {
		return c.Conn.Write(p)
	}
	mode := c.b.take()
	if mode == "before" {
		return c.cut()
	}
	c.mu.Lock()
	c.mode = mode
	c.mu.Unlock()
	return c.Conn.Write(p)
}

// Read breaks off once the broker has answered: so it has acted.
func (c *broken) Read(p []byte) (int, error) {
	c.mu.Lock()
	cut := c.mode == "cut"
	c.mu.Unlock()
	if cut {
		return c.cut()
	}
	n, err := c.Conn.Read(p)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err != nil || c.mode == "":
		return n, err
	case c.mode == "answering" && n > 1:
		c.mode = "cut"
		return n / 2, nil
	}
	return c.cut()
}

func (c *broken) cut() (int, error) {
	c.Close()
	select {
	case c.b.hit <- struct{}{}:
	default:
	}
	return 0, net.ErrClosed
}

// One attempt, whose connection breaks at any point: the client goes on, and the record lands once.
func TestAttemptThatBreaksLandsOnce(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"before", "after", "answering"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			c, b := newCluster(t), &breaker{hit: make(chan struct{}, 1)}
			s := must(t, c, nil, b.opt(), kgo.RetryBackoffFn(func(int) time.Duration { return time.Millisecond }))
			for n := range 5 {
				b.arm(mode, 1+n%2)
				if _, err := s.Do(t.Context(), sinktest.Action(n)); err != nil {
					t.Fatal(err)
				}
			}
			ids := map[string]int{}
			for _, r := range landed(t, c) {
				ids[header(r, headerAction)]++
			}
			for id, n := range ids {
				if n != 1 {
					t.Errorf("action %s landed %d times", id, n)
				}
			}
			if len(ids) != 5 {
				t.Errorf("%d actions", len(ids))
			}
		})
	}
}

// Attempts of which nobody knows the end, and processes that end before they say it: the record can land again, always
// under the one key, and a consumer that drops what it has seen acts once.
func TestUnknownEndsLandUnderOneKey(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"before", "after", "answering"} {
		for _, killed := range []bool{false, true} {
			t.Run(fmt.Sprint(mode, ", killed ", killed), func(t *testing.T) {
				t.Parallel()
				c, b := newCluster(t), &breaker{hit: make(chan struct{}, 1)}
				s := must(t, c, nil, b.opt(), kgo.RetryBackoffFn(func(int) time.Duration { return time.Millisecond }))
				if _, err := s.Do(t.Context(), sinktest.Action(0)); err != nil { // connected
					t.Fatal(err)
				}
				b.arm(mode, -1)
				ctx, end := context.WithCancelCause(t.Context())
				go func() { <-b.hit; end(context.DeadlineExceeded) }()
				a := sinktest.Action(1)
				_, err := s.Do(ctx, a)
				if sink.ClassOf(err) != sink.ClassTimeout || sink.Untouched(err) {
					t.Fatalf("an end that nobody knows: %v", err)
				}
				if killed {
					_ = s.Close(t.Context())
					s = must(t, c, nil)
				}
				b.arm("", 0)
				a.Attempt++
				if _, err := s.Do(t.Context(), a); err != nil {
					t.Fatal(err)
				}
				seen, copies := map[string]bool{}, 0
				for _, r := range landed(t, c) {
					if header(r, "ce_id") == a.Event.ID {
						copies++
						seen[header(r, headerAction)] = true
					}
				}
				if len(seen) != 1 || !seen[string(a.ID)] || copies > 2 {
					t.Errorf("%d copies under the keys %v", copies, seen)
				}
				if mode != "before" && copies != 2 {
					t.Errorf("%d copies: the test does not show what it says", copies)
				}
			})
		}
	}
}

// TestLacksARight: an attempt that the brokers refuse, and a check, say in their text which right is missing, and whose.
func TestLacksARight(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	s := must(t, c, nil, kgo.MetadataMinAge(10*time.Millisecond), kgo.WithHooks(record.User("user rightless")))
	const says = "user rightless has no right Write on topic acme.projection"
	produce := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: topic, Err: kerr.TopicAuthorizationFailed, Count: -1})
	_, err := s.Do(t.Context(), sinktest.Action(1))
	produce.Remove()
	if sink.ClassOf(err) != sink.ClassDenied || !strings.Contains(err.Error(), says) {
		t.Errorf("an attempt: %v", err)
	}
	c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Metadata}, Topic: topic, Err: kerr.TopicAuthorizationFailed, Count: -1})
	if err := s.Check(t.Context()); sink.ClassOf(err) != sink.ClassDenied || !strings.Contains(err.Error(), says) {
		t.Errorf("a check: %v", err)
	}
}
