package bench

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// The scenario fanout is about subscriptions of one topic: how long those that are well wait while one is in trouble.

// fanoutBar is how much longer they may wait then, by p99.
const fanoutBar = 1.2

// fanoutSizes are the scenario's dimensions.
type fanoutSizes struct {
	warming       time.Duration // of the broker, before all turns, at holWarmUpFactor times the rate
	warmUp        time.Duration // before the measured part of each turn
	rate          float64       // deliveries/s; each is an action of every subscription
	conns         int
	entities      int // of a connection
	partitions    int
	subscriptions int // the last of them is the one that may be in trouble
}

// fanoutScale has the scenario's sizes. At this rate ten subscriptions leave two cores a part of their time; see holScale.
var fanoutScale = fanoutSizes{warming: 30 * time.Second, warmUp: 6 * time.Second, rate: 40, conns: 8, entities: 50, partitions: 12, subscriptions: 10}

// The sides of the scenario: what the last subscription's destination does.
const (
	fanoutWell = iota
	fanoutHangs
	fanoutFails
	fanoutSides
)

func runFanoutScenario(ctx context.Context, o Options, r *Report) error {
	return runFanout(ctx, o, fanoutScale, r)
}

// runFanout measures each side in turns. Each turn has a team of its own, with topics, groups and processes of its own; see runHol.
func runFanout(ctx context.Context, o Options, sizes fanoutSizes, r *Report) error {
	o.data = memoryDir()
	pg, stop, err := o.servers(ctx, r)
	if err != nil {
		return err
	}
	defer stop()
	b := &fanoutBench{Options: o, fanoutSizes: sizes, pg: pg}
	if b.warming > 0 {
		warming := *b // the first turn of all is the broker's to warm up in
		warming.rate, warming.warmUp = b.rate*holWarmUpFactor, b.warming
		if _, err := warming.turn(ctx, fanoutWell); err != nil {
			return err
		}
	}
	var p99, p50, worst [fanoutSides][]float64
	for i := range o.Rounds {
		for n := range fanoutSides {
			side := (i + n) % fanoutSides // no side is always the first
			got, err := b.turn(ctx, side)
			if err != nil {
				return err
			}
			p99[side], p50[side], worst[side] = append(p99[side], microseconds(got.p99)), append(p50[side], microseconds(got.p50)), append(worst[side], microseconds(got.worst))
		}
		o.logf("fanout round %d: p99 %.2f ms without trouble, %.2f ms while one hangs, %.2f ms while one fails", i+1,
			p99[fanoutWell][i]/1000, p99[fanoutHangs][i]/1000, p99[fanoutFails][i]/1000)
	}
	names := []string{fanoutWell: "well", fanoutHangs: "hangs", fanoutFails: "fails"}
	for _, side := range []int{fanoutHangs, fanoutFails} {
		name := names[side]
		ratio := ratioOf("fanout/"+name, fmt.Sprintf("us from accept to action of the others of %d subscriptions, while one %s and without", b.subscriptions, name), fanoutBar, p99[side], p99[fanoutWell])
		ratio.AtMost = true
		r.Ratios = append(r.Ratios, ratio)
	}
	for side, name := range names {
		r.figure("fanout/p50_"+name, "us", median(p50[side]))
		r.figure("fanout/worst_p99_"+name, "us, p99 of the slowest of the others", median(worst[side]))
	}
	r.Settings["fanout"] = fmt.Sprintf("%.0f deliveries/s of 1 KiB, GitHub preset, signed, %d partitions of one topic, %d entities, to %d subscriptions of one stream process, "+
		"each with a destination of its own: all well, or the last one's never answers (timeout 2s) or answers 500; processes, topics and groups new for every turn; data of servers that were started: %s",
		sizes.rate, sizes.partitions, sizes.conns*sizes.entities, sizes.subscriptions, cmp.Or(o.data, "TMPDIR"))
	return nil
}

func microseconds(d time.Duration) float64 { return float64(d.Microseconds()) }

// fanoutBench is one run of the scenario.
type fanoutBench struct {
	Options
	fanoutSizes
	pg *pgServer
}

// fanoutTurn is what one turn saw of the subscriptions that were well: of all their actions together, and of the slowest of them.
type fanoutTurn struct{ p50, p99, worst time.Duration }

// config is the file's part with destinations and subscriptions.
func (b *fanoutBench) config(side int) string {
	var destinations, subscriptions strings.Builder
	for n := range b.subscriptions {
		path := fmt.Sprintf("%s%d", agentFan, n)
		if n == b.subscriptions-1 {
			path = []string{fanoutWell: path, fanoutHangs: agentHang, fanoutFails: agentFail}[side]
		}
		fmt.Fprintf(&destinations, "      agent%d: {type: http, url: \"AGENT%s\", timeout: 2s, allow_networks: [127.0.0.0/8]}\n", n, path)
		fmt.Fprintf(&subscriptions, "      sub%d: {sources: [github], begin: all, actions: [{name: run, to: agent%d}]}\n", n, n)
	}
	return "    destinations:\n" + destinations.String() + "    subscriptions:\n" + subscriptions.String()
}

// turn starts a stack, sends to it at the rate, and stops it.
func (b *fanoutBench) turn(ctx context.Context, side int) (t fanoutTurn, err error) {
	w, err := b.startStack(ctx, b.pg, newTeamName("fanout"), b.partitions, b.config(side))
	if err != nil {
		return t, err
	}
	defer w.close()
	s := w.senders(b.conns, []share{{kind: 0, weight: 1, entities: b.entities}})
	s.interval = time.Duration(float64(time.Second) / b.rate)
	from := time.Now().Add(b.warmUp).UnixNano()
	err = s.runWhile(ctx, func(ctx context.Context) error { return waitUntil(ctx, time.Now().Add(b.warmUp+b.Round)) })
	if err != nil {
		return t, err
	}
	counted := slices.DeleteFunc(s.takeAccepted(), func(a receipt) bool { return a.At < from })
	return b.awaitAll(ctx, w, counted, side)
}

// awaitAll waits until every delivery has reached the agent from each subscription that is well, and calls of the one that is not have come.
// It fails if a delivery comes twice or out of order.
func (b *fanoutBench) awaitAll(ctx context.Context, w *stack, accepted []receipt, side int) (t fanoutTurn, err error) {
	var (
		came []receipt
		sum  agentReport
	)
	const patience = 2 * time.Minute
	for deadline := time.Now().Add(patience); ; {
		more, list, err := w.agent.take(ctx)
		if err != nil {
			return t, err
		}
		if len(list) > 0 {
			came, deadline = append(came, list...), time.Now().Add(patience)
		}
		sum.Twice, sum.Unordered = sum.Twice+more.Twice, sum.Unordered+more.Unordered
		sum.Failed, sum.Hanging = sum.Failed+more.Failed, sum.Hanging+more.Hanging
		if sum.Twice > 0 || sum.Unordered > 0 {
			return t, fmt.Errorf("%d deliveries came twice, %d out of order", sum.Twice, sum.Unordered)
		}
		t, lost := b.times(accepted, came)
		if lost == 0 && t.p99 > 0 && (side == fanoutHangs) == (sum.Hanging > 0) && (side == fanoutFails) == (sum.Failed > 0) {
			return t, nil
		}
		if time.Now().After(deadline) {
			return t, w.running["stream"].explain(fmt.Errorf("%d actions of %d deliveries did not come to the subscriptions that are well; %d calls were answered 500, %d not at all",
				lost, len(accepted), sum.Failed, sum.Hanging))
		}
		if err := waitUntil(ctx, time.Now().Add(100*time.Millisecond)); err != nil {
			return t, err
		}
	}
}

// times returns how long the deliveries took to all subscriptions but the last, and how many are missing.
func (b *fanoutBench) times(accepted, came []receipt) (t fanoutTurn, lost int) {
	var all []time.Duration
	for n := range b.subscriptions - 1 {
		wanted := make([]receipt, len(accepted))
		for i, a := range accepted {
			wanted[i] = receipt{a.Delivery | deliveryOf(uint64(n), 0, 0), a.At}
		}
		list, missing := transitTimes(wanted, came, func(uint64) bool { return true })
		lost += missing
		if len(list) > 0 {
			t.worst = max(t.worst, percentile(list, 0.99))
		}
		all = append(all, list...)
	}
	if len(all) == 0 {
		return t, lost
	}
	slices.Sort(all)
	t.p50, t.p99 = percentile(all, 0.5), percentile(all, 0.99)
	return t, lost
}
