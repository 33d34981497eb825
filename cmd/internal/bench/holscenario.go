package bench

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/rig"
)

// The scenario hol is about head-of-line blocking: how long unrelated entities wait while others are in trouble.

// holBar is how much longer they may wait then, by p99.
const holBar = 1.2

// holSizes are the scenario's dimensions.
type holSizes struct {
	warming    time.Duration // of the broker, before all turns, at holWarmUpFactor times the rate
	warmUp     time.Duration // before the measured part of each turn
	rate       float64       // deliveries/s
	conns      int
	entities   int // of a connection and kind
	partitions int
}

// holScale has the scenario's sizes. The rate leaves two cores a third of their time: single deliveries fill no batches, and each of
// the three subscriptions has a transaction for nearly every one. At twice the rate the cores are busy, and who waits for a core is
// chance. A broker that has just been started needs a core to itself for a minute, until its code is compiled.
var holScale = holSizes{warming: 60 * time.Second, warmUp: 4 * time.Second, rate: 200, conns: 8, entities: 50, partitions: 12}

// holWarmUpFactor is how many times the rate the broker is warmed up with.
const holWarmUpFactor = 10

// The kinds of deliveries. Eight in ten are unrelated: their destination works, though not for one of their entities. The others go to
// destinations that do not.
const (
	holUnrelated = iota
	holRefused
	holHanging
)

var holKinds = []struct{ weight int }{holUnrelated: {8}, holRefused: {1}, holHanging: {1}}

// holConfig has three subscriptions of one source, told apart by the action in the event's type. Their destinations are
// one that works, for all entities or all but one, one whose connections are refused, and one that never answers.
const holConfig = `    destinations:
      agent: {type: http, url: "RUN", timeout: 10s, allow_networks: [127.0.0.0/8]}
      refused: {type: http, url: "REFUSED", timeout: 2s, allow_networks: [127.0.0.0/8]}
      hanging: {type: http, url: "HANGING", timeout: 2s, allow_networks: [127.0.0.0/8]}
    subscriptions:
      unrelated:
        sources: [github]
        types: ["com.github.issues.labeled"]
        begin: all
        actions: [{name: run, to: agent}]
      refused:
        sources: [github]
        types: ["com.github.issues.renamed"]
        begin: all
        actions: [{name: run, to: refused}]
      hanging:
        sources: [github]
        types: ["com.github.issues.deleted"]
        begin: all
        actions: [{name: run, to: hanging}]
`

func runHolScenario(ctx context.Context, o Options, r *Report) error {
	return runHol(ctx, o, holScale, r)
}

// runHol measures with and without trouble in turns. Each turn has a team of its own, with topics, groups and
// processes of its own: nothing of one is left to the next. Servers that are started keep their data in memory, where there is
// room: one stall of a disk, which can take half a second, is the p99 of its turn.
func runHol(ctx context.Context, o Options, sizes holSizes, r *Report) error {
	o.data = memoryDir()
	pg, stop, err := o.servers(ctx, r)
	if err != nil {
		return err
	}
	defer stop()
	b := &holBench{Options: o, holSizes: sizes, pg: pg}
	if b.warming > 0 {
		warming := *b // the first turn of all is the broker's to warm up in
		warming.rate, warming.warmUp = b.rate*holWarmUpFactor, b.warming
		if _, err := warming.turn(ctx, false); err != nil {
			return err
		}
	}
	var with, without holSide
	for i := range o.Rounds {
		for _, trouble := range []bool{i%2 == 1, i%2 == 0} { // the broker grows warmer: neither side is always the second
			side := &without
			if trouble {
				side = &with
			}
			got, err := b.turn(ctx, trouble)
			if err != nil {
				return err
			}
			side.add(got)
		}
		o.logf("hol round %d: p99 %.2f ms with trouble, %.2f ms without", i+1, with.p99[i]/1000, without.p99[i]/1000)
	}
	ratio := ratioOf("hol/p99", "us from accept to action of unrelated entities, with trouble and without", holBar, with.p99, without.p99)
	ratio.AtMost = true
	r.Ratios = append(r.Ratios, ratio)
	r.figure("hol/p50_with", "us", median(with.p50))
	r.figure("hol/p50_without", "us", median(without.p50))
	r.figure("hol/failed_calls", "calls of the entity that fails, in all turns", float64(with.failed))
	r.figure("hol/hanging_calls", "calls that were never answered, in all turns", float64(with.hanging))
	r.Settings["hol"] = fmt.Sprintf("%.0f deliveries/s of 1 KiB, GitHub preset, signed, %d partitions of one topic: 8 in 10 of %d entities, of which one is answered 500 for ever, "+
		"1 in 10 to a destination that refuses connections, 1 in 10 to one that never answers (timeout 2s), %d entities each; without trouble all go to the agent, "+
		"through the same subscriptions; processes, topics and groups new for every turn; data of servers that were started: %s", sizes.rate, sizes.partitions,
		sizes.conns*sizes.entities, sizes.conns*sizes.entities, cmp.Or(o.data, "TMPDIR"))
	return nil
}

// holBench is one run of the scenario.
type holBench struct {
	Options
	holSizes
	pg *pgServer
}

// holTurn is what one turn saw of the unrelated entities, and of the others.
type holTurn struct {
	p50, p99        time.Duration
	failed, hanging int64
}

// holSide is all turns of one side, times in microseconds.
type holSide struct {
	p50, p99        []float64
	failed, hanging int64
}

func (s *holSide) add(t holTurn) {
	s.p50 = append(s.p50, float64(t.p50.Microseconds()))
	s.p99 = append(s.p99, float64(t.p99.Microseconds()))
	s.failed += t.failed
	s.hanging += t.hanging
}

// turn starts a stack, sends to it at the rate, and stops it.
func (b *holBench) turn(ctx context.Context, trouble bool) (t holTurn, err error) {
	closed, err := rig.FindAddress()
	if err != nil {
		return t, err
	}
	w, err := b.startStack(ctx, b.pg, newTeamName("hol"), b.partitions, holConfig, holAddresses(trouble, closed)...)
	if err != nil {
		return t, err
	}
	defer w.close()
	mix := make([]share, len(holKinds))
	for kind, k := range holKinds {
		mix[kind] = share{kind: uint64(kind), weight: k.weight, entities: b.entities}
	}
	s := w.senders(b.conns, mix)
	s.interval = time.Duration(float64(time.Second) / b.rate)
	from := time.Now().Add(b.warmUp).UnixNano()
	err = s.runWhile(ctx, func(ctx context.Context) error { return waitUntil(ctx, time.Now().Add(b.warmUp+b.Round)) })
	if err != nil {
		return t, err
	}
	accepted, counted := s.takeAccepted(), []receipt(nil)
	for _, a := range accepted {
		if a.At >= from {
			counted = append(counted, a)
		}
	}
	fate, times, err := b.awaitDeliveries(ctx, w, counted, trouble)
	if err != nil {
		return t, err
	}
	return holTurn{percentile(times, 0.5), percentile(times, 0.99), fate.Failed, fate.Hanging}, nil
}

// holAddresses returns the addresses of a turn's destinations, as words to replace in holConfig.
func holAddresses(trouble bool, closed string) []string {
	if !trouble {
		return []string{"RUN", "AGENT" + agentRun, "REFUSED", "AGENT" + agentRun, "HANGING", "AGENT" + agentRun}
	}
	return []string{"RUN", "AGENT" + agentFirst, "REFUSED", "http://" + closed + agentRun, "HANGING", "AGENT" + agentHang}
}

// unrelated reports whether a delivery is of an entity that is in no trouble.
func unrelated(delivery uint64) bool {
	return kindOf(delivery) == holUnrelated && entityOf(delivery) != 0
}

// awaitDeliveries waits until every unrelated delivery has reached the agent and, with trouble, calls have failed and hung. It fails if a
// delivery comes twice or out of order. Deliveries to destinations in trouble need not arrive.
func (b *holBench) awaitDeliveries(ctx context.Context, w *stack, accepted []receipt, trouble bool) (fate agentReport, times []time.Duration, err error) {
	var came []receipt
	const patience = 2 * time.Minute
	for deadline := time.Now().Add(patience); ; {
		more, list, err := w.agent.take(ctx)
		if err != nil {
			return fate, nil, err
		}
		if len(list) > 0 {
			came, deadline = append(came, list...), time.Now().Add(patience)
		}
		fate.Twice, fate.Unordered = fate.Twice+more.Twice, fate.Unordered+more.Unordered
		fate.Failed, fate.Hanging = fate.Failed+more.Failed, fate.Hanging+more.Hanging
		times, lost := transitTimes(accepted, came, unrelated)
		if fate.Twice > 0 || fate.Unordered > 0 {
			return fate, nil, fmt.Errorf("%d deliveries came twice, %d out of order", fate.Twice, fate.Unordered)
		}
		if lost == 0 && len(times) > 0 && trouble == (fate.Failed > 0 && fate.Hanging > 0) {
			return fate, times, nil
		}
		if time.Now().After(deadline) {
			return fate, nil, w.running["stream"].explain(fmt.Errorf("%d of %d accepted deliveries did not come; %d calls were answered 500, %d not at all, with trouble: %v",
				lost, len(accepted), fate.Failed, fate.Hanging, trouble))
		}
		if err := waitUntil(ctx, time.Now().Add(100*time.Millisecond)); err != nil {
			return fate, nil, err
		}
	}
}
