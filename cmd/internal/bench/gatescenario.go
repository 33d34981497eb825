package bench

import (
	"context"
	"fmt"
	"time"
)

// What the project asks of the gate's rate: how many times it is a transaction per event's, which part of COPY's, and
// which part of it is left with large bodies and with a match on the body.
const (
	gateBar      = 25
	gateCopyBar  = 0.5
	gateLargeBar = 0.8
	gateMatchBar = 0.9
)

// gateMatch is a match as people write them; it is true of all events.
const gateMatch = "body.action in ['opened', 'labeled'] && body.issue.state == 'open' && body.sender.type != 'Bot'"

// gateSizes are the scenario's dimensions.
type gateSizes struct {
	entities              int   // of a partition, or of a connection of the rival
	warmUp                int   // see gateRun
	rivalConns, copyConns []int // tried; the best is measured
	body, large           int   // bytes of an event's body
}

var gateScale = gateSizes{
	entities: entitiesPerPartition, warmUp: gateWarmUp, rivalConns: []int{8, 16, 32, 64}, copyConns: []int{1, 2, 4, 8},
	body: 256, large: 8 << 10,
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
	return b.measureRounds(ctx, r)
}

func (b *gateBench) next() uint64 { b.seed++; return b.seed }

// ours returns a run of our side under a new name, with two loops of one partition each.
func (b *gateBench) ours(body int, d time.Duration) gateRun {
	seed := b.next()
	return gateRun{url: b.pg.url, meter: b.pg.meter, seed: seed, name: gateName(seed), loops: gateLoops,
		entities: b.entities, warmUp: b.warmUp, body: body, length: d}
}

func (b *gateBench) rival(conns int, d time.Duration) rivalRun {
	return rivalRun{url: b.pg.url, meter: b.pg.meter, seed: b.next(), conns: conns, entities: b.entities, length: d}
}

// measureRounds measures ours, ours with a match, its rival, its limit, and ours with large bodies, one after the other in every round.
func (b *gateBench) measureRounds(ctx context.Context, r *Report) error {
	rival, limit, err := b.bestConns(ctx)
	if err != nil {
		return err
	}
	r.Settings["gate.ours"] = fmt.Sprintf("batches of %d, %d loops of a partition each, %d entities a partition, %.0f%% duplicates, bodies of %d bytes; %d actions a loop before",
		gateBatch, gateLoops, b.entities, 100*duplicateShare, b.body, b.warmUp)
	r.Settings["gate.match"] = gateMatch
	r.Settings["gate.rival"] = fmt.Sprintf("one transaction per event, %d connections (best of %v)", rival, b.rivalConns)
	r.Settings["gate.copy"] = fmt.Sprintf("the rows that our round wrote, in transactions of %d events, into tables LIKE ... INCLUDING ALL, %d connections (best of %v)",
		gateBatch, limit, b.copyConns)
	var all gateSides
	for i := range b.Rounds {
		if err := b.measureRound(ctx, i, rival, limit, &all); err != nil {
			return err
		}
	}
	large := bodyName(b.large)
	r.Ratios = append(r.Ratios, ratioOf("gate/per_event", "events/s", gateBar, all.ours.rates, all.rival.rates),
		ratioOf("gate/copy", "events/s", gateCopyBar, all.ours.rates, all.copied.rates),
		ratioOf("gate/"+large+"_to_"+bodyName(b.body), "events/s", gateLargeBar, all.large.rates, all.ours.rates),
		ratioOf("gate/match", "events/s", gateMatchBar, all.matched.rates, all.ours.rates))
	all.ours.ourCosts(r, "gate/")
	all.rival.serverCosts(r, "gate/per_event_")
	all.copied.serverCosts(r, "gate/copy_")
	all.large.ourCosts(r, "gate/"+large+"_")
	all.matched.ourCosts(r, "gate/match_")
	return nil
}

// gateSides are what every round measures.
type gateSides struct{ ours, matched, rival, copied, large side }

// measureRound measures one round. rival and limit are numbers of connections.
func (b *gateBench) measureRound(ctx context.Context, i, rival, limit int, all *gateSides) error {
	run := b.ours(b.body, b.Round)
	ours, err := run.run(ctx)
	if err != nil {
		return err
	}
	rows, err := copyOf(ctx, run, ours)
	if err != nil {
		return err
	}
	if err := b.pg.dropRun(ctx, run); err != nil {
		return err
	}
	run = b.ours(b.body, b.Round)
	run.match = gateMatch
	matched, err := run.run(ctx)
	if err != nil {
		return err
	}
	if err := b.pg.dropRun(ctx, run); err != nil {
		return err
	}
	one, err := b.rival(rival, b.Round).run(ctx)
	if err != nil {
		return err
	}
	if err := b.pg.checkpoint(ctx); err != nil {
		return err
	}
	copied, err := rows.run(ctx, limit)
	if err != nil {
		return err
	}
	if err := b.pg.dropCopies(ctx); err != nil {
		return err
	}
	run = b.ours(b.large, b.Round)
	large, err := run.run(ctx)
	if err != nil {
		return err
	}
	if err := b.pg.dropRun(ctx, run); err != nil {
		return err
	}
	all.ours.add(ours.measured)
	all.matched.add(matched.measured)
	all.rival.add(one)
	all.copied.add(copied)
	all.large.add(large.measured)
	b.logf("gate round %d: %.0f/s, with match %.0f/s, one transaction per event %.0f/s, COPY %.0f/s, bodies of %d bytes %.0f/s (%d of %d read again)",
		i+1, ours.rate(), matched.rate(), one.rate(), copied.rate(), b.large, large.rate(), large.loads, large.events)
	return nil
}

func bodyName(n int) string {
	if n >= 1<<10 {
		return fmt.Sprintf("%dKiB", n>>10)
	}
	return fmt.Sprintf("%dB", n)
}

// bestConns warms the server up and finds the rival's and COPY's best numbers of connections.
func (b *gateBench) bestConns(ctx context.Context) (rival, limit int, err error) {
	warm := b.ours(b.body, b.Round/2)
	got, err := warm.run(ctx)
	if err != nil {
		return 0, 0, err
	}
	rows, err := copyOf(ctx, warm, got)
	if err != nil {
		return 0, 0, err
	}
	if err := b.pg.dropRun(ctx, warm); err != nil {
		return 0, 0, err
	}
	rival, err = b.connsWithBestRate("one transaction per event", b.rivalConns, func(conns int) (measured, error) {
		return b.rival(conns, b.Round/3).run(ctx)
	})
	if err != nil {
		return 0, 0, err
	}
	limit, err = b.connsWithBestRate("COPY", b.copyConns, func(conns int) (measured, error) { return rows.run(ctx, conns) })
	if err != nil {
		return 0, 0, err
	}
	return rival, limit, b.pg.dropCopies(ctx)
}

// connsWithBestRate returns the number of connections on which run had its best rate.
func (o Options) connsWithBestRate(what string, conns []int, run func(conns int) (measured, error)) (best int, err error) {
	var top float64
	for _, n := range conns {
		got, err := run(n)
		if err != nil {
			return 0, err
		}
		o.logf("%s on %d connections: %.0f/s", what, n, got.rate())
		if got.rate() > top {
			top, best = got.rate(), n
		}
	}
	return best, nil
}
