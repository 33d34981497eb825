package bench

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	quietSource = "quiet"
	// overloadP99 is how much longer an accepted delivery may take under overload than without, by p99.
	overloadP99 = 3
	// overloadMemory is what the intake has for deliveries.
	overloadMemory  = 64 << 20
	overloadMaxBody = 1 << 20
)

// overloadSizes are the scenario's dimensions.
type overloadSizes struct {
	warm  int64
	conns int // on which the capacity is measured; the flood has times of them
	times int // how much more than the capacity is offered
	quiet time.Duration
}

var overloadScale = overloadSizes{warm: 50_000, conns: 64, times: 10, quiet: 20 * time.Millisecond}

// overload is what the rounds have come to.
type overload struct {
	calm, flooded, quiet []float64 // p99 of each round, in ms
	accepted             []uint64
	refused              int64
	quietAccepted        int64
	quietRefused         int64
}

// run measures in each round how long deliveries take at a tenth of the capacity, the capacity, and both of a flood of times the
// capacity, beside which another source has few.
func (sizes overloadSizes) run(ctx context.Context, o Options, r *Report) error {
	stop, err := o.startKafka(ctx)
	if err != nil {
		return err
	}
	defer stop()
	settings := serveSettings{Brokers: o.Kafka, Topic: "events.bench.overload", Secret: "a-secret-of-the-bench", Memory: overloadMemory, MaxBody: overloadMaxBody}
	if err := createTopic(ctx, settings, intakePartitions); err != nil {
		return err
	}
	s, err := startServer(ctx, serveOurs, settings)
	if err != nil {
		return err
	}
	defer s.Stop()
	for sent := int64(0); sent < sizes.warm; {
		n, _, err := intakeSenders(s.Addr, settings.Secret, sizes.conns).runFor(ctx, min(time.Second, o.Round))
		if err != nil {
			return err
		}
		sent += n
	}
	rest := residentMiB(s.PID(), "VmRSS")
	r.Settings["overload.intake"] = fmt.Sprintf("memory %d MiB, max_body %d KiB; net/http as the intake has it", overloadMemory>>20, overloadMaxBody>>10)
	var got overload
	for round := range o.Rounds {
		n, took, err := intakeSenders(s.Addr, settings.Secret, sizes.conns).runFor(ctx, o.Round)
		if err != nil {
			return err
		}
		capacity := float64(n) / took.Seconds()
		calm := overloadSenders(s.Addr, settings.Secret, "github", sizes.conns, round*2, capacity/10)
		if err := calm.runWhile(ctx, func(ctx context.Context) error { return waitUntil(ctx, time.Now().Add(o.Round)) }); err != nil {
			return err
		}
		if err := got.flood(ctx, o, sizes, s.Addr, settings.Secret, round, capacity); err != nil {
			return err
		}
		got.calm = append(got.calm, millis(percentile(calm.took, 0.99)))
		for _, of := range calm.takeAccepted() {
			got.accepted = append(got.accepted, of.Delivery)
		}
		o.logf("overload round %d: capacity %.0f/s; p99 %.1f ms calm, %.1f ms flooded, %.1f ms of the quiet source; %d refused so far", round+1, capacity,
			got.calm[round], got.flooded[round], got.quiet[round], got.refused)
	}
	peak := residentMiB(s.PID(), "VmHWM")
	kept, err := countKept(ctx, settings, got.accepted)
	if err != nil {
		return err
	}
	got.report(r, sizes, float64(kept), peak, rest)
	return nil
}

// flood offers times the capacity of one source, and a little of another.
func (got *overload) flood(ctx context.Context, o Options, sizes overloadSizes, addr, secret string, round int, capacity float64) error {
	flood := overloadSenders(addr, secret, "github", sizes.conns*sizes.times, round*2+1, capacity*float64(sizes.times))
	quiet := overloadSenders(addr, secret, quietSource, 4, round*2+1, float64(time.Second)/float64(sizes.quiet))
	err := flood.runWhile(ctx, func(ctx context.Context) error {
		return quiet.runWhile(ctx, func(ctx context.Context) error { return waitUntil(ctx, time.Now().Add(o.Round)) })
	})
	if err != nil {
		return err
	}
	for _, s := range []*senders{flood, quiet} {
		for _, of := range s.takeAccepted() {
			got.accepted = append(got.accepted, of.Delivery)
		}
	}
	got.flooded, got.quiet = append(got.flooded, millis(percentile(flood.took, 0.99))), append(got.quiet, millis(percentile(quiet.took, 0.99)))
	got.refused += flood.refused.Load()
	got.quietAccepted += quiet.sent.Load()
	got.quietRefused += quiet.refused.Load()
	return nil
}

func (got *overload) report(r *Report, sizes overloadSizes, kept, peak, rest float64) {
	r.Ratios = append(r.Ratios, Ratio{Name: "overload/kept", Unit: "accepted deliveries, all of which must be in the log", Ours: kept, Theirs: float64(len(got.accepted)),
		Ratio: kept / float64(len(got.accepted)), Bar: 1})
	r.Ratios = append(r.Ratios,
		ratioOf("overload/p99", fmt.Sprintf("ms, p99 of the accepted while %d times the capacity is offered, beside a tenth of it", sizes.times), overloadP99, got.flooded, got.calm).most(),
		ratioOf("overload/quiet_p99", "ms, p99 of another source meanwhile", overloadP99, got.quiet, got.calm).most(),
		Ratio{Name: "overload/quiet", Unit: "deliveries of that source accepted, of all", Ours: float64(got.quietAccepted), Theirs: float64(got.quietAccepted + got.quietRefused),
			Ratio: float64(got.quietAccepted) / float64(got.quietAccepted+got.quietRefused), Bar: 1},
		// What deliveries held is garbage until it is collected: as much again.
		atMost("overload/memory", "MiB resident at most, of what it had at rest and twice intake.memory", peak, rest+2*overloadMemory>>20))
	r.Settings["overload.refused"] = strconv.FormatInt(got.refused, 10)
}

// overloadSenders returns senders of a source that send so many a second and may be refused. Each run has entities of its own.
func overloadSenders(addr, secret, source string, conns, run int, rate float64) *senders {
	begin := time.Now().Add(-30 * 24 * time.Hour)
	kind := uint64(0)
	if source == quietSource {
		kind = 1
	}
	return &senders{addr: addr, conns: conns, overloads: true, step: uint64(run+1) * 1_000_000, interval: time.Duration(float64(time.Second) / rate), mix: []share{{kind: kind, weight: 1, entities: intakeEntities}},
		newTemplate: func() *requestTemplate { return newRequestTemplate("bench", source, secret, begin) }}
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// countKept returns how many of the deliveries are in the log.
func countKept(ctx context.Context, s serveSettings, accepted []uint64) (kept int, err error) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(s.Brokers...), kgo.ConsumeTopics(s.Topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		return 0, err
	}
	defer cl.Close()
	ends, err := kadm.NewClient(cl).ListEndOffsets(ctx, s.Topic)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return 0, err
	}
	left := map[int32]int64{}
	ends.Each(func(o kadm.ListedOffset) {
		if o.Offset > 0 {
			left[o.Partition] = o.Offset
		}
	})
	want := make(map[string]bool, len(accepted))
	for _, d := range accepted {
		want[fmt.Sprintf("%016x", d)] = true
	}
	all := len(want)
	for len(left) > 0 {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return 0, err
		}
		fetches.EachRecord(func(rec *kgo.Record) {
			i := slices.IndexFunc(rec.Headers, func(h kgo.RecordHeader) bool { return h.Key == "ce_deliveryid" })
			if i >= 0 {
				delete(want, string(rec.Headers[i].Value))
			}
			if rec.Offset+1 >= left[rec.Partition] {
				delete(left, rec.Partition)
			}
		})
	}
	return all - len(want), nil
}
