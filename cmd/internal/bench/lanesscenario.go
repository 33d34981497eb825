package bench

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// What the project asks of the lanes' rate: how many times it is that of a queue worked on one by one, and which part of
// one that is claimed in batches, and which part of it is left with all guards.
const (
	lanesOneBar     = 10
	lanesBatchBar   = 0.5
	lanesGuardedBar = 0.9 // of ours without guards
)

// laneSizes are the scenario's dimensions.
type laneSizes struct {
	gateLoad
	oneConns, manyConns []int // tried; the best is measured
	insert, claim       int   // jobs that the rivals insert at once, and that the batching one claims at once
	maxWaiting          int   // with so many jobs waiting the rivals insert no more
}

var laneScale = laneSizes{
	gateLoad: gateLoad{entities: 10_000, warmUp: gateWarmUp, body: 256},
	oneConns: []int{8, 16, 32, 64}, manyConns: []int{2, 4, 8, 16}, insert: gateBatch, claim: 100, maxWaiting: 5000,
}

// laneBench is one run of the lanes scenario on one server.
type laneBench struct {
	*gateBench
	laneSizes
}

// run measures no-op actions per second, from the gate's transaction to the recorded completion, beside queue tables
// written by hand, from the insert to the recorded completion.
func (s laneSizes) run(ctx context.Context, o Options, r *Report) error {
	g, err := o.openGate(ctx, s.gateLoad, r)
	if err != nil {
		return err
	}
	defer g.pg.close()
	b := &laneBench{g, s}
	one, many, err := b.bestConns(ctx)
	if err != nil {
		return err
	}
	ours := &side{name: "lanes", run: func(ctx context.Context) (measured, error) { return b.actions(ctx, false, b.Round) }}
	guarded := &side{name: "guarded", run: func(ctx context.Context) (measured, error) { return b.actions(ctx, true, b.Round) }}
	single := &side{name: "one by one", run: func(ctx context.Context) (measured, error) { return b.jobs(ctx, 1, one, b.Round) }}
	batched := &side{name: "in batches", run: func(ctx context.Context) (measured, error) { return b.jobs(ctx, s.claim, many, b.Round) }}
	if err := b.inTurns(ctx, turns{scenario: "lanes"}, ours, guarded, single, batched); err != nil {
		return err
	}
	r.Settings["lanes.ours"] = s.gateLoad.String() + "; order kept per entity; from the begin of the gate's first transaction to the commit of the last completion; repeats are not counted as actions"
	r.Settings["lanes.guarded"] = "the same with match, a second key, senders, when, loop, policy and budgets of runs and of cost, which let all go on: " +
		strings.Join([]string{gateMatch, laneKey, laneWhen, laneRisky, laneUsual}, "; ")
	r.Settings["lanes.one_by_one"] = fmt.Sprintf("a transaction for each job: SELECT .. FOR UPDATE SKIP LOCKED LIMIT 1, UPDATE, COMMIT; %d connections (best of %v)", one, s.oneConns)
	r.Settings["lanes.batch_100"] = fmt.Sprintf("the same for %d jobs at once; %d connections (best of %v)", s.claim, many, s.manyConns)
	r.Settings["lanes.rivals"] = fmt.Sprintf("jobs inserted in transactions of %d by %d more connections, none while %d wait, repeats left out by the key; "+
		"from the begin of the first insert to the commit of the last completion; neither keeps an order", s.insert, gateLoops, s.maxWaiting)
	r.Ratios = append(r.Ratios, ratioOf("lanes/one_by_one", "actions/s", lanesOneBar, ours.rates, single.rates),
		ratioOf("lanes/batch_100", "actions/s", lanesBatchBar, ours.rates, batched.rates),
		ratioOf("lanes/guarded", "actions/s with all guards, and with none", lanesGuardedBar, guarded.rates, ours.rates))
	ours.ourCosts(r, "lanes/")
	guarded.ourCosts(r, "lanes/guarded_")
	single.serverCosts(r, "lanes/one_by_one_")
	batched.serverCosts(r, "lanes/batch_100_")
	return nil
}

// actions runs the gate's loops, and counts the actions that the lanes have completed.
func (b *laneBench) actions(ctx context.Context, guarded bool, d time.Duration) (measured, error) {
	run := b.ours()
	run.length = d
	if guarded {
		run.guarded, run.match = true, gateMatch
	}
	got, err := run.run(ctx)
	got.events = got.actions
	return got.measured, err
}

// jobs runs a rival, which claims so many at once.
func (b *laneBench) jobs(ctx context.Context, claim, conns int, d time.Duration) (measured, error) {
	q := &queueRival{url: b.pg.url, meter: b.pg.meter, seed: b.next(), inserters: gateLoops, batch: b.insert, entities: b.laneSizes.entities,
		conns: conns, claim: claim, maxWaiting: b.maxWaiting, length: d}
	return q.run(ctx)
}

// bestConns warms the server up and finds the rivals' best numbers of connections.
func (b *laneBench) bestConns(ctx context.Context) (one, many int, err error) {
	if _, err := b.actions(ctx, false, b.Round/2); err != nil {
		return 0, 0, err
	}
	one, err = b.connsWithBestRate("one by one", b.oneConns, func(conns int) (measured, error) { return b.jobs(ctx, 1, conns, b.Round/2) })
	if err != nil {
		return 0, 0, err
	}
	many, err = b.connsWithBestRate("in batches", b.manyConns, func(conns int) (measured, error) { return b.jobs(ctx, b.claim, conns, b.Round/2) })
	return one, many, err
}
