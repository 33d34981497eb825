package bench

import (
	"context"
	"fmt"
	"time"
)

// measurePartitionCounts measures one loop whose batches have events of 1, 12 and 64 partitions, as in a stream process that owns so many:
// at full rate in turns, and once each at a low, constant rate.
func (b *gateBench) measurePartitionCounts(ctx context.Context, r *Report) error {
	full := map[int]*partitionCountRuns{}
	for i := range b.Rounds {
		for _, n := range b.partitions {
			if full[n] == nil {
				full[n] = &partitionCountRuns{}
			}
			run := b.runOver(n, 0)
			got, err := run.run(ctx)
			if err != nil {
				return err
			}
			if err := b.pg.dropRun(ctx, run); err != nil {
				return err
			}
			full[n].take(got)
			b.logf("gate round %d, one loop over %d partitions: %.0f/s", i+1, n, got.rate())
		}
	}
	one := b.partitions[0]
	for _, n := range b.partitions {
		if n != one {
			r.Ratios = append(r.Ratios, ratioOf(fmt.Sprintf("gate/%d_to_%d_partitions", n, one), "events/s of one loop", 0, full[n].rates, full[one].rates))
		}
		r.figure(fmt.Sprintf("gate/%d_partitions_rate", n), "events/s", median(full[n].rates))
		full[n].report(r, fmt.Sprintf("gate/%d_partitions_", n))
		got, err := b.runOver(n, b.arrivals).run(ctx)
		if err != nil {
			return err
		}
		low := &partitionCountRuns{}
		low.take(got)
		low.report(r, fmt.Sprintf("gate/%d_partitions_low_", n))
		b.logf("gate, %d events/s over %d partitions: a batch takes %v (p50), %v (p99)", b.arrivals, n, percentile(low.batches, 0.5), percentile(low.batches, 0.99))
	}
	r.Settings["gate.partitions"] = fmt.Sprintf("one loop, batches of up to %d over all of its partitions, %d entities in all; low: %d events/s, a batch waits %v for more",
		gateBatch, b.entities, b.arrivals, gateWait)
	return nil
}

// runOver returns a run of one loop over n partitions, which share the entities that one partition has otherwise.
func (b *gateBench) runOver(n, rate int) gateRun {
	g := b.ours(b.body, b.Round)
	g.loops, g.partitions, g.entities, g.rate = 1, n, max(1, b.entities/n), rate
	return g
}

// partitionCountRuns is the results of the runs over one number of partitions.
type partitionCountRuns struct {
	side
	batches []time.Duration
}

func (s *partitionCountRuns) take(got gateResult) {
	s.add(got.measured)
	s.batches = append(s.batches, got.batches...)
}

func (s *partitionCountRuns) report(r *Report, name string) {
	s.ourCosts(r, name)
	for _, p := range []int{50, 99} {
		r.figure(fmt.Sprintf("%sp%d", name, p), "ms a batch", percentile(s.batches, float64(p)/100).Seconds()*1000)
	}
}
