package producer

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/forebay-io/forebay/ingest"
)

// What waits in quarantine is found once, what is marked is left out, and each record is read once however often somebody looks.
func TestWaitingDeliveries(t *testing.T) {
	t.Parallel()
	p, cluster := setup(t, nil)
	opts := []kgo.Opt{kgo.SeedBrokers(cluster.ListenAddrs()...)}
	put := func(from, to int) {
		t.Helper()
		for i := from; i < to; i++ {
			d := ingest.Delivery{Team: "acme", Source: "orders", Kind: "unusable", Reason: "missing_field", Body: []byte("x"), Received: time.Unix(1_800_000_000+int64(i), 0)}
			if err := p.Quarantine(t.Context(), never, aside, &d); err != nil {
				t.Fatal(err)
			}
		}
	}
	client, err := kgo.NewClient(opts...)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	var w Waiting
	look := func(w *Waiting, want int) Backlog {
		t.Helper()
		all, err := w.Look(t.Context(), client, []string{aside, "quarantine.acme.none"}, opts...)
		got := all[aside]
		if err != nil || len(got.Items) != want || got.More {
			t.Fatalf("%d wait, %v, want %d: %v", len(got.Items), got.More, want, err)
		}
		for i := range got.Items {
			if got.Items[i].Body != nil || got.Items[i].Reason != "missing_field" || i > 0 && got.Items[i].Received.Before(got.Items[i-1].Received) {
				t.Errorf("%d: %+v", i, got.Items[i])
			}
		}
		return got
	}
	look(&w, 0)
	put(0, 12)
	first := look(&w, 12).Items[0]
	if err := Mark(t.Context(), aside, first.Partition, first.Offset, Redriven{At: time.Now(), By: "me", Reason: "mended"}, opts...); err != nil {
		t.Fatal(err)
	}
	if next := look(&w, 11).Items[0]; next.Offset == first.Offset && next.Partition == first.Partition {
		t.Error("what is marked waits")
	}
	put(12, 15)
	look(&w, 14)
	look(&w, 14)
	look(new(Waiting), 14) // another process
	sum := int64(0)
	for _, known := range w.read[aside] {
		sum += known.span.to
	}
	if sum != 16 {
		t.Errorf("the partitions are read up to %d in all, and have 16 records", sum)
	}
}

// aged is a quarantine partition with records as the intake and Mark write them, many at once.
type aged struct {
	t       *testing.T
	cluster *kfake.Cluster
	client  *kgo.Client
	opts    []kgo.Opt
}

func (a *aged) write(records ...*kgo.Record) (last int64) {
	a.t.Helper()
	if err := a.client.ProduceSync(a.t.Context(), records...).FirstErr(); err != nil {
		a.t.Fatal(err)
	}
	return records[len(records)-1].Offset
}

// deliver writes n deliveries, and gives the offset of the first.
func (a *aged) deliver(n int) int64 {
	a.t.Helper()
	var all []*kgo.Record
	for range n {
		all = append(all, (*Producer)(nil).QuarantineRecord(aside, &ingest.Delivery{Team: "acme", Source: "orders", Kind: "unusable", Reason: "missing_field", Body: []byte("x"), Received: time.Now()}))
	}
	return a.write(all...) - int64(n) + 1
}

// mark writes the marks of n deliveries from an offset on.
func (a *aged) mark(from int64, n int) {
	a.t.Helper()
	var all []*kgo.Record
	for i := range int64(n) {
		all = append(all, &kgo.Record{Topic: aside, Value: []byte{}, Headers: []kgo.RecordHeader{{Key: headerKind, Value: []byte(kindRedriven)},
			{Key: headerMarks, Value: []byte(strconv.FormatInt(from+i, 10))}, {Key: headerMarked, Value: []byte(time.Now().UTC().Format(time.RFC3339Nano))}}})
	}
	a.write(all...)
}

// holds fails unless w and List say that the same wait: want of them, the oldest from an offset on.
func (a *aged) holds(when string, w *Waiting, want int, oldest int64, more bool) {
	a.t.Helper()
	ctx, cancel := context.WithTimeout(a.t.Context(), 3*time.Minute) // it reads tens of thousands of records, with -race on a busy machine in half a minute
	defer cancel()
	all, err := w.Look(ctx, a.client, []string{aside}, a.opts...)
	got := all[aside]
	if err != nil || len(got.Items) != want || got.More != more {
		a.t.Fatalf("%s: %d wait, more: %v, want %d, %v: %v", when, len(got.Items), got.More, want, more, err)
	}
	listed, err := List(ctx, Query{Topic: aside, Limit: maxWaiting, Waiting: true}, a.opts...)
	if err != nil || len(listed) != want {
		a.t.Fatalf("%s: %d are listed, want %d: %v", when, len(listed), want, err)
	}
	if want > 0 && got.Items[0].Offset != oldest {
		a.t.Errorf("%s: the oldest is %d, want %d", when, got.Items[0].Offset, oldest)
	}
}

// newAged makes a producer to one partition of the quarantine topic.
func newAged(t *testing.T) *aged {
	t.Helper()
	_, cluster := setup(t, nil)
	opts := []kgo.Opt{kgo.SeedBrokers(cluster.ListenAddrs()...)}
	client, err := kgo.NewClient(append(opts, kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return &aged{t, cluster, client, opts}
}

// slow has each fetch bring one batch, and returns a maker of contexts, each of which ends with its sixth fetch.
func (a *aged) slow() func() context.Context {
	a.opts = append(a.opts, kgo.FetchMaxPartitionBytes(1))
	var mu sync.Mutex
	left, end := 0, func(error) {}
	a.cluster.ControlKey(int16(kmsg.Fetch), func(kmsg.Request) (kmsg.Response, error, bool) {
		a.cluster.KeepControl()
		mu.Lock()
		defer mu.Unlock()
		if left--; left == 0 {
			end(errTime)
		}
		return nil, nil, false
	})
	return func() context.Context {
		ctx, cancel := context.WithCancelCause(a.t.Context())
		mu.Lock()
		defer mu.Unlock()
		left, end = 6, cancel
		return ctx
	}
}

var errTime = errors.New("the time is over")

// What came while as many waited as are remembered waits when those are dealt with, whichever they are.
func TestWaitingBeyondWhatIsRemembered(t *testing.T) {
	t.Parallel()
	a := newAged(t)
	var w Waiting
	first := a.deliver(maxWaiting + 5)
	a.holds("too many", &w, maxWaiting, first+5, true)
	later := a.deliver(7)
	a.holds("and more", &w, maxWaiting, first+12, true)
	a.mark(first+20, maxWaiting-20)
	a.holds("the middle is dealt with", &w, 32, first, false)
	a.mark(later, 7)
	a.mark(first, 20)
	a.mark(first+maxWaiting, 5)
	a.holds("all are dealt with", &w, 0, 0, false)
	a.holds("all are dealt with, another process", new(Waiting), 0, 0, false)
	newest := a.deliver(3)
	a.holds("new ones", &w, 3, newest, false)
}

// The first look goes behind marks.
func TestWaitingBehindMarks(t *testing.T) {
	t.Parallel()
	a := newAged(t)
	first := a.deliver(maxWaiting + 203)
	a.mark(first+3, maxWaiting+200)
	a.holds("three wait", new(Waiting), 3, first, false)
	// One look reads so much and no more, and does not say that nothing waits.
	w := Waiting{back: 8 * maxWaiting}
	for range w.back/1000 + 4 {
		a.mark(first+3, 1000)
	}
	all, err := w.Look(t.Context(), a.client, []string{aside}, a.opts...)
	if got := all[aside]; err != nil || !got.More || len(got.Items) != 0 {
		t.Errorf("%d wait, more: %v: %v", len(got.Items), got.More, err)
	}
	a.holds("the next look goes on", &w, 3, first, false)
}

// A topic whose newest deliveries take longer than a look may is known after some looks; until then the others are, and what was found.
func TestWaitingInASlowTopic(t *testing.T) {
	t.Parallel()
	a := newAged(t)
	const n = 2 * int(firstStride)
	for range n {
		a.deliver(1) // a batch of its own
	}
	short := a.slow()
	var w Waiting
	for looks, before := 1, 0; ; looks++ {
		all, err := w.Look(short(), a.client, []string{aside}, a.opts...)
		got, ok := all[aside]
		switch {
		case len(got.Items) < before || looks > n:
			t.Fatalf("look %d: %d wait, before it %d: %v, %v", looks, len(got.Items), before, err, got.Err)
		case err != nil && (ok || before > 0) || err == nil && got.Err == nil && len(got.Items) < n:
			t.Fatalf("look %d: %d wait, before it %d: %v, %v", looks, len(got.Items), before, err, got.Err)
		case got.Err != nil && (!got.More || !errors.Is(got.Err, errTime)):
			t.Errorf("look %d: more: %v, %v", looks, got.More, got.Err)
		}
		if before = len(got.Items); err == nil && got.Err == nil {
			break
		}
	}
}

// What one topic's brokers cannot give takes nothing from the others; if they can give none, that is an error.
func TestWaitingBesideABrokenTopic(t *testing.T) {
	t.Parallel()
	a := newAged(t)
	a.deliver(3)
	if err := a.client.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Value: []byte("x")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	a.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: topic, Err: kerr.TopicAuthorizationFailed, Count: -1})
	look := func(w *Waiting, topics ...string) (map[string]Backlog, error) {
		return w.Look(t.Context(), a.client, topics, a.opts...)
	}
	for range 5 { // in whichever order
		all, err := look(new(Waiting), topic, aside)
		if err != nil || len(all[aside].Items) != 3 || all[aside].More || all[aside].Err != nil {
			t.Fatalf("%+v, %v", all[aside], err)
		}
		if b := all[topic]; !b.More || !errors.Is(b.Err, kerr.TopicAuthorizationFailed) {
			t.Fatalf("the broken one: %+v", b)
		}
	}
	if all, err := look(new(Waiting), topic); !errors.Is(err, kerr.TopicAuthorizationFailed) {
		t.Errorf("alone: %+v, %v", all, err)
	}
}

// TestWaitingBesideARefusedTopic: a topic that the login may not look at is read no more, keeps what is known of it, and takes nothing from the others.
func TestWaitingBesideARefusedTopic(t *testing.T) {
	t.Parallel()
	allow := func(name string, op kmsg.ACLOperation) kfake.ACL {
		return kfake.ACL{Resource: kmsg.ACLResourceTypeTopic, Name: name, Pattern: kmsg.ACLResourcePatternTypeLiteral, Operation: op, Allow: true}
	}
	const theirs = "quarantine.beta.orders"
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, aside, theirs), kfake.EnableSASL(), kfake.EnableACLs(), kfake.Superuser("PLAIN", "root", "secret"),
		kfake.User("PLAIN", "taker", "secret", allow(aside, kmsg.ACLOperationRead)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	login := func(user string) (*kgo.Client, []kgo.Opt) {
		opts := []kgo.Opt{kgo.SeedBrokers(cluster.ListenAddrs()...), as(user)}
		cl, err := kgo.NewClient(opts...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(cl.Close)
		return cl, opts
	}
	root, rootOpts := login("root")
	for _, name := range []string{aside, theirs} {
		if err := root.ProduceSync(t.Context(), &kgo.Record{Topic: name, Value: []byte("x")}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	var w Waiting
	if all, err := w.Look(t.Context(), root, []string{aside, theirs}, rootOpts...); err != nil || len(all[theirs].Items) != 1 || all[theirs].More {
		t.Fatalf("with all rights: %+v, %v", all, err)
	}
	taker, opts := login("taker")
	for known, w := range []*Waiting{new(Waiting), &w} {
		all, err := w.Look(t.Context(), taker, []string{aside, theirs}, opts...)
		if b := all[aside]; err != nil || len(b.Items) != 1 || b.More || b.Err != nil {
			t.Errorf("%+v, %v", b, err)
		}
		if b := all[theirs]; len(b.Items) != known || !b.More || !errors.Is(b.Err, kerr.TopicAuthorizationFailed) {
			t.Errorf("the refused one: %+v", b)
		}
	}
	if all, err := new(Waiting).Look(t.Context(), taker, []string{theirs}, opts...); !errors.Is(err, kerr.TopicAuthorizationFailed) {
		t.Errorf("alone: %+v, %v", all, err)
	}
}
