package lane

import (
	shared "github.com/forebay-io/forebay/stream/destination"
)

// destination is a configured sink with its lanes that are ready. Take of what all subscriptions share of it is asked
// before every attempt; where it says to wait, the destination is asleep until its turn comes.
type destination struct {
	Destination
	name        string
	first, last *lane   // ready, oldest first
	n           int     // how many
	running     int     // attempts of these lanes
	out         int     // heads that it has taken and not ended
	spilled     []*lane // lanes that left everything to the ledger until it takes attempts again
	asleep      bool    // it waits for its turn; its lanes do not count in Lanes.ready
	roused      bool    // its turn has come and is not taken yet
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
	if len(d.spilled) > 0 {
		l.spilled.reloadFor(d)
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

// blocked reports whether a destination takes next to nothing now, be it asleep or in the middle of its one attempt, or has taken
// all the long work that it may. One that is only busy is not: a backlog that moves would be read twice.
func (d *destination) blocked() bool { return d.user.Blocked() || d.full() }

// take removes the head that runs next at d, or gives nil where none may.
func (d *destination) take(l *Lanes) *entry {
	if d.asleep {
		return nil
	}
	for d.first != nil && l.aside(d.first) {
		l.dequeue(d)
	}
	if d.first == nil || d.full() || !l.budget.fits(d.first.head) {
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
	if l.ready == 0 || l.results.full() {
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
	l.budget.start(e)
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
	if d.first == nil || l.results.full() {
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

// delay lets a head wait for its time.
func (l *Lanes) delay(e *entry) {
	e.lane.state = waiting
	l.timers.add(e)
}
