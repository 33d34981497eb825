package lane

import (
	"container/heap"
	"context"
	"time"

	shared "github.com/forebay-io/forebay/stream/destination"
)

// destination is a configured sink with its lanes that are ready. Take of what all subscriptions share of it is asked
// before every attempt; where it says to wait, the destination is asleep until its turn comes.
type destination struct {
	Destination
	name        string
	first, last *lane // ready, oldest first
	n           int   // how many
	running     int   // attempts of these lanes
	out         int   // heads that it has taken and not ended
	resting     []*lane
	asleep      bool // it waits for its turn; its lanes do not count in Lanes.ready
	roused      bool // its turn has come and is not taken yet
	user        *shared.User
	metrics     destinationMetrics
}

// enqueue puts a lane behind those that are ready at d.
func (l *Lanes) enqueue(d *destination, la *lane) {
	d.push(la)
	if !d.asleep {
		l.ready++
	}
}

// dequeue takes the first lane out.
func (l *Lanes) dequeue(d *destination) {
	d.shift()
	if !d.asleep {
		l.ready--
	}
	if len(d.resting) > 0 {
		l.restock(d)
	}
}

func (d *destination) push(la *lane) {
	d.n++
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
	d.n--
	d.first, la.nextReady = la.nextReady, nil
	if d.first == nil {
		d.last = nil
	}
}

// take removes the head that runs next at d, or gives nil where none may.
func (d *destination) take(l *Lanes) *entry {
	if d.asleep {
		return nil
	}
	for d.first != nil && l.aside(d.first) {
		l.dequeue(d)
	}
	if d.first == nil || d.full() || !l.fits(d.first.head) {
		d.pass()
		return nil
	}
	answer := d.user.Take()
	d.roused = false
	if answer == shared.Wait {
		l.ready -= d.n
		d.asleep = true
		return nil
	}
	e := d.first.head
	e.over = answer == shared.Over
	l.dequeue(d)
	return e
}

// aside reports whether a lane that is ready goes aside, and sets it so: its claim is being given up, or its head is not to
// run any more.
func (l *Lanes) aside(la *lane) bool {
	if la.part.closing || la.part.gone {
		la.state = idle
		return true
	}
	return l.supersede(la)
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
	e.called = false
	d.running++
	l.fly(e)
}

// release gives a head's slot back and, where it was not called for, its tokens; told is nil where the destination learns
// nothing from it.
func (l *Lanes) release(e *entry, d *destination, told *shared.Outcome) {
	d.running--
	turn := false
	switch {
	case e.over: // it was charged nothing
	case e.called:
		turn = d.user.End(told)
	default:
		turn = d.user.GiveBack()
	}
	if turn {
		l.rouse(d)
	}
}

// rouse lets a destination go on whose turn has come.
func (l *Lanes) rouse(d *destination) {
	if !d.asleep {
		return
	}
	d.asleep, d.roused = false, true
	l.ready += d.n
	if d.first == nil || l.unrecorded >= l.cfg.MaxUnrecorded {
		d.pass()
	}
}

// rouseAll rouses every destination that was called.
func (l *Lanes) rouseAll() {
	for _, d := range l.turns {
		if d.asleep && d.user.HasTurn() {
			l.rouse(d)
		}
	}
}

// pass gives a turn up that nothing takes now.
func (d *destination) pass() {
	if d.roused {
		d.roused = false
		d.user.Pass()
	}
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
		l.waking = false
	}
	return nil, nil
}

// wake calls a worker where there is something to do and none is on its way. Called with the mutex held.
func (l *Lanes) wake() {
	if l.ready > 0 && l.sleeping > 0 && !l.waking {
		l.waking = true
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
	l.rouseAll()
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
	l.rise(now)
	l.wake()
	wait := time.Hour
	if len(l.timers) > 0 {
		wait = l.timers[0].notBefore.Sub(now)
	}
	if len(l.rests) > 0 {
		wait = min(wait, l.rests[0].at.Sub(now))
	}
	return wait
}

// clock turns the timers and rouses destinations.
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
