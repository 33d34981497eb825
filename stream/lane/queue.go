package lane

import (
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger"
)

// The steps of a lane. All are called with mu held.

// push appends an action to its lane, or leaves it in the ledger where the lane's window is full. fresh: a batch has just
// committed it, so that no attempt of it can have been made.
func (s *scheduler) push(p *partition, a *ledger.Action, event *schemas.Event, fresh bool) {
	doubt := !fresh && p.doubts.first(a)
	la := p.lanes[a.Entity]
	if la == nil {
		if p.parked.leave(a, doubt) {
			return
		}
		la = &lane{part: p, entity: a.Entity}
		p.lanes[a.Entity] = la
	}
	if doubt {
		la.doubtTo = a.LaneSeq
	}
	if la.loadsNothing() || la.overflow() || la.n >= s.cfg.LaneWindow {
		la.skippedTo = a.LaneSeq
		return
	}
	s.append(la, a, event, fresh)
}

// append puts an action at the end of its lane and schedules the lane where it is the head.
func (s *scheduler) append(la *lane, a *ledger.Action, event *schemas.Event, fresh bool) {
	e := &entry{Action: *a, lane: la, event: event, copied: a.HasCopy}
	e.Packed = nil
	if !fresh {
		s.restore(e)
	}
	s.budget.keep(e, a.Packed)
	if la.last == nil {
		la.head = e
	} else {
		la.last.next = e
	}
	la.last = e
	la.first = 0
	la.n++
	la.tail = a.LaneSeq
	la.part.open++
	s.open++
	if la.head == e && la.state == idle {
		s.schedule(la)
	}
}

// restore sets when an action read from the ledger may run: when its retry is due and, after an unclean claim, not before
// the calls that the owner before may have in flight have timed out.
func (s *scheduler) restore(e *entry) {
	p := e.lane.part
	if e.Attempts == 0 && e.LaneSeq <= e.lane.doubtTo {
		e.DoubtEnd = p.doubts.at.Add(s.dispatch.find(e.Destination).Timeout)
	}
	if e.Status == ledger.Processing {
		e.long.waitFor(max(e.Left, reportGrace), max(e.Quiet, e.Silence), e.Silence)
		return
	}
	if e.NextIn > 0 {
		e.notBefore = time.Now().Add(e.NextIn)
	}
	if !p.uncleanSince.IsZero() {
		if safe := p.uncleanSince.Add(s.dispatch.find(e.Destination).Timeout); safe.After(e.notBefore) {
			e.notBefore = safe
		}
	}
}

// schedule decides where the head of an idle lane goes, and forgets a lane that has none.
func (s *scheduler) schedule(la *lane) {
	e := la.head
	switch {
	case la.part.ended():
	case la.rereadFrom > 0:
		s.reread(la)
	case e == nil && !la.overflow():
		delete(la.part.lanes, la.entity)
	case e == nil:
		la.part.needsRefill[la] = struct{}{}
	case s.applyReport(e):
	case e.Status == ledger.Processing:
		s.awaitReport(la)
	case e.Status == ledger.Dead || e.Status == ledger.Unknown:
		s.park(la)
	case la.part.latest.unread(): // scheduled when it is read
	case !e.notBefore.IsZero() && e.notBefore.After(time.Now()):
		la.state = waiting
		s.timers.add(e)
	default:
		s.dispatch.enqueue(s.dispatch.find(e.Destination), la)
	}
}

// pick takes the next head, destinations in turn, and charges it as running.
func (s *scheduler) pick() (*entry, *destination) {
	if s.dispatch.ready == 0 || s.results.full() {
		return nil, nil
	}
	for range s.dispatch.order {
		d := s.dispatch.nextInTurn()
		if e := s.take(d); e != nil {
			e.lane.state = running
			e.lane.part.begin()
			e.called = false
			d.running++
			s.budget.start(e)
			return e, d
		}
	}
	return nil, nil
}

// take removes the head that runs next at d, or gives nil where none may.
func (s *scheduler) take(d *destination) *entry {
	if d.waits {
		return nil
	}
	for d.first != nil && s.notToRun(d.first) {
		s.dispatch.dequeue(d)
	}
	if d.first == nil || d.asyncFull() || !s.budget.fits(d.first.head) {
		d.passTurn()
		return nil
	}
	limited, ok := s.dispatch.admit(d)
	if !ok {
		return nil
	}
	e := d.first.head
	e.limited = limited
	s.dispatch.dequeue(d)
	return e
}

// notToRun reports whether the head of a ready lane is not to run any more, and takes the lane on where that is so: its claim
// is being given up, or a newer version has overtaken the head.
func (s *scheduler) notToRun(la *lane) bool {
	if la.part.ended() {
		la.state = idle
		return true
	}
	return s.supersede(la)
}

// record hands the result of a head to the recorder. The partition has counted the head as busy.
func (s *scheduler) record(c completion) {
	c.e.lane.state = recording
	s.results.add(c)
}

// apply takes a lane on whose head's result is in the ledger now.
func (s *scheduler) apply(e *entry, res *ledger.Result) {
	la := e.lane
	e.Attempts = max(e.Attempts, res.Attempt)
	e.copied = e.copied || res.Packed != nil
	e.Status = res.Status
	la.endDoubt(e)
	la.state = idle
	la.part.end()
	switch {
	case res.Status == ledger.Processing:
		e.long.waitFor(res.Left, res.Silence, res.Silence)
	case res.Status == ledger.Failed:
		e.notBefore = time.Now().Add(res.NextIn)
		s.budget.requeue(e)
	case res.Status == ledger.Done, res.Status == ledger.Dead && e.OnDead == ledger.Continue:
		la.part.latest.ended(&e.Action)
		s.pop(la)
	}
	s.schedule(la) // which parks it at a dead or unknown head
}

// pop takes the head off its lane and gives back what it held.
func (s *scheduler) pop(la *lane) {
	e := la.head
	s.budget.free(e)
	s.untrack(e)
	la.head, e.next = e.next, nil
	if la.head == nil {
		la.last = nil
	}
	la.n--
	la.part.open--
	s.open--
	la.state = idle
	if la.overflow() && la.n <= s.cfg.LaneWindow/2 {
		la.part.needsRefill[la] = struct{}{}
	}
}

// unload takes all of a lane out of memory.
func (s *scheduler) unload(la *lane) {
	for la.head != nil {
		s.pop(la)
	}
	delete(la.part.needsRefill, la)
}

// discard ends a running or recorded head whose result nobody wants any more.
func (s *scheduler) discard(e *entry) {
	s.budget.free(e)
	s.untrack(e)
	e.lane.state = idle
	e.lane.part.end()
}

// drop forgets a completion. Where it is the mark of an unsafe attempt, its worker still has the head.
func (s *scheduler) drop(c *completion) {
	if c.marked == nil {
		s.discard(c.e)
	}
	s.dispatch.wake() // there may be room for an attempt again
}

// spill leaves all of a lane in the ledger until its head may run.
func (s *scheduler) spill(la *lane) {
	head := la.head.LaneSeq
	la.skippedTo = max(la.skippedTo, la.tail)
	s.unload(la)
	la.tail = head - 1
	s.spilled.add(la)
}

// park stops a lane at its dead or unknown head. Nothing of it stays in memory but where it is parked.
func (s *scheduler) park(la *lane) {
	p := la.part
	at := parkedLane{head: la.head.LaneSeq, last: max(la.tail, la.skippedTo), doubtTo: la.doubtTo}
	s.unload(la)
	la.state = retired
	delete(p.lanes, la.entity)
	p.parked[parkedKey(la.entity)] = at
	signal(s.toLoad)
}

// runAgain lets an action run that is open again, in its place: its lane is read again from there on. If it has ended, that
// shows it.
func (s *scheduler) runAgain(p *partition, entity schemas.EntityKey, laneSeq int64) {
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
		s.reread(la)
	}
}

// reread leaves a lane to the ledger and has it read again, from the action that is open again or from the lane's head,
// whichever comes first. Another lane takes its place, so that a page that was read before cannot be taken for one that
// was read after.
func (s *scheduler) reread(la *lane) {
	p, after := la.part, la.tail
	upto := max(la.tail, la.skippedTo, la.rereadFrom)
	switch la.state {
	case ready:
		s.dispatch.remove(s.dispatch.find(la.head.Destination), func(o *lane) bool { return o == la })
	case waiting:
		s.timers.remove(la.head)
	case spilled:
		s.spilled.end(la)
	}
	if la.head != nil {
		after = la.head.LaneSeq - 1
	}
	s.unload(la)
	la.state = retired
	fresh := &lane{part: p, entity: la.entity, tail: min(after, la.rereadFrom-1), skippedTo: upto, doubtTo: la.doubtTo}
	p.lanes[la.entity] = fresh
	p.needsRefill[fresh] = struct{}{}
	signal(s.toLoad)
}

// staleEnded takes a lane on behind a running head that has ended as stale. Where that was not written, or the claim is given
// up, the next owner finds the action open, or stale.
func (s *scheduler) staleEnded(e *entry, d *destination, written bool) {
	s.dispatch.release(e, d, nil)
	if e.lane.part.forgotten || !written {
		s.discard(e)
		return
	}
	e.lane.part.end()
	e.lane.endDoubt(e)
	s.pop(e.lane)
	s.schedule(e.lane)
}
