package simulation

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/ledger/ledgertest"
)

// planned is a fault as the seed draws it: what, when, for how long, and a number to choose a victim by.
type planned struct {
	fault
	at, lasts time.Duration
	chance    uint64
}

// fault is one way of breaking things. do begins it and gives what ends it, and what it was to the judge.
type fault struct {
	name string
	// longest is how long it may last; 0 is a moment.
	longest time.Duration
	do      func(ctx context.Context, w *world, p planned) (fact, func())
}

func nothing() {}

// faults are all there are, but for the election of drawElection. What one does to the world it does to what runs at that moment.
var faults = []fault{
	{"a stream process's connections to the brokers are cut", 0, cutStream(toBrokers)},
	{"a stream process's connections to the agent are cut", 0, cutStream(toAgent)},
	{noBrokers, 25 * time.Second, hangStream(toBrokers)},
	{"a broker's answers to a stream process are late", 900 * time.Millisecond, hangStream(toBrokers)},
	{noAgent, 12 * time.Second, hangStream(toAgent)},
	{"a stream process is killed", 20 * time.Second, killStream},
	{"a stream process is killed", 20 * time.Second, killStream},
	{"a stream process is frozen", 25 * time.Second, freezeStream},
	{"a stream process is stopped and started again", 15 * time.Second, stopStream},
	{"one more stream process", 30 * time.Second, addStream},
	{"the intake is killed", 10 * time.Second, killIntake},
	{"the intake is stopped and started again", 5 * time.Second, stopIntake},
	{"the intake's connections to the brokers are cut", 0, cutIntake},
	{"the intake hears nothing of the brokers", time.Minute, hangIntake},
	{"the provider's connections are cut", 0, cutProvider},
	{"the ledger is away", 8 * time.Second, ledgerFails(ledgertest.Before)},
	{"the ledger rolls back", 3 * time.Second, ledgerFails(ledgertest.Within)},
	{"the ledger is away for one process", 8 * time.Second, ledgerFailsFor},
	{"the ledger hangs", 15 * time.Second, ledgerHangs},
	{"answers to COMMIT are lost", 2 * time.Second, ledgerFails(ledgertest.After)},
	{"an answer to COMMIT is lost, and what came of it is not to be had", 2 * time.Second, ledgerUnknown},
	{"an error beside records", 20 * time.Second, spoil(addError)},
	{"a broken batch behind good ones", 20 * time.Second, spoil(breakLast)},
	{"brokers answer with errors", 3 * time.Second, brokerErrors},
	{"brokers answer with errors", 3 * time.Second, brokerErrors},
	{"the group loses its members", 0, loseMembers},
	{movedBack, 3 * time.Second, seekBack},
	{"the group is deleted while it is stopped", 3 * time.Second, deleteGroup},
	{cutOff, 3 * time.Second, cutTopic},
	{retained, 2 * time.Minute, reachRetention},
	{retained, 2 * time.Minute, reachRetention},
	{recreated, 4 * time.Second, recreateTopic},
	{grown, 0, growTopic},
}

func (p *plan) drawFaults(rng *rand.Rand) {
	for range rng.IntN(6) {
		f := planned{fault: pick(rng, faults...), at: within(rng, 0, 40*time.Second), chance: rng.Uint64()}
		if rng.IntN(3) == 0 {
			f.at = within(rng, 0, 2*time.Second) // while most is under way
		}
		if f.longest > 0 {
			f.lasts = within(rng, f.longest/50, f.longest)
		}
		switch f.name {
		case cutOff, recreated:
			p.onDead = ledger.Continue // a payload that is lost is dead, and what stands behind it is to be seen
		case retained:
			p.retention, p.onDead = pick(rng, 10*time.Second, 20*time.Second, 40*time.Second), ledger.Continue
		}
		p.faults = append(p.faults, f)
	}
	p.drawElection(rng)
	p.drawAbsence(rng)
	slices.SortStableFunc(p.faults, func(a, b planned) int { return int(a.at - b.at) })
}

// drawElection has one world in eight cut a log. It is drawn behind all others, so that a seed's other faults are what they were. A group that
// is moved by hand goes where it is told, and the cut is not reported: not both.
func (p *plan) drawElection(rng *rand.Rand) {
	if rng.IntN(8) != 0 || p.has(movedBack) {
		return
	}
	p.onDead = ledger.Continue
	p.faults = append(p.faults, planned{fault: fault{unclean, 3 * time.Second, electUncleanly}, at: within(rng, 300*time.Millisecond, 5*time.Second),
		lasts: within(rng, 0, 2*time.Second), chance: rng.Uint64()})
}

// drawAbsence has one world in four take a process for gone that lives. It is drawn behind all others, too.
func (p *plan) drawAbsence(rng *rand.Rand) {
	if rng.IntN(4) != 0 {
		return
	}
	p.faults = append(p.faults, planned{fault: fault{takenForGone, 10 * time.Second, loseSession}, at: within(rng, 0, 10*time.Second),
		lasts: within(rng, 100*time.Millisecond, 10*time.Second), chance: rng.Uint64()})
}

// breakThings does what the plan says, and mends it.
func (w *world) breakThings(ctx context.Context) {
	var all sync.WaitGroup
	for _, f := range w.plan.faults {
		all.Go(func() {
			sleep(ctx, time.Until(w.trace.start.Add(f.at)))
			w.trace.add("fault: %s, for %s", f.name, f.lasts)
			was, mend := f.do(ctx, w, f)
			was.begin = w.trace.start.Add(f.at)
			sleep(ctx, f.lasts)
			mend()
			was.end = time.Now()
			w.trace.add("mended: %s (%s)", f.name, was.node)
			w.fact(was)
		})
	}
	all.Wait()
}

// victim is one of the stream processes that run; nil where there is none.
func (w *world) victim(p planned) *process {
	running := w.running()
	if len(running) == 0 {
		return nil
	}
	return running[p.chance%uint64(len(running))]
}

// noVictim stands for a fault that found no process to happen to.
var noVictim = fact{node: "nobody", what: "nothing"}

func toBrokers(w *world) []int { return w.broker.ports }
func toAgent(*world) []int     { return []int{agentPort} }

func cutStream(ports func(*world) []int) func(context.Context, *world, planned) (fact, func()) {
	return func(_ context.Context, w *world, p planned) (fact, func()) {
		v := w.victim(p)
		if v == nil {
			return noVictim, nothing
		}
		w.net.cut(v.node, ports(w)...)
		return fact{node: v.node, what: p.name}, nothing
	}
}

func hangStream(ports func(*world) []int) func(context.Context, *world, planned) (fact, func()) {
	return func(_ context.Context, w *world, p planned) (fact, func()) {
		v := w.victim(p)
		if v == nil {
			return noVictim, nothing
		}
		w.net.hang(v.node, ports(w)...)
		return fact{node: v.node, what: p.name}, func() { w.net.heal(v.node, ports(w)...) }
	}
}

func killStream(_ context.Context, w *world, p planned) (fact, func()) {
	v := w.victim(p)
	if v == nil || !w.remove(v) {
		return noVictim, nothing
	}
	v.kill()
	return fact{node: v.node, what: p.name}, func() { w.startProcess() }
}

func freezeStream(_ context.Context, w *world, p planned) (fact, func()) {
	v := w.victim(p)
	if v == nil {
		return noVictim, nothing
	}
	v.freeze()
	return fact{node: v.node, what: p.name}, v.thaw
}

func stopStream(_ context.Context, w *world, p planned) (fact, func()) {
	v := w.victim(p)
	if v == nil || !w.remove(v) {
		return noVictim, nothing
	}
	v.stop()
	return fact{node: v.node, what: moved}, func() { w.startProcess() }
}

func addStream(_ context.Context, w *world, _ planned) (fact, func()) {
	if len(w.running()) > 2 {
		return noVictim, nothing
	}
	v := w.startProcess()
	return fact{node: v.node, what: moved}, func() {
		if w.remove(v) {
			v.stop()
		}
	}
}

const movedBack = "the group's offsets are set back while it is stopped"

// moved is a fault after which nothing may come twice: partitions change hands with all that is known.
const moved = "partitions change hands"

func (w *world) takeIntake() *intake {
	w.mu.Lock()
	defer w.mu.Unlock()
	in := w.intake
	w.intake = nil
	return in
}

func killIntake(_ context.Context, w *world, p planned) (fact, func()) {
	in := w.takeIntake()
	if in == nil {
		return noVictim, nothing
	}
	in.kill()
	w.mu.Lock()
	w.dead = append(w.dead, in)
	w.mu.Unlock()
	return fact{node: in.node, what: p.name}, w.startIntake
}

func stopIntake(_ context.Context, w *world, p planned) (fact, func()) {
	in := w.takeIntake()
	if in == nil {
		return noVictim, nothing
	}
	in.stop()
	return fact{node: in.node, what: p.name}, w.startIntake
}

func (w *world) intakeNode() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.intake == nil {
		return "nobody"
	}
	return w.intake.node
}

func cutIntake(_ context.Context, w *world, p planned) (fact, func()) {
	node := w.intakeNode()
	w.net.cut(node)
	return fact{node: node, what: p.name}, nothing
}

func hangIntake(_ context.Context, w *world, p planned) (fact, func()) {
	node := w.intakeNode()
	w.net.hang(node, w.broker.ports...)
	return fact{node: node, what: p.name}, func() { w.net.heal(node, w.broker.ports...) }
}

func cutProvider(_ context.Context, w *world, p planned) (fact, func()) {
	w.net.cut("provider")
	return fact{node: "provider", what: p.name}, nothing
}

var errLedger = errors.New("simulation: the connection to the ledger is lost")

func ledgerFails(at ledgertest.Point) func(context.Context, *world, planned) (fact, func()) {
	return func(_ context.Context, w *world, _ planned) (fact, func()) {
		return fact{what: ledgerAway}, w.db.addFault(func(_ context.Context, c ledgertest.Call) error {
			if c.Point == at && (at != ledgertest.After || c.Op != "resolve") {
				return errLedger
			}
			return nil
		})
	}
}

func ledgerFailsFor(_ context.Context, w *world, p planned) (fact, func()) {
	v := w.victim(p)
	if v == nil {
		return noVictim, nothing
	}
	return fact{node: v.node, what: ledgerAway}, w.db.addFault(func(_ context.Context, c ledgertest.Call) error {
		if c.Process == v.node && c.Point == ledgertest.Before {
			return errLedger
		}
		return nil
	})
}

// ledgerUnknown loses answers to COMMIT, and those to the question what came of it.
func ledgerUnknown(_ context.Context, w *world, _ planned) (fact, func()) {
	return fact{what: ledgerAway}, w.db.addFault(func(_ context.Context, c ledgertest.Call) error {
		if c.Point == ledgertest.After || c.Op == "resolve" {
			return errLedger
		}
		return nil
	})
}

func ledgerHangs(_ context.Context, w *world, p planned) (fact, func()) {
	over := make(chan struct{})
	mend := w.db.addFault(func(ctx context.Context, c ledgertest.Call) error {
		if c.Point != ledgertest.Before {
			return nil
		}
		select {
		case <-over:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	return fact{what: ledgerAway}, func() { mend(); close(over) }
}

// spoil spoils the next answers of brokers to everybody, one each.
func spoil(how func(*kmsg.FetchResponseTopicPartition) bool) func(context.Context, *world, planned) (fact, func()) {
	return func(_ context.Context, w *world, p planned) (fact, func()) {
		for _, v := range w.running() {
			w.net.spoilNext(v.node, how)
		}
		return fact{node: "nobody", what: p.name}, func() {
			for _, v := range w.running() {
				w.net.stopSpoiling(v.node)
			}
		}
	}
}

// answers are errors that brokers give, and to what.
var answers = []struct {
	err  *kerr.Error
	keys []kmsg.Key
}{
	{kerr.NotLeaderForPartition, []kmsg.Key{kmsg.Fetch, kmsg.Produce, kmsg.ListOffsets}},
	{kerr.UnknownServerError, []kmsg.Key{kmsg.Fetch}},
	{kerr.KafkaStorageError, []kmsg.Key{kmsg.Fetch, kmsg.Produce, kmsg.ListOffsets}},
	{kerr.OffsetNotAvailable, []kmsg.Key{kmsg.Fetch, kmsg.ListOffsets}},
	{kerr.LeaderNotAvailable, []kmsg.Key{kmsg.Metadata, kmsg.Fetch}},
	{kerr.NotEnoughReplicas, []kmsg.Key{kmsg.Produce}},
	{kerr.NotEnoughReplicasAfterAppend, []kmsg.Key{kmsg.Produce}},
	{kerr.RequestTimedOut, []kmsg.Key{kmsg.Produce, kmsg.OffsetCommit}},
	{kerr.CoordinatorNotAvailable, []kmsg.Key{kmsg.OffsetFetch, kmsg.OffsetCommit, kmsg.JoinGroup, kmsg.SyncGroup, kmsg.Heartbeat, kmsg.FindCoordinator}},
	{kerr.NotCoordinator, []kmsg.Key{kmsg.OffsetFetch, kmsg.OffsetCommit, kmsg.Heartbeat}},
	{kerr.CoordinatorLoadInProgress, []kmsg.Key{kmsg.OffsetFetch, kmsg.OffsetCommit, kmsg.Heartbeat}},
	{kerr.RebalanceInProgress, []kmsg.Key{kmsg.OffsetCommit, kmsg.SyncGroup}},
}

func brokerErrors(_ context.Context, w *world, p planned) (fact, func()) {
	a := answers[p.chance%uint64(len(answers))]
	h := w.broker.cluster().Fault(kfake.Fault{Keys: a.keys, Err: a.err, Count: 1 + int(p.chance>>32%4)})
	w.trace.add("  %s", a.err.Message)
	return fact{what: fmt.Sprintf("%s: %s", p.name, a.err.Message)}, h.Remove
}

// loseMembers has the coordinator know no member any more.
func loseMembers(_ context.Context, w *world, p planned) (fact, func()) {
	w.broker.cluster().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Heartbeat}, Err: kerr.UnknownMemberID, Count: 1 + int(p.chance%3)})
	return fact{what: p.name}, nothing
}

// takenForGone is what becomes of a process that loses its session in the ledger and nothing else: others take its member out of the group.
const takenForGone = "a stream process is taken for gone"

func loseSession(_ context.Context, w *world, p planned) (fact, func()) {
	v := w.victim(p)
	if v == nil {
		return noVictim, nothing
	}
	v.ledger.Away()
	return fact{node: v.node, what: p.name}, v.ledger.Back
}

// stopAll stops all processes of the subscription; mend starts as many.
func (w *world) stopAll() (mend func()) {
	var all sync.WaitGroup
	running := w.running()
	for _, v := range running {
		if w.remove(v) {
			all.Go(v.stop)
		}
	}
	all.Wait()
	return func() {
		for range running {
			w.startProcess()
		}
	}
}

func seekBack(ctx context.Context, w *world, p planned) (fact, func()) {
	mend := w.stopAll()
	if err := w.broker.seek(ctx, func(_, end int64) int64 { return int64(p.chance % uint64(end+1)) }); err != nil {
		w.trace.add("  %v", err)
	}
	return fact{what: moved}, mend
}

func deleteGroup(ctx context.Context, w *world, _ planned) (fact, func()) {
	mend := w.stopAll()
	if _, err := w.broker.adm.DeleteGroups(ctx, group); err != nil {
		w.trace.add("  %v", err)
	}
	return fact{what: moved}, mend
}
