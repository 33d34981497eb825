package simulation

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/owner"
)

// world is everything there is in one run.
type world struct {
	t          *testing.T
	plan       *plan
	trace      *trace
	net        *network
	broker     *broker
	db         *database
	agent      *agent
	sender     *sender
	operator   chan struct{} // a semaphore: an operator does one thing at a time to the logs; capacity 1
	operations sync.WaitGroup

	mu        sync.Mutex
	intake    *intake
	processes []*process // that run, or are frozen
	ended     []*process // killed
	dead      []*intake  // killed
	starts    int
	facts     []fact
	removed   []removedRecord
	lives     map[string][][16]byte // ids of topics that were deleted and created again, in their order
	inLogs    map[string]bool       // events of which the logs have a record when all is over
	grown     map[string]bool       // topics
	reports   []*owner.StopError
}

// fact is a fault as it was: what the judge takes into account.
type fact struct {
	node       string // process; empty: everything
	what       string
	begin, end time.Time
}

func (w *world) spec() ledger.Spec {
	return ledger.Spec{
		Name: group, Policy: w.plan.policy, Latest: w.plan.latest,
		Actions: []ledger.ActionSpec{{Name: "run", Destination: "acme/agent", OnDead: w.plan.onDead}},
	}
}

func (w *world) open(node string) (ledgerHandle, error) { return w.db.process(node, w.spec()) }

// ports are all that a process connects to.
func (w *world) ports() []int { return append(slices.Clone(w.broker.ports), agentPort, intakePort) }

// build makes the world as it is before anything happens.
func build(t *testing.T, p *plan, tr *trace) *world {
	t.Helper()
	w := &world{t: t, plan: p, trace: tr, net: newNetwork(), db: newDatabase(), lives: map[string][][16]byte{}, operator: make(chan struct{}, 1),
		inLogs: map[string]bool{}, grown: map[string]bool{}}
	w.broker = newBroker(t, w.net, p.brokers, p.dataDir(t))
	var err error
	if w.agent, err = startAgent(w.net, p.seed, p.bad); err != nil {
		t.Fatal(err)
	}
	w.sender = newSender(w.net)
	for _, source := range p.sources {
		w.broker.create(t, p.partitions, w.topicConfig(), topicOf(source))
		w.broker.create(t, 1, w.topicConfig(), "quarantine."+topicOf(source)[len("events."):])
	}
	w.startIntake()
	for range p.processes {
		w.startProcess()
	}
	w.waitForGroup()
	return w
}

// waitForGroup waits until the group has given every partition to somebody, and does not change its mind.
func (w *world) waitForGroup() {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	steady := 0
	for range tick.C {
		count := 0
		for _, p := range w.running() {
			for _, part := range p.sub.Partitions() {
				if part.State == owner.Running {
					count++
				}
			}
		}
		if steady++; count != int(w.plan.partitions)*len(w.plan.sources) {
			steady = 0
		}
		if steady == 5 {
			break
		}
	}
	w.trace.start = time.Now()
}

// node is a name that nobody had before.
func (w *world) node(role string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.starts++
	return fmt.Sprintf("%s-%d", role, w.starts)
}

func (w *world) startIntake() {
	node := w.node("intake")
	in, err := startIntake(node, w.net, w.broker.seeds, w.broker.options(node), w.plan.sources, w.plan.payload)
	if err != nil {
		w.t.Error(err)
		return
	}
	w.mu.Lock()
	w.intake = in
	w.mu.Unlock()
}

func (w *world) startProcess() *process {
	p, err := startProcess(w, w.node("stream"))
	if err != nil {
		w.t.Error(err)
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.processes = append(w.processes, p)
	return p
}

// running are the processes that run.
func (w *world) running() []*process {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.processes)
}

// remove takes a process out of those that run; false where it is not among them any more.
func (w *world) remove(p *process) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	i := slices.Index(w.processes, p)
	if i < 0 {
		return false
	}
	w.processes = slices.Delete(w.processes, i, i+1)
	w.ended = append(w.ended, p)
	return true
}

// byHand waits until the operator does nothing else to the logs; done ends what it does now.
func (w *world) byHand() (done func()) {
	w.operator <- struct{}{}
	return func() { <-w.operator }
}

func (w *world) fact(f fact) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.facts = append(w.facts, f)
}

const (
	quiet   = 45 * time.Second // beyond a gap's wait: nothing that is still to come takes longer
	longest = 30 * time.Minute
)

// run lets everything happen, and waits until nothing is left to be done.
func (w *world) run() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for _, l := range w.plan.deliveries {
		w.sender.run(ctx, l)
	}
	var operator sync.WaitGroup
	operator.Go(func() { w.operate(ctx) })
	defer operator.Wait()
	defer cancel()
	w.breakThings(ctx)
	w.operations.Wait()
	w.agent.calmDown()
	w.waitUntilQuiet(ctx)
	w.readLogs(ctx)
	cancel()
	w.sender.wait.Wait()
}

// waitUntilQuiet waits until nothing has happened for long enough that nothing will.
func (w *world) waitUntilQuiet(ctx context.Context) {
	tick := time.NewTicker(5 * time.Second)
	defer tick.Stop()
	for range tick.C {
		since := time.Since(w.lastSign())
		if w.sender.idle() && since > w.plan.policy.GapWait+quiet {
			return
		}
		if time.Since(w.trace.start) > longest {
			w.t.Errorf("does not come to rest")
			return
		}
	}
}

// lastSign is when provider or agent last heard something, or a process did something that neither hears of.
func (w *world) lastSign() time.Time {
	w.trace.mu.Lock()
	sign := w.trace.lastProgress
	w.trace.mu.Unlock()
	w.agent.mu.Lock()
	last := w.agent.last
	w.agent.mu.Unlock()
	w.sender.mu.Lock()
	defer w.sender.mu.Unlock()
	return slices.MaxFunc([]time.Time{sign, last, w.sender.last}, time.Time.Compare)
}

// operate looks after stopped partitions until ctx is done.
func (w *world) operate(ctx context.Context) {
	for ctx.Err() == nil {
		w.accept(ctx)
		sleep(ctx, 5*time.Second)
	}
}

// accept is an operator who accepts what stopped partitions report.
func (w *world) accept(ctx context.Context) {
	for _, p := range w.running() {
		for _, part := range p.sub.Partitions() {
			if part.State == owner.Stopped {
				w.trace.add("operator: %s/%d is stopped: %v", part.Topic, part.Partition, part.Err)
				w.report(part.Err)
				if err := w.db.accept(ctx, part); err != nil {
					w.trace.add("operator: %v", err)
				}
			}
		}
	}
}

// end stops everything, as SIGTERM does.
func (w *world) end() {
	for _, p := range w.running() {
		begin := time.Now()
		p.stop()
		if took := time.Since(begin); took > drainTimeout+20*time.Second {
			w.t.Errorf("%s took %s to end", p.node, took)
		}
		if p.err != nil {
			w.t.Errorf("%s: %v", p.node, p.err)
		}
		p.ledger.Kill()
	}
	for _, p := range w.ended {
		<-p.done
	}
	if w.intake != nil {
		w.intake.stop()
	}
	for _, in := range w.dead {
		in.releaseLeftovers()
	}
	w.sender.client.CloseIdleConnections()
	w.agent.stop()
	w.broker.close()
}
