package lane

import (
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/forebay-io/forebay/schemas"
	shared "github.com/forebay-io/forebay/stream/destination"
	"github.com/forebay-io/forebay/stream/ledger"
)

// queues are the lanes of all claims and all that their heads move between. A method is a step: it decides what the head of a
// lane does next. Callers hold mu.
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
	async      asyncWork
	budget     budget
	results    completions
	toLoad     chan struct{} // capacity 1, never closed: a partition may have room
}

func newQueues(cfg *Config, log *slog.Logger, mu sync.Locker) *queues {
	q := &queues{
		cfg: cfg, log: log,
		partitions: map[*ledger.Claim]*partition{},
		timers:     timers{changed: make(chan struct{}, 1)},
		async:      asyncWork{changed: make(chan struct{}, 1)},
		budget:     budget{half: cfg.MaxBytes / 2, guess: cfg.MaxBody},
		results:    completions{cfg: cfg, group: cfg.MaxGroup, changed: sync.NewCond(mu)},
		toLoad:     make(chan struct{}, 1),
	}
	q.spilled = spillList{cfg: cfg, toLoad: q.toLoad}
	q.dispatch = dispatcher{
		cfg: cfg, results: &q.results, spilled: &q.spilled, toClock: q.timers.changed,
		byName: map[string]*destination{}, work: sync.NewCond(mu),
	}
	return q
}

// push appends an action to its lane, or leaves it in the ledger where the lane's window is full. fresh: a batch has just
// committed it, so that no attempt of it can have been made.
func (q *queues) push(p *partition, a *ledger.Action, event *schemas.Event, fresh bool) {
	doubt := !fresh && p.doubts.first(a)
	la := p.lanes[a.Entity]
	if la == nil {
		if p.parked.leave(a, doubt) {
			return
		}
		la = &lane{partition: p, entity: a.Entity}
		p.lanes[a.Entity] = la
	}
	if doubt {
		la.doubtTo = a.LaneSeq
	}
	if la.loadsNothing() || la.overflow() || la.n >= q.cfg.LaneWindow {
		la.skippedTo = a.LaneSeq
		return
	}
	q.append(la, a, event, fresh)
}

// append puts an action at the end of its lane and schedules the lane where it is the head.
func (q *queues) append(la *lane, a *ledger.Action, event *schemas.Event, fresh bool) {
	e := &entry{Action: *a, lane: la, event: event, copied: a.HasCopy}
	e.Packed = nil
	if !fresh {
		q.restore(e)
	}
	q.budget.keep(e, a.Packed)
	if la.last == nil {
		la.head = e
	} else {
		la.last.next = e
	}
	la.last = e
	la.first = 0
	la.n++
	la.tail = a.LaneSeq
	la.partition.open++
	q.open++
	if la.head == e && la.state == idle {
		q.schedule(la)
	}
}

// restore sets when an action read from the ledger may run: when its retry is due and, after an unclean claim, not before
// the calls that the owner before may have in flight have timed out.
func (q *queues) restore(e *entry) {
	p := e.lane.partition
	if e.Attempts == 0 && e.LaneSeq <= e.lane.doubtTo {
		e.DoubtEnd = p.doubts.at.Add(q.dispatch.find(e.Destination).Timeout)
	}
	if e.Status == ledger.Processing {
		e.long.waitFor(max(e.Left, reportGrace), max(e.SilenceLeft, e.Silence), e.Silence)
		return
	}
	if e.NextIn > 0 {
		e.notBefore = time.Now().Add(e.NextIn)
	}
	if !p.uncleanSince.IsZero() {
		if safe := p.uncleanSince.Add(q.dispatch.find(e.Destination).Timeout); safe.After(e.notBefore) {
			e.notBefore = safe
		}
	}
}

// schedule decides where the head of an idle lane goes, and forgets a lane that has none.
func (q *queues) schedule(la *lane) {
	e := la.head
	switch {
	case la.partition.ended():
	case la.rereadFrom > 0:
		q.reread(la)
	case e == nil && !la.overflow():
		delete(la.partition.lanes, la.entity)
	case e == nil:
		la.partition.needsRefill[la] = struct{}{}
	case q.applyReport(e):
	case e.Status == ledger.Processing:
		q.awaitReport(la)
	case e.Status == ledger.Dead || e.Status == ledger.Unknown:
		q.park(la)
	case la.partition.latest.unread(): // scheduled when it is read
	case !e.notBefore.IsZero() && e.notBefore.After(time.Now()):
		la.state = waiting
		q.timers.add(e)
	default:
		q.dispatch.enqueue(q.dispatch.find(e.Destination), la)
	}
}

// pick takes the next head, destinations in turn, and charges it as running.
func (q *queues) pick() (*entry, *destination) {
	if q.dispatch.ready == 0 || q.results.full() {
		return nil, nil
	}
	for range q.dispatch.order {
		d := q.dispatch.nextInTurn()
		if e := q.take(d); e != nil {
			e.lane.state = running
			e.lane.partition.begin()
			e.called = false
			d.running++
			q.budget.start(e)
			return e, d
		}
	}
	return nil, nil
}

// take removes the head that runs next at d, or gives nil where none may.
func (q *queues) take(d *destination) *entry {
	if d.waits {
		return nil
	}
	for d.first != nil && q.notToRun(d.first) {
		q.dispatch.dequeue(d)
	}
	if d.first == nil || d.asyncFull() || !q.budget.fits(d.first.head) {
		d.passTurn()
		return nil
	}
	answer := d.user.Take()
	d.turn = false
	if answer == shared.Wait { // its lanes do not count as ready until its turn comes
		q.dispatch.ready -= d.n
		d.waits = true
		return nil
	}
	e := d.first.head
	e.limited = answer == shared.NoToken // the rate is used up and nobody waits for it: no attempt is to be made
	q.dispatch.dequeue(d)
	return e
}

// notToRun reports whether the head of a ready lane is not to run any more, and takes the lane on where that is so: its claim
// is being given up, or a newer version has overtaken the head.
func (q *queues) notToRun(la *lane) bool {
	if la.partition.ended() {
		la.state = idle
		return true
	}
	return q.supersede(la)
}

// apply takes a lane on whose head's result is in the ledger now.
func (q *queues) apply(e *entry, res *ledger.Result) {
	la := e.lane
	e.Attempts = max(e.Attempts, res.Attempt)
	e.copied = e.copied || res.Packed != nil
	e.Status = res.Status
	la.endDoubt(e)
	la.state = idle
	la.partition.end()
	switch {
	case res.Status == ledger.Processing:
		e.long.waitFor(res.Left, res.Silence, res.Silence)
	case res.Status == ledger.Failed:
		e.notBefore = time.Now().Add(res.NextIn)
		q.budget.requeue(e)
	case res.Status == ledger.Done, res.Status == ledger.Dead && e.OnDead == ledger.Continue:
		la.partition.latest.ended(&e.Action)
		q.pop(la)
	}
	q.schedule(la) // which parks it at a dead or unknown head
}

// pop takes the head off its lane and gives back what it held.
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

// discard ends a running or recorded head whose result nobody wants any more.
func (q *queues) discard(e *entry) {
	q.budget.free(e)
	q.untrack(e)
	e.lane.state = idle
	e.lane.partition.end()
}

// drop forgets a completion. Where it is the mark of an unsafe attempt, its worker still has the head.
func (q *queues) drop(c *completion) {
	if c.marked == nil {
		q.discard(c.e)
	}
	q.dispatch.wake() // there may be room for an attempt again
}

// spill leaves all of a lane in the ledger until its head may run.
func (q *queues) spill(la *lane) {
	head := la.head.LaneSeq
	la.skippedTo = max(la.skippedTo, la.tail)
	q.unload(la)
	la.tail = head - 1
	q.spilled.add(la)
}

// park stops a lane at its dead or unknown head. Nothing of it stays in memory but where it is parked.
func (q *queues) park(la *lane) {
	p := la.partition
	at := parkedLane{head: la.head.LaneSeq, last: max(la.tail, la.skippedTo), doubtTo: la.doubtTo}
	q.unload(la)
	la.state = retired
	delete(p.lanes, la.entity)
	p.parked[parkedKey(la.entity)] = at
	signal(q.toLoad)
}

// rerun lets an action run that is open again, in its place: its lane is read again from there on. If it has ended, that
// shows it.
func (q *queues) rerun(p *partition, entity schemas.EntityKey, laneSeq int64) {
	if laneSeq > p.loadedTo { // once a page reaches it
		if p.rerun == nil {
			p.rerun = map[int64]schemas.EntityKey{}
		}
		p.rerun[laneSeq] = entity
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

// reread leaves a lane to the ledger and has it read again, from the action that is open again or from the lane's head,
// whichever comes first. Another lane takes its place, so that a page that was read before cannot be taken for one that
// was read after.
func (q *queues) reread(la *lane) {
	p, after := la.partition, la.tail
	upto := max(la.tail, la.skippedTo, la.rereadFrom)
	switch la.state {
	case ready:
		q.dispatch.remove(q.dispatch.find(la.head.Destination), func(o *lane) bool { return o == la })
	case waiting:
		q.timers.remove(la.head)
	case spilled:
		q.spilled.end(la)
	}
	if la.head != nil {
		after = la.head.LaneSeq - 1
	}
	q.unload(la)
	la.state = retired
	fresh := &lane{partition: p, entity: la.entity, tail: min(after, la.rereadFrom-1), skippedTo: upto, doubtTo: la.doubtTo}
	p.lanes[la.entity] = fresh
	p.needsRefill[fresh] = struct{}{}
	signal(q.toLoad)
}

// staleEnded takes a lane on behind a running head that has ended as stale. Where that was not written, or the claim is given
// up, the next owner finds the action open, or stale.
func (q *queues) staleEnded(e *entry, d *destination, written bool) {
	q.dispatch.release(e, d, nil)
	if e.lane.partition.forgotten || !written {
		q.discard(e)
		return
	}
	e.lane.partition.end()
	e.lane.endDoubt(e)
	q.pop(e.lane)
	q.schedule(e.lane)
}

// forget lets go of a partition: attempts in flight are cancelled, and their results are not recorded.
func (q *queues) forget(p *partition, cause error) {
	p.forgotten = true
	p.cancel(cause)
	delete(q.partitions, p.claim)
	for _, d := range q.dispatch.order {
		q.dispatch.remove(d, func(la *lane) bool { return la.partition == p })
		d.spilled = slices.DeleteFunc(d.spilled, func(la *lane) bool { return la.partition == p })
	}
	q.spilled.forget(p)
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
	q.open -= p.open
	p.open = 0
	clear(p.needsRefill)
	q.results.changed.Broadcast()
	q.dispatch.wake()
}
