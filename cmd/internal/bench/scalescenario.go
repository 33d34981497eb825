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
	gateLoad
	backlog backlogSizes
}

var scaleScale = scaleSizes{gateLoad: fullGate, backlog: backlogSizes{entities: entitiesPerPartition, partitions: 12, body: 1 << 10, rest: time.Second}}

// run measures memory first, on a server without millions of rows. Without a number of either kind its part is left out.
func (s scaleSizes) run(ctx context.Context, o Options, r *Report) error {
	if o.Seen < 0 || o.Load < 0 || o.Open < 0 {
		return fmt.Errorf("%d seen ids, %d held and %d open: the numbers must not be negative", o.Seen, o.Load, o.Open)
	}
	o.buffers = quarterOfMemory(procField("/proc/meminfo", "MemTotal"))
	b, err := o.openGate(ctx, s.gateLoad, r)
	if err != nil {
		return err
	}
	defer b.pg.close()
	if o.Load > 0 || o.Open > 0 {
		if err := s.measureHeld(ctx, o, b.pg, r); err != nil {
			return err
		}
	}
	if o.Seen == 0 {
		return nil
	}
	return b.measureSeen(ctx, r)
}

// measureHeld measures the memory of stream processes with a backlog.
func (s scaleSizes) measureHeld(ctx context.Context, o Options, pg *pgServer, r *Report) error {
	stop, err := o.startKafka(ctx)
	if err != nil {
		return err
	}
	defer stop()
	b := &backlogBench{o, s.backlog, pg}
	if o.Load > 0 {
		if err := b.measureMemory(ctx, r); err != nil {
			return err
		}
	}
	if o.Open == 0 {
		return nil
	}
	return errors.Join(b.measureOpen(ctx, r, "scale/million", min(b.entities, o.Open)), b.measureOpen(ctx, r, "scale/million_of_one", 1))
}

// measureSeen measures the gate with and without seen ids in turns. Without, each round begins with new tables; with, it goes on with its own.
// Round 0 warms up: a page of an index is written to the WAL as a whole when it is first touched after a checkpoint, which the run after a fill
// would pay for alone.
func (b *gateBench) measureSeen(ctx context.Context, r *Report) error {
	full, name := b.ours(), countName(b.Seen)
	if err := b.fill(ctx, full, b.Seen); err != nil {
		return fmt.Errorf("fill the ledger with %d seen ids: %w", b.Seen, err)
	}
	without := &side{name: "without seen ids", run: func(ctx context.Context) (measured, error) {
		got, err := b.ours().run(ctx)
		return got.measured, err
	}}
	with := &side{name: "with " + name, run: func(ctx context.Context) (measured, error) {
		full.seed = b.next()
		got, err := full.run(ctx)
		return got.measured, err
	}}
	if err := b.inTurns(ctx, turns{scenario: "scale", warm: 1}, without, with); err != nil {
		return err
	}
	r.Settings["scale.ours"] = b.gateLoad.String() + "; seen ids in the current window"
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
