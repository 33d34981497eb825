package bench

import (
	"context"
	"fmt"
	"time"
)

// What the project asks of the gate's rate: how many times it is a transaction per event's, which part of COPY's, and
// which part of it is left with large bodies.
const (
	gateBar      = 25
	gateCopyBar  = 0.5
	gateLargeBar = 0.8
)

// gateSizes are the scenario's dimensions.
type gateSizes struct {
	entities              int   // of a partition, or of a connection of the rival
	warmUp                int   // see gateRun
	loops                 []int // of ours; as of those below, all are tried and the best is measured
	rivalConns, copyConns []int
	body, large           int   // bytes of an event's body
	partitions            []int // of one loop
	arrivals              int   // events/s at low rate
}

var gateScale = gateSizes{
	entities: entitiesPerPartition, warmUp: gateWarmUp, loops: []int{gateLoops, 2 * gateLoops}, rivalConns: []int{8, 16, 32, 64}, copyConns: []int{1, 2, 4, 8},
	body: 256, large: 8 << 10, partitions: []int{1, 12, 64}, arrivals: 1000,
}

// gateBench is one run of the gate scenario on one server.
type gateBench struct {
	Options
	gateSizes
	pg   *pgServer
	seed uint64
}

func runGateScenario(ctx context.Context, o Options, r *Report) error {
	return runGate(ctx, o, gateScale, r)
}

func runGate(ctx context.Context, o Options, s gateSizes, r *Report) error {
	pg, err := o.openPostgres(ctx, r)
	if err != nil {
		return err
	}
	defer pg.close()
	b := &gateBench{Options: o, gateSizes: s, pg: pg, seed: uint64(time.Now().UnixNano())}
	if err := rivalTables(ctx, pg.url); err != nil {
		return err
	}
	if err := b.turns(ctx, r); err != nil {
		return err
	}
	return b.spans(ctx, r)
}

func (b *gateBench) next() uint64 { b.seed++; return b.seed }

// ours is a run of ours under a new name, on loops of one partition each.
func (b *gateBench) ours(loops, body int, d time.Duration) gateRun {
	seed := b.next()
	return gateRun{url: b.pg.url, meter: b.pg.meter, seed: seed, name: gateName(seed), loops: loops, partitions: 1,
		entities: b.entities, warmUp: b.warmUp, body: body, length: d}
}

func (b *gateBench) rival(conns int, d time.Duration) rivalRun {
	return rivalRun{url: b.pg.url, meter: b.pg.meter, seed: b.next(), conns: conns, entities: b.entities, length: d}
}

// turns measures ours, its rival, its limit, and ours with large bodies, one after the other in every round.
func (b *gateBench) turns(ctx context.Context, r *Report) error {
	best, err := b.best(ctx)
	if err != nil {
		return err
	}
	r.Settings["gate.ours"] = fmt.Sprintf("batches of %d, %d loops of a partition each (best of %v), %d entities a partition, %.0f%% duplicates, bodies of %d bytes; %d actions a loop before",
		gateBatch, best.loops, b.loops, b.entities, 100*duplicateShare, b.body, b.warmUp)
	r.Settings["gate.rival"] = fmt.Sprintf("one transaction per event, %d connections (best of %v)", best.rival, b.rivalConns)
	r.Settings["gate.copy"] = fmt.Sprintf("the rows that our round wrote, in transactions of %d events, into tables LIKE ... INCLUDING ALL, %d connections (best of %v)",
		gateBatch, best.limit, b.copyConns)
	var all gateSides
	for i := range b.Rounds {
		if err := b.turn(ctx, i, best, &all); err != nil {
			return err
		}
	}
	large := bodyName(b.large)
	r.Ratios = append(r.Ratios, ratioOf("gate/per_event", "events/s", gateBar, all.ours.rates, all.rival.rates),
		ratioOf("gate/copy", "events/s", gateCopyBar, all.ours.rates, all.copied.rates),
		ratioOf("gate/"+large+"_to_"+bodyName(b.body), "events/s", gateLargeBar, all.large.rates, all.ours.rates))
	all.ours.ourCosts(r, "gate/")
	all.rival.serverCosts(r, "gate/per_event_")
	all.copied.serverCosts(r, "gate/copy_")
	all.large.ourCosts(r, "gate/"+large+"_")
	return nil
}

// gateSides are what every round measures.
type gateSides struct{ ours, rival, copied, large side }

// turn is one round.
func (b *gateBench) turn(ctx context.Context, i int, best gateBest, all *gateSides) error {
	run := b.ours(best.loops, b.body, b.Round)
	ours, err := run.run(ctx)
	if err != nil {
		return err
	}
	rows, err := copyOf(ctx, run, ours)
	if err != nil {
		return err
	}
	if err := b.pg.forget(ctx, run); err != nil {
		return err
	}
	one, err := b.rival(best.rival, b.Round).run(ctx)
	if err != nil {
		return err
	}
	if err := b.pg.settle(ctx); err != nil {
		return err
	}
	copied, err := rows.run(ctx, best.limit)
	if err != nil {
		return err
	}
	if err := b.pg.dropCopies(ctx); err != nil {
		return err
	}
	run = b.ours(best.loops, b.large, b.Round)
	large, err := run.run(ctx)
	if err != nil {
		return err
	}
	if err := b.pg.forget(ctx, run); err != nil {
		return err
	}
	all.ours.add(ours.measured)
	all.rival.add(one)
	all.copied.add(copied)
	all.large.add(large.measured)
	b.say("gate round %d: %.0f/s, one transaction per event %.0f/s, COPY %.0f/s, bodies of %d bytes %.0f/s (%d of %d read anew)",
		i+1, ours.rate(), one.rate(), copied.rate(), b.large, large.rate(), large.loads, large.events)
	return nil
}

func bodyName(n int) string {
	if n >= 1<<10 {
		return fmt.Sprintf("%dKiB", n>>10)
	}
	return fmt.Sprintf("%dB", n)
}

// gateBest is what each side does best on: loops of ours, connections of the others.
type gateBest struct{ loops, rival, limit int }

// best warms the server up and finds what is best for each side.
func (b *gateBench) best(ctx context.Context) (best gateBest, err error) {
	warm := b.ours(gateLoops, b.body, b.Round/2)
	got, err := warm.run(ctx)
	if err != nil {
		return best, err
	}
	rows, err := copyOf(ctx, warm, got)
	if err != nil {
		return best, err
	}
	if err := b.pg.forget(ctx, warm); err != nil {
		return best, err
	}
	best.loops, err = b.tried("ours, loops", b.loops, func(loops int) (measured, error) {
		run := b.ours(loops, b.body, b.Round)
		got, err := run.run(ctx)
		if err != nil {
			return measured{}, err
		}
		return got.measured, b.pg.forget(ctx, run)
	})
	if err != nil {
		return best, err
	}
	best.rival, err = b.tried("one transaction per event, connections", b.rivalConns, func(conns int) (measured, error) {
		return b.rival(conns, b.Round/3).run(ctx)
	})
	if err != nil {
		return best, err
	}
	best.limit, err = b.tried("COPY, connections", b.copyConns, func(conns int) (measured, error) { return rows.run(ctx, conns) })
	if err != nil {
		return best, err
	}
	return best, b.pg.dropCopies(ctx)
}

// tried returns the number, of those given, on which run had its best rate.
func (o Options) tried(what string, numbers []int, run func(n int) (measured, error)) (best int, err error) {
	var top float64
	for _, n := range numbers {
		got, err := run(n)
		if err != nil {
			return 0, err
		}
		o.say("%s %d: %.0f/s", what, n, got.rate())
		if got.rate() > top {
			top, best = got.rate(), n
		}
	}
	return best, nil
}
