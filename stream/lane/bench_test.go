package lane

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/sink"
)

// quick is a ledger that takes everything after the time of a commit, and otherwise knows as little as an empty double.
type quick struct {
	*memory
	commit time.Duration
	done   atomic.Int64
	groups atomic.Int64
}

func (*quick) Open(context.Context, *ledger.Claim, int64, int) ([]ledger.Action, bool, error) {
	return nil, false, nil
}

func (q *quick) Record(_ context.Context, results []ledger.Result) (map[int32]bool, error) {
	if q.commit > 0 {
		time.Sleep(q.commit)
	}
	q.done.Add(int64(len(results)))
	q.groups.Add(1)
	return nil, nil
}

// noop is a sink that does nothing, to measure the lanes alone.
type noop struct{}

func (noop) Do(context.Context, sink.Action) (sink.Outcome, error) {
	return sink.Outcome{Code: 200}, nil
}
func (noop) Close(context.Context) error   { return nil }
func (noop) Idempotency() sink.Idempotency { return sink.Idempotent }

// BenchmarkNoop is actions per second through the lanes with 20,000 entities and a ledger whose commit takes 2 ms.
func BenchmarkNoop(b *testing.B) {
	const entities, batch = 20_000, 1000
	names := make([]schemas.EntityKey, entities)
	for i := range names {
		names[i] = schemas.EntityKey(fmt.Sprint("entity/", i))
	}
	event := &schemas.Event{ID: "x", Source: "/acme/orders", Data: make([]byte, 256)}
	q := &quick{memory: newMemory(), commit: 2 * time.Millisecond}
	l, err := New(Config{
		Subscription: "acme.bench", Ledger: q, Payloads: &eventLog{}, Codec: jsonCodec, MaxOpen: 1 << 16,
		Destinations: map[string]DestinationConfig{destName: {Sink: noop{}, Concurrency: 64}}, Alive: func() bool { return true },
	})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan error)
	go func() { ended <- l.Run(ctx) }()
	defer func() { cancel(); <-ended }()
	claim := claimOf(1)
	if err := l.Open(ctx, claim); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	added := int64(0)
	items := make([]Item, batch)
	b.ResetTimer()
	for added < int64(b.N) {
		for i := range items {
			added++
			items[i] = Item{Event: event, Action: &ledger.Action{
				Claim: 1, LaneSeq: added, ID: "act_x", Name: "run", Destination: destName, OnDead: ledger.Park,
				Entity: names[added*7919%entities], Status: ledger.Pending,
			}}
		}
		for added-q.done.Load() > 40_000 {
			time.Sleep(100 * time.Microsecond)
		}
		l.Add(claim, items)
	}
	for q.done.Load() < added {
		time.Sleep(100 * time.Microsecond)
	}
	b.ReportMetric(float64(added)/b.Elapsed().Seconds(), "actions/s")
	b.ReportMetric(float64(added)/float64(q.groups.Load()), "actions/group")
}
