package destination

import (
	"log/slog"
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Breaking is a state of the breaker.
type Breaking string

const (
	Closed     Breaking = "closed"     // everything may begin
	Open       Breaking = "open"       // only the floor's attempts
	HalfOpen   Breaking = "half_open"  // a few attempts at once
	Recovering Breaking = "recovering" // a part of the destination's concurrency
)

const (
	// probes is how many attempts a half-open breaker lets begin at once. Each is the head of another entity's lane.
	probes = 5
	// spread is how many entities have to fail before anything follows (fewer where fewer failures are asked for). What fails for
	// one entity alone, however often, says nothing about the destination.
	spread = 3
)

// breaker decides how many attempts may be under way, by how the last ones ended. Its destination's mutex guards it.
//
//	of the last attempts            state        what may begin
//	half or more got through        closed       everything
//	fewer did                       recovering   twice that share of the concurrency
//	none did                        open         nothing, for Wait
//	                                half_open    probes attempts; if all of them fail, it is open again, for twice as long
//
// The last attempts are those of Window, at most windowSize, and failures since anything got through, however old. Nothing follows from
// fewer than Failures failures, or of fewer than spread entities. The first attempt that gets through at an open or half-open breaker begins a recovery: the concurrency then
// also grows with time, from one attempt to all of them within Recovery.
//
// In every state, Floor attempts a second may begin. That is what keeps an entity that fails from holding up others that would
// not. A half-open breaker's probes count as the floor's: a destination that is away gets no more than Floor a second.
type breaker struct {
	policy      Breaker
	recovery    time.Duration
	concurrency int // 0: no cap
	log         *slog.Logger
	transitions *prometheus.CounterVec

	state     Breaking
	last      window
	openSince time.Time     // since when it is open or half-open; zero: it is neither
	openings  int           // how often that began
	until     time.Time     // when an open one half-opens
	wait      time.Duration // for how long it opens next
	begun     int           // probes of the half-open one
	failed    int           // how many of them have failed
	floorAt   time.Time     // when the floor lets another attempt begin

	since  time.Time // when the recovery began
	base   float64   // attempts a second before the hold that it recovers from; 0: it may go at any pace
	bucket bucket    // of that pace
}

// Permit is what an attempt is begun with. It tells attempts that began before the breaker opened from those that probe it.
type Permit int

// mayBegin reports whether an attempt may begin beside those that are running. If not, next is when to ask again; it is zero
// where an attempt has to end first.
func (b *breaker) mayBegin(now time.Time, running int) (ok bool, next time.Time) {
	b.passTime(now)
	switch b.state {
	case Closed:
		return true, next
	case Open:
		next = b.until
	case HalfOpen:
		ok = b.begun < probes
	case Recovering:
		ok, next = b.recoveryAllows(now, running)
	}
	if ok || b.policy.Floor == 0 {
		return ok, next
	}
	if next.IsZero() || b.floorAt.Before(next) {
		next = b.floorAt
	}
	return !now.Before(b.floorAt), next
}

// passTime ends what time ends: an open breaker becomes half-open, and a recovery ends.
func (b *breaker) passTime(now time.Time) {
	switch {
	case b.state == Open && !now.Before(b.until):
		b.begun, b.failed = 0, 0
		b.become(HalfOpen)
	case b.recovered(now):
		b.close()
	}
}

// recovered reports whether a recovery is over: its time has passed, and half of the last attempts or more got through.
func (b *breaker) recovered(now time.Time) bool {
	return b.state == Recovering && b.progress(now) >= 1 && b.share(now) >= 1
}

func (b *breaker) close() {
	b.base, b.wait = 0, b.policy.Wait
	b.become(Closed)
}

// progress returns how much of the recovery's time has passed, in [0, 1].
func (b *breaker) progress(now time.Time) float64 {
	if b.recovery == 0 {
		return 1
	}
	return min(1, max(0, float64(now.Sub(b.since))/float64(b.recovery)))
}

// share returns which part of the concurrency the last attempts allow: twice the share of them that got through, at most 1.
func (b *breaker) share(now time.Time) float64 {
	b.last.forget(now, b.policy.Window)
	if !b.enough() {
		return 1
	}
	return min(1, 2*float64(b.last.good)/float64(b.last.n))
}

// enough reports whether so many attempts failed, of so many entities, that something follows.
func (b *breaker) enough() bool {
	least := b.policy.Failures
	return least > 0 && b.last.failed() >= least && b.last.failing(spread) >= min(spread, least)
}

// recoveryAllows is mayBegin while it recovers.
func (b *breaker) recoveryAllows(now time.Time, running int) (ok bool, next time.Time) {
	if b.concurrency > 0 {
		most := b.share(now) * float64(b.concurrency)
		if running >= max(1, int(math.Ceil(b.progress(now)*most))) {
			if float64(running) < most {
				// A nanosecond later than rounding allows: at the very moment there is no room yet.
				next = b.since.Add(time.Duration(math.Ceil(float64(running)/most*float64(b.recovery))) + 1)
			}
			return false, next
		}
	}
	if b.base == 0 || b.progress(now) >= 1 {
		return true, next
	}
	pace := b.base * (1 + b.progress(now)) / 2
	if b.bucket.refill(now, pace, 1); b.bucket.has() {
		return true, next
	}
	return false, sooner(b.bucket.next(pace), b.since.Add(b.recovery))
}

// begin charges an attempt that mayBegin allows.
func (b *breaker) begin(now time.Time) Permit {
	switch b.state {
	case HalfOpen: // what begins at once is the floor's for as many seconds
		b.begun++
		b.floorAt = later(b.floorAt, now)
	case Recovering:
		b.bucket.tokens--
		b.floorAt = now
	default:
		b.floorAt = now
	}
	b.floorAt = b.floorAt.Add(b.floorEvery())
	return Permit(b.openings)
}

func (b *breaker) floorEvery() time.Duration {
	return time.Second / time.Duration(max(1, b.policy.Floor))
}

// undoBegin takes back what begin charged: no attempt was made.
func (b *breaker) undoBegin(p Permit) {
	b.saysNothing(p)
	if b.state == Recovering {
		b.bucket.tokens++ // more than it holds is poured away
	}
}

// saysNothing ends an attempt from which nothing follows: another one may probe in its place.
func (b *breaker) saysNothing(p Permit) {
	if b.isProbe(p) {
		b.begun = max(0, b.begun-1)
	}
}

// isProbe reports whether an attempt began since the breaker opened, and it is still open or half-open.
func (b *breaker) isProbe(p Permit) bool { return !b.openSince.IsZero() && p == Permit(b.openings) }

// revoked reports whether the breaker has opened since an attempt was let begin.
func (b *breaker) revoked(p Permit) bool { return !b.openSince.IsZero() && p != Permit(b.openings) }

// gotThrough counts an attempt that proves that the destination works. Where the breaker is open or half-open, the caller begins a
// recovery first.
func (b *breaker) gotThrough(now time.Time) {
	if b.policy.Failures > 0 {
		b.last.add(ended{at: now, good: true}, b.policy.Window)
	}
}

// hasFailed counts an attempt that failed as those at a destination that is away do.
func (b *breaker) hasFailed(now time.Time, p Permit, entity string) {
	if b.policy.Failures == 0 {
		return
	}
	b.last.add(ended{at: now, entity: entity}, b.policy.Window)
	switch {
	case b.state == Open:
	case b.state == HalfOpen:
		if b.isProbe(p) {
			b.failed++
		}
		if b.failed >= probes {
			b.open(now)
		}
	case !b.enough():
	case b.last.good == 0:
		b.open(now)
	case b.state == Closed && b.share(now) < 1: // it slows down at once, and is closed again as soon as the share allows it
		b.since = now.Add(-b.recovery)
		b.become(Recovering)
	}
}

func (b *breaker) open(now time.Time) {
	if b.openSince.IsZero() {
		b.openSince = now
		b.openings++
		b.floorAt = now.Add(b.floorEvery())
	}
	b.until = now.Add(b.wait)
	b.wait = min(2*b.wait, b.policy.MaxWait)
	b.become(Open)
}

// recover begins a recovery: what was before counts no more.
func (b *breaker) recover(now time.Time) {
	b.last, b.openSince, b.since, b.bucket = window{}, time.Time{}, now, bucket{}
	if b.recovery == 0 {
		b.close()
		return
	}
	b.become(Recovering)
}

// become moves the breaker to another state, counts that and logs it.
func (b *breaker) become(s Breaking) {
	if b.state == s {
		return
	}
	b.state = s
	b.transitions.WithLabelValues(string(s)).Inc()
	switch s {
	case Open:
		b.log.Warn("destination's breaker opens: next to nothing is attempted for a while", "until", b.until, "floor_per_second", b.policy.Floor)
	case Closed:
		b.log.Info("destination's breaker is closed again")
	default:
		b.log.Info("destination's breaker changes", "breaker", s)
	}
}
