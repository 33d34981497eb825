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
// returns events per second from the first batch to the last committed completion.
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

	var events atomic.Int64
	var wg sync.WaitGroup
	errs := make([]error, gateLoops)
	begin := time.Now()
	for i := range gateLoops {
		wg.Go(func() {
			n, err := gateLoop(ctx, ns, lanes, int32(i), d, seed)
			events.Add(n)
			errs[i] = err
		})
	}
	wg.Wait()
	elapsed := time.Since(begin)
	stopLanes()
	if err := errors.Join(errors.Join(errs...), <-laneDone); err != nil && !errors.Is(err, context.Canceled) {
		return 0, err
	}
	return float64(events.Load()) / elapsed.Seconds(), nil
}

// gateLoop runs one partition: claim, batches for d, then the wait until its last action is done.
func gateLoop(ctx context.Context, ns *ledger.Namespace, lanes *lane.Lanes, partition int32, d time.Duration, seed uint64) (int64, error) {
	claim, err := ns.Claim(ctx, ledger.ClaimRequest{
		Partition: ledger.Partition{Topic: "events.bench.github", TopicID: ledger.TopicID{1}, Number: partition}, Partitions: gateLoops,
		Confirm: func(context.Context, *ledger.Position) (ledger.Start, error) { return ledger.Start{}, nil },
	})
	if err != nil {
		return 0, err
	}
	if err := lanes.Open(ctx, claim); err != nil {
		return 0, err
	}
	g := newGenerator(partition, seed)
	var n int64
	for begin := time.Now(); time.Since(begin) < d; n += gateBatch {
		if err := gateOnce(ctx, ns, lanes, claim, g); err != nil {
			return n, err
		}
	}
	return n, drained(ctx, ns, lanes, claim)
}

func gateOnce(ctx context.Context, ns *ledger.Namespace, lanes *lane.Lanes, claim *ledger.Claim, g *generator) error {
	slice := ledger.Slice{Claim: claim, Records: make([]ledger.Record, gateBatch)}
	events := make([]schemas.Event, gateBatch)
	for i := range slice.Records {
		slice.Records[i], events[i] = g.record()
	}
	slice.Next = ledger.Position{Offset: slice.Records[gateBatch-1].Offset + 1}
	applied, err := ns.Apply(ctx, []ledger.Slice{slice})
	if err != nil {
		return err
	}
	if applied[0].Fenced || len(applied[0].Quarantined) > 0 {
		return fmt.Errorf("a batch of the bench came back fenced or quarantined: %+v", applied[0].Quarantined)
	}
	items := make([]stream.Item, len(applied[0].Actions))
	for i, a := range applied[0].Actions {
		items[i] = stream.Item{Action: a, Event: &events[a.Record]}
	}
	lanes.Add(claim, items)
	return nil
}

// drained waits until the ledger has no open action of the claim.
func drained(ctx context.Context, ns *ledger.Namespace, lanes *lane.Lanes, claim *ledger.Claim) error {
	for {
		open, _, err := ns.Open(ctx, claim, 0, 1)
		if err != nil {
			return err
		}
		if len(open) == 0 {
			return lanes.Close(ctx, claim)
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

// record is the generator's next event in the ledger's form, with the event that the lane carries.
func (g *generator) record() (ledger.Record, schemas.Event) {
	e := g.next()
	v := schemas.Version{Kind: schemas.Monotonic, Value: e.version}
	now := time.Now()
	r := ledger.Record{
		Record: gate.Record{
			Offset: e.offset, AppendTime: now, Key: e.key, Hash: e.hash, Entity: schemas.EntityKey(e.entity), Version: v, Payload: schemas.Snapshot,
		},
		Source: e.source, ID: e.id, Type: e.typ, ReceivedAt: now,
		Packed: func() []byte { return []byte(e.id) },
	}
	return r, schemas.Event{ID: e.id, Source: e.source, Type: e.typ, Entity: schemas.EntityKey(e.entity), Version: v, Payload: schemas.Snapshot, Hash: e.hash, Data: []byte{}}
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
