package lane

import "time"

// next waits for a head that may run; nil means that Run ends. A worker that leaves more behind wakes another, so
// that whoever makes lanes ready needs to wake only one.
func (l *Lanes) next() (*entry, *destination) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for !l.dispatch.stopped {
		if e, d := l.pick(); e != nil {
			l.dispatch.wake()
			return e, d
		}
		l.dispatch.sleep()
	}
	return nil, nil
}

// pick takes the next head, destinations in turn, and charges it as running.
func (l *Lanes) pick() (*entry, *destination) {
	if l.dispatch.ready == 0 || l.results.full() {
		return nil, nil
	}
	for range l.dispatch.order {
		d := l.dispatch.nextInTurn()
		if e := l.take(d); e != nil {
			e.lane.state = running
			e.lane.part.busy++
			e.called = false
			d.running++
			l.budget.start(e)
			return e, d
		}
	}
	return nil, nil
}

// take removes the head that runs next at d, or gives nil where none may.
func (l *Lanes) take(d *destination) *entry {
	if d.waits {
		return nil
	}
	for d.first != nil && l.notToRun(d.first) {
		l.dispatch.dequeue(d)
	}
	if d.first == nil || d.asyncFull() || !l.budget.fits(d.first.head) {
		d.passTurn()
		return nil
	}
	limited, ok := l.dispatch.admit(d)
	if !ok {
		return nil
	}
	e := d.first.head
	e.limited = limited
	l.dispatch.dequeue(d)
	return e
}

// notToRun reports whether the head of a ready lane is not to run any more, and takes the lane on where that is so: its claim
// is being given up, or a newer version has overtaken the head.
func (l *Lanes) notToRun(la *lane) bool {
	if la.part.closing || la.part.gone {
		la.state = idle
		return true
	}
	return l.supersede(la)
}

// delay lets a head wait for its time.
func (l *Lanes) delay(e *entry) {
	e.lane.state = waiting
	l.timers.add(e)
}

// due lets heads go on whose time has come, and destinations whose turn has; it says how long until the next.
func (l *Lanes) due() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dispatch.resumeAll()
	now := time.Now()
	for e := l.timers.pop(now); e != nil; e = l.timers.pop(now) {
		if e.lane.state == processing {
			l.async.expired(e)
			continue
		}
		e.lane.state = idle
		l.arm(e.lane)
	}
	l.spilled.reloadDue(now)
	l.dispatch.wake()
	return min(l.timers.wait(now), l.spilled.wait(now))
}
