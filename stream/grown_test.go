package stream

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/record"
	"github.com/forebay-io/forebay/stream/ledger"
)

// grow gives the topic more partitions, and the rig's producer a client that knows of them.
func (r *rig) grow(to int32) {
	r.t.Helper()
	if _, err := r.adm.UpdatePartitions(r.ctx(), int(to), testTopic); err != nil {
		r.t.Fatal(err)
	}
	r.client = r.newClient(kgo.RecordPartitioner(kgo.ManualPartitioner()))
}

// placed is an event of an entity whose place is one partition of so many, and another of so many others.
func placed(i int, partition, parts, was, of int32) *kgo.Record {
	for n := 1; ; n++ {
		key := fmt.Sprintf("order/%d", n)
		if record.PartitionOf([]byte(key), parts) == partition && record.PartitionOf([]byte(key), of) == was {
			e := event(i)
			e.Entity = schemas.EntityKey(key)
			rec := record.Encode(testTopic, e)
			rec.Partition = partition
			return rec
		}
	}
}

// Intake that has started again places keys by the new number before anybody here has heard of it. Nothing of that is set aside
// or decided: the topic's claims end and say what to do, and what was in its place by the old number has run.
func TestGrownWhileRunning(t *testing.T) {
	t.Parallel()
	r := newRig(t, 2)
	m, lanes := newMemory(), newLanes()
	cfg := r.config(m, lanes)
	cfg.TopicLook = time.Hour // it is found out by the record
	run := r.start(cfg)
	run.untilRunning(t, 2)
	r.produce(0, 1)
	r.produce(1, 2)
	m.until(t, "both", func() bool { return len(m.lines) == 2 })
	r.grow(3)
	r.send(placed(3, 0, 2, 0, 3), placed(4, 0, 3, 1, 2), placed(5, 0, 2, 0, 3)) // the second belongs in 1 of 2
	sent := time.Now()
	for number := range int32(3) { // the new one is shown, too
		e := run.stopOf(t, number)
		if e.Reason != StopPartitions || e.Stop.From != 2 || e.Stop.To != 3 || !strings.Contains(e.Error(), "`forebay topics rekey events.acme.orders --partitions 3 -c FILE`") {
			t.Errorf("partition %d is stopped for %v", number, e)
		}
	}
	if took := time.Since(sent); took > 15*time.Second {
		t.Errorf("shown after %s: the group is told, it need not look for itself", took)
	}
	run.stop(t)
	defer m.lock()()
	if len(m.broken) > 0 {
		t.Errorf("set aside: %+v", m.broken)
	}
	if next := m.next(0); next > 2 || slices.ContainsFunc(m.lines, func(l string) bool { return strings.HasSuffix(l, "e4") || strings.HasSuffix(l, "e5") }) {
		t.Errorf("decided: %q, next %d", m.lines, next)
	}
	if len(lanes.wrong)+len(m.wrong) > 0 {
		t.Error(lanes.wrong, m.wrong)
	}
}

// An idle topic has no record to tell by.
func TestGrownWhileIdle(t *testing.T) {
	t.Parallel()
	r := newRig(t, 2)
	cfg := r.config(newMemory(), newLanes())
	cfg.TopicLook = 20 * time.Millisecond
	run := r.start(cfg)
	run.untilRunning(t, 2)
	r.grow(3)
	for number := range int32(2) {
		if e := run.stopOf(t, number); e.Reason != StopPartitions {
			t.Errorf("partition %d is stopped for %v", number, e)
		}
	}
}

// Whether a record is misplaced is not decided while the brokers do not say how many partitions there are, and the question is
// put after the record was read. What stands before it is decided all the same.
func TestMisplacedWaitsForTheBrokers(t *testing.T) {
	t.Parallel()
	r := newRig(t, 2)
	m := newMemory()
	cfg := r.config(m, newLanes())
	cfg.TopicLook = time.Hour
	run := r.start(cfg)
	r.produce(0, 0) // the producer asks where to before the brokers fall silent
	m.until(t, "the first", func() bool { return len(m.lines) == 1 })
	fault := r.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Metadata}, Topic: testTopic, Err: kerr.KafkaStorageError, Count: -1})
	r.send(placed(1, 0, 2, 0, 3), placed(2, 0, 3, 1, 2), placed(3, 0, 2, 0, 3)) // the second belongs in 1
	m.until(t, "the record before it", func() bool { return len(m.lines) == 2 })
	hits := fault.Hits()
	run.until(t, "more questions", func([]PartitionState) bool { return fault.Hits() > hits+1 })
	if at := m.at(0); at != 2 {
		t.Errorf("decided without an answer: next %d", at)
	}
	fault.Remove()
	m.until(t, "all", func() bool { return len(m.lines) == 3 && len(m.broken) == 1 && m.next(0) == 4 })
	m.check(t)
}

// Where every record is in its place nobody asks, and where not it is once a poll.
func TestCountIsAskedOnceAPoll(t *testing.T) {
	t.Parallel()
	f, o, _ := cutter(t, 0, 100, 1<<20)
	o.partitions, o.claim = 2, &ledger.Claim{Partition: ledger.Partition{Topic: testTopic}}
	asked := 0
	f.count = func(_ context.Context, name string) (topic, error) {
		asked++
		return topic{partitions: 2}, nil
	}
	poll := func(recs ...*kgo.Record) string {
		for i, rec := range recs {
			rec.Partition, rec.Offset = 0, f.intakes[o.at].next.Offset+int64(i)
		}
		return summary(f.units(t.Context(), kgo.Fetches{fetched(kgo.FetchPartition{Records: recs})}))
	}
	here, there := func() *kgo.Record { return placed(1, 0, 2, 0, 3) }, func() *kgo.Record { return placed(1, 1, 2, 0, 3) }
	if got := poll(here(), here(), here()); got != "0,1,2>3" || asked != 0 {
		t.Errorf("records in their place: %s after %d questions", got, asked)
	}
	if got := poll(there(), here(), there(), there()); got != "3,4,5,6>7" || asked != 1 {
		t.Errorf("a producer that places otherwise: %s after %d questions", got, asked)
	}
	if poll(there()); asked != 2 {
		t.Errorf("%d questions in two such polls", asked)
	}
	f.count = func(context.Context, string) (topic, error) { return topic{partitions: 3}, nil }
	if got := poll(here(), there(), here()); got != "8>9 9! topic events.acme.orders has 3 partitions by now" {
		t.Errorf("in a topic that has grown: %s", got)
	}
}

// A broker that has not heard of new partitions yet does not speak for the others, which may have told a producer; one that says
// nothing leaves the question open.
func TestCountIsTheMostThatAnyBrokerKnows(t *testing.T) {
	t.Parallel()
	r := newRig(t, 2)
	r.grow(3)
	b := newBroker(r.client, testGroup)
	var late atomic.Int32 // which broker
	var code atomic.Int32 // what it says
	r.cluster.ControlKey(int16(kmsg.Metadata), func(req kmsg.Request) (kmsg.Response, error, bool) {
		r.cluster.KeepControl()
		if r.cluster.CurrentNode() != late.Load() {
			return nil, nil, false
		}
		return r.knowing(req.(*kmsg.MetadataRequest), 2, int16(code.Load())), nil, true
	})
	for i := range int32(20) { // whichever is asked first
		late.Store(i % 2)
		if got, err := b.count(r.ctx(), testTopic); err != nil || got.partitions != 3 || got.id != r.topicID() {
			t.Fatalf("broker %d is late: %+v, %v", i%2, got, err)
		}
	}
	code.Store(int32(kerr.KafkaStorageError.Code))
	for i := range int32(20) {
		late.Store(i % 2)
		if got, err := b.count(r.ctx(), testTopic); err == nil {
			t.Fatalf("broker %d has no answer: %+v", i%2, got)
		}
	}
}

// knowing is the answer of a broker that knows of so many partitions of the topic.
func (r *rig) knowing(req *kmsg.MetadataRequest, partitions int32, code int16) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.MetadataResponse)
	for i, addr := range r.cluster.ListenAddrs() {
		host, port, err := net.SplitHostPort(addr)
		n, errPort := strconv.Atoi(port)
		if err != nil || errPort != nil {
			r.t.Error(err, errPort)
		}
		broker := kmsg.NewMetadataResponseBroker()
		broker.NodeID, broker.Host, broker.Port = int32(i), host, int32(n)
		resp.Brokers = append(resp.Brokers, broker)
	}
	topic := kmsg.NewMetadataResponseTopic()
	topic.Topic, topic.TopicID, topic.ErrorCode = new(testTopic), [16]byte(r.topicID()), code
	for n := range partitions {
		p := kmsg.NewMetadataResponseTopicPartition()
		p.Partition = n
		topic.Partitions = append(topic.Partitions, p)
	}
	resp.Topics = append(resp.Topics, topic)
	return resp
}

// What fills a gap may be in a partition that is new: no wait ends in a topic that has grown.
func TestGapInATopicThatHasGrown(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	r.produce(0, 1)
	m := newMemory()
	var due atomic.Bool
	m.deadline = func(*ledger.Claim) (time.Duration, bool) {
		if due.Load() {
			return -time.Hour, true
		}
		return time.Hour, true
	}
	m.onExpire = func(*ledger.Claim) (ledger.Applied, error) {
		t.Error("the wait has ended")
		return ledger.Applied{}, nil
	}
	m.waiting = true
	cfg := r.config(m, newLanes())
	cfg.TopicLook = time.Hour
	run := r.start(cfg)
	m.until(t, "the record", func() bool { return len(m.lines) == 1 })
	r.grow(2)
	due.Store(true)
	if e := run.stopOf(t, 0); e.Reason != StopPartitions {
		t.Errorf("stopped for %v", e)
	}
}

// While nobody says how many partitions there are, the filler may be in a new one: no wait ends.
func TestGapWaitsForTheNumberOfPartitions(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	r.produce(0, 1)
	m := newMemory()
	var due, known atomic.Bool
	m.deadline = func(*ledger.Claim) (time.Duration, bool) {
		if due.Load() {
			return -time.Hour, true
		}
		return time.Hour, true
	}
	ended := make(chan bool, 100) // whether that was known
	m.onExpire = func(c *ledger.Claim) (ledger.Applied, error) {
		ended <- known.Load()
		return ledger.Applied{Claim: c}, nil
	}
	m.waiting = true
	cfg := r.config(m, newLanes())
	cfg.TopicLook = time.Hour
	r.start(cfg)
	m.until(t, "the record", func() bool { return len(m.lines) == 1 })
	asked := make(chan struct{})
	r.cluster.ControlKey(int16(kmsg.Metadata), func(req kmsg.Request) (kmsg.Response, error, bool) {
		r.cluster.KeepControl()
		if known.Load() || r.cluster.CurrentNode() != 1 { // the other says where the end is
			return nil, nil, false
		}
		select {
		case asked <- struct{}{}:
		default:
		}
		return r.knowing(req.(*kmsg.MetadataRequest), 1, kerr.KafkaStorageError.Code), nil, true
	})
	due.Store(true)
	for range 12 {
		select {
		case <-asked:
		case <-time.After(patience):
			t.Fatal("not asked again and again")
		}
	}
	known.Store(true)
	select {
	case was := <-ended:
		if !was {
			t.Error("a wait has ended before anybody knew")
		}
	case <-time.After(patience):
		t.Error("the wait never ended")
	}
}

// What is open of a topic that has grown goes on, or `topics rekey` would wait for it for ever: its partitions are claimed for their lanes
// alone. They are shown as stopped, nothing of them is read, and nobody is told of one thing twice.
func TestGrownRunsWhatIsOpen(t *testing.T) {
	t.Parallel()
	r := newRig(t, 2)
	m, lanes, reg := newMemory(), newLanes(), prometheus.NewRegistry()
	cfg := r.config(m, lanes)
	cfg.TopicLook, cfg.StopLook, cfg.Registerer = 20*time.Millisecond, 20*time.Millisecond, reg
	run := r.start(cfg)
	run.untilRunning(t, 2)
	r.produce(0, 1)
	m.until(t, "the first", func() bool { return len(m.lines) == 1 })
	opened := func(number int32, times int) func() bool {
		return func() bool {
			n := 0
			for _, c := range lanes.calls {
				if c == fmt.Sprintf("open %d", number) {
					n++
				}
			}
			return n >= times
		}
	}
	r.grow(3)
	lanes.until(t, "lanes of 0 again", opened(0, 2))
	lanes.until(t, "lanes of 1 again", opened(1, 2))
	r.send(placed(2, 0, 2, 0, 3)) // in its place by either number
	run.stopOf(t, 2)
	waited := make(chan struct{}, 1)
	r.onMetadata(testTopic, waited)
	for range 5 { // looks at the topic
		<-waited
	}
	for number := range int32(3) {
		if e := run.stopOf(t, number); e.Reason != StopPartitions || e.Stop.From != 2 || e.Stop.To != 3 {
			t.Errorf("partition %d is stopped for %v", number, e)
		}
	}
	if n := counter(t, reg, "forebay_stream_stops_total"); n != 3 {
		t.Errorf("%v reports of three partitions", n)
	}
	run.stop(t)
	defer m.lock()()
	if len(m.lines) != 1 || len(m.wrong) > 0 {
		t.Errorf("decided: %q, wrong: %q", m.lines, m.wrong)
	}
	for p, f := range m.fences {
		if p.Number < 2 && !f.released {
			t.Errorf("partition %d was not given back", p.Number)
		}
	}
}
