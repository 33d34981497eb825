package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/counter"
	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/lane"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/policy"
	"github.com/forebay-io/forebay/stream/sink"
)

// gateBatch is how many records a transaction has at most: the stream's default.
const gateBatch = 1000

// gateLoops is how many serial loops run side by side: as many as the machine of the figures has cores. A stream
// process has one loop per subscription.
const gateLoops = 2

// gateWarmUp is how many actions a loop of one partition decides before it is measured: version lines are written ledger.MaxLag actions
// later, so only then each batch writes as many as it leaves for later.
const gateWarmUp = ledger.MaxLag + entitiesPerPartition

// gateRun is one run of our side: events from memory through claim, gate, ledger and lanes to the completion of every action.
type gateRun struct {
	gateLoad
	url   string
	meter meter
	seed  uint64
	// name is the subscription's. If the ledger has it already, the run continues where the last one ended.
	name    string
	loops   int           // serial, each with a partition of its own
	match   string        // of the subscription, asked of every event; empty: nothing is asked
	guarded bool          // it has a second key and all guards, see laneGuards
	length  time.Duration // of the measured part
}

// gateResult is what a run brought. Measured is the part from the first batch to the last committed completion, after
// every entity has begun.
type gateResult struct {
	measured
	actions int64 // that the measured events led to: repeats lead to none
	warmed  int64 // actions before
	// lineUpdates is how many rows of version lines were updated for an action. The first ledger.MaxLag actions of each loop are not
	// counted, because lines are written that much later.
	lineUpdates float64
}

func (g gateRun) run(ctx context.Context) (gateResult, error) {
	before, err := versionLineUpdates(ctx, g.url)
	if err != nil {
		return gateResult{}, err
	}
	result, err := g.runLoops(ctx)
	if err != nil {
		return result, err
	}
	after, err := versionLineUpdates(ctx, g.url)
	result.lineUpdates = float64(after-before) / float64(max(1, result.warmed+result.actions-int64(g.loops*ledger.MaxLag)))
	return result, err
}

// versionLineUpdates returns how many rows of version lines have ever been updated. A session reports its counts when it ends, which may
// be a moment after it was closed: so it asks until two answers agree.
func versionLineUpdates(ctx context.Context, url string) (n int64, err error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return 0, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	for last := int64(-1); n != last; {
		last = n
		if err := waitUntil(ctx, time.Now().Add(100*time.Millisecond)); err != nil {
			return 0, err
		}
		err := conn.QueryRow(ctx, `SELECT coalesce(pg_stat_get_tuples_updated(to_regclass('forebay.version_lines')), 0)`).Scan(&n)
		if err != nil {
			return 0, err
		}
	}
	return n, nil
}

// runLoops opens a ledger and lanes for the run, and measures its loops.
func (g gateRun) runLoops(ctx context.Context) (gateResult, error) {
	l, err := ledger.Open(ctx, ledger.Config{URL: schemas.NewSecret(g.url)})
	if err != nil {
		return gateResult{}, err
	}
	defer l.Close()
	ns, err := l.Namespace(ctx, g.spec())
	if err != nil {
		return gateResult{}, err
	}
	body := &bodies{sample: issueOf(g.body)}
	cfg := lane.Config{
		Subscription: g.name, Ledger: ns, Payloads: body, Codec: noCodec,
		Destinations: map[string]lane.DestinationConfig{"bench/noop": {Sink: noop{}, Concurrency: 64}}, Alive: func() bool { return true },
	}
	laneCtx, stopLanes := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer stopLanes()
	key := ""
	if g.guarded {
		key = laneKey
		counters := counter.New(l, nil)
		running.Go(func() { counters.Run(laneCtx) })
		cfg.Destinations["bench/noop"] = lane.DestinationConfig{Sink: &paid{}, Concurrency: 64}
		if cfg.Guard, err = laneGuards(l, ns, counters); err != nil {
			return gateResult{}, err
		}
	}
	selects, err := policy.Select(g.match, key)
	if err != nil {
		return gateResult{}, err
	}
	lanes, err := lane.New(cfg)
	if err != nil {
		return gateResult{}, err
	}
	laneDone := make(chan error, 1)
	go func() { laneDone <- lanes.Run(laneCtx) }()
	result, err := g.measure(ctx, g.newLoops(ns, lanes, body, selects))
	stopLanes()
	return result, errors.Join(err, <-laneDone)
}

// spec is the run's subscription.
func (g gateRun) spec() ledger.Spec {
	spec := ledger.Spec{
		Name: g.name, Owner: "forebay-bench",
		Actions: []ledger.ActionSpec{{Name: "run", Destination: "bench/noop", OnDead: ledger.Park}},
		Policy:  gate.Policy{Order: gate.OrderVersion, Start: gate.StartAny, Equal: gate.EqualApply, MaxPerEntity: 100, MaxBuffered: 1000},
	}
	if g.guarded {
		spec.Policy.Also = 10 * time.Minute
	}
	return spec
}

// gateTopic is where the events of all runs come from, as the ledger sees it.
var gateTopic = ledger.Partition{Topic: "events.bench.github", TopicID: ledger.TopicID{1}}

// claimFrom asks for a partition of the run's topic, from where start says, given where the ledger stands; nil if it never stood there.
func (g gateRun) claimFrom(number int32, start func(stored *ledger.Position) ledger.Start) ledger.ClaimRequest {
	p := gateTopic
	p.Number = number
	return ledger.ClaimRequest{Partition: p, Partitions: int32(g.loops),
		Confirm: func(_ context.Context, stored *ledger.Position) (ledger.Start, error) { return start(stored), nil }}
}

// goOn starts where the ledger stands.
func goOn(stored *ledger.Position) ledger.Start {
	if stored == nil {
		return ledger.Start{}
	}
	return ledger.Start{Position: *stored}
}

func (g gateRun) newLoops(ns *ledger.Namespace, lanes *lane.Lanes, body *bodies, selects selectFunc) loopSet {
	names := entityNames(g.entities)
	loops := make(loopSet, g.loops)
	for i := range loops {
		loops[i] = newGateLoop(g, ns, lanes, body, selects, names, i)
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
			events += l.decided
		}
		return events, err
	})
	if err != nil {
		return result, err
	}
	for _, l := range loops {
		result.actions += l.actions
		result.warmed += l.warmed
	}
	return result, loops.each(func(l *gateLoop) error { return l.close(ctx) })
}

// loopSet is the loops of a run, which run side by side.
type loopSet []*gateLoop

func (s loopSet) each(do func(*gateLoop) error) error { return sideBySide(s, do) }

// sideBySide does something with all of a list at the same time.
func sideBySide[T any](list []T, do func(T) error) error {
	var wg sync.WaitGroup
	errs := make([]error, len(list))
	for i, x := range list {
		wg.Go(func() { errs[i] = do(x) })
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

// bodies makes the events' bodies. It is also the lanes' reader of payloads, for bodies that they had no room to keep.
type bodies struct{ sample []byte }

// issueOf returns a body of n bytes, of the form that GitHub's have; a shorter one than its form takes is not.
func issueOf(n int) []byte {
	const before, after = `{"action":"opened","issue":{"number":42,"state":"open","title":"`, `","labels":[{"name":"bug"}]},"sender":{"type":"User"}}`
	return []byte(before + strings.Repeat("x", max(0, n-len(before)-len(after))) + after)
}

// clone returns a body in memory of its own, as an event's is that was read from a broker.
func (b *bodies) clone() []byte { return bytes.Clone(b.sample) }

func (b *bodies) Load(_ context.Context, p ledger.Pointer) (*schemas.Event, error) {
	return &schemas.Event{Hash: p.Hash, Data: b.clone()}, nil
}

var errNoPayloads = errors.New("the bench keeps no payloads")

var noCodec = lane.Codec{
	Pack:   func(*schemas.Event) []byte { return nil },
	Unpack: func([]byte) (*schemas.Event, error) { return nil, errNoPayloads },
}

// gateName returns the name of a subscription that no run before has used.
func gateName(seed uint64) string { return fmt.Sprintf("bench.gate%d", seed) }
