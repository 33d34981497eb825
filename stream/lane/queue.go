package lane

import (
	"cmp"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/destination"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/sink"
)

// queues are the lanes of all claims, and the lists and timers that their heads move between. Each method is one step: it
// decides what the head of a lane does next. Callers hold mu.
type queues struct {
	cfg        *Config
	log        *slog.Logger
	judge      *judge
	superseded prometheus.Counter

	partitions map[*ledger.Claim]*partition
	open       int // loaded actions
	dispatch   dispatcher
	timers     timers
	spilled    spillList
	long       longWork
	budget     budget
	results    completions
	forgot     map[ledger.Partition]time.Time // when a claim was last given up because the ledger lacked what it remembered
	asked      uint64                         // how often what waits for a guard was to ask again at once
	toLoad     chan struct{}                  // capacity 1, never closed: a partition may have room
}

// newQueues makes empty queues. mu is the scheduler's mutex, which guards them.
func newQueues(cfg *Config, log *slog.Logger, mu sync.Locker) *queues {
	q := &queues{
		cfg: cfg, log: log,
		partitions: map[*ledger.Claim]*partition{},
		timers:     timers{changed: make(chan struct{}, 1)},
		long:       longWork{changed: make(chan struct{}, 1), looks: make(chan struct{}, 1)},
		budget:     budget{half: cfg.MaxBytes / 2, guess: cfg.MaxBody},
		results:    completions{cfg: cfg, group: cfg.MaxGroup, changed: sync.NewCond(mu)},
		toLoad:     make(chan struct{}, 1),
	}
	q.spilled = spillList{cfg: cfg, toLoad: q.toLoad}
	q.dispatch = dispatcher{
		cfg: cfg, results: &q.results, spilled: &q.spilled, toClock: q.timers.changed, toLong: q.long.changed,
		byName: map[string]*sinkQueue{}, work: sync.NewCond(mu),
	}
	return q
}

// push appends an action to its lane, or leaves it in the ledger if the lane's window is full. fresh means that a batch has
// just committed the action, so that no attempt was made yet.
func (q *queues) push(p *partition, a *ledger.Action, event *schemas.Event, fresh bool) {
	doubt := !fresh && p.doubts.noteLoaded(a)
	key := laneKeyOf(a.Entity)
	la := p.lanes[key]
	if la == nil {
		if p.leaveOutside(key, a, doubt) {
			return
		}
		la = &lane{partition: p, key: key}
		p.lanes[key] = la
	}
	if doubt {
		la.doubtTo = a.LaneSeq
	}
	if la.state == processing || la.overflow() || la.n >= q.cfg.LaneWindow {
		la.skippedTo = a.LaneSeq
		return
	}
	q.append(la, a, event, fresh)
}

// append puts an action at the end of its lane. If it is the head there, the lane is scheduled.
func (q *queues) append(la *lane, a *ledger.Action, event *schemas.Event, fresh bool) {
	e := &entry{Action: *a, lane: la, event: event, copied: a.HasCopy}
	e.Packed = nil
	if e.Since.IsZero() {
		e.Since = time.Now()
	}
	if !fresh {
		e.Destination = q.dispatch.find(e.Destination).name // as it is called now
		q.restore(e)
	}
	q.budget.keep(e, a.Packed)
	if la.last == nil {
		e.unmade = min(int(la.was.unmade), e.Attempts)
		la.head, la.was = e, spilledLane{}
	} else {
		la.last.next = e
	}
	if e.unmade == 0 && e.Replay != nil && !e.Replay.Tried && e.Attempts == e.Spent { // Spent has those of this run while the destination was away, too
		e.unmade = e.Attempts // all are of a run before
	}
	la.last = e
	la.headToReload = 0
	la.n++
	la.tail = a.LaneSeq
	la.partition.open++
	q.open++
	if la.head == e && la.state == idle {
		q.schedule(la)
	}
}

// restore sets when an action read from the ledger may run: when its retry is due. After an unclean claim it also waits until
// the calls that the previous owner may have in flight have timed out.
func (q *queues) restore(e *entry) {
	p := e.lane.partition
	if e.Attempts == 0 && e.LaneSeq <= e.lane.doubtTo {
		e.DoubtEnd = p.doubts.at.Add(q.dispatch.find(e.Destination).Timeout)
	}
	if e.Status == ledger.Processing {
		e.long.waitFor(max(e.Left, reportGrace), max(e.SilenceLeft, e.Silence), e.Silence)
		return
	}
	e.due = time.Now().Add(e.NextIn)
	if e.Attempts > 0 {
		e.touched = time.Now().Add(min(0, e.NextIn-q.dispatch.find(e.Destination).Settle)) // its retry is due no earlier than it has settled
	}
	if e.Status.Waits() { // it asks whenever it is loaded; nobody knows since when it is held
		_, e.due = e.countedAttempts(e.Attempts)
	} else if e.NextIn > 0 {
		e.notBefore = e.due
		before := e.AttemptEpoch != p.claim.Epoch && q.dispatch.find(e.Destination).hurriedAt.After(p.opened) // attempted before the claim
		if e.Status == ledger.Failed && (e.lane.was.early || before) {
			e.early()
		}
	}
	safe := q.safeFrom(e)
	if safe.After(e.notBefore) {
		e.notBefore = safe
	}
	if e.Attempts > 0 && safe.After(e.touched) { // the previous owner may have made one more
		e.touched = safe
	}
}

// safeFrom returns from when on no call of the previous owner is in flight at the action's destination; zero: none is.
func (q *queues) safeFrom(e *entry) time.Time {
	p := e.lane.partition
	if p.uncleanSince.IsZero() {
		return time.Time{}
	}
	return p.uncleanSince.Add(q.dispatch.find(e.Destination).Timeout)
}

// schedule decides where the head of an idle lane goes. It deletes a lane that has no action left, in memory or in the ledger.
func (q *queues) schedule(la *lane) {
	e := la.head
	switch {
	case la.partition.ending():
	case e != nil && q.applyReport(e): // even before the lane is read again: what runs again before it may take long
	case la.rereadFrom > 0:
		q.reread(la)
	case e == nil && !la.overflow():
		delete(la.partition.lanes, la.key)
	case e == nil:
		la.partition.needsRefill[la] = struct{}{}
	case e.Status == ledger.Processing:
		q.awaitReport(la)
	case e.Status == ledger.Dead || e.Status == ledger.Unknown:
		q.park(la)
	case la.partition.latest.unread(): // the loader schedules the lane
	case !e.notBefore.IsZero() && e.notBefore.After(time.Now()):
		la.state = waiting
		q.timers.add(e)
	default:
		q.dispatch.enqueue(q.dispatch.find(e.Destination), la)
	}
}

// pick takes the next head, destinations in turn, and charges it as running; nil if there is none. Where no attempt may start, because results
// wait for the ledger or the subscription is paused, its turns at destinations go to other subscriptions. The caller holds mu.
func (q *queues) pick() (*entry, *sinkQueue) {
	if q.results.full() || q.dispatch.paused {
		q.dispatch.passTurns()
		return nil, nil
	}
	if q.dispatch.ready == 0 {
		return nil, nil
	}
	for range q.dispatch.order {
		d := q.dispatch.nextInTurn()
		if e := q.takeHead(d); e != nil {
			e.lane.state = running
			e.lane.partition.beginBusy()
			e.called, e.asked, e.hurried = false, q.asked, d.hurried
			d.running++
			e.to = d.target
			e.to.using++
			q.budget.start(e, d.answerTo(e))
			return e, d
		}
	}
	return nil, nil
}

// takeHead removes the head that runs next at d and returns it with its permit; nil if none may run, or d has to wait for its turn. Where
// the destination's rate is used up and its policy is not to wait, the head has rateUsedUp and no permit: it is not attempted.
func (q *queues) takeHead(d *sinkQueue) *entry {
	if d.waits {
		return nil
	}
	for d.first != nil && q.skipHead(d.first) {
		q.dispatch.dequeue(d)
	}
	if d.first == nil || d.longFull() || !q.budget.fits(d.first.head, d.answerTo(d.first.head)) {
		d.passTurn()
		return nil
	}
	grant, permit := d.user.Take()
	d.turn = false
	if grant == destination.Wait { // its lanes do not count as ready until its turn comes
		q.dispatch.ready -= d.n
		d.waits = true
		return nil
	}
	e := d.first.head
	e.permit, e.rateUsedUp = permit, grant == destination.NoToken
	q.dispatch.dequeue(d)
	return e
}

// skipHead reports whether the head of a ready lane must not run any more: the claim is being given up, or a newer version has
// overtaken the head, which then ends as superseded.
func (q *queues) skipHead(la *lane) bool {
	if la.partition.ending() {
		la.state = idle
		return true
	}
	return q.supersede(la)
}

// applyResult takes a lane's head off once its result is committed, or keeps it: to wait for long work, for the next attempt, or for an operator.
func (q *queues) applyResult(e *entry, res *ledger.Result) {
	la := e.lane
	if res.Attempt > e.Attempts {
		e.Attempts, e.AttemptEpoch = res.Attempt, cmp.Or(res.Epoch, res.Claim.Epoch)
	}
	e.Spent = max(e.Spent, res.Spent)
	e.copied = e.copied || res.Packed != nil
	e.Status, e.CancelURL, e.Newer = res.Status, res.CancelURL, false
	la.endDoubt(e)
	la.state = idle
	la.partition.endBusy()
	switch {
	case res.Status == ledger.Processing:
		e.long.waitFor(res.Left, res.Silence, res.Silence)
	case res.Status == ledger.Failed:
		e.notBefore = time.Now().Add(res.NextIn)
		e.due, e.class = e.notBefore, sink.Class(res.Class)
		if d := q.dispatch.byName[e.Destination]; d != nil && d.hurried != e.hurried && e.mayBeEarly(d, d.again) {
			e.early()
		}
		q.budget.requeue(e)
	case res.Status.Waits():
		q.waitForGuard(e, res.NextIn)
	case res.Status.Closed(), res.Status == ledger.Dead && e.OnDead == ledger.Continue && !res.Guarded:
		la.partition.latest.ended(&e.Action)
		q.pop(la)
	}
	q.schedule(la) // parks the lane if its head is dead or unknown
}

// pop takes the head off its lane and frees the bytes and the place that it held.
func (q *queues) pop(la *lane) {
	e := la.head
	q.budget.free(e)
	q.untrack(e)
	la.head, e.next = e.next, nil
	if la.head == nil {
		la.last = nil
	}
	la.n--
	la.partition.open--
	q.open--
	la.state = idle
	if la.overflow() && la.n <= q.cfg.LaneWindow/2 {
		la.partition.needsRefill[la] = struct{}{}
	}
}

// unload takes all of a lane out of memory.
func (q *queues) unload(la *lane) {
	for la.head != nil {
		q.pop(la)
	}
	delete(la.partition.needsRefill, la)
}

// dropHead ends a running or recorded head without recording its result.
func (q *queues) dropHead(e *entry) {
	q.budget.free(e)
	q.untrack(e)
	e.lane.state = idle
	e.lane.partition.endBusy()
}

// dropCompletion ends a completion that will not be recorded. If it is the mark of an unsafe attempt, the head stays with its
// worker.
func (q *queues) dropCompletion(c *completion) {
	if c.marked == nil {
		q.dropHead(c.e)
	}
	q.dispatch.wake() // there may be room for an attempt again
}

// spill takes a lane out of memory until its head may run: when it is due, or 0 for when its destination takes attempts. Its actions stay
// in the ledger.
func (q *queues) spill(la *lane, due moment) {
	e := la.head
	la.partition.spilled[la.key] = spilledLane{
		parkedLane: la.outside(), due: due, since: e.Since.UnixNano(), unmade: int32(e.unmade), to: q.dispatch.find(e.Destination).index,
		waits: uint8(max(0, slices.Index(guardedAs, e.Status))),
	}
	q.retire(la)
}

// spilledLanes returns how many lanes are spilled.
func (q *queues) spilledLanes() (n int) {
	for _, p := range q.partitions {
		n += len(p.spilled)
	}
	return n
}

// park stops a lane at its dead or unknown head. Only the place where it is parked stays in memory.
func (q *queues) park(la *lane) {
	la.partition.parked[la.key] = la.outside()
	q.retire(la)
	signal(q.toLoad)
}

// outside returns where a lane stands once it has nothing in memory.
func (la *lane) outside() parkedLane {
	return parkedLane{head: la.head.LaneSeq, last: max(la.tail, la.skippedTo), doubtTo: la.doubtTo}
}

// retire takes a lane out of memory. Where it is parked or spilled, another value stands for it.
func (q *queues) retire(la *lane) {
	q.unload(la)
	la.state = retired
	delete(la.partition.lanes, la.key)
}

// rerun lets an action run that is open again, in its place: its lane is read again from there on. If it has ended, that
// shows it.
func (q *queues) rerun(p *partition, entity schemas.EntityKey, laneSeq int64) {
	if laneSeq > p.loadedTo { // done by takePage, once a page reaches the action
		if p.rerun == nil {
			p.rerun = map[int64]schemas.EntityKey{}
		}
		p.rerun[laneSeq] = entity
		p.leave() // no page may be under way, and what Add brings says nothing of the action
		signal(q.toLoad)
		return
	}
	la := p.lane(entity, laneSeq)
	if la.rereadFrom == 0 || laneSeq < la.rereadFrom {
		la.rereadFrom = laneSeq
	}
	if !la.busy() {
		q.reread(la)
	}
}

// reread takes a lane out of memory and has it read from the ledger again, from rereadFrom or from its head, whichever comes
// first. A new lane value takes the place of this one: a page that was read before the change cannot be taken for one that was
// read after it.
func (q *queues) reread(la *lane) {
	p, after := la.partition, la.tail
	upto := max(la.tail, la.skippedTo, la.rereadFrom)
	switch la.state {
	case ready:
		q.dispatch.remove(q.dispatch.find(la.head.Destination), func(o *lane) bool { return o == la })
	case waiting:
		q.timers.remove(la.head)
	}
	if la.head != nil {
		after = la.head.LaneSeq - 1
	}
	q.unload(la)
	la.state = retired
	fresh := &lane{partition: p, key: la.key, tail: min(after, la.rereadFrom-1), skippedTo: upto, doubtTo: la.doubtTo}
	p.lanes[la.key] = fresh
	p.needsRefill[fresh] = struct{}{}
	signal(q.toLoad)
}

// endStale moves a lane on after its running head has ended as stale. If that was not written, or the claim is being given up,
// the head is dropped, and the next owner finds the action open or stale.
func (q *queues) endStale(e *entry, d *sinkQueue, written bool) {
	q.dispatch.release(e, d, nil)
	if e.lane.partition.dropped || !written {
		q.dropHead(e)
		return
	}
	e.lane.partition.endBusy()
	e.lane.endDoubt(e)
	q.pop(e.lane)
	q.schedule(e.lane)
}

// dropPartition ends a partition: it cancels the attempts in flight, whose results are not recorded.
func (q *queues) dropPartition(p *partition, cause error) {
	p.dropped = true
	p.cancel(cause)
	delete(q.partitions, p.claim)
	for _, d := range q.dispatch.order {
		q.dispatch.remove(d, func(la *lane) bool { return la.partition == p })
		d.spilled = slices.DeleteFunc(d.spilled, func(at spilledAt) bool { return at.p == p })
	}
	q.spilled.byTime.removeAll(func(at spilledAt) bool { return at.p == p })
	q.timers.heap.removeAll(func(e *entry) bool { return e.lane.partition == p })
	for _, la := range p.lanes {
		if la.accepted != nil {
			q.untrack(la.accepted)
		}
		for e := la.head; e != nil; e = e.next {
			if !e.inFlight() {
				q.budget.free(e)
			}
		}
	}
	q.results.tryAllAgain(p) // the recorder drops them
	q.open -= p.open
	p.open = 0
	clear(p.needsRefill)
	p.due = nil
	q.results.changed.Broadcast()
	q.dispatch.wake()
}
