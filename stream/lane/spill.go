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
	byTime spillHeap
	count  int
	toLoad chan<- struct{}
}

// spillHeap is a heap of spilled lanes by when their heads are due. One that was reloaded for another reason stays until then.
type spillHeap []spilledLane

type spilledLane struct {
	at   time.Time
	lane *lane
}

func (h spillHeap) Len() int           { return len(h) }
func (h spillHeap) Less(i, j int) bool { return h[i].at.Before(h[j].at) }
func (h spillHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *spillHeap) Push(x any)        { *h = append(*h, x.(spilledLane)) }
func (h *spillHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	old[len(old)-1] = spilledLane{}
	*h = old[:len(old)-1]
	return last
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
func (s *spillList) waitUntil(at time.Time, la *lane) { heap.Push(&s.byTime, spilledLane{at, la}) }

// wait is how long until the first lane is due.
func (s *spillList) wait(now time.Time) time.Duration {
	if len(s.byTime) == 0 {
		return time.Hour
	}
	return s.byTime[0].at.Sub(now)
}

// reloadDue has the lanes reloaded whose time has come.
func (s *spillList) reloadDue(now time.Time) {
	for len(s.byTime) > 0 && !s.byTime[0].at.After(now) {
		s.reload(heap.Pop(&s.byTime).(spilledLane).lane, true)
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
	la.part.needsRefill[la] = struct{}{}
	signal(s.toLoad)
}

// forget lets go of the lanes of a part.
func (s *spillList) forget(p *part, dests []*destination) {
	for _, la := range p.lanes {
		if la.state == spilled {
			s.end(la)
		}
	}
	of := func(la *lane) bool { return la.part == p }
	s.byTime = slices.DeleteFunc(s.byTime, func(r spilledLane) bool { return of(r.lane) })
	heap.Init(&s.byTime)
	for _, d := range dests {
		d.spilled = slices.DeleteFunc(d.spilled, of)
	}
}

// probes is how many ready heads a destination that takes none keeps in memory however full the window is.
func (s *spillList) probes() int { return min(maxProbes, max(1, s.cfg.MaxOpen/4)) }

// underPressure reports whether a part's window keeps something out of memory.
func (l *Lanes) underPressure(p *part) bool {
	return !p.closing && !p.gone && (p.more && l.room(p) == 0 || len(p.needsRefill) > 0 && !l.headroom(p))
}

// anyUnderPressure reports whether it is worth looking through windows and destinations again in a while.
func (l *Lanes) anyUnderPressure() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.parts {
		if l.underPressure(p) {
			return true
		}
	}
	return slices.ContainsFunc(l.dispatch.order, func(d *destination) bool { return len(d.spilled) > 0 })
}

// makeRoom spills lanes of full windows, until half of each is free, and looks after destinations whose ready heads have gone
// in another way than by running.
func (l *Lanes) makeRoom() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.parts {
		if l.underPressure(p) {
			l.spillWaiting(p)
			l.spillReady(p)
		}
	}
	for _, d := range l.dispatch.order {
		l.spilled.reloadFor(d)
	}
}

// spillWaiting spills lanes whose heads wait for their next attempt.
func (l *Lanes) spillWaiting(p *part) {
	soon, before := time.Now().Add(spillFrom), l.spilled.count
	for _, la := range p.lanes {
		if p.open <= l.cfg.MaxOpen/2 || l.spilled.count >= maxSpilled {
			break
		}
		if la.state == waiting && la.head.notBefore.After(soon) {
			l.spilled.waitUntil(la.head.notBefore, la)
			l.spill(la)
		}
	}
	if l.spilled.count > before {
		l.timers.removeAll(func(e *entry) bool { return e.lane.state == spilled })
	}
}

// spillReady spills lanes that are ready at destinations which take nothing now, and leaves those some heads to go on with.
func (l *Lanes) spillReady(p *part) {
	for _, d := range l.dispatch.order {
		if !d.blocked() {
			continue
		}
		kept := 0
		var out []*lane
		left := p.open
		l.dispatch.remove(d, func(la *lane) bool {
			kept++
			if la.part != p || kept <= l.spilled.probes() || left <= l.cfg.MaxOpen/2 || l.spilled.count+len(out) >= maxSpilled {
				return false
			}
			left -= la.n
			out = append(out, la)
			return true
		})
		for _, la := range out {
			l.spill(la)
		}
		d.spilled = append(d.spilled, out...)
	}
}

// spill leaves all of a lane to the ledger.
func (l *Lanes) spill(la *lane) {
	head := la.head.LaneSeq
	la.skippedTo = max(la.skippedTo, la.tail)
	for la.head != nil {
		l.pop(la)
	}
	la.tail = head - 1
	delete(la.part.needsRefill, la)
	l.spilled.add(la)
}

// headroom is whether a part takes back lanes that left all they had: beyond the window, or what was left to the ledger later
// would come before them.
func (l *Lanes) headroom(p *part) bool { return p.open < l.cfg.MaxOpen+max(1, l.cfg.MaxOpen/4) }
