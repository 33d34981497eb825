package stream

import (
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/record"
	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/ledger/ledgertest"
)

// realLedger is a namespace in a schema of the test's own.
func realLedger(t *testing.T, p gate.Policy) (*ledger.Ledger, *ledger.Namespace) {
	t.Helper()
	l, _ := ledgertest.Open(t)
	return l, namespace(t, l, p)
}

func namespace(t *testing.T, l *ledger.Ledger, p gate.Policy) *ledger.Namespace {
	t.Helper()
	n, err := l.Namespace(t.Context(), spec(t.Name(), p))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func spec(owner string, p gate.Policy) ledger.Spec {
	return ledger.Spec{Name: testGroup, Owner: owner, Policy: p,
		Actions: []ledger.ActionSpec{{Name: "run", Destination: "acme/agent", OnDead: ledger.Park}}}
}

// arrival orders by arrival: dedupe only. versions waits for gaps, hourly for an hour.
var (
	arrival  = gate.Policy{Order: gate.OrderArrival, Start: gate.StartAny, Equal: gate.EqualApply, Then: gate.ThenSkip, MaxPerEntity: 100, MaxBuffered: 1000}
	versions = gate.Policy{Order: gate.OrderVersion, Start: gate.StartAny, Equal: gate.EqualApply, Then: gate.ThenSkip,
		GapWait: 400 * time.Millisecond, MaxPerEntity: 100, MaxBuffered: 1000, FutureSkew: time.Minute}
	hourly = func() gate.Policy { p := versions; p.GapWait = time.Hour; return p }()
)

func versioned(i int, version int64) *kgo.Record {
	e := event(i)
	e.Version = schemas.Version{Kind: schemas.Sequence, Value: version}
	return record.Encode(testTopic, e)
}

// Thousands that wait for one filler, or that another kind of version ends the wait of, are released in steps, in order, with what comes meanwhile
// behind them, also by an owner that takes over half-way.
func TestManyAreReleasedInSteps(t *testing.T) {
	t.Parallel()
	const most = 5 * ledger.MaxReleases
	var filled []string
	for i := range most + 1 {
		filled = append(filled, event(i+1).ID)
	}
	t.Run("filled", func(t *testing.T) { releasesInSteps(t, most, filled, versioned(2, 2), versioned(most+1, most+1)) })
	dated := func(i int) *kgo.Record {
		e := event(i)
		e.Version = schemas.Version{Kind: schemas.Timestamp, Value: int64(i)}
		return record.Encode(testTopic, e)
	}
	ended := slices.Concat(filled[:1], filled[2:most], []string{filled[1], filled[most]})
	t.Run("another kind", func(t *testing.T) { releasesInSteps(t, most, ended, dated(2), dated(most+1)) })
}

// releasesInSteps has events 3 to most wait for the second, and sends what ends that.
func releasesInSteps(t *testing.T, most int, want []string, end ...*kgo.Record) {
	t.Parallel()
	r := newRig(t, 1)
	parks := versions
	parks.Then, parks.GapWait = gate.ThenPark, 0
	_, n := realLedger(t, parks)
	lanes := newLanes()
	run := r.start(r.config(n, lanes))
	r.Send(versioned(1, 1))
	for i := 3; i <= most; i++ {
		r.Send(versioned(i, int64(i)))
	}
	r.untilCommitted(t, 0, int64(most-1))
	r.Send(end...)
	lanes.until(t, "the first step", func() bool { return len(lanes.items) > 2 })
	run.stop(t)
	r.start(r.config(n, lanes))
	lanes.until(t, "all", func() bool { return len(lanes.items) == len(want) })
	for i, id := range lanes.items {
		if id != want[i] {
			t.Fatalf("action %d is of %s, want %s", i, id, want[i])
		}
	}
}
