package lane

import (
	"container/heap"
	"context"
	"slices"
	"time"

	"github.com/forebay-io/forebay/stream/ledger"
)

// A lane rests when its head waits, for its next attempt or for a destination that takes none, and the window is full: it
// leaves everything to the ledger and makes room for others. When its time comes, or its destination runs out of heads, its
// head alone is read back.
const (
	restFrom   = time.Second            // what waits less is not worth a read
	restEvery  = 250 * time.Millisecond // how often a full window is looked through
	restsRead  = 64                     // heads that are read back before others get their turn
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
	return !p.closing && !p.gone && (p.more && l.room(p) == 0 || len(p.rising) > 0 && !l.headroom(p))
}

// anyCrowded reports whether it is worth looking through the windows again in a while.
func (l *Lanes) anyCrowded() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.parts {
		if l.crowded(p) {
			return true
		}
	}
	return false
}

// shed lets lanes of full windows rest, until half of each is free.
func (l *Lanes) shed() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.parts {
		if l.crowded(p) {
			l.shedWaiting(p)
			l.shedReady(p)
		}
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
		if !d.asleep && !d.full() {
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

// stock is how many ready heads a destination keeps in memory however full the window is.
func (l *Lanes) stock() int { return min(restsRead, max(1, l.cfg.MaxOpen/4)) }

// lieDown leaves all of a lane to the ledger.
func (l *Lanes) lieDown(la *lane) {
	head := la.head.LaneSeq
	la.skippedTo = max(la.skippedTo, la.tail)
	la.skipped += la.n
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

// rise has the heads read back whose time has come.
func (l *Lanes) rise(now time.Time) {
	for len(l.rests) > 0 && !l.rests[0].at.After(now) {
		l.wanted(heap.Pop(&l.rests).(rest).lane)
	}
}

// restock has heads read back that destinations lack, once those before them are.
func (l *Lanes) restock() {
	for _, p := range l.parts {
		if len(p.rising) > 0 {
			return
		}
	}
	for _, d := range l.turns {
		for n := l.stock() - d.n; n > 0 && len(d.resting) > 0; n-- {
			l.wanted(d.resting[0])
			d.resting[0] = nil
			d.resting = d.resting[1:]
		}
	}
}

// wanted has a lane's head read back, unless the lane was read anew for another reason.
func (l *Lanes) wanted(la *lane) {
	if la.state == resting {
		la.part.rising = append(la.part.rising, la)
		kick(l.toLoad)
	}
}

// headroom is whether a part takes back heads of lanes that rested: beyond the window, or what was left to the ledger
// later would come before them.
func (l *Lanes) headroom(p *part) bool { return p.open < l.cfg.MaxOpen+max(1, l.cfg.MaxOpen/4) }

// raise reads the next heads of a part that are wanted.
func (l *Lanes) raise(ctx context.Context, p *part) error {
	for range restsRead {
		la, after := l.nextRising(p)
		if la == nil {
			return nil
		}
		actions, _, err := l.cfg.Ledger.Open(ctx, p.claim, after, 1)
		l.mu.Lock()
		switch {
		case la.state != resting || p.gone || p.closing:
		case err != nil:
			p.rising = append(p.rising, la)
		default:
			l.risen(la, actions)
		}
		l.mu.Unlock()
		if err != nil {
			return err
		}
	}
	return nil
}

func (l *Lanes) nextRising(p *part) (la *lane, after int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(p.rising) > 0 && !p.gone && !p.closing && l.headroom(p) {
		la, p.rising = p.rising[0], p.rising[1:]
		if la.state == resting {
			return la, la.tail
		}
	}
	return nil, 0
}

// risen gives a lane its head back. Where the head has ended meanwhile, the lane reads on behind it.
func (l *Lanes) risen(la *lane, actions []ledger.Action) {
	l.getUp(la)
	if len(actions) == 1 && actions[0].LaneSeq == la.tail+1 {
		la.skipped = max(0, la.skipped-1)
		l.append(la, &actions[0], nil, false)
	} else {
		l.arm(la)
	}
	l.wake()
}

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
	p.rising = nil
}
