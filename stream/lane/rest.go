package lane

import (
	"container/heap"
	"slices"
	"time"
)

// A lane rests when its head waits, for its next attempt or for a destination that takes none, and the window is full: it
// leaves everything to the ledger and makes room for others. When its time comes, or its destination takes attempts again, it
// is read back as other lanes are that left actions in the ledger.
const (
	restFrom   = time.Second            // what waits less is not worth a read
	restEvery  = 250 * time.Millisecond // how often a full window is looked through
	probes     = 64                     // heads that a destination keeps to go on with
	maxResting = 1 << 17                // lanes of one subscription, at some 300 bytes each
)

// rests is a heap of lanes that rest, by when their heads are due.
type rests []rest

type rest struct {
	at   time.Time
	lane *lane
}

func (r rests) Len() int           { return len(r) }
func (r rests) Less(i, j int) bool { return r[i].at.Before(r[j].at) }
func (r rests) Swap(i, j int)      { r[i], r[j] = r[j], r[i] }
func (r *rests) Push(x any)        { *r = append(*r, x.(rest)) }
func (r *rests) Pop() any {
	old := *r
	last := old[len(old)-1]
	old[len(old)-1] = rest{}
	*r = old[:len(old)-1]
	return last
}

// crowded reports whether a part's window keeps something out of memory.
func (l *Lanes) crowded(p *part) bool {
	return !p.closing && !p.gone && (p.more && l.room(p) == 0 || len(p.thirsty) > 0 && !l.headroom(p))
}

// uneasy reports whether it is worth looking through windows and destinations again in a while.
func (l *Lanes) uneasy() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.parts {
		if l.crowded(p) {
			return true
		}
	}
	return slices.ContainsFunc(l.turns, func(d *destination) bool { return len(d.resting) > 0 })
}

// shed lets lanes of full windows rest, until half of each is free, and looks after destinations that ran out of heads in
// another way than by running them.
func (l *Lanes) shed() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.parts {
		if l.crowded(p) {
			l.shedWaiting(p)
			l.shedReady(p)
		}
	}
	for _, d := range l.turns {
		l.restock(d)
	}
}

// mayRest is whether a lane of a part may make room.
func (l *Lanes) mayRest(p *part) bool { return p.open > l.cfg.MaxOpen/2 && l.resting < maxResting }

// shedWaiting takes lanes whose heads wait for their next attempt.
func (l *Lanes) shedWaiting(p *part) {
	soon, before := time.Now().Add(restFrom), l.resting
	for _, la := range p.lanes {
		if !l.mayRest(p) {
			break
		}
		if la.state == waiting && la.head.notBefore.After(soon) {
			heap.Push(&l.rests, rest{la.head.notBefore, la})
			l.lieDown(la)
		}
	}
	if l.resting > before {
		l.timers = slices.DeleteFunc(l.timers, func(e *entry) bool { return e.lane.state == resting })
		heap.Init(&l.timers)
	}
}

// shedReady takes lanes that are ready at destinations which take nothing now, and leaves those some heads to go on with.
func (l *Lanes) shedReady(p *part) {
	for _, d := range l.turns {
		if !d.blocked() {
			continue
		}
		kept := 0
		var out []*lane
		left := p.open
		l.unreadyAt(d, func(la *lane) bool {
			kept++
			if la.part != p || kept <= l.stock() || left <= l.cfg.MaxOpen/2 || l.resting+len(out) >= maxResting {
				return false
			}
			left -= la.n
			out = append(out, la)
			return true
		})
		for _, la := range out {
			l.lieDown(la)
		}
		d.resting = append(d.resting, out...)
	}
}

// blocked reports whether a destination takes next to nothing now, be it asleep or in the middle of its one attempt, or has taken
// all the long work that it may. One that is only busy is not: a backlog that moves would be read twice.
func (d *destination) blocked() bool { return d.user.Blocked() || d.full() }

// stock is how many ready heads a destination keeps in memory however full the window is.
func (l *Lanes) stock() int { return min(probes, max(1, l.cfg.MaxOpen/4)) }

// lieDown leaves all of a lane to the ledger.
func (l *Lanes) lieDown(la *lane) {
	head := la.head.LaneSeq
	la.skippedTo = max(la.skippedTo, la.tail)
	for la.head != nil {
		l.pop(la)
	}
	la.tail, la.state = head-1, resting
	delete(la.part.thirsty, la)
	l.resting++
}

// getUp ends a lane's rest.
func (l *Lanes) getUp(la *lane) {
	l.resting--
	la.state = idle
}

// rise has the lanes read back whose time has come.
func (l *Lanes) rise(now time.Time) {
	for len(l.rests) > 0 && !l.rests[0].at.After(now) {
		l.wanted(heap.Pop(&l.rests).(rest).lane, true)
	}
}

// restock has lanes read back that rest for a destination: as many as a window holds once it takes attempts, else those that it
// tries its luck with.
func (l *Lanes) restock(d *destination) {
	most, blocked := l.stock(), d.blocked()
	if !blocked {
		most = l.cfg.MaxOpen
	}
	if d.n >= min(most, probes) {
		return
	}
	for n := most - d.n; n > 0 && len(d.resting) > 0; n-- {
		l.wanted(d.resting[0], blocked)
		d.resting[0] = nil
		d.resting = d.resting[1:]
	}
}

// wanted has a lane read back, or its head alone, unless it was read anew for another reason. What is behind a head may lie far
// behind, and be another attempt's.
func (l *Lanes) wanted(la *lane, alone bool) {
	if la.state != resting {
		return
	}
	l.getUp(la)
	if alone {
		la.first = la.tail + 1
	}
	la.part.thirsty[la] = struct{}{}
	kick(l.toLoad)
}

// headroom is whether a part takes back lanes that left all they had: beyond the window, or what was left to the ledger later
// would come before them.
func (l *Lanes) headroom(p *part) bool { return p.open < l.cfg.MaxOpen+max(1, l.cfg.MaxOpen/4) }

// unrest forgets the lanes of a part that rest.
func (l *Lanes) unrest(p *part) {
	for _, la := range p.lanes {
		if la.state == resting {
			l.getUp(la)
		}
	}
	of := func(la *lane) bool { return la.part == p }
	l.rests = slices.DeleteFunc(l.rests, func(r rest) bool { return of(r.lane) })
	heap.Init(&l.rests)
	for _, d := range l.turns {
		d.resting = slices.DeleteFunc(d.resting, of)
	}
}
