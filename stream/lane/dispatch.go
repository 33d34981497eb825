package lane

import (
	"container/heap"
	"context"
	"time"
)

// destination is a configured sink with its lanes that are ready. A place for breaker, bucket and pause: take is
// asked before every attempt.
type destination struct {
	Destination
	name        string
	first, last *lane // ready, oldest first
	running     int
	out         int // heads that it has taken and not ended
	metrics     destinationMetrics
}

func (d *destination) push(la *lane) {
	la.nextReady = nil
	if d.last == nil {
		d.first = la
	} else {
		d.last.nextReady = la
	}
	d.last = la
}

func (d *destination) shift() {
	la := d.first
	d.first, la.nextReady = la.nextReady, nil
	if d.first == nil {
		d.last = nil
	}
}

// take removes the head that runs next at d, or gives nil where none may.
func (d *destination) take(l *Lanes) *entry {
	for d.first != nil && d.running < d.Concurrency && !d.full() {
		la := d.first
		if la.part.closing || la.part.gone {
			d.shift()
			l.ready--
			la.state = idle
			continue
		}
		if !l.fits(la.head) {
			return nil
		}
		d.shift()
		l.ready--
		return la.head
	}
	return nil
}

// pick takes the next head, destinations in turn, and charges it as running.
func (l *Lanes) pick() (*entry, *destination) {
	if l.ready == 0 || l.unrecorded >= l.cfg.MaxUnrecorded {
		return nil, nil
	}
	for range l.turns {
		d := l.turns[l.turn]
		l.turn = (l.turn + 1) % len(l.turns)
		if e := d.take(l); e != nil {
			l.start(e, d)
			return e, d
		}
	}
	return nil, nil
}

func (l *Lanes) start(e *entry, d *destination) {
	e.lane.state = running
	e.lane.part.busy++
	d.running++
	l.fly(e)
}

// work runs attempts until Run ends.
func (l *Lanes) work() {
	for {
		e, d := l.next()
		if e == nil {
			return
		}
		l.run(e, d)
	}
}

// next waits for a head that may run; nil means that Run ends. A worker that leaves more behind wakes another, so
// that whoever makes lanes ready needs to wake only one.
func (l *Lanes) next() (*entry, *destination) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for !l.stopped {
		if e, d := l.pick(); e != nil {
			l.wake()
			return e, d
		}
		l.sleeping++
		l.toRun.Wait()
		l.sleeping--
	}
	return nil, nil
}

// wake calls a worker where there is something to do. Called with the mutex held.
func (l *Lanes) wake() {
	if l.ready > 0 && l.sleeping > 0 {
		l.toRun.Signal()
	}
}

// timers is a heap of heads by the time before which they do not run.
type timers []*entry

func (t timers) Len() int           { return len(t) }
func (t timers) Less(i, j int) bool { return t[i].notBefore.Before(t[j].notBefore) }
func (t timers) Swap(i, j int)      { t[i], t[j] = t[j], t[i] }
func (t *timers) Push(x any)        { *t = append(*t, x.(*entry)) }
func (t *timers) Pop() any {
	old := *t
	e := old[len(old)-1]
	old[len(old)-1] = nil
	*t = old[:len(old)-1]
	return e
}

// delay lets a head wait for its time.
func (l *Lanes) delay(e *entry) {
	e.lane.state = waiting
	heap.Push(&l.timers, e)
	if l.timers[0] == e {
		kick(l.toClock)
	}
}

// due arms the heads whose time has come and says how long until the next.
func (l *Lanes) due() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	for len(l.timers) > 0 && !l.timers[0].notBefore.After(now) {
		e := heap.Pop(&l.timers).(*entry)
		if e.lane.state == away {
			l.overdue = append(l.overdue, e)
			kick(l.toWatch)
			continue
		}
		e.lane.state = idle
		l.arm(e.lane)
	}
	l.wake()
	if len(l.timers) == 0 {
		return time.Hour
	}
	return l.timers[0].notBefore.Sub(now)
}

// clock turns the timers.
func (l *Lanes) clock(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		timer.Reset(l.due())
		select {
		case <-timer.C:
		case <-l.toClock:
		case <-ctx.Done():
			return
		}
	}
}

// kick signals a channel of capacity one whose reader looks at everything anyway.
func kick(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
