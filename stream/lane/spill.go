package lane

import (
	"container/heap"
	"slices"
	"time"
)

// A full window spills lanes: one whose head waits, for its next attempt or for a destination that takes none, leaves
// everything to the ledger and makes room for others. When its time comes, or its destination takes attempts again, it is
// reloaded as other lanes are that left actions in the ledger.
const (
	spillFrom  = time.Second            // a head that waits less is not worth a read
	spillEvery = 250 * time.Millisecond // how often full windows are looked through
	maxProbes  = 64                     // heads that a destination which takes none keeps to go on with
	maxSpilled = 1 << 17                // lanes of one subscription, at some 300 bytes each
)

// spillList has the lanes that are spilled: those that wait for a moment here, those that wait for a destination in its own
// list. Callers hold mu.
type spillList struct {
	cfg    *Config
	byTime timeHeap[*lane] // one that was reloaded for another reason stays until its time
	count  int
	toLoad chan<- struct{}
}

// add counts a lane that is spilled from now on.
func (s *spillList) add(la *lane) {
	la.state = spilled
	s.count++
}

// end counts a lane that is spilled no more.
func (s *spillList) end(la *lane) {
	la.state = idle
	s.count--
}

// waitUntil has a lane reloaded when its head is due.
func (s *spillList) waitUntil(at time.Time, la *lane) { heap.Push(&s.byTime, timed[*lane]{at, la}) }

// reloadDue has the lanes reloaded whose time has come.
func (s *spillList) reloadDue(now time.Time) {
	for la, ok := s.byTime.pop(now); ok; la, ok = s.byTime.pop(now) {
		s.reload(la, true)
	}
}

// reloadFor has lanes reloaded that wait for a destination: as many as a window holds once it takes attempts, before that
// only those it is probed with.
func (s *spillList) reloadFor(d *destination) {
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

// reload has a lane read back unless that has happened for another reason. headOnly: what is behind the head may lie far
// behind in the ledger, and waits for the read after its attempt.
func (s *spillList) reload(la *lane, headOnly bool) {
	if la.state != spilled {
		return
	}
	s.end(la)
	if headOnly {
		la.first = la.tail + 1
	}
	la.partition.needsRefill[la] = struct{}{}
	signal(s.toLoad)
}

// forget lets go of the lanes of a partition.
func (s *spillList) forget(p *partition) {
	for _, la := range p.lanes {
		if la.state == spilled {
			s.end(la)
		}
	}
	s.byTime.removeAll(func(la *lane) bool { return la.partition == p })
}

// probes is how many ready heads a destination that takes none keeps in memory however full the window is.
func (s *spillList) probes() int { return min(maxProbes, max(1, s.cfg.MaxOpen/4)) }

// underPressure reports whether it is worth looking through windows and destinations again in a while.
func (l *loader) underPressure() bool {
	s := l.s
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.q.partitions {
		if p.underPressure() {
			return true
		}
	}
	return slices.ContainsFunc(s.q.dispatch.order, func(d *destination) bool { return len(d.spilled) > 0 })
}

// makeRoom spills lanes of full windows, until half of each is free, and reloads lanes for destinations whose ready heads have
// gone in another way than by running.
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

// spillWaiting spills lanes whose heads wait for their next attempt.
func (l *loader) spillWaiting(p *partition) {
	s := l.s
	soon, before := time.Now().Add(spillFrom), s.q.spilled.count
	for _, la := range p.lanes {
		if p.open <= s.q.cfg.MaxOpen/2 || s.q.spilled.count >= maxSpilled {
			break
		}
		if la.state == waiting && la.head.notBefore.After(soon) {
			s.q.spilled.waitUntil(la.head.notBefore, la)
			s.q.spill(la)
		}
	}
	if s.q.spilled.count > before {
		s.q.timers.heap.removeAll(func(e *entry) bool { return e.lane.state == spilled })
	}
}

// spillReady spills lanes that are ready at destinations which take nothing now, and leaves those some heads to go on with.
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
