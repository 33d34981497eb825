package destination

import (
	"math"
	"slices"
	"time"

	"github.com/forebay-io/forebay/stream/sink"
)

// Breaking is a state of the breaker.
type Breaking string

const (
	Closed     Breaking = "closed"     // everything may begin
	Open       Breaking = "open"       // nothing, until its wait is over
	HalfOpen   Breaking = "half_open"  // one attempt at a time
	Recovering Breaking = "recovering" // more and more
)

// ramp is how a destination recovers: from one attempt at a time to all of them and, after a hold, from half the pace
// of before to all of it.
type ramp struct {
	since  time.Time
	base   float64 // attempts a second before; 0: at any pace
	bucket bucket
}

// share returns how much of the recovery has passed, in [0, 1].
func (d *Destination) share(now time.Time) float64 {
	return min(1, max(0, float64(now.Sub(d.ramp.since))/float64(d.policy.Recovery)))
}

// allowed returns how many attempts may be under way, 0 for any number, and when that grows by itself to more than there are.
func (d *Destination) allowed(now time.Time) (n int, grows time.Time) {
	most := d.policy.Concurrency
	switch {
	case d.breaker == HalfOpen:
		return 1, grows
	case d.breaker != Recovering || most == 0:
		return most, grows
	}
	if d.running < most {
		grows = d.ramp.since.Add(time.Duration(float64(d.running)/float64(most)*float64(d.policy.Recovery)) + 1)
	}
	return max(1, int(math.Ceil(d.share(now)*float64(most)))), grows
}

// pace returns how many attempts a second may begin, apart from the configured rate; 0: any number.
func (d *Destination) pace(now time.Time) float64 {
	if d.breaker != Recovering {
		return 0
	}
	return d.ramp.base * (1 + d.share(now)) / 2
}

// passTime ends what time ends: an open breaker becomes half-open, a hold a recovery, and a recovery ends. Called where
// neither an open breaker's wait nor a hold lies ahead.
func (d *Destination) passTime(now time.Time) {
	held := !d.held.IsZero()
	d.held = time.Time{}
	switch {
	case d.breaker == Open:
		d.halfOpenSince = now // where one that began before is still under way
		d.become(HalfOpen)
	case held && d.breaker != HalfOpen:
		d.recover(now)
	case d.breaker == Recovering && d.share(now) >= 1:
		d.ramp, d.openFor = ramp{}, d.policy.Breaker.Wait
		d.become(Closed)
	}
}

// recover begins a recovery.
func (d *Destination) recover(now time.Time) {
	if d.policy.Recovery == 0 {
		d.ramp, d.openFor = ramp{}, d.policy.Breaker.Wait
		d.become(Closed)
		return
	}
	d.ramp.since, d.ramp.bucket = now, bucket{}
	d.become(Recovering)
}

// become moves the breaker to another state, counts that and logs it.
func (d *Destination) become(b Breaking) {
	if d.breaker == b {
		return
	}
	d.breaker = b
	d.metrics.transitions.WithLabelValues(string(b)).Inc()
	switch b {
	case Open:
		d.log.Warn("destination's breaker opens: nothing is attempted for a while", "until", d.openUntil)
	case Closed:
		d.log.Info("destination's breaker is closed again")
	default:
		d.log.Info("destination's breaker changes", "breaker", b)
	}
}

// troubling reports whether a class says that the destination as a whole does not work.
func troubling(c sink.Class) bool {
	switch c {
	case sink.ClassThrottled, sink.ClassBusy, sink.ClassTimeout, sink.ClassNetwork, sink.ClassDNS:
		return true
	}
	return false
}

// answered reports whether a class proves that the destination works: it has dealt with the action, whatever its verdict.
func answered(c sink.Class) bool { return c == sink.ClassOK || c == sink.ClassRejected }

// learn takes in the outcome of an attempt.
func (d *Destination) learn(o *Outcome) {
	if o.Class == sink.ClassOK && d.breaker == Closed { // nearly all of them
		d.failuresForBreaker = streak{}
		d.countForPause(time.Time{}, o)
		return
	}
	now := time.Now()
	held := d.hold(now, o)
	switch {
	case held && o.Class == sink.ClassThrottled: // it works, and asks for a pause
	case troubling(o.Class):
		d.countForBreaker(now, o.Entity)
	case answered(o.Class), o.Class == sink.ClassDenied: // it works, if not for us
		d.failuresForBreaker = streak{}
		if d.breaker == HalfOpen {
			d.recover(now)
		}
	}
	d.countForPause(now, o)
}

// spread is how many entities have to fail before the breaker opens (fewer where it opens after fewer failures). What
// fails for one entity alone, however often, says nothing about the destination.
const spread = 3

// streak is failures in a row.
type streak struct {
	n, entities int
	known       [spread]string // the first entities
}

// add counts a failure. It remembers the first spread different entities.
func (s *streak) add(entity string) {
	s.n++
	if s.entities >= spread || entity != "" && slices.Contains(s.known[:s.entities], entity) {
		return
	}
	s.known[s.entities] = entity
	s.entities++
}

// opens reports whether a breaker that opens after most failures does now; 0: never.
func (s *streak) opens(most int) bool {
	return most > 0 && s.n >= most && s.entities >= min(spread, most)
}

// countForBreaker counts a failure. It opens the breaker if these were enough, or the breaker was half open; while the destination recovers,
// it takes back half of the time since then.
func (d *Destination) countForBreaker(now time.Time, entity string) {
	d.failuresForBreaker.add(entity)
	switch {
	case d.breaker == Open: // the attempt began before
	case d.breaker == HalfOpen, d.failuresForBreaker.opens(d.policy.Breaker.Failures):
		d.failuresForBreaker = streak{}
		d.openUntil = now.Add(d.openFor)
		d.block(now, d.openUntil)
		d.openFor = min(2*d.openFor, d.policy.Breaker.MaxWait)
		d.become(Open)
	case d.breaker == Recovering:
		d.ramp.since = now.Add(-now.Sub(d.ramp.since) / 2)
	}
}

// hold holds the destination where an answer says for how long, and reports whether it does.
func (d *Destination) hold(now time.Time, o *Outcome) bool {
	if o.RetryAfter <= 0 || d.policy.MaxHold == 0 || !sink.Holds(o.Class, o.Code) {
		return false
	}
	until := now.Add(min(o.RetryAfter, d.policy.MaxHold))
	if !d.held.After(now) {
		d.ramp.base = max(1, d.meter.perSecond(now))
		d.metrics.holds.Inc()
		d.log.Warn("destination asks to be left alone: nothing is attempted for a while", "code", o.Code, "until", until)
	}
	d.held = later(d.held, until)
	d.block(now, until)
	return true
}
