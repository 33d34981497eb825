package bench

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// memoryBar is how much memory a stream process may have with what scale lets it hold, in MiB.
const memoryBar = 400

// backlogSizes are the dimensions of what a stream process is made to hold.
type backlogSizes struct {
	entities   int // of a million open actions
	partitions int
	body       int           // bytes of an event's body
	rest       time.Duration // a process is idle that does next to nothing for three times this
}

// backlogBench has stream processes hold open actions, of a destination that does not answer, and events that wait in gaps. Each is
// `forebay serve --roles stream` in a process of its own.
type backlogBench struct {
	Options
	backlogSizes
	pg *pgServer
}

// hold starts a stack whose destination holds its calls.
func (b *backlogBench) hold(ctx context.Context) (*stack, error) {
	return b.startStack(ctx, b.pg, "held", b.partitions, strings.Replace(ordersConfig, "AGENT"+agentRun, "AGENT"+agentHold, 1), "stream")
}

// full waits until the ledger has all that was produced, and the process has loaded actions: as many as its lanes have room for, the rest
// stays in the ledger.
func full(ctx context.Context, w *stack, open, waiting int) error {
	return w.waitLedger(ctx, func(actions, wait, loaded int64) bool {
		return actions == int64(open) && wait == int64(waiting) && loaded > 0
	})
}

// measureMemory lets a process load its open actions while as many events wait in gaps, each of an entity of its own, and reports how much
// memory it has then.
func (b *backlogBench) measureMemory(ctx context.Context, r *Report) error {
	w, err := b.hold(ctx)
	if err != nil {
		return err
	}
	defer w.close()
	b.logf("a stream process gets %d open actions and %d events that wait in gaps", b.Load, b.Load)
	for first := range 2 { // version 1 of some entities, whose actions stay open, then version 2 of others, which wait because the first is missing
		if err := w.produce(ctx, b.Kafka, b.body, countUp(uint64(first), first+1, b.Load, b.Load)); err != nil {
			return err
		}
	}
	pid := w.processes["stream"]
	if err := errors.Join(full(ctx, w, b.Load, b.Load), b.waitIdle(ctx, pid)); err != nil {
		return err
	}
	rest := residentMiB(pid, "VmRSS")
	b.logf("the stream process has %.0f MiB at rest, %.0f MiB at most", rest, residentMiB(pid, "VmHWM"))
	r.Settings["scale.memory"] = fmt.Sprintf("forebay serve --roles stream with %d open actions of a destination that does not answer and %d events waiting in gaps, "+
		"each of an entity of its own, bodies of %d bytes, %d partitions", b.Load, b.Load, b.body, b.partitions)
	r.Ratios = append(r.Ratios, atMost("scale/memory", "MiB resident, at rest, and allowed", rest, memoryBar))
	return nil
}

// measureOpen lets a process decide a million events (Options.Open), of many entities or of a single one. Then another process claims the
// open actions, of which nearly all stay in the ledger. It reports the most memory that either process has had. At last the destination
// answers for a while; it fails if actions come twice or out of their entity's order.
func (b *backlogBench) measureOpen(ctx context.Context, r *Report, name string, entities int) error {
	w, err := b.hold(ctx)
	if err != nil {
		return err
	}
	defer w.close()
	b.logf("a stream process gets %d open actions of %d entities", b.Open, entities)
	if err := errors.Join(w.produce(ctx, b.Kafka, b.body, countUp(0, 1, entities, b.Open)), full(ctx, w, b.Open, 0)); err != nil {
		return err
	}
	first := w.running["stream"]
	peak := residentMiB(first.pid(), "VmHWM")
	first.in.Close() // it stops, and waits for the calls under way
	if err := waitUntil(ctx, time.Now().Add(100*time.Millisecond)); err != nil {
		return err
	}
	if err := w.agent.tell(ctx, agentLet); err != nil {
		return err
	}
	first.stop()
	if err := w.startRole(ctx, "stream"); err != nil {
		return err
	}
	pid := w.processes["stream"]
	if err := errors.Join(full(ctx, w, b.Open, 0), b.waitIdle(ctx, pid)); err != nil {
		return err
	}
	rest := residentMiB(pid, "VmRSS")
	rate, err := b.drain(ctx, w)
	if err != nil {
		return w.running["stream"].explain(err)
	}
	most := max(peak, residentMiB(pid, "VmHWM"))
	b.logf("%d open actions of %d entities: %.0f MiB at rest, %.0f MiB at most; %.0f actions/s in order once it may", b.Open, entities, rest, most, rate)
	r.Settings["scale."+strings.TrimPrefix(name, "scale/")] = fmt.Sprintf("forebay serve --roles stream with %d open actions of %d entities, %d partitions, bodies of %d bytes: "+
		"filled while the destination held its calls, claimed by a second process, and let through for %s", b.Open, entities, b.partitions, b.body, b.drainTime())
	r.Ratios = append(r.Ratios, atMost(name, "MiB resident at most, and allowed", most, memoryBar))
	return nil
}

func (b *backlogBench) drainTime() time.Duration { return 3 * b.Round }

// drain has the destination answer for a while, and for longer if nothing has come by then. It returns how many actions a second came.
func (b *backlogBench) drain(ctx context.Context, w *stack) (rate float64, err error) {
	before, err := w.agent.came(ctx)
	if err != nil {
		return 0, err
	}
	begin := time.Now()
	if err := w.agent.tell(ctx, agentOpen); err != nil {
		return 0, err
	}
	came := before
	err = waitFor(ctx, func() (bool, string, error) {
		came, err = w.agent.came(ctx)
		return came == int64(b.Open) || came > before && time.Since(begin) > b.drainTime(), fmt.Sprintf("%d actions came", came), err
	})
	took := time.Since(begin)
	if err != nil {
		return 0, err
	}
	sum, list, err := w.agent.take(ctx)
	if err := errors.Join(err, sum.onceInOrder()); err != nil {
		return 0, err
	}
	last := map[uint64]uint64{}
	for _, c := range list {
		line, step := kindAndEntityOf(c.Delivery), stepOf(c.Delivery)
		if step != last[line]+1 {
			return 0, fmt.Errorf("version %d of an entity came after %d", step, last[line])
		}
		last[line] = step
	}
	return float64(came-before) / took.Seconds(), nil
}

// restCPU is how much of its time a process at rest may use.
const restCPU = 0.05

// waitIdle waits until a process has used next to no processor time in three intervals in a row.
func (b *backlogBench) waitIdle(ctx context.Context, pid int) error {
	calm, before := 0, cpuOf(pid, false)
	for range 300 {
		if err := waitUntil(ctx, time.Now().Add(b.rest)); err != nil {
			return err
		}
		now := cpuOf(pid, false)
		if calm++; now-before > max(clockTick, time.Duration(restCPU*float64(b.rest))) {
			calm = 0
		}
		if before = now; calm == 3 {
			return nil
		}
	}
	return fmt.Errorf("the stream process did not come to rest within %s", 300*b.rest)
}

// residentMiB reads a process's memory: VmRSS now, VmHWM at most so far; see proc(5). 0 where it is gone.
func residentMiB(pid int, what string) float64 {
	kib, _, _ := strings.Cut(procField(fmt.Sprintf("/proc/%d/status", pid), what), " ")
	n, _ := strconv.ParseFloat(kib, 64)
	return n / 1024
}
