package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

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
	r.Ratios = append(r.Ratios,
		ratioOf("release/others_p99", "us from the log to the action by p99, of other entities while what waited on one is released, and before", releaseBar, during, before).most(),
		atMost("release/memory", "MiB of the stream process at most, and allowed", memory, releaseMemory))
	r.Settings["release"] = fmt.Sprintf("%d events wait on one entity, %.0f events/s on %d others of the same partition; all come once and in order", z.waiting, z.rate, z.entities)
	return nil
}

// released is what a round has shown, times in microseconds.
type released struct {
	during, before, memory float64
	took                   time.Duration
}

// round has events of one entity wait, measures the others for a while, has the first of the one come, and measures the others until all have run.
func (z releaseSizes) round(ctx context.Context, o Options, pg *pgServer) (got released, err error) {
	w, err := o.startStack(ctx, pg, "release", 1, ordersConfig, "stream")
	if err != nil {
		return got, err
	}
	defer w.close()
	load, stop := context.WithCancel(ctx)
	defer stop()
	others := &releaseLoad{stack: w}
	if others.cl, err = kgo.NewClient(kgo.SeedBrokers(o.Kafka...), kgo.RequiredAcks(kgo.AllISRAcks()), kgo.ProducerLinger(0), record.Compressor()); err != nil {
		return got, err
	}
	defer others.cl.Close()
	ended := make(chan struct{})
	go func() { defer close(ended); others.run(load, z) }()
	end := func() { stop(); <-ended }
	defer end()
	if err := w.produce(ctx, o.Kafka, 0, countUp(1, 2, 1, z.waiting)); err != nil {
		return got, err
	}
	if err := w.waitLedger(ctx, func(_, waiting, _ int64) bool { return waiting == int64(z.waiting) }); err != nil {
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
	if err := w.produce(ctx, o.Kafka, 0, countUp(1, 1, 1, 1)); err != nil {
		return got, err
	}
	came, err := z.await(ctx, w, end, others)
	if err != nil {
		return got, w.running["stream"].explain(err)
	}
	got.memory = residentMiB(w.processes["stream"], "VmHWM")
	return got, got.judge(others.accepted, came, calm, filled)
}

// await waits until all that was released has run, ends the others' load, and waits until all of that has.
func (z releaseSizes) await(ctx context.Context, w *stack, end func(), others *releaseLoad) ([]receipt, error) {
	ended := false
	sum, came, err := w.agent.collect(ctx, func(_ agentReport, came []receipt) (bool, string) {
		held := 0
		for _, c := range came {
			held += int(kindOf(c.Delivery))
		}
		if held == z.waiting+1 && !ended {
			end()
			ended = true
		}
		return ended && (others.err != nil || len(came)-held == len(others.accepted)), fmt.Sprintf("%d of %d events of the one entity", held, z.waiting+1)
	})
	end()
	return came, errors.Join(err, others.err, sum.onceInOrder())
}

// judge compares how long the others took that were accepted since the one event came, until the last that it released, and from calm to then.
func (got *released) judge(accepted, came []receipt, calm, filled time.Time) error {
	at, last := arrivals(came), filled.UnixNano()
	for _, c := range came {
		if kindOf(c.Delivery) == 1 {
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
	got.during, got.before, got.took = p99(during), p99(before), time.Duration(last-filled.UnixNano())
	return nil
}

// releaseLoad are events of other entities, and when the broker had each.
type releaseLoad struct {
	*stack
	cl *kgo.Client

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
		l.cl.Produce(background, record.Encode(l.ordersTopic(), l.orderEvent(delivery, 0)), func(_ *kgo.Record, err error) {
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
