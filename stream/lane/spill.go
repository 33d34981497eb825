package lane

import (
	"container/heap"
	"slices"
	"time"

	"github.com/forebay-io/forebay/stream/ledger"
)

// A full window spills lanes whose heads wait for their next attempt, or for a destination that takes no attempts: all their
// actions leave memory and make room for others. A spilled lane is refilled when its head is due, or when the destination takes
// attempts again.
const (
	spillFrom  = time.Second            // a head that waits less is not worth a read
	spillEvery = 250 * time.Millisecond // how often full windows are looked through
	crowdedFor = 10 * time.Second       // after maxSpilled was reached: heads that are due make room for a moment each
	maxProbes  = 64                     // ready heads that stay in memory for a blocked destination, to go on with
	maxSpilled = 1 << 20                // lanes of one subscription, at some 130 bytes each
)

// spilledLane is a lane that is spilled. A destination may fail for a day for one entity in a hundred, so memory keeps no more of each
// than of one that is parked, and what an attempt of its head would not find in the ledger.
type spilledLane struct {
	parkedLane
	due    moment // of its head; 0: it waits for its destination alone
	since  int64  // Unix time in ns since when its head is to run
	unmade int32  // of its head, as in entry
	to     uint16 // the index of its head's destination in dispatcher.order
	waits  uint8  // the index in guardedAs of the status with which its head waits for a guard; 0: it does not
	early  bool   // its head is to be tried before its time
}

var guardedAs = []ledger.Status{"", ledger.WaitingApproval, ledger.WaitingBudget}

// spilledLanes are the lanes of a partition that are spilled.
type spilledLanes map[laneKey]spilledLane

// spilledAt names a spilled lane, or one that was.
type spilledAt struct {
	p   *partition
	key laneKey
}

// spillList reloads lanes that are spilled. It has those that wait for a time; sinkQueue.spilled has those that wait for a
// destination. Callers hold mu.
type spillList struct {
	cfg    *Config
	byTime timeHeap[spilledAt] // a lane that was reloaded earlier, for another reason, stays in here until its time
	toLoad chan<- struct{}
}

// reloadDue reloads the lanes whose time has come.
func (s *spillList) reloadDue(now time.Time) {
	for at, ok := s.byTime.pop(now); ok; at, ok = s.byTime.pop(now) {
		if x := at.p.spilled[at.key]; x.due != 0 && x.due <= momentOf(now) {
			s.reload(at, true)
		}
	}
}

// reloadFor reloads lanes that wait for a destination: as many as a window holds if it takes attempts, and if it is blocked only
// a few with which it is probed.
func (s *spillList) reloadFor(d *sinkQueue) {
	most, blocked := s.probes(), d.blocked()
	if !blocked {
		most = s.cfg.MaxOpen
	}
	if d.n >= min(most, maxProbes) {
		return
	}
	for n := most - d.n; n > 0 && len(d.spilled) > 0; n-- {
		at := d.spilled[0]
		d.spilled[0] = spilledAt{} // else the array keeps its partition
		if d.spilled = d.spilled[1:]; len(d.spilled) == 0 {
			d.spilled = nil
		}
		s.reload(at, blocked)
	}
}

// hurry lets the lanes that wait for the time of their next attempt at d wait for d alone.
func (s *spillList) hurry(d *sinkQueue) {
	for _, x := range s.byTime {
		if at := x.of.p.spilled[x.of.key]; at.due == x.at && at.to == d.index && at.waits == 0 && !at.early {
			at.early = true
			x.of.p.spilled[x.of.key] = at
			d.spilled = append(d.spilled, x.of)
		}
	}
	s.reloadFor(d)
}

// reload asks for a refill of a lane, unless it is no longer spilled. headOnly: only the head is read now, since the actions
// behind it may be far away in the ledger; they are read after its attempt. Where as many as a window holds are to be refilled, the lane
// stays spilled until reloadLeft: a million may be due after a pause, which memory and the steps of the loader would not bear.
func (s *spillList) reload(at spilledAt, headOnly bool) {
	x, is := at.p.spilled[at.key]
	if !is {
		return
	}
	if len(at.p.needsRefill) >= s.cfg.MaxOpen {
		x.due = momentOf(time.Now())
		at.p.spilled[at.key] = x
		at.p.due = append(at.p.due, at.key)
		return
	}
	la := at.p.unspill(at.key)
	if headOnly {
		la.headToReload = la.tail + 1
	}
	la.partition.needsRefill[la] = struct{}{}
	signal(s.toLoad)
}

// reloadLeft reloads lanes of a partition that reload has left spilled, as many as there is room for now.
func (s *spillList) reloadLeft(p *partition) {
	now := momentOf(time.Now())
	for len(p.due) > 0 && len(p.needsRefill) < s.cfg.MaxOpen {
		key := p.due[0]
		if p.due = p.due[1:]; len(p.due) == 0 {
			p.due = nil
		}
		if x := p.spilled[key]; x.due != 0 && x.due <= now { // else it was reloaded for another reason, and has a time of its own again
			s.reload(spilledAt{p, key}, true)
		}
	}
}

// probes returns how many ready heads stay in memory for a blocked destination, however full the window is.
func (s *spillList) probes() int { return min(maxProbes, max(1, s.cfg.MaxOpen/4)) }

// underPressure reports whether a window is full or a destination has spilled lanes, so that makeRoom has something to do.
func (l *loader) underPressure() bool {
	s := l.s
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.q.partitions {
		if p.underPressure() {
			return true
		}
	}
	return slices.ContainsFunc(s.q.dispatch.order, func(d *sinkQueue) bool { return len(d.spilled) > 0 })
}

// makeRoom spills lanes of full windows until half of each is free. It also reloads lanes for destinations whose ready heads
// left without an attempt, for example as superseded.
func (l *loader) makeRoom() {
	s := l.s
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.q.partitions {
		if p.underPressure() {
			l.spillWaiting(p)
			l.spillReady(p)
		}
	}
	n := s.q.spilledLanes()
	if n >= s.q.cfg.maxSpilled {
		l.noRoom = time.Now()
	}
	if n >= s.q.cfg.maxSpilled && time.Since(l.warned) >= time.Minute {
		l.warned = time.Now()
		l.log.Warn("as many entities wait for their destinations as memory may have; the others of the subscription wait behind them: mend what fails, "+
			"shorten its retry.within, or run more processes", "entities", n)
	}
	for _, d := range s.q.dispatch.order {
		s.q.spilled.reloadFor(d)
	}
}

// spillWaiting spills lanes whose heads wait for their next attempt, but for those that are early and only settle: nothing would know that.
func (l *loader) spillWaiting(p *partition) {
	s := l.s
	soon, before := time.Now().Add(spillFrom), s.q.spilledLanes()
	room := s.q.cfg.maxSpilled - before
	for _, la := range p.lanes {
		if p.open <= s.q.cfg.MaxOpen/2 || room <= 0 {
			break
		}
		settles := la.state == waiting && la.head.own.After(la.head.notBefore) && la.head.settling(s.q.dispatch.find(la.head.Destination).Settle) > 0
		if la.state == waiting && la.head.notBefore.After(soon) && !settles {
			at := spilledAt{p, la.key}
			heap.Push(&s.q.spilled.byTime, timed[spilledAt]{momentOf(la.head.notBefore), at})
			s.q.spill(la, momentOf(la.head.notBefore))
			room--
		}
	}
	if room < s.q.cfg.maxSpilled-before {
		s.q.timers.heap.removeAll(func(e *entry) bool { return e.lane.state == retired })
	}
}

// spillReady spills lanes that are ready at blocked destinations. Each keeps a few ready heads to go on with.
func (l *loader) spillReady(p *partition) {
	s := l.s
	for _, d := range s.q.dispatch.order {
		if !d.blocked() {
			continue
		}
		kept, room := 0, s.q.cfg.maxSpilled-s.q.spilledLanes()
		var out []*lane
		left := p.open
		s.q.dispatch.remove(d, func(la *lane) bool {
			kept++
			if la.partition != p || kept <= s.q.spilled.probes() || left <= s.q.cfg.MaxOpen/2 || len(out) >= room {
				return false
			}
			left -= la.n
			out = append(out, la)
			return true
		})
		for _, la := range out {
			s.q.spill(la, 0)
			d.spilled = append(d.spilled, spilledAt{p, la.key})
		}
	}
}
