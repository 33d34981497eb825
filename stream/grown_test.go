package stream

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/forebay-io/forebay/stream/owner"
)

// Intake that has started again places keys by the new number before anybody here has heard of it. Nothing of that is rejected
// or decided: the topic's claims end and say what to do, and what was in its place by the old number has run.
func TestGrownWhileRunning(t *testing.T) {
	t.Parallel()
	r := newRig(t, 2)
	m, lanes := newMemory(), newLanes()
	cfg := r.config(m, lanes)
	cfg.TopicLook = time.Hour // it is found out by the record
	run := r.start(cfg)
	run.untilRunning(t, 2)
	r.Produce(0, 1)
	r.Produce(1, 2)
	m.until(t, "both", func() bool { return len(m.lines) == 2 })
	r.Grow(3)
	r.Send(placed(3, 0, 2, 0, 3), placed(4, 0, 3, 1, 2), placed(5, 0, 2, 0, 3)) // the second belongs in 1 of 2
	sent := time.Now()
	for number := range int32(3) { // the new one is shown, too
		e := run.stopOf(t, number)
		if e.Reason != owner.StopPartitions || e.Stop.From != 2 || e.Stop.To != 3 {
			t.Errorf("partition %d is stopped for %v", number, e)
		}
	}
	if took := time.Since(sent); took > 25*time.Second { // its client looks every 30 s
		t.Errorf("shown after %s: the group is told, it need not look for itself", took)
	}
	run.stop(t)
	defer m.lock()()
	if len(m.broken) > 0 {
		t.Errorf("rejected: %+v", m.broken)
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
	r.Grow(3)
	for number := range int32(2) {
		if e := run.stopOf(t, number); e.Reason != owner.StopPartitions {
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
	r.Produce(0, 0) // the producer asks where to before the brokers fall silent
	m.until(t, "the first", func() bool { return len(m.lines) == 1 })
	fault := r.Cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Metadata}, Topic: testTopic, Err: kerr.KafkaStorageError, Count: -1})
	r.Send(placed(1, 0, 2, 0, 3), placed(2, 0, 3, 1, 2), placed(3, 0, 2, 0, 3)) // the second belongs in 1
	m.until(t, "the record before it", func() bool { return len(m.lines) == 2 })
	hits := fault.Hits()
	run.until(t, "more questions", func([]owner.PartitionState) bool { return fault.Hits() > hits+1 })
	if at := m.at(0); at != 2 {
		t.Errorf("decided without an answer: next %d", at)
	}
	fault.Remove()
	m.until(t, "all", func() bool { return len(m.lines) == 3 && len(m.broken) == 1 && m.next(0) == 4 })
	m.check(t)
}

// What fills a gap may be in a partition that is new: no wait ends in a topic that has grown.
func TestGapInATopicThatHasGrown(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	r.Send(versioned(1, 1), versioned(3, 3))
	m := newMemory(hourly)
	m.onExpire(func() { t.Error("the wait has ended") })
	cfg := r.config(m, newLanes())
	cfg.TopicLook = time.Hour
	run := r.start(cfg)
	m.until(t, "the records", func() bool { return len(m.lines) == 2 })
	r.Grow(2)
	m.db.Pass(2 * time.Hour)
	if e := run.stopOf(t, 0); e.Reason != owner.StopPartitions {
		t.Errorf("stopped for %v", e)
	}
}

// While nobody says how many partitions there are, the filler may be in a new one: no wait ends.
func TestGapWaitsForTheNumberOfPartitions(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	r.Send(versioned(1, 1), versioned(3, 3))
	m := newMemory(hourly)
	var known atomic.Bool
	ended := make(chan bool, 100) // whether that was known
	m.onExpire(func() { ended <- known.Load() })
	cfg := r.config(m, newLanes())
	cfg.TopicLook = time.Hour
	r.start(cfg)
	m.until(t, "the records", func() bool { return len(m.lines) == 2 })
	asked := make(chan struct{})
	r.Cluster.ControlKey(int16(kmsg.Metadata), func(req kmsg.Request) (kmsg.Response, error, bool) {
		r.Cluster.KeepControl()
		if known.Load() || r.Cluster.CurrentNode() != 1 { // the other says where the end is
			return nil, nil, false
		}
		select {
		case asked <- struct{}{}:
		default:
		}
		return r.Knowing(req.(*kmsg.MetadataRequest), 1, kerr.KafkaStorageError.Code), nil, true
	})
	m.db.Pass(2 * time.Hour)
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
	r.Produce(0, 1)
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
	r.Grow(3)
	lanes.until(t, "lanes of 0 again", opened(0, 2))
	lanes.until(t, "lanes of 1 again", opened(1, 2))
	r.Send(placed(2, 0, 2, 0, 3)) // in its place by either number
	run.stopOf(t, 2)
	waited := make(chan struct{}, 1)
	r.OnMetadata(testTopic, waited)
	for range 5 { // looks at the topic
		<-waited
	}
	for number := range int32(3) {
		if e := run.stopOf(t, number); e.Reason != owner.StopPartitions || e.Stop.From != 2 || e.Stop.To != 3 {
			t.Errorf("partition %d is stopped for %v", number, e)
		}
	}
	if n := counter(t, reg, "forebay_stream_stops_total"); n != 3 {
		t.Errorf("%v reports of three partitions", n)
	}
	run.stop(t)
	if len(m.lines) != 1 || len(m.wrong) > 0 {
		t.Errorf("decided: %q, wrong: %q", m.lines, m.wrong)
	}
	for number := range int32(2) {
		if m.take(number, -1).Unclean {
			t.Errorf("partition %d was not given back", number)
		}
	}
}
