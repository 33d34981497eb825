package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/lane"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/sink"
)

// gateBatch is how many records one transaction takes at most, gateWait how long a batch waits for more: the stream's
// own defaults.
const (
	gateBatch = 1000
	gateWait  = 2 * time.Millisecond
)

// gateLoops is how many serial loops run side by side: as many as the machine of the figures has cores. A stream
// process has one loop per subscription.
const gateLoops = 2

// gateWarmUp is how many actions bring a loop of one partition to where it writes as many lines as it leaves behind.
const gateWarmUp = ledger.MaxLag + entitiesPerPartition

// gateRun is one run of ours: events from memory through fence, gate, ledger, lanes and the completion of every action.
type gateRun struct {
	url   string
	meter meter
	seed  uint64
	// name is the subscription's, and so its namespace's: one that the ledger knows is gone on with.
	name       string
	loops      int // serial, each with partitions of its own
	partitions int // of each loop; its batches span them
	entities   int // of each partition
	body       int // bytes of an event's body, which lanes hold and the ledger does not
	warmUp     int // actions of each loop before it is measured, besides the first of every entity; see gateWarmUp
	// rate is how many events/s arrive at each loop; 0 lets every batch be full.
	rate   int
	length time.Duration // of the measured part
}

// gateResult is what a run brought. Measured is the part from the first batch to the last committed completion, after
// every entity has begun.
type gateResult struct {
	measured
	// batches are their latencies: from the arrival of a batch's first event to its commit.
	batches []time.Duration
	loads   int64 // bodies that lanes had let go of and read again
	actions int64 // that the measured events led to: repeats lead to none
	warmed  int64 // actions before
	// lines are the rows of lines that were written for an action, since the first of them was a lag behind.
	lines float64
}

func (g gateRun) run(ctx context.Context) (gateResult, error) {
	before, err := linesUpdated(ctx, g.url)
	if err != nil {
		return gateResult{}, err
	}
	result, err := g.through(ctx)
	if err != nil {
		return result, err
	}
	after, err := linesUpdated(ctx, g.url)
	result.lines = float64(after-before) / float64(max(1, result.warmed+result.actions-int64(g.loops*ledger.MaxLag)))
	return result, err
}

// linesUpdated is how many rows of lines have ever been updated. Sessions tell the statistics when they end, which may be a
// moment after they were closed.
func linesUpdated(ctx context.Context, url string) (n int64, err error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return 0, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	for last := int64(-1); n != last; {
		last = n
		if err := until(ctx, time.Now().Add(100*time.Millisecond)); err != nil {
			return 0, err
		}
		err := conn.QueryRow(ctx, `SELECT coalesce(pg_stat_get_tuples_updated(to_regclass('forebay.version_lines')), 0)`).Scan(&n)
		if err != nil {
			return 0, err
		}
	}
	return n, nil
}

// through runs the events through a ledger and lanes of the run's own.
func (g gateRun) through(ctx context.Context) (gateResult, error) {
	l, err := ledger.Open(ctx, ledger.Config{URL: schemas.NewSecret(g.url)})
	if err != nil {
		return gateResult{}, err
	}
	defer l.Close()
	ns, err := l.Namespace(ctx, ledger.Spec{
		Name: g.name, Owner: "forebay-bench",
		Actions: []ledger.ActionSpec{{Name: "run", Destination: "bench/noop", OnDead: ledger.Park}},
		Policy:  gate.Policy{Order: gate.OrderVersion, Start: gate.StartAny, Equal: gate.EqualApply, MaxPerEntity: 100, MaxBuffered: 1000},
	})
	if err != nil {
		return gateResult{}, err
	}
	body := &bodies{sample: bytes.Repeat([]byte{'x'}, g.body)}
	lanes, err := lane.New(lane.Config{
		Subscription: g.name, Ledger: ns, Payloads: body, Codec: noCodec,
		Destinations: map[string]lane.Destination{"bench/noop": {Sink: noop{}, Concurrency: 64}}, Alive: func() bool { return true },
	})
	if err != nil {
		return gateResult{}, err
	}
	laneCtx, stopLanes := context.WithCancel(ctx)
	defer stopLanes()
	laneDone := make(chan error, 1)
	go func() { laneDone <- lanes.Run(laneCtx) }()
	result, err := g.measure(ctx, g.newLoops(ns, lanes, body))
	stopLanes()
	result.loads = body.loads.Load()
	if err := errors.Join(err, <-laneDone); err != nil {
		return gateResult{}, err
	}
	return result, nil
}

func (g gateRun) newLoops(ns *ledger.Namespace, lanes *lane.Lanes, body *bodies) loopSet {
	names := entityNames(g.entities)
	loops := make(loopSet, g.loops)
	for i := range loops {
		loops[i] = newGateLoop(g, ns, lanes, body, names, i)
	}
	return loops
}

// measure prepares the loops, runs them between two readings of the meters, and closes them.
func (g gateRun) measure(ctx context.Context, loops loopSet) (result gateResult, err error) {
	if err := loops.each(func(l *gateLoop) error { return l.prepare(ctx) }); err != nil {
		return result, err
	}
	result.measured, err = g.meter.around(ctx, func() (events int64, err error) {
		err = loops.each(func(l *gateLoop) error { return l.run(ctx) })
		for _, l := range loops {
			events += l.done
		}
		return events, err
	})
	if err != nil {
		return result, err
	}
	for _, l := range loops {
		result.batches = append(result.batches, l.batches...)
		result.actions += l.actions
		result.warmed += l.warmed
	}
	return result, loops.each(func(l *gateLoop) error { return l.close(ctx) })
}

// loopSet are loops that run side by side.
type loopSet []*gateLoop

func (s loopSet) each(do func(*gateLoop) error) error {
	var wg sync.WaitGroup
	errs := make([]error, len(s))
	for i, l := range s {
		wg.Go(func() { errs[i] = do(l) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// noop is a sink that does nothing at once.
type noop struct{}

func (noop) Do(context.Context, sink.Action) (sink.Outcome, error) {
	return sink.Outcome{Code: 200}, nil
}
func (noop) Close(context.Context) error   { return nil }
func (noop) Idempotency() sink.Idempotency { return sink.Idempotent }

// bodies makes what events carry, and answers what lanes ask for when they had no room for it.
type bodies struct {
	sample []byte
	loads  atomic.Int64
}

// fresh is a body of an event's own, as the stream cuts it out of what a broker sent.
func (b *bodies) fresh() []byte { return bytes.Clone(b.sample) }

func (b *bodies) Load(_ context.Context, p ledger.Pointer) (*schemas.Event, error) {
	b.loads.Add(1)
	return &schemas.Event{Hash: p.Hash, Data: b.fresh()}, nil
}

var errNoPayloads = errors.New("the bench keeps no payloads")

var noCodec = lane.Codec{
	Pack:   func(*schemas.Event) ([]byte, error) { return nil, errNoPayloads },
	Unpack: func([]byte) (*schemas.Event, error) { return nil, errNoPayloads },
}

// gateName is a namespace that no run before has used.
func gateName(seed uint64) string { return fmt.Sprintf("bench.gate%d", seed) }
