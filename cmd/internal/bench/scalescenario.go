package bench

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// scaleBar is which part of the gate's rate with no seen ids the project asks of the one with the most.
const scaleBar = 0.8

// scaleSizes are the scenario's dimensions besides those that its user chooses.
type scaleSizes struct {
	entities, warmUp, body int // see gateRun
	backlog                backlogSizes
}

var scaleScale = scaleSizes{
	entities: entitiesPerPartition, warmUp: gateWarmUp, body: 256,
	backlog: backlogSizes{partitions: 12, body: 1 << 10, rest: time.Second},
}

func runScaleScenario(ctx context.Context, o Options, r *Report) error {
	return runScale(ctx, o, scaleScale, r)
}

// runScale measures memory first, on a server without millions of rows. Without a number of either kind its part is left
// out.
func runScale(ctx context.Context, o Options, s scaleSizes, r *Report) error {
	if o.Seen < 0 || o.Load < 0 || o.Open < 0 {
		return fmt.Errorf("%d seen ids, %d held and %d open: the numbers must not be negative", o.Seen, o.Load, o.Open)
	}
	o.buffers = quarterOfMemory(procField("/proc/meminfo", "MemTotal"))
	pg, err := o.openPostgres(ctx, r)
	if err != nil {
		return err
	}
	defer pg.close()
	b := &scaleBench{scaleSizes: s, gateBench: gateBench{Options: o, gateSizes: gateSizes{entities: s.entities, warmUp: s.warmUp, body: s.body}, pg: pg, seed: uint64(time.Now().UnixNano())}}
	if o.Load > 0 {
		if err := b.measureMemory(ctx, r); err != nil {
			return err
		}
	}
	if o.Open > 0 {
		if err := errors.Join(b.measureOpenActions(ctx, r, "scale/million", min(s.entities, o.Open)), b.measureOpenActions(ctx, r, "scale/million_of_one", 1)); err != nil {
			return err
		}
	}
	if o.Seen == 0 {
		return nil
	}
	return b.measureRates(ctx, r)
}

// scaleBench is one run of the scale scenario on one server.
type scaleBench struct {
	scaleSizes
	gateBench
}

// measureRates measures the gate with and without seen ids in turns. Without, each round begins with new tables; with, it goes on with its own.
// Round 0 warms up: a page of an index is written to the WAL as a whole when it is first touched after a checkpoint, which the run after a fill
// would pay for alone.
func (b *scaleBench) measureRates(ctx context.Context, r *Report) error {
	full, name := b.ours(b.body, b.Round), countName(b.Seen)
	if err := b.fill(ctx, full, b.Seen); err != nil {
		return fmt.Errorf("fill the ledger with %d seen ids: %w", b.Seen, err)
	}
	r.Settings["scale.ours"] = fmt.Sprintf("batches of %d, %d loops of a partition each, %d entities a partition, %.0f%% duplicates, bodies of %d bytes; "+
		"seen ids in the current window", gateBatch, gateLoops, b.entities, 100*duplicateShare, b.body)
	var without, with side
	for i := range b.Rounds + 1 {
		none, err := b.ours(b.body, b.Round).run(ctx)
		if err != nil {
			return err
		}
		full.seed = b.next()
		got, err := full.run(ctx)
		if err != nil {
			return err
		}
		b.logf("scale round %d: %.0f/s, with %s seen ids %.0f/s", i, none.rate(), name, got.rate())
		if i > 0 {
			without.add(none.measured)
			with.add(got.measured)
		}
	}
	r.Ratios = append(r.Ratios, ratioOf("scale/"+name, "events/s with "+name+" and without seen ids", scaleBar, with.rates, without.rates))
	without.ourCosts(r, "scale/0_")
	with.ourCosts(r, "scale/"+name+"_")
	return nil
}

// countName returns a count as it is in the ratios' names: 1M, 10k.
func countName(n int) string {
	switch {
	case n >= 1e6 && n%1e6 == 0:
		return fmt.Sprintf("%dM", n/1e6)
	case n >= 1e3 && n%1e3 == 0:
		return fmt.Sprintf("%dk", n/1e3)
	}
	return fmt.Sprint(n)
}
