package stream

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/record"
	"github.com/forebay-io/forebay/stream/ledger"
)

// aged makes a log on the real ledger: a parked head and two actions behind it, appended so many minutes ago. It returns
// the pointers of all three; nothing runs any more.
func (r *rig) aged(n *ledger.Namespace, minutes ...int) (pointers []ledger.Pointer) {
	r.t.Helper()
	lanes := newLanes()
	opened := make(chan *ledger.Claim, 1)
	lanes.opened = func(c *ledger.Claim) { opened <- c }
	run := r.start(r.config(n, lanes))
	for i, m := range minutes {
		rec := record.Encode(testTopic, event(i))
		rec.Timestamp = time.Now().Add(-time.Duration(m) * time.Minute)
		r.send(rec)
		pointers = append(pointers, r.pointer(i, int64(i)))
	}
	run.untilCommitted(r.t, r, 0, int64(len(minutes)))
	kept := record.Pack(record.Encode("", event(0)))
	_, err := n.Record(r.ctx(), []ledger.Result{{Claim: <-opened, LaneSeq: 1, Status: ledger.Dead, Attempt: 1, Class: "rejected", Packed: kept}})
	if err != nil {
		r.t.Fatal(err)
	}
	run.stop(r.t)
	return pointers
}

// sweeps runs the subscription with a sweep until the metric has counted n results, and returns what is open then.
func (r *rig) sweeps(l Ledger, n *ledger.Namespace, change func(*Config), want map[string]float64) []ledger.Action {
	r.t.Helper()
	lanes := newLanes()
	opened := make(chan *ledger.Claim, 8)
	lanes.opened = func(c *ledger.Claim) { opened <- c }
	cfg := r.config(l, lanes)
	cfg.Payloads = r.payloads()
	if change != nil {
		change(&cfg)
	}
	reg := cfg.Registerer.(*prometheus.Registry)
	run := r.start(cfg)
	run.until(r.t, "copies", func([]PartitionState) bool { return maps.Equal(copiesBy(r.t, reg), want) })
	open, _, err := n.Open(r.ctx(), <-opened, 0, 100)
	if err != nil {
		r.t.Fatal(err)
	}
	run.stop(r.t)
	if got := copiesBy(r.t, reg); !maps.Equal(got, want) {
		r.t.Errorf("results %v, want %v", got, want)
	}
	return open
}

// copiesBy is the counter of payload copies by result.
func copiesBy(t *testing.T, reg *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		if f.GetName() != "forebay_stream_payload_copies_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetName() == "result" && m.GetCounter().GetValue() > 0 {
					got[l.GetValue()] = m.GetCounter().GetValue()
				}
			}
		}
	}
	return got
}

func (r *rig) retention(ms string) {
	r.t.Helper()
	r.setTopic("retention.ms", ms)
}

func events(open []ledger.Action) map[string]bool {
	got := map[string]bool{}
	for _, a := range open {
		got[a.EventID] = a.HasCopy
	}
	return got
}

// What waits behind a parked head gets its copy at half of the retention and has its payload when the log has none any
// more. What the sweep had no reason to take is lost with the log, and said to be.
func TestSweepCopiesWhatTheLogWillForget(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	r.retention("1200000") // twenty minutes
	_, n := realLedger(t, arrival)
	pointers := r.aged(n, 15, 11, 9)
	open := r.sweeps(n, n, nil, map[string]float64{"stored": 1})
	if d := cmp.Diff(map[string]bool{"e0": true, "e1": true, "e2": false}, events(open)); d != "" {
		t.Fatal(d)
	}
	if err := r.cluster.DeleteRecords(testTopic, 0, 3); err != nil {
		t.Fatal(err)
	}
	rec, err := record.Unpack(open[1].Packed)
	if err != nil {
		t.Fatal(err)
	}
	got, err := record.Decode(rec)
	if d := cmp.Diff(event(1), got); d != "" || err != nil {
		t.Error(d, err)
	}
	_, err = r.payloads().Load(r.ctx(), pointers[2])
	isLost(t, err, "the log starts at 3")
	// The next owner's sweep has nothing to copy: it counts what is gone and leaves it to the lane.
	r.retention("1000")
	if d := cmp.Diff(events(open), events(r.sweeps(n, n, nil, map[string]float64{"lost": 1}))); d != "" {
		t.Error(d)
	}
}

// shifted is a ledger whose pointers lead to the record behind theirs, as after a truncation and new growth.
type shifted struct{ *ledger.Namespace }

func (s shifted) Uncopied(ctx context.Context, c *ledger.Claim, after, before int64, limit int) (ledger.UncopiedPage, error) {
	page, err := s.Namespace.Uncopied(ctx, c, after, before, limit)
	for i := range page.Actions {
		page.Actions[i].Pointer.Offset--
	}
	return page, err
}

func TestSweepNeverStoresOtherBytes(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	r.retention("60000")
	_, n := realLedger(t, arrival)
	r.aged(n, 15, 14, 13)
	open := r.sweeps(shifted{n}, n, nil, map[string]float64{"lost": 2})
	if d := cmp.Diff(map[string]bool{"e0": true, "e1": false, "e2": false}, events(open)); d != "" {
		t.Error(d)
	}
}

// Where the broker does not tell the retention, the configured one counts; where there is none, the sweep says so and
// tries again.
func TestSweepWithoutTheTopicsRetention(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	r.retention("-1")
	r.refuseDescribe()
	_, n := realLedger(t, arrival)
	r.aged(n, 15, 11, 9)
	open := r.sweeps(n, n, nil, map[string]float64{"failed": 1})
	if d := cmp.Diff(map[string]bool{"e0": true, "e1": false, "e2": false}, events(open)); d != "" {
		t.Error(d)
	}
	r.sweeps(n, n, func(c *Config) { c.Retention = map[string]time.Duration{testTopic: 20 * time.Minute} }, map[string]float64{"stored": 1})
}

// shelf is a ledger of actions without copies, and payloads that fail as a test wants.
type shelf struct {
	mu     sync.Mutex
	bare   map[int64]int64 // offset by lane_seq
	stored []int64
	groups int
	fenced bool
	asked  []int64 // where the walks began
	load   func(ctx context.Context, p ledger.Pointer) error
}

func (s *shelf) Uncopied(_ context.Context, _ *ledger.Claim, after, before int64, limit int) (page ledger.UncopiedPage, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, after)
	for _, seq := range slices.Sorted(maps.Keys(s.bare)) {
		switch {
		case seq <= after:
			continue
		case limit == 0:
			page.More = true
			return page, nil
		case s.bare[seq] < before:
			page.Actions = append(page.Actions, ledger.Uncopied{LaneSeq: seq, Pointer: ledger.Pointer{Offset: s.bare[seq]}})
		case page.Left == 0:
			page.Left = seq
		}
		page.Upto, limit = seq, limit-1
	}
	return page, nil
}

func (s *shelf) Copy(_ context.Context, _ *ledger.Claim, copies []ledger.Copy) (int, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fenced {
		return 0, true, nil
	}
	for _, c := range copies {
		s.stored = append(s.stored, c.LaneSeq)
		delete(s.bare, c.LaneSeq)
	}
	s.groups++
	return len(copies), false, nil
}

func (s *shelf) Load(ctx context.Context, p ledger.Pointer) (*schemas.Event, error) {
	if s.load != nil {
		if err := s.load(ctx, p); err != nil {
			return nil, err
		}
	}
	e := event(int(p.Offset))
	e.Data = make([]byte, copyGroup/8)
	return e, nil
}

func (s *shelf) sweep(t *testing.T, before int64) *copySweep {
	t.Helper()
	ms, err := newMetrics(nil, testGroup)
	if err != nil {
		t.Fatal(err)
	}
	k := &copier{ledger: s, payloads: s, metrics: ms, log: slog.New(slog.DiscardHandler), slots: make(chan struct{}, 1)}
	return &copySweep{copier: k, claim: &ledger.Claim{}, before: before}
}

// A load that fails costs its own action a later sweep, and nothing else; many of them end the sweep.
func TestSweepGoesOnBehindAFailure(t *testing.T) {
	t.Parallel()
	away := errors.New("broker away")
	s := &shelf{bare: map[int64]int64{}, load: func(_ context.Context, p ledger.Pointer) error {
		if p.Offset == 14 {
			return away
		}
		return nil
	}}
	for seq := range int64(3*copyPage + 1) {
		if seq%100 == 4 || seq == 3*copyPage {
			s.bare[seq+1] = seq + 10
		}
	}
	w := s.sweep(t, 3*copyPage)
	err := w.walk(t.Context())
	if !errors.Is(err, away) || w.done != 4 || len(s.stored) != 29 || s.groups < 3 {
		t.Errorf("%v: done up to %d, stored %d in %d groups", err, w.done, len(s.stored), s.groups)
	}
	s.load = nil
	if err := w.next(t.Context()); err != nil || w.done != 3*copyPage || !slices.Equal(s.stored[29:], []int64{5}) {
		t.Errorf("%v: done up to %d, stored %d", err, w.done, s.stored[29:])
	}
	w.before = 1 << 40
	if err := w.next(t.Context()); err != nil || len(s.bare) != 0 || s.asked[len(s.asked)-1] != 3*copyPage {
		t.Errorf("%v: left %v, walks from %d", err, s.bare, s.asked)
	}
	for seq := range int64(50) {
		s.bare[10000+seq] = seq
	}
	loads := 0
	s.load = func(context.Context, ledger.Pointer) error { loads++; return away }
	if err := w.next(t.Context()); !errors.Is(err, away) || loads != copyFailures {
		t.Errorf("%v after %d loads", err, loads)
	}
}

// next begins another sweep with the same bounds.
func (s *copySweep) next(ctx context.Context) error {
	s.left, s.failed, s.failure = 0, 0, nil
	return s.walk(ctx)
}

// A claim that lost its fence is told of, once, and not swept again.
func TestSweepTellsOfALostFence(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	r.produce(0, 1)
	r.retention("0")
	s := &shelf{bare: map[int64]int64{1: 0}, fenced: true}
	w := s.sweep(t, 0)
	w.broker = newBroker(r.client, testGroup)
	c := &ledger.Claim{Partition: ledger.Partition{Topic: testTopic}}
	told := make(chan *ledger.Claim, 2)
	stop := w.copier.start(t.Context(), c, func(c *ledger.Claim) { told <- c })
	select {
	case got := <-told:
		if got != c {
			t.Errorf("told of %+v", got)
		}
	case <-time.After(patience):
		t.Error("nobody was told")
	}
	stop()
	if len(told) > 0 || len(s.asked) != 1 {
		t.Errorf("told %d times more, %d walks", len(told), len(s.asked))
	}
}

// A partition that is given up does not wait for a payload that does not come.
func TestSweepStopsInsideALoad(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	r.produce(0, 1)
	r.retention("0")
	loading := make(chan struct{})
	s := &shelf{bare: map[int64]int64{1: 0}, load: func(ctx context.Context, _ ledger.Pointer) error {
		close(loading)
		<-ctx.Done()
		return ctx.Err()
	}}
	w := s.sweep(t, 0)
	w.broker = newBroker(r.client, testGroup)
	stop := w.copier.start(t.Context(), &ledger.Claim{Partition: ledger.Partition{Topic: testTopic}}, nil)
	<-loading
	stopped := make(chan struct{})
	go func() { stop(); close(stopped) }()
	select {
	case <-stopped:
	case <-time.After(copyTimeout / 2):
		t.Error("the sweep does not end")
	}
	if len(s.stored) > 0 {
		t.Errorf("stored %d", s.stored)
	}
}

// Payloads that nobody can store are refused.
func TestConfigWantsALedgerForCopies(t *testing.T) {
	t.Parallel()
	cfg := Config{Group: testGroup, Topics: []string{testTopic}, Ledger: newMemory(), Lanes: newLanes(), Payloads: &shelf{}, Client: []kgo.Opt{}}
	if _, err := New(cfg); schemas.KindOf(err) != schemas.Invalid {
		t.Errorf("got %v", err)
	}
}
