package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream"
	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/lane"
	"github.com/forebay-io/forebay/stream/ledger"
)

// gateBatch is how many records one transaction takes, the stream's own default.
const gateBatch = 1000

// gateLoops is how many serial loops run, each with a partition of its own: as many as the machine of the figures has
// cores. A stream process has one loop per subscription.
const gateLoops = 2

// oursGate takes events from memory through fence, gate, ledger, lanes and the completion of every action, for d, and
// returns events per second from the first batch to the last committed completion. The entities are known before.
func oursGate(ctx context.Context, url string, d time.Duration, seed uint64) (float64, error) {
	l, err := ledger.Open(ctx, ledger.Config{URL: schemas.NewSecret(url)})
	if err != nil {
		return 0, err
	}
	defer l.Close()
	const name = "bench.gate"
	ns, err := l.Namespace(ctx, ledger.Spec{
		Name: fmt.Sprintf("%s%d", name, seed), Owner: "forebay-bench",
		Actions: []ledger.ActionSpec{{Name: "run", Destination: "bench/noop", OnDead: ledger.Park}},
		Policy:  gate.Policy{Order: gate.OrderVersion, Start: gate.StartAny, Equal: gate.EqualApply, MaxPerEntity: 100, MaxBuffered: 1000},
	})
	if err != nil {
		return 0, err
	}
	sink := &noop{}
	lanes, err := lane.New(lane.Config{
		Subscription: name, Ledger: ns, Payloads: noPayloads{}, Codec: noCodec,
		Destinations: map[string]lane.Destination{"bench/noop": {Sink: sink, Concurrency: 64}}, Alive: func() bool { return true },
	})
	if err != nil {
		return 0, err
	}
	return runGate(ctx, ns, lanes, d, seed)
}

func runGate(ctx context.Context, ns *ledger.Namespace, lanes *lane.Lanes, d time.Duration, seed uint64) (float64, error) {
	laneCtx, stopLanes := context.WithCancel(ctx)
	defer stopLanes()
	laneDone := make(chan error, 1)
	go func() { laneDone <- lanes.Run(laneCtx) }()

	loops := make([]*gateLoop, gateLoops)
	each := func(do func(*gateLoop) error) error {
		var wg sync.WaitGroup
		errs := make([]error, len(loops))
		for i, l := range loops {
			wg.Go(func() { errs[i] = do(l) })
		}
		wg.Wait()
		return errors.Join(errs...)
	}
	for i := range loops {
		loops[i] = &gateLoop{ns: ns, lanes: lanes, partition: int32(i)}
	}
	err := each(func(l *gateLoop) error { return l.prepare(ctx, seed) })
	var events int64
	begin := time.Now()
	if err == nil {
		err = each(func(l *gateLoop) error { return l.run(ctx, d) })
	}
	elapsed := time.Since(begin)
	for _, l := range loops {
		events += l.done
	}
	stopLanes()
	if err := errors.Join(err, <-laneDone); err != nil && !errors.Is(err, context.Canceled) {
		return 0, err
	}
	return float64(events) / elapsed.Seconds(), nil
}

// gateLoop is one partition's serial loop.
type gateLoop struct {
	ns        *ledger.Namespace
	lanes     *lane.Lanes
	partition int32
	claim     *ledger.Claim
	events    *generator
	done      int64 // events
}

// gateEvents is a batch with the events that its actions carry.
type gateEvents struct {
	records []ledger.Record
	events  []schemas.Event
}

// prepare claims the partition and lets every entity begin its line.
func (l *gateLoop) prepare(ctx context.Context, seed uint64) (err error) {
	l.claim, err = l.ns.Claim(ctx, ledger.ClaimRequest{
		Partition: ledger.Partition{Topic: "events.bench.github", TopicID: ledger.TopicID{1}, Number: l.partition}, Partitions: gateLoops,
		Confirm: func(context.Context, *ledger.Position) (ledger.Start, error) { return ledger.Start{}, nil },
	})
	if err != nil {
		return err
	}
	if err := l.lanes.Open(ctx, l.claim); err != nil {
		return err
	}
	l.events = newGenerator(l.partition, seed)
	for range entitiesPerPartition / gateBatch {
		if err := l.apply(ctx, l.events.batch(l.events.begin)); err != nil {
			return err
		}
	}
	return drained(ctx, l.ns, l.claim)
}

// run applies batches for d, then waits until the last action is done.
func (l *gateLoop) run(ctx context.Context, d time.Duration) error {
	for begin := time.Now(); time.Since(begin) < d; l.done += gateBatch {
		if err := l.apply(ctx, l.events.batch(l.events.next)); err != nil {
			return err
		}
	}
	if err := drained(ctx, l.ns, l.claim); err != nil {
		return err
	}
	return l.lanes.Close(ctx, l.claim)
}

func (l *gateLoop) apply(ctx context.Context, b gateEvents) error {
	slice := ledger.Slice{Claim: l.claim, Records: b.records, Next: ledger.Position{Offset: b.records[gateBatch-1].Offset + 1}}
	applied, err := l.ns.Apply(ctx, []ledger.Slice{slice})
	if err != nil {
		return err
	}
	if applied[0].Fenced || len(applied[0].Quarantined) > 0 {
		return fmt.Errorf("a batch of the bench came back fenced or quarantined: %+v", applied[0].Quarantined)
	}
	items := make([]stream.Item, len(applied[0].Actions))
	for i, a := range applied[0].Actions {
		items[i] = stream.Item{Action: a, Event: &b.events[a.Record]}
	}
	l.lanes.Add(l.claim, items)
	return nil
}

// drained waits until the ledger has no open action of the claim.
func drained(ctx context.Context, ns *ledger.Namespace, claim *ledger.Claim) error {
	for {
		open, _, err := ns.Open(ctx, claim, 0, 1)
		if err != nil {
			return err
		}
		if len(open) == 0 {
			return nil
		}
		if open[0].Status == ledger.Dead {
			return fmt.Errorf("an action of the bench died: %+v", open[0])
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// batch is the next events of a generator in the ledger's form, with those that the lanes carry.
func (g *generator) batch(next func() event) gateEvents {
	b := gateEvents{make([]ledger.Record, gateBatch), make([]schemas.Event, gateBatch)}
	now, packed := time.Now(), func() []byte { return []byte{} }
	for i := range b.records {
		e := next()
		v := schemas.Version{Kind: schemas.Monotonic, Value: e.version}
		b.records[i] = ledger.Record{
			Record: gate.Record{
				Offset: e.offset, AppendTime: now, Key: e.key, Hash: e.hash, Entity: schemas.EntityKey(e.entity), Version: v, Payload: schemas.Snapshot,
			},
			Source: e.source, ID: e.id, Type: e.typ, ReceivedAt: now,
			Packed: packed,
		}
		b.events[i] = schemas.Event{ID: e.id, Source: e.source, Type: e.typ, Entity: schemas.EntityKey(e.entity), Version: v,
			Payload: schemas.Snapshot, Hash: e.hash, Data: []byte{}}
	}
	return b
}

// noop is a sink that does nothing at once.
type noop struct{ done atomic.Int64 }

func (s *noop) Do(context.Context, stream.Action) (stream.Outcome, error) {
	s.done.Add(1)
	return stream.Outcome{Code: 200}, nil
}
func (s *noop) Close(context.Context) error     { return nil }
func (s *noop) Idempotency() stream.Idempotency { return stream.Idempotent }

// noPayloads answers what lanes ask for when an action did not fit into their window: the bench has no bodies.
type noPayloads struct{}

func (noPayloads) Load(_ context.Context, p ledger.Pointer) (*schemas.Event, error) {
	return &schemas.Event{Hash: p.Hash, Data: []byte{}}, nil
}

var noCodec = lane.Codec{
	Pack:   func(*schemas.Event) ([]byte, error) { return nil, errors.New("the bench keeps no payloads") },
	Unpack: func([]byte) (*schemas.Event, error) { return nil, errors.New("the bench keeps no payloads") },
}

// walBytes is how much WAL the server has written since its beginning.
func walBytes(ctx context.Context, url string) (int64, error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return 0, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	var n int64
	err = conn.QueryRow(ctx, `SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint`).Scan(&n)
	return n, err
}
