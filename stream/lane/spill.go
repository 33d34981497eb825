package lane

import (
	"container/heap"
	"slices"
	"time"
)

// A full window spills lanes whose heads wait for their next attempt, or for a destination that takes no attempts: all their
// actions leave memory and make room for others. A spilled lane is refilled when its head is due, or when the destination takes
// attempts again.
const (
	spillFrom  = time.Second            // a head that waits less is not worth a read
	spillEvery = 250 * time.Millisecond // how often full windows are looked through
	maxProbes  = 64                     // ready heads that stay in memory for a blocked destination, to go on with
	maxSpilled = 1 << 17                // lanes of one subscription, at some 300 bytes each
)

// spillList counts the lanes that are spilled. It has those that wait for a time; sinkQueue.spilled has those that wait for a
// destination. Callers hold mu.
type spillList struct {
	cfg    *Config
	byTime timeHeap[*lane] // a lane that was reloaded earlier, for another reason, stays in here until its time
	count  int
	toLoad chan<- struct{}
}

// add marks a lane as spilled.
func (s *spillList) add(la *lane) {
	la.state = spilled
	s.count++
}

// unspill marks a lane as no longer spilled.
func (s *spillList) unspill(la *lane) {
	la.state = idle
	s.count--
}

// waitUntil adds a lane that is to be reloaded at a time.
func (s *spillList) waitUntil(at time.Time, la *lane) { heap.Push(&s.byTime, timed[*lane]{at, la}) }

// reloadDue reloads the lanes whose time has come.
func (s *spillList) reloadDue(now time.Time) {
	for la, ok := s.byTime.pop(now); ok; la, ok = s.byTime.pop(now) {
		s.reload(la, true)
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
		s.reload(d.spilled[0], blocked)
		d.spilled[0] = nil
		d.spilled = d.spilled[1:]
	}
}

// hurry lets the lanes that wait for the time of their next attempt at d wait for d alone.
func (s *spillList) hurry(d *sinkQueue) {
	for _, x := range s.byTime {
		if la := x.of; la.state == spilled && la.to == d && la.waits == "" && !la.early {
			la.early = true
			d.spilled = append(d.spilled, la)
		}
	}
	s.reloadFor(d)
}

// reload asks for a refill of a lane, unless it is no longer spilled. headOnly: only the head is read now, since the actions
// behind it may be far away in the ledger; they are read after its attempt.
func (s *spillList) reload(la *lane, headOnly bool) {
	if la.state != spilled {
		return
	}
	s.unspill(la)
	if headOnly {
		la.headToReload = la.tail + 1
	}
	la.partition.needsRefill[la] = struct{}{}
	signal(s.toLoad)
}

// forget removes the lanes of a partition.
func (s *spillList) forget(p *partition) {
	for _, la := range p.lanes {
		if la.state == spilled {
			s.unspill(la)
		}
	}
	s.byTime.removeAll(func(la *lane) bool { return la.partition == p })
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
	for _, d := range s.q.dispatch.order {
		s.q.spilled.reloadFor(d)
	}
}

// spillWaiting spills lanes whose heads wait for their next attempt, but for those that are early and only settle: nothing would know that.
func (l *loader) spillWaiting(p *partition) {
	s := l.s
	soon, before := time.Now().Add(spillFrom), s.q.spilled.count
	for _, la := range p.lanes {
		if p.open <= s.q.cfg.MaxOpen/2 || s.q.spilled.count >= maxSpilled {
			break
		}
		settles := la.state == waiting && la.head.own.After(la.head.notBefore) && la.head.settling(s.q.dispatch.find(la.head.Destination).Settle) > 0
		if la.state == waiting && la.head.notBefore.After(soon) && !settles {
			s.q.spilled.waitUntil(la.head.notBefore, la)
			s.q.spill(la)
		}
	}
	if s.q.spilled.count > before {
		s.q.timers.heap.removeAll(func(e *entry) bool { return e.lane.state == spilled })
	}
}

// spillReady spills lanes that are ready at blocked destinations. Each keeps a few ready heads to go on with.
func (l *loader) spillReady(p *partition) {
	s := l.s
	for _, d := range s.q.dispatch.order {
		if !d.blocked() {
			continue
		}
		kept := 0
		var out []*lane
		left := p.open
		s.q.dispatch.remove(d, func(la *lane) bool {
			kept++
			if la.partition != p || kept <= s.q.spilled.probes() || left <= s.q.cfg.MaxOpen/2 || s.q.spilled.count+len(out) >= maxSpilled {
				return false
			}
			left -= la.n
			out = append(out, la)
			return true
		})
		for _, la := range out {
			s.q.spill(la)
		}
		d.spilled = append(d.spilled, out...)
	}
}
