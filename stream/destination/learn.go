package destination

import (
	"time"

	"github.com/forebay-io/forebay/stream/sink"
)

// Troubling reports whether a class says that the destination as a whole does not work.
func Troubling(c sink.Class) bool {
	switch c {
	case sink.ClassThrottled, sink.ClassBusy, sink.ClassTimeout, sink.ClassNetwork, sink.ClassDNS:
		return true
	}
	return false
}

// answered reports whether a class proves that the destination works: it has dealt with the action, whatever its verdict.
func answered(c sink.Class) bool { return c == sink.ClassOK || c == sink.ClassRejected }

// learn takes in the outcome of an attempt.
func (d *Destination) learn(p Permit, o *Outcome) {
	now := time.Now()
	if o.Class != sink.ClassOK {
		d.last = &Failure{At: now, Class: o.Class, Code: o.Code, Error: o.Error}
	}
	onHold := d.hold(now, o)
	switch {
	case onHold && o.Class == sink.ClassThrottled: // it works, and asks for a pause
		d.breaker.saysNothing(p)
	case Troubling(o.Class):
		d.breaker.hasFailed(now, p, o.Entity)
	case answered(o.Class), o.Class == sink.ClassDenied: // it works, if not for us
		if !d.breaker.openSince.IsZero() {
			d.recover(now)
			d.recovered = true
		}
		if answered(o.Class) {
			d.comesBack(now)
		}
		d.reached = now
		d.breaker.gotThrough(now)
	default:
		d.breaker.saysNothing(p)
	}
	d.countForPause(now, o)
}

// recover begins a recovery, and notes that nobody could attempt anything while the breaker was open.
func (d *Destination) recover(now time.Time) {
	if openSince := d.breaker.openSince; !openSince.IsZero() {
		d.addBlocked(openSince, now)
	}
	d.breaker.recover(now)
}

// comesBack has what waits for its next attempt tried now, one at a time at first, where nothing but failures has been seen for a while, here
// or before this process began, and an attempt gets through. What fails while others get through has a reason of its own.
func (d *Destination) comesBack(now time.Time) {
	seen := d.failures > 0 || d.reached.IsZero()
	if !seen || d.failing.IsZero() || now.Sub(later(d.failing, d.reached)) < saveFailingAfter {
		return
	}
	if d.back = true; d.breaker.state != Recovering {
		d.recover(now)
	}
	d.log.Info("destination is back: what waits for its next attempt is tried now", "failing_since", d.failing)
}

// probes reports whether one of what waits for its next attempt is to be tried, since else nobody would notice that the destination is back.
func (d *Destination) probes(now time.Time) bool {
	last := later(d.failing, d.probed)
	if d.last != nil {
		last = later(last, d.last.At)
	}
	stopped, _ := d.stopped(now)
	if d.failing.IsZero() || stopped || d.running > 0 || !d.turns.empty() || now.Sub(last) < max(probeEvery, now.Sub(d.failing)/8) {
		return false
	}
	d.probed = now
	return true
}

// MaxHold returns for how long an answer's Retry-After holds the destination at most; 0: it does not hold it.
func (d *Destination) MaxHold() time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.policy.MaxHold
}

// Holds reports whether an answer of this class and status that says for how long holds the destination.
func (d *Destination) Holds(c sink.Class, code int) bool {
	return sink.Holds(c, code) && d.MaxHold() > 0
}

// hold holds the destination where an answer says for how long, and reports whether it does.
func (d *Destination) hold(now time.Time, o *Outcome) bool {
	if o.RetryAfter <= 0 || d.policy.MaxHold == 0 || !sink.Holds(o.Class, o.Code) {
		return false
	}
	until := now.Add(min(o.RetryAfter, d.policy.MaxHold))
	if !d.onHoldUntil.After(now) {
		d.breaker.base = max(1, d.meter.perSecond(now))
		d.metrics.holds.Inc()
		d.log.Warn("destination asks to be left alone: nothing is attempted for a while", "code", o.Code, "until", until)
	}
	d.onHoldUntil = later(d.onHoldUntil, until)
	d.addBlocked(now, until)
	return true
}

// endHoldEarly ends a hold before its time, as an operator wants, and reports whether there was one.
func (d *Destination) endHoldEarly(now time.Time) bool {
	if !d.onHoldUntil.After(now) {
		return false
	}
	d.log.Info("an operator has ended the hold that the destination asked for", "until", d.onHoldUntil)
	for i := range d.blocked { // only a hold is noted ahead
		if s := &d.blocked[i]; s.to.After(now) {
			s.to, s.blocked = now, max(0, s.blocked-s.to.Sub(now))
		}
	}
	d.endHold(now)
	d.serve()
	return true
}

// endHold ends a hold that is over.
func (d *Destination) endHold(now time.Time) {
	if d.onHoldUntil.IsZero() {
		return
	}
	d.onHoldUntil = time.Time{}
	if d.breaker.openSince.IsZero() {
		d.recover(now)
	}
}
