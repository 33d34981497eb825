package destination

import (
	"time"

	"github.com/forebay-io/forebay/stream/sink"
)

// State is what keeps a destination from its attempts, most important first.
type State string

const (
	StatePaused     State = "paused"
	StateOpen       State = "open"
	StateOnHold     State = "held"
	StateHalfOpen   State = "half_open"
	StateRecovering State = "recovering"
	StateRunning    State = "running"
)

// States returns all of them.
func States() []State {
	return []State{StatePaused, StateOpen, StateOnHold, StateHalfOpen, StateRecovering, StateRunning}
}

// Status is the state of a destination in this process.
type Status struct {
	State       State
	Breaker     Breaking
	Running     int       // attempts under way
	Failures    int       // in a row
	Failing     time.Time // since when nothing succeeded, in any process; zero: the last one did, or none was made
	OnHoldUntil time.Time // as an answer asked; zero: not on hold
	OpenUntil   time.Time // when an open breaker lets a few attempts begin at once; zero: not open
	Paused      *Pause    // nil: not paused; not to be changed
	Last        *Failure  // the newest attempt of this process that failed; nil: none has; not to be changed
	// Waiting is how many subscriptions have something to attempt and may not now.
	Waiting int
}

// Failure is an attempt that failed.
type Failure struct {
	At    time.Time
	Class sink.Class
	Code  int // HTTP status, or 0
	Error string
}

// Blocked reports whether the destination takes next to nothing from anybody for now: it is paused or on hold, its breaker is
// open or half-open, or it is out of tokens of which one takes longer than a second. One of which all slots are taken is not.
func (u *User) Blocked() bool {
	switch u.d.Status().State {
	case StatePaused, StateOpen, StateOnHold, StateHalfOpen:
		return true
	}
	return u.d.outOfTokens()
}

// outOfTokens reports whether there is no token and each takes longer than a second.
func (d *Destination) outOfTokens() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if r := d.policy.Rate; r.OnLimit != Queue || r.perSecond() >= 1 {
		return false
	}
	now := time.Now()
	d.pour(now)
	return !d.rate.has() || d.without(now)
}

// Status returns the destination's state now.
func (d *Destination) Status() Status {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	s := Status{Breaker: d.breaker.state, Running: d.running, Failures: d.failures, Failing: d.failing, Paused: d.paused, Last: d.last, Waiting: d.turns.waiting()}
	if d.onHoldUntil.After(now) {
		s.OnHoldUntil = d.onHoldUntil
	}
	switch {
	case s.Breaker == Open && d.breaker.until.After(now):
		s.OpenUntil = d.breaker.until
	case s.Breaker == Open:
		s.Breaker = HalfOpen // as it will be when an attempt is next asked for
	case d.breaker.recovered(now): // the time of its recovery is over: it will be closed then
		s.Breaker = Closed
	}
	s.State = s.state()
	return s
}

// state sums the status up: of several reasons to attempt nothing or less, the strongest.
func (s *Status) state() State {
	switch {
	case s.Paused != nil:
		return StatePaused
	case s.Breaker == Open:
		return StateOpen
	case !s.OnHoldUntil.IsZero():
		return StateOnHold
	case s.Breaker == HalfOpen:
		return StateHalfOpen
	case s.Breaker == Recovering:
		return StateRecovering
	}
	return StateRunning
}
