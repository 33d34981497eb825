package bench

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/rig"
)

// The scenarios hol and fanout are about those that are well while others are in trouble: hol about entities of one subscription while other
// entities and destinations are, fanout about subscriptions of one topic while another one is.

// troubleBar is how much longer they may wait then, by p99.
const troubleBar = 1.2

// troubleSizes are the dimensions of both.
type troubleSizes struct {
	warming       time.Duration // of the broker, before all turns, at warmingFactor times the rate
	warmUp        time.Duration // before the measured part of each turn
	rate          float64       // deliveries/s
	conns         int
	entities      int // of a connection and kind
	partitions    int
	subscriptions int // of fanout: the last of them is the one that may be in trouble
}

// warmingFactor is how many times the rate the broker is warmed up with: one that has just been started needs a core to itself for a minute,
// until its code is compiled.
const warmingFactor = 10

// The rates leave two cores a third of their time: single deliveries fill no batches, and each subscription has a transaction for nearly
// every one. At twice the rate the cores are busy, and who waits for a core is chance.
var (
	holScale    = troubleSizes{warming: 60 * time.Second, warmUp: 4 * time.Second, rate: 200, conns: 8, entities: 50, partitions: 12}
	fanoutScale = troubleSizes{warming: 30 * time.Second, warmUp: 6 * time.Second, rate: 40, conns: 8, entities: 50, partitions: 12, subscriptions: 10}
)

// trouble is what one of them does.
type trouble struct {
	troubleSizes
	name  string
	sides []string                              // the first is without trouble; the names of the others are those of the ratios
	kinds []int                                 // weights of the kinds of deliveries
	says  string                                // what happens, for the settings
	parts func(side int, refused string) string // destinations and subscriptions; refused is an address at which nobody listens
	// wanted are the deliveries that must come to the agent of one that was accepted, with the agent's marks.
	wanted func(delivery uint64) []uint64
	// troubled reports whether what came in a turn of a side was the trouble that it should have.
	troubled func(side int, came agentReport) bool
}

// The kinds of deliveries of hol. Eight in ten are unrelated: their destination works, though not for one of their entities.
const holUnrelated, holRefused, holHanging = 0, 1, 2

func hol(sizes troubleSizes) trouble {
	return trouble{troubleSizes: sizes, name: "hol", sides: []string{"without", "p99"}, kinds: []int{holUnrelated: 8, holRefused: 1, holHanging: 1},
		says: "8 in 10 are unrelated, but for one entity that is answered 500 for ever, 1 in 10 goes to a destination that refuses connections, 1 in 10 to one that never answers " +
			"(timeout 2s), each kind by a subscription; without trouble all go to the agent, through the same subscriptions",
		parts: func(side int, refused string) string {
			to := []string{"AGENT" + agentRun, "AGENT" + agentRun, "AGENT" + agentRun}
			if side > 0 {
				to = []string{holUnrelated: "AGENT" + agentFirst, holRefused: "http://" + refused + agentRun, holHanging: "AGENT" + agentHang}
			}
			return subscriptionsTo(to, deliveryActions)
		},
		wanted: func(delivery uint64) []uint64 {
			if kindOf(delivery) != holUnrelated || entityOf(delivery) == 0 {
				return nil
			}
			return []uint64{delivery}
		},
		troubled: func(side int, came agentReport) bool { return side == 0 || came.Failed > 0 && came.Hanging > 0 }}
}

func fanout(sizes troubleSizes) trouble {
	last := sizes.subscriptions - 1
	return trouble{troubleSizes: sizes, name: "fanout", sides: []string{"well", "hangs", "fails"}, kinds: []int{1},
		says: fmt.Sprintf("each goes to %d subscriptions with a destination of its own: all well, or the last one's never answers (timeout 2s) or answers 500", sizes.subscriptions),
		parts: func(side int, _ string) string {
			var to []string
			for n := range sizes.subscriptions {
				to = append(to, fmt.Sprintf("AGENT%s%d", agentFan, n))
			}
			if side > 0 {
				to[last] = "AGENT" + []string{"", agentHang, agentFail}[side]
			}
			return subscriptionsTo(to, nil)
		},
		wanted: func(delivery uint64) (list []uint64) {
			for n := range last {
				list = append(list, delivery|deliveryOf(uint64(n), 0, 0))
			}
			return list
		},
		troubled: func(side int, came agentReport) bool {
			return (side == 1) == (came.Hanging > 0) && (side == 2) == (came.Failed > 0)
		}}
}

// subscriptionsTo writes a destination for each URL, and a subscription to it: of all events, or of those with an action each.
func subscriptionsTo(urls, actions []string) string {
	var destinations, subscriptions strings.Builder
	for n, url := range urls {
		types := ""
		if actions != nil {
			types = fmt.Sprintf("types: [com.github.issues.%s], ", actions[n])
		}
		fmt.Fprintf(&destinations, "      agent%d: {type: http, url: %q, timeout: 2s, allow_networks: [127.0.0.0/8]}\n", n, url)
		fmt.Fprintf(&subscriptions, "      sub%d: {sources: [github], %sbegin: all, actions: [{name: run, to: agent%d}]}\n", n, types, n)
	}
	return "    destinations:\n" + destinations.String() + "    subscriptions:\n" + subscriptions.String()
}

// run measures each side in turns. Each turn has a team of its own, with topics, groups and processes of its own: nothing of one is left to
// the next. Servers that are started keep their data in memory, where there is room: one stall of a disk, which can take half a second, is the
// p99 of its turn.
func (t trouble) run(ctx context.Context, o Options, r *Report) error {
	o.data = memoryDir()
	pg, stop, err := o.servers(ctx, r)
	if err != nil {
		return err
	}
	defer stop()
	if t.warming > 0 {
		warming := t // the first turn of all is the broker's to warm up in
		warming.rate, warming.warmUp = t.rate*warmingFactor, t.warming
		if _, err := warming.turn(ctx, o, pg, 0); err != nil {
			return err
		}
	}
	tails := make([][]float64, len(t.sides)) // p99 of each turn
	for i := range o.Rounds {
		for n := range t.sides {
			side := (i + n) % len(t.sides) // the broker grows warmer: no side is always the first
			times, err := t.turn(ctx, o, pg, side)
			if err != nil {
				return err
			}
			tails[side] = append(tails[side], p99(times))
		}
		for side, name := range t.sides {
			o.logf("%s round %d: p99 %.2f ms, %s", t.name, i+1, tails[side][i]/1000, name)
		}
	}
	for side, name := range t.sides {
		if side > 0 {
			r.Ratios = append(r.Ratios, ratioOf(t.name+"/"+name, "us from accept to action of those that are well, with trouble and without", troubleBar, tails[side], tails[0]).most())
		}
	}
	r.Settings[t.name] = fmt.Sprintf("%.0f deliveries/s of 1 KiB, GitHub preset, signed, %d partitions of one topic, %d entities of a kind: %s; processes, topics and groups new for every turn; "+
		"data of servers that were started: %s", t.rate, t.partitions, t.conns*t.entities, t.says, cmp.Or(o.data, "TMPDIR"))
	return nil
}

// turn starts a stack, sends to it at the rate, and stops it. It returns how long the wanted deliveries took.
func (t trouble) turn(ctx context.Context, o Options, pg *pgServer, side int) ([]time.Duration, error) {
	refused, err := rig.FindAddress()
	if err != nil {
		return nil, err
	}
	w, err := o.startStack(ctx, pg, t.name, t.partitions, t.parts(side, refused), forebayRoles...)
	if err != nil {
		return nil, err
	}
	defer w.close()
	var mix []share
	for kind, weight := range t.kinds {
		mix = append(mix, share{kind: uint64(kind), weight: weight, entities: t.entities})
	}
	s := w.senders(t.conns, mix)
	s.interval = time.Duration(float64(time.Second) / t.rate)
	from := time.Now().Add(t.warmUp).UnixNano()
	err = s.runWhile(ctx, func(ctx context.Context) error { return waitUntil(ctx, time.Now().Add(t.warmUp+o.Round)) })
	if err != nil {
		return nil, err
	}
	var wanted []receipt
	for _, a := range slices.DeleteFunc(s.takeAccepted(), func(a receipt) bool { return a.At < from }) {
		for _, d := range t.wanted(a.Delivery) {
			wanted = append(wanted, receipt{d, a.At})
		}
	}
	return t.await(ctx, w, wanted, side)
}

// await waits until every wanted delivery has reached the agent, and the trouble was there. It fails if a delivery comes twice or out of order.
// Deliveries to destinations in trouble need not arrive.
func (t trouble) await(ctx context.Context, w *stack, wanted []receipt, side int) ([]time.Duration, error) {
	sum, came, err := w.agent.collect(ctx, func(sum agentReport, came []receipt) (bool, string) {
		times, lost := transitTimes(wanted, came)
		return lost == 0 && len(times) > 0 && t.troubled(side, sum), fmt.Sprintf(
			"%d of %d actions of those that are well did not come; %d calls were answered 500, %d not at all", lost, len(wanted), sum.Failed, sum.Hanging)
	})
	times, _ := transitTimes(wanted, came)
	return times, w.running["stream"].explain(cmp.Or(err, sum.onceInOrder()))
}
