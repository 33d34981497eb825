package bench

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/record"
)

// The scenario release is about one entity with many events that wait for the one before them: when that comes, all of them run, in order, and the
// other entities of the same partition, subscription and destination wait no longer for it than they did before.

// What the project allows: times as long, by p99, and MiB of the stream process.
const (
	releaseBar    = 2
	releaseMemory = 256
)

type releaseSizes struct {
	waiting  int     // events of the one entity
	rate     float64 // events/s of the others
	entities int     // that the others are of
	warmUp   time.Duration
}

var releaseScale = releaseSizes{waiting: 100_000, rate: 50, entities: 50, warmUp: 10 * time.Second}

func runReleaseScenario(ctx context.Context, o Options, r *Report) error {
	return releaseScale.run(ctx, o, r)
}

func (z releaseSizes) run(ctx context.Context, o Options, r *Report) error {
	o.data = memoryDir()
	pg, stop, err := o.servers(ctx, r)
	if err != nil {
		return err
	}
	defer stop()
	var during, before []float64
	memory := 0.0
	for i := range o.Rounds {
		got, err := z.round(ctx, o, pg)
		if err != nil {
			return err
		}
		during, before, memory = append(during, got.during), append(before, got.before), max(memory, got.memory)
		o.logf("release round %d: %d events released in %.1f s; p99 of the others %.2f ms meanwhile, %.2f ms before; %.0f MiB at most",
			i+1, z.waiting, got.took.Seconds(), got.during/1e3, got.before/1e3, got.memory)
	}
	others := ratioOf("release/others_p99", "us from the log to the action by p99, of other entities while what waited on one is released, and before", releaseBar, during, before)
	others.AtMost = true
	r.Ratios = append(r.Ratios, others, atMost("release/memory", "MiB of the stream process at most, and allowed", memory, releaseMemory))
	r.Settings["release"] = fmt.Sprintf("%d events wait on one entity, %.0f events/s on %d others of the same partition; all come once and in order", z.waiting, z.rate, z.entities)
	return nil
}

// releaseConfig is what follows the stack's head: a source with versions that count up, and a subscription of it.
const releaseConfig = `      orders:
        preset: generic
        secrets: [nobody-sends-with-this]
        verify: {algorithm: sha256, signature_header: X-Signature, encoding: hex, signed: "{body}"}
        event: {id: header:X-Event-Id, type: /type, entity: [/id], version: {from: /rev, kind: sequence}, payload: snapshot}
    destinations:
      agent: {type: http, url: "AGENT/run", timeout: 10s, allow_networks: [127.0.0.0/8]}
    subscriptions:
      all:
        sources: [orders]
        begin: all
        start: first
        gap: {wait: 1d, then: park, max_events: {entity: 1000000, subscription: 1000000}, max_bytes: {entity: 0, subscription: 0}}
        actions: [{name: run, to: agent}]
`

// released is what a round has shown, times in microseconds.
type released struct {
	during, before, memory float64
	took                   time.Duration
}

// round has events of one entity wait, measures the others for a while, has the first of the one come, and measures the others until all have run.
func (z releaseSizes) round(ctx context.Context, o Options, pg *pgServer) (got released, err error) {
	w, err := o.startStack(ctx, pg, newTeamName("release"), 1, releaseConfig)
	if err != nil {
		return got, err
	}
	defer w.close()
	load, stop := context.WithCancel(ctx)
	defer stop()
	others := &releaseLoad{team: w.team}
	if others.cl, err = kgo.NewClient(kgo.SeedBrokers(o.Kafka...), kgo.RequiredAcks(kgo.AllISRAcks()), kgo.ProducerLinger(0), record.Compressor()); err != nil {
		return got, err
	}
	defer others.cl.Close()
	ended := make(chan struct{})
	go func() { defer close(ended); others.run(load, z) }()
	defer func() { stop(); <-ended }()
	err = produce(ctx, o.Kafka, w.releaseTopic(), func(yield func(*schemas.Event) bool) {
		for rev := range uint64(z.waiting) {
			if !yield(releaseEvent(w.team, deliveryOf(1, rev+2, 0))) {
				return
			}
		}
	})
	if err != nil {
		return got, err
	}
	if err := w.waitWaiting(ctx, z.waiting); err != nil {
		return got, err
	}
	if err := waitUntil(ctx, time.Now().Add(z.warmUp)); err != nil {
		return got, err
	}
	calm := time.Now()
	if err := waitUntil(ctx, calm.Add(o.Round)); err != nil {
		return got, err
	}
	filled := time.Now()
	err = produce(ctx, o.Kafka, w.releaseTopic(), func(yield func(*schemas.Event) bool) { yield(releaseEvent(w.team, deliveryOf(1, 1, 0))) })
	if err != nil {
		return got, err
	}
	came, err := z.await(ctx, w, stop, ended, others)
	if err != nil {
		return got, err
	}
	got.memory = residentMiB(w.processes["stream"], "VmHWM")
	return got, got.judge(others.accepted, came, calm, filled)
}

// await waits until all that was released has run, ends the others' load, and waits until all of that has.
func (z releaseSizes) await(ctx context.Context, w *stack, stop func(), ended <-chan struct{}, others *releaseLoad) (came []receipt, err error) {
	held, other := 0, 0
	const patience = 2 * time.Minute
	for deadline := time.Now().Add(patience); ; {
		sum, list, err := w.agent.take(ctx)
		if err != nil {
			return nil, err
		}
		if sum.Twice > 0 || sum.Unordered > 0 {
			return nil, fmt.Errorf("%d events came twice, %d out of order", sum.Twice, sum.Unordered)
		}
		for _, c := range list {
			if kindOf(c.Delivery) == 1 {
				held++
			} else {
				other++
			}
		}
		if came = append(came, list...); len(list) > 0 {
			deadline = time.Now().Add(patience)
		}
		if held == z.waiting+1 {
			stop()
			<-ended
			if others.err != nil || other == len(others.accepted) {
				return came, others.err
			}
		}
		if time.Now().After(deadline) {
			return nil, w.running["stream"].explain(fmt.Errorf("%d of %d events came of the one entity, %d of the others", held, z.waiting+1, other))
		}
		if err := waitUntil(ctx, time.Now().Add(100*time.Millisecond)); err != nil {
			return nil, err
		}
	}
}

// judge compares how long the others took that were accepted since the one event came, until the last that it released, and from calm to then.
func (got *released) judge(accepted, came []receipt, calm, filled time.Time) error {
	at, last := map[uint64]int64{}, filled.UnixNano()
	for _, c := range came {
		if at[c.Delivery] = c.At; kindOf(c.Delivery) == 1 {
			last = max(last, c.At)
		}
	}
	var during, before []time.Duration
	for _, a := range accepted {
		took := time.Duration(max(0, at[a.Delivery]-a.At))
		switch {
		case a.At > last || a.At < calm.UnixNano():
		case a.At > filled.UnixNano():
			during = append(during, took)
		default:
			before = append(before, took)
		}
	}
	if len(during) == 0 || len(before) == 0 {
		return errors.New("of the others nothing was accepted, before the release or during it: longer rounds, or more that waits")
	}
	p99 := func(times []time.Duration) float64 { return max(float64(percentile(times, 0.99).Microseconds()), 1) }
	got.during, got.before, got.took = p99(during), p99(before), time.Duration(last-filled.UnixNano())
	return nil
}

func (w *stack) releaseTopic() string { return "events." + w.team + ".orders" }

// waitWaiting waits until so many events wait.
func (w *stack) waitWaiting(ctx context.Context, n int) error {
	conn, err := pgx.Connect(ctx, w.postgres)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	for deadline := time.Now().Add(10 * time.Minute); ; {
		var waiting int
		err := conn.QueryRow(ctx, `SELECT count(*) FROM forebay.buffer b JOIN forebay.fences f ON f.id = b.fence JOIN forebay.subscriptions s ON s.id = f.subscription
			WHERE s.name = $1`, w.team+".all").Scan(&waiting)
		if err != nil || waiting == n {
			return err
		}
		if time.Now().After(deadline) {
			return w.running["stream"].explain(fmt.Errorf("%d of %d events wait", waiting, n))
		}
		if err := waitUntil(ctx, time.Now().Add(200*time.Millisecond)); err != nil {
			return err
		}
	}
}

// releaseEvent is an event of the source: its entity and version are those of a delivery.
func releaseEvent(team string, delivery uint64) *schemas.Event {
	now, id := time.Now().UTC(), strconv.FormatUint(delivery, 16)
	body := fmt.Appendf(nil, `{"type":"order.changed","id":%q,"rev":%d}`, strconv.FormatUint(kindAndEntityOf(delivery), 16), stepOf(delivery))
	return &schemas.Event{
		ID: id, DeliveryID: id, Source: "/" + team + "/orders", Type: "order.changed", Entity: schemas.NewEntityKey(strconv.FormatUint(kindAndEntityOf(delivery), 16)),
		Time: now, RecordedTime: now, DataContentType: "application/json",
		Version: schemas.Version{Kind: schemas.Sequence, Value: int64(stepOf(delivery))}, First: new(int64(1)), Payload: schemas.Snapshot, Hash: schemas.HashBody(body), Data: body,
	}
}

// releaseLoad are events of other entities, and when the broker had each.
type releaseLoad struct {
	team string
	cl   *kgo.Client

	mu       sync.Mutex
	accepted []receipt
	err      error
}

// run produces events one by one at the rate until ctx is done, and returns when the broker has all of them.
func (l *releaseLoad) run(ctx context.Context, z releaseSizes) {
	tick := time.NewTicker(time.Duration(float64(time.Second) / z.rate))
	defer tick.Stop()
	background := context.WithoutCancel(ctx)
	for n := uint64(0); ctx.Err() == nil; n++ {
		delivery := deliveryOf(0, n/uint64(z.entities)+1, n%uint64(z.entities))
		l.cl.Produce(background, record.Encode("events."+l.team+".orders", releaseEvent(l.team, delivery)), func(_ *kgo.Record, err error) {
			l.mu.Lock()
			defer l.mu.Unlock()
			if l.accepted = append(l.accepted, receipt{delivery, time.Now().UnixNano()}); err != nil {
				l.err = err
			}
		})
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
	if err := l.cl.Flush(background); err != nil {
		l.err = err
	}
}
