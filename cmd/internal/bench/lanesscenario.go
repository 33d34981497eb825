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
	entities            int   // in all
	warmUp              int   // see gateRun
	oneConns, manyConns []int // tried; the best is measured
	insert, claim       int   // jobs that the rivals insert at once, and that the batching one claims at once
	maxWaiting          int   // with so many jobs waiting the rivals insert no more
	body                int   // bytes of an event's body
}

var laneScale = laneSizes{
	entities: 20_000, warmUp: gateWarmUp, oneConns: []int{8, 16, 32, 64}, manyConns: []int{2, 4, 8, 16}, insert: gateBatch, claim: 100, maxWaiting: 5000, body: 256,
}

// laneBench is one run of the lanes scenario on one server.
type laneBench struct {
	Options
	laneSizes
	pg   *pgServer
	seed uint64
}

func runLanesScenario(ctx context.Context, o Options, r *Report) error {
	return runLanes(ctx, o, laneScale, r)
}

// runLanes measures no-op actions per second, from the gate's transaction to the recorded completion, beside queue tables
// written by hand, from the insert to the recorded completion.
func runLanes(ctx context.Context, o Options, s laneSizes, r *Report) error {
	pg, err := o.openPostgres(ctx, r)
	if err != nil {
		return err
	}
	defer pg.close()
	b := &laneBench{Options: o, laneSizes: s, pg: pg, seed: uint64(time.Now().UnixNano())}
	one, many, err := b.bestConns(ctx)
	if err != nil {
		return err
	}
	r.Settings["lanes.ours"] = fmt.Sprintf("batches of %d, %d loops of a partition each, %d entities in all, order kept per entity, %.0f%% duplicates, "+
		"bodies of %d bytes; from the begin of the gate's first transaction to the commit of the last completion; repeats are not counted as actions",
		gateBatch, gateLoops, b.entities, 100*duplicateShare, b.body)
	r.Settings["lanes.guarded"] = "the same with match, a second key, senders, when, loop, policy and budgets of runs and of cost, which let all go on: " +
		strings.Join([]string{gateMatch, laneKey, laneWhen, laneRisky, laneUsual}, "; ")
	r.Settings["lanes.one_by_one"] = fmt.Sprintf("a transaction for each job: SELECT .. FOR UPDATE SKIP LOCKED LIMIT 1, UPDATE, COMMIT; %d connections (best of %v)", one, b.oneConns)
	r.Settings["lanes.batch_100"] = fmt.Sprintf("the same for %d jobs at once; %d connections (best of %v)", b.claim, many, b.manyConns)
	r.Settings["lanes.rivals"] = fmt.Sprintf("jobs inserted in transactions of %d by %d more connections, none while %d wait, repeats left out by the key; "+
		"from the begin of the first insert to the commit of the last completion; neither keeps an order", b.insert, gateLoops, b.maxWaiting)
	return b.measureRounds(ctx, r, one, many)
}

func (b *laneBench) next() uint64 { b.seed++; return b.seed }

// ours runs the gate's loops, and counts the actions that the lanes have completed.
func (b *laneBench) ours(ctx context.Context, guarded bool, d time.Duration) (measured, error) {
	seed := b.next()
	run := gateRun{url: b.pg.url, meter: b.pg.meter, seed: seed, name: gateName(seed), loops: gateLoops,
		entities: b.entities / gateLoops, warmUp: b.warmUp, body: b.body, length: d}
	if guarded {
		run.guarded, run.match = true, gateMatch
	}
	got, err := run.run(ctx)
	got.events = got.actions
	return got.measured, err
}

func (b *laneBench) rival(ctx context.Context, claim, conns int, d time.Duration) (measured, error) {
	q := &queueRival{url: b.pg.url, meter: b.pg.meter, seed: b.next(), inserters: gateLoops, batch: b.insert, entities: b.entities / gateLoops,
		conns: conns, claim: claim, maxWaiting: b.maxWaiting, length: d}
	return q.run(ctx)
}

// bestConns warms the server up and finds the rivals' best numbers of connections.
func (b *laneBench) bestConns(ctx context.Context) (one, many int, err error) {
	if _, err := b.ours(ctx, false, b.Round/2); err != nil {
		return 0, 0, err
	}
	one, err = b.connsWithBestRate("one by one", b.oneConns, func(conns int) (measured, error) { return b.rival(ctx, 1, conns, b.Round/2) })
	if err != nil {
		return 0, 0, err
	}
	many, err = b.connsWithBestRate(fmt.Sprintf("batches of %d", b.claim), b.manyConns, func(conns int) (measured, error) {
		return b.rival(ctx, b.claim, conns, b.Round/2)
	})
	return one, many, err
}

// measureRounds measures ours and its rivals, one after the other in every round. one and many are numbers of connections.
func (b *laneBench) measureRounds(ctx context.Context, r *Report, one, many int) error {
	var ours, guarded, single, batched side
	for i := range b.Rounds {
		mine, err := b.ours(ctx, false, b.Round)
		if err != nil {
			return err
		}
		all, err := b.ours(ctx, true, b.Round)
		if err != nil {
			return err
		}
		ones, err := b.rival(ctx, 1, one, b.Round)
		if err != nil {
			return err
		}
		batches, err := b.rival(ctx, b.claim, many, b.Round)
		if err != nil {
			return err
		}
		ours.add(mine)
		guarded.add(all)
		single.add(ones)
		batched.add(batches)
		b.logf("lanes round %d: %.0f/s, guarded %.0f/s, one by one %.0f/s, batches of %d %.0f/s", i+1, mine.rate(), all.rate(), ones.rate(), b.claim, batches.rate())
	}
	r.Ratios = append(r.Ratios, ratioOf("lanes/one_by_one", "actions/s", lanesOneBar, ours.rates, single.rates),
		ratioOf("lanes/batch_100", "actions/s", lanesBatchBar, ours.rates, batched.rates),
		ratioOf("lanes/guarded", "actions/s with all guards, and with none", lanesGuardedBar, guarded.rates, ours.rates))
	ours.ourCosts(r, "lanes/")
	guarded.ourCosts(r, "lanes/guarded_")
	single.serverCosts(r, "lanes/one_by_one_")
	batched.serverCosts(r, "lanes/batch_100_")
	return nil
}
