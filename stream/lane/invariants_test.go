package lane

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/sink"
)

// invariants checks every type's state at the end of every critical section, that is after every step.
type invariants struct {
	s          *scheduler
	loader     *loader
	partitions map[*partition]bool // all that were open at the end of a step: what is in flight outlives its claim
}

// checkAll is how many steps are checked of every test; of what comes after them, one in fifty is. A check looks at all that is loaded:
// of tests that load hundreds, one step for every checkedAtOnce of them is checked.
const (
	checkAll      = 20_000
	checkedAtOnce = 100
)

// checked has the invariants of l checked from now on, before anything runs.
func checked(t testing.TB, l *Lanes) {
	x := &invariants{s: l.s, loader: l.loader, partitions: map[*partition]bool{}}
	steps, next, failed := 0, 0, false
	l.s.mu.check = func() {
		if steps++; failed || steps < next || steps > checkAll && steps%50 != 0 {
			return
		}
		next = steps + 1 + l.s.q.open/checkedAtOnce
		if err := x.check(); err != nil {
			failed = true // the first says most
			t.Errorf("an invariant does not hold: %v", err)
		}
	}
}

func (x *invariants) check() error {
	for _, p := range x.s.q.partitions {
		x.partitions[p] = true
	}
	errs := []error{
		x.s.q.check(), x.s.q.budget.check(x), x.s.q.timers.check(x), x.s.q.spilled.check(x), x.s.q.results.check(x), x.s.q.dispatch.check(x),
		x.s.q.long.check(x),
	}
	for p := range x.partitions {
		errs = append(errs, p.check(), p.latest.check(p), p.doubts.check(p), x.loader.check(p))
	}
	return errors.Join(errs...)
}

// check: what is counted of all partitions is the sum of theirs.
func (q *queues) check() error {
	n := 0
	for c, p := range q.partitions {
		if p.dropped || p.claim != c {
			return fmt.Errorf("queues: it still has a claim that is forgotten")
		}
		n += p.open
	}
	if n != q.open {
		return fmt.Errorf("queues: %d actions are loaded, %d counted", n, q.open)
	}
	return nil
}

// check: the window holds what it says, in order, and knows who is in flight.
func (p *partition) check() error {
	open, busy := 0, 0
	for key, la := range p.lanes {
		n, before := 0, int64(0)
		var last *entry
		for e := la.head; e != nil; e = e.next {
			if e.LaneSeq <= before || e.lane != la || laneKeyOf(e.Entity) != key {
				return fmt.Errorf("partition: action %d is behind %d in the lane of %x", e.LaneSeq, before, key)
			}
			before, last = e.LaneSeq, e
			n++
		}
		switch _, outside := p.outside(key); {
		case n != la.n || last != la.last:
			return fmt.Errorf("partition: %d actions are loaded of %x, %d counted", n, key, la.n)
		case la.tail < before || la.tail > p.loadedTo || la.skippedTo > p.loadedTo:
			return fmt.Errorf("partition: the lane of %x is loaded to %d and left %d, its last is %d, the partition's %d",
				key, la.tail, la.skippedTo, before, p.loadedTo)
		case outside || la.state == retired || la.key != key || la.partition != p:
			return fmt.Errorf("partition: the lane of %x is parked, spilled or retired", key)
		}
		open += n
		if la.state == running || la.state == recording {
			busy++
		}
	}
	for _, at := range p.parked {
		if at.last < at.head || at.last > p.loadedTo {
			return fmt.Errorf("partition: a lane is parked at %d, with all up to %d behind it", at.head, at.last)
		}
	}
	for key, at := range p.spilled {
		if _, parked := p.parked[key]; parked || at.last < at.head || at.last > p.loadedTo {
			return fmt.Errorf("partition: a lane is spilled at %d, with all up to %d behind it", at.head, at.last)
		}
	}
	if !p.dropped && open != p.open || p.dropped && p.open != 0 {
		return fmt.Errorf("partition: %d actions are loaded, %d counted", open, p.open)
	}
	if p.busy < busy || p.busy > busy+p.writing || p.writing < 0 {
		return fmt.Errorf("partition: %d heads are in flight, %d counted, with %d transactions", busy, p.busy, p.writing)
	}
	return nil
}

// check: of every line, the newest version is not before what is loaded.
func (b *latest) check(p *partition) error {
	if b.unread() || b == nil || p.dropped {
		return nil
	}
	for _, la := range p.lanes {
		for e := la.head; e != nil; e = e.next {
			fresh := latest{newest: map[lineKey]newest{}}
			if fresh.note(&e.Action); len(fresh.newest) == 0 || e.Attempts > 0 || e.Status != ledger.Pending || e.Replay != nil {
				continue
			}
			if n := b.newest[keyOf(&e.Action)]; n.last < e.LaneSeq || n.first > n.last {
				return fmt.Errorf("latest: action %d is loaded, the newest is %d to %d", e.LaneSeq, n.first, n.last)
			}
		}
	}
	return nil
}

// check: as long as it is not over, what is in doubt is still to be loaded.
func (d *doubts) check(p *partition) error {
	if d.seen != nil && !p.ending() && p.loadedTo >= d.to-1 {
		return fmt.Errorf("doubts: all up to %d is loaded, and doubts up to %d are kept", p.loadedTo, d.to)
	}
	return nil
}

// check: no lane is forgotten. One without a head in memory is going to be refilled.
func (l *loader) check(p *partition) error {
	for la := range p.needsRefill {
		if p.lanes[la.key] != la || !la.overflow() || la.state == processing {
			return fmt.Errorf("loader: the lane of %x, in state %d, needs no refill", la.key, la.state)
		}
	}
	if p.ending() || errors.Is(context.Cause(p.ctx), errStopped) { // what is abandoned then is idle
		return nil
	}
	for _, la := range p.lanes {
		if la.state != idle {
			continue
		}
		_, needs := p.needsRefill[la]
		_, under := l.refilling[la]
		if la.head == nil && !needs && !under || la.head != nil && !p.latest.unread() {
			return fmt.Errorf("loader: the lane of %x is forgotten, with %d actions in memory", la.key, la.n)
		}
	}
	return nil
}

// entries are all that any lane has, also in flight for claims that are forgotten.
func (x *invariants) entries(yield func(*entry) bool) {
	for p := range x.partitions {
		for _, la := range p.lanes {
			for e := la.head; e != nil; e = e.next {
				if !yield(e) {
					return
				}
			}
			if la.accepted != nil && !yield(la.accepted) {
				return
			}
		}
	}
}

func (b *budget) check(x *invariants) error {
	var wait, fly int64
	unknown := 0
	for e := range x.entries {
		switch e.charge {
		case queued:
			wait += int64(e.size)
		case inFlight:
			fly += int64(e.size + e.answer)
			if e.size == 0 {
				unknown++
			}
		}
		if e.charge != inFlight && e.lane.head == e && e.lane.state == running {
			return fmt.Errorf("budget: action %d runs and is charged to %d", e.LaneSeq, e.charge)
		}
		if e.charge == uncharged && (e.event != nil || e.Packed != nil) {
			return fmt.Errorf("budget: action %d holds a payload that is not charged", e.LaneSeq)
		}
	}
	switch {
	case wait != b.queued || fly != b.inFlight:
		return fmt.Errorf("budget: %d bytes are queued, %d counted; %d in flight, %d counted", wait, b.queued, fly, b.inFlight)
	case b.queued > b.half:
		return fmt.Errorf("budget: %d bytes are queued, at most %d may be", b.queued, b.half)
	case b.extra < 0 || b.loads < 0 || b.loads > unknown:
		return fmt.Errorf("budget: %d bytes extra; %d loads, %d of unknown size in flight", b.extra, b.loads, unknown)
	}
	return nil
}

// lanesOf are the lanes of all partitions that are open.
func (x *invariants) openLanes(yield func(*lane) bool) {
	for _, p := range x.s.q.partitions {
		for _, la := range p.lanes {
			if !yield(la) {
				return
			}
		}
	}
}

func (t *timers) check(x *invariants) error {
	in := map[*entry]bool{}
	for i, timer := range t.heap {
		e := timer.of
		if i > 0 && t.heap.Less(i, (i-1)/2) {
			return fmt.Errorf("timers: no heap at %d", i)
		}
		la := e.lane
		if in[e] || timer.at != momentOf(e.notBefore) || la.partition.dropped || !(la.state == waiting && la.head == e) && !(la.state == processing && la.accepted == e) {
			return fmt.Errorf("timers: action %d is in twice, or its lane, in state %d, does not wait", e.LaneSeq, la.state)
		}
		in[e] = true
	}
	for la := range x.openLanes {
		if la.state == waiting && !in[la.head] {
			return fmt.Errorf("timers: the lane of %x waits without a timer", la.key)
		}
	}
	return nil
}

func (s *spillList) check(x *invariants) error {
	in := map[spilledAt]bool{}
	for i, r := range s.byTime {
		if i > 0 && s.byTime.Less(i, (i-1)/2) {
			return fmt.Errorf("spilled: no heap at %d", i)
		}
		in[r.of] = in[r.of] || r.at == r.of.p.spilled[r.of.key].due
	}
	for _, d := range x.s.q.dispatch.order {
		for _, at := range d.spilled {
			in[at] = true
		}
	}
	now := momentOf(time.Now())
	for p := range x.partitions {
		for _, key := range p.due {
			in[spilledAt{p, key}] = in[spilledAt{p, key}] || p.spilled[key].due <= now
		}
		for key, at := range p.spilled {
			if !p.dropped && !in[spilledAt{p, key}] {
				return fmt.Errorf("spilled: the lane whose head is %d waits for nothing", at.head)
			}
		}
	}
	return nil
}

func (c *completions) check(x *invariants) error {
	in := map[*entry]bool{}
	for _, done := range slices.Concat(c.pending, c.writing, c.refused) {
		la := done.e.lane
		want := recording
		if done.marked != nil {
			want = running
		}
		cancelled := done.marked != nil && la.partition.ctx.Err() != nil // its worker waits for the mark no more
		if !la.partition.dropped && !cancelled && (in[done.e] || la.head != done.e || la.state != want) {
			return fmt.Errorf("completions: action %d is in twice, or not the head of its lane, in state %d", done.e.LaneSeq, la.state)
		}
		e := done.e
		for _, next := range done.behind {
			if e = e.next; !la.partition.dropped && e != next {
				return fmt.Errorf("completions: what is superseded with %d is not right behind it", done.e.LaneSeq)
			}
		}
		in[done.e] = true
	}
	for la := range x.openLanes {
		if la.state == recording && !in[la.head] {
			return fmt.Errorf("completions: the result of %d is lost", la.head.LaneSeq)
		}
	}
	if c.group < 1 || c.group > c.cfg.MaxGroup || (c.abort == nil) != (len(c.writing) == 0) {
		return fmt.Errorf("completions: groups of %d; %d are being written", c.group, len(c.writing))
	}
	return nil
}

func (x *dispatcher) check(all *invariants) error {
	in := map[*lane]bool{}
	readyLanes, started := 0, map[string]int{}
	for _, dest := range x.order {
		n := 0
		var last *lane
		for la := dest.first; la != nil; la = la.nextReady {
			if in[la] || la.state != ready || la.head == nil || la.head.Destination != dest.name || la.partition.dropped {
				return fmt.Errorf("dispatcher: the lane of %x is ready at %s twice, or not ready, or for another", la.key, dest.name)
			}
			in[la], last = true, la
			n++
		}
		if n != dest.n || last != dest.last || dest.running < 0 || dest.turn && dest.waits {
			return fmt.Errorf("dispatcher: %d are ready at %s, %d counted", n, dest.name, dest.n)
		}
		if !dest.waits {
			readyLanes += n
		}
	}
	for e := range all.entries {
		if e.lane.state == running && e.lane.head == e {
			started[e.Destination]++
		}
	}
	for _, dest := range x.order {
		if n := started[dest.name]; n != dest.running {
			return fmt.Errorf("dispatcher: %d attempts at %s, %d counted", n, dest.name, dest.running)
		}
	}
	for la := range all.openLanes {
		if la.state == ready && !in[la] {
			return fmt.Errorf("dispatcher: the lane of %x is ready nowhere", la.key)
		}
	}
	if readyLanes != x.ready || x.waking && x.sleeping == 0 {
		return fmt.Errorf("dispatcher: %d lanes are ready, %d counted; %d workers sleep", readyLanes, x.ready, x.sleeping)
	}
	return nil
}

func (a *longWork) check(x *invariants) error {
	n, at := 0, map[*sinkQueue]int{}
	for e := range x.entries {
		if e.long.dest != nil {
			n++
			at[e.long.dest]++
		}
	}
	for la := range x.openLanes {
		if (la.state == processing) != (la.accepted != nil) || la.state == processing && (la.head != nil || la.accepted.long.dest == nil) {
			return fmt.Errorf("long work: the lane of %x, in state %d, is processing without its head", la.key, la.state)
		}
	}
	for _, d := range x.s.q.dispatch.order {
		if d.accepted != at[d] {
			return fmt.Errorf("long work: %d heads at %s, %d counted", at[d], d.name, d.accepted)
		}
	}
	if n != a.count {
		return fmt.Errorf("long work: %d heads, %d counted", n, a.count)
	}
	return nil
}

// lane is the lane of an entity of claim 1.
func (r *rig) lane(entity schemas.EntityKey) *lane {
	return r.s.q.partitions[r.claim].lanes[laneKeyOf(entity)]
}

// Every check sees it when the state it looks at is broken.
func TestInvariantsSeeWhatIsBroken(t *testing.T) {
	for name, spoil := range map[string]func(*rig){
		"queues":            func(r *rig) { r.s.q.open++ },
		"partition, open":   func(r *rig) { r.s.q.partitions[r.claim].open++; r.s.q.open++ },
		"partition, busy":   func(r *rig) { r.s.q.partitions[r.claim].busy-- },
		"partition, order":  func(r *rig) { r.lane("waits").last.LaneSeq = 0 },
		"partition, tail":   func(r *rig) { r.lane("waits").tail = 1 },
		"partition, parked": func(r *rig) { r.s.q.partitions[r.claim].parked[laneKeyOf("waits")] = parkedLane{head: 1, last: 1} },
		"latest":            func(r *rig) { clear(r.s.q.partitions[r.claim].latest.newest) },
		"doubts":            func(r *rig) { r.s.q.partitions[r.claim].doubts = doubts{to: 1, seen: map[uint64]struct{}{}} },
		"loader, no need":   func(r *rig) { r.s.q.partitions[r.claim].needsRefill[r.lane("waits")] = struct{}{} },
		"loader, forgotten": func(r *rig) { r.s.q.timers.remove(r.lane("waits").head); r.lane("waits").state = idle },
		"budget, queued":    func(r *rig) { r.s.q.budget.queued++ },
		"budget, in flight": func(r *rig) { r.s.q.budget.inFlight-- },
		"budget, loads":     func(r *rig) { r.s.q.budget.loads++ },
		"timers, twice":     func(r *rig) { r.s.q.timers.add(r.s.q.timers.heap[0].of) },
		"timers, lost":      func(r *rig) { r.s.q.timers.heap.removeAll(func(*entry) bool { return true }) },
		"spilled, lost": func(r *rig) {
			r.s.q.partitions[r.claim].spilled[laneKeyOf("spilled")] = spilledLane{parkedLane: parkedLane{head: 1, last: 1}}
		},
		"partition, spilled":  func(r *rig) { r.s.q.spill(r.lane("waits"), 1); r.s.q.partitions[r.claim].loadedTo = 0 },
		"dispatcher, ready":   func(r *rig) { r.s.q.dispatch.ready++ },
		"dispatcher, running": func(r *rig) { r.s.q.dispatch.byName[destName].running++ },
		"dispatcher, lost":    func(r *rig) { r.s.q.dispatch.byName[destName].first = nil },
		"long work":           func(r *rig) { r.s.q.long.count-- },
		"completions, lost":   func(r *rig) { r.s.q.results.pending = nil },
		"completions, group":  func(r *rig) { r.s.q.results.group = 0 },
	} {
		t.Run(name, func(t *testing.T) {
			in(t, withLatest, func(t *testing.T, r *rig) {
				r.spoilt, r.sink.do = true, failWith(sink.ClassBusy)
				r.add("waits", "waits")
				synctest.Wait()
				commit := make(chan struct{})
				defer close(commit)
				r.mem.before = func(context.Context, []ledger.Result) error { <-commit; return nil }
				r.add("writing")
				synctest.Wait()
				r.add("pending")
				synctest.Wait()
				hang := make(chan struct{})
				defer close(hang)
				r.sink.do = func(context.Context, sink.Action) (sink.Outcome, error) { <-hang; return sink.Outcome{}, nil }
				r.Add(r.claim, []Item{r.state("latest", 1)})
				for i := range 9 { // one more than there are workers
					r.add(fmt.Sprint("runs", i))
				}
				synctest.Wait()
				r.s.mu.Lock()
				defer r.s.mu.Mutex.Unlock()
				x := &invariants{s: r.s, loader: r.loader, partitions: map[*partition]bool{}}
				if err := x.check(); err != nil {
					t.Fatalf("before: %v", err)
				}
				spoil(r)
				if x.check() == nil {
					t.Error("the check saw nothing")
				}
				r.s.mu.check = nil
			})
		})
	}
}
