package stream

import (
	"context"
	"maps"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/forebay-io/forebay/schemas/record"
	"github.com/forebay-io/forebay/stream/internal/streamtest"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/owner"
)

// aged makes a log on the real ledger: a parked head and two actions behind it, appended so many minutes ago. It returns
// the pointers of all three; nothing runs any more.
func (r *rig) aged(n *ledger.Namespace, minutes ...int) (pointers []ledger.Pointer) {
	r.T.Helper()
	lanes := newLanes()
	opened := make(chan *ledger.Claim, 1)
	lanes.opened = func(c *ledger.Claim) { opened <- c }
	run := r.start(r.config(n, lanes))
	for i, m := range minutes {
		rec := record.Encode(testTopic, event(i))
		rec.Timestamp = time.Now().Add(-time.Duration(m) * time.Minute)
		r.Send(rec)
		pointers = append(pointers, r.Pointer(i, int64(i)))
	}
	r.untilCommitted(r.T, 0, int64(len(minutes)))
	kept := record.PackEvent(event(0))
	_, err := n.Record(r.Ctx(), []ledger.Result{{Claim: <-opened, LaneSeq: 1, Status: ledger.Dead, Attempt: 1, Class: "rejected", Packed: kept}})
	if err != nil {
		r.T.Fatal(err)
	}
	run.stop(r.T)
	return pointers
}

// sweeps runs the subscription with a sweep until the metric has counted n results, and returns what is open then.
func (r *rig) sweeps(l Ledger, n *ledger.Namespace, change func(*setup), want map[string]float64) []ledger.Action {
	r.T.Helper()
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
	run.until(r.T, "copies", func([]owner.PartitionState) bool { return maps.Equal(copiesBy(r.T, reg), want) })
	open, _, err := n.Open(r.Ctx(), <-opened, 0, 100)
	if err != nil {
		r.T.Fatal(err)
	}
	run.stop(r.T)
	if got := copiesBy(r.T, reg); !maps.Equal(got, want) {
		r.T.Errorf("results %v, want %v", got, want)
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
	r.T.Helper()
	r.SetTopic("retention.ms", ms)
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
	if err := r.Cluster.DeleteRecords(testTopic, 0, 3); err != nil {
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
	_, err = r.payloads().Load(r.Ctx(), pointers[2])
	streamtest.IsLost(t, err, "the log starts at 3")
	// The next owner's sweep has nothing to copy: it counts what is gone and leaves it to the lane.
	r.retention("1000")
	if d := cmp.Diff(events(open), events(r.sweeps(n, n, nil, map[string]float64{"lost": 1}))); d != "" {
		t.Error(d)
	}
}

// shifted is a ledger whose pointers lead to the record behind theirs, as after a truncation and new growth.
type shifted struct{ *ledger.Namespace }

func (s shifted) WithoutCopy(ctx context.Context, c *ledger.Claim, after, before int64, limit int) (ledger.WithoutCopyPage, error) {
	page, err := s.Namespace.WithoutCopy(ctx, c, after, before, limit)
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
	r.RefuseDescribe()
	_, n := realLedger(t, arrival)
	r.aged(n, 15, 11, 9)
	open := r.sweeps(n, n, nil, map[string]float64{"failed": 1})
	if d := cmp.Diff(map[string]bool{"e0": true, "e1": false, "e2": false}, events(open)); d != "" {
		t.Error(d)
	}
	r.sweeps(n, n, func(c *setup) { c.Retention = map[string]time.Duration{testTopic: 20 * time.Minute} }, map[string]float64{"stored": 1})
}
