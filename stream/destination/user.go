package destination

import (
	"net/http"
	"time"

	"github.com/forebay-io/forebay/stream/sink"
)

// User is one subscription's way to a destination.
type User struct {
	d    *Destination
	team *team
	call func()

	waiting bool   // in d.turns
	turn    bool   // an attempt is charged that Take has not yet given out
	permit  Permit // of that attempt
	left    bool
}

// Answer is the result of Take.
type Answer int

const (
	Wait    Answer = iota // later: call says when to ask again
	Go                    // now; End ends it, or GiveBack if it is not made
	NoToken               // there is no token: the action is not attempted but dropped, or fails; nothing is charged for it
)

// Join makes a user. call is called, with the destination locked and by any goroutine, when Take has something to give
// to a user that waits: it must neither wait nor call the destination.
func (d *Destination) Join(teamName string, call func()) *User {
	d.mu.Lock()
	defer d.mu.Unlock()
	tm := d.teams[teamName]
	if tm == nil {
		tm = &team{name: teamName}
		d.teams[teamName] = tm
	}
	return &User{d: d, team: tm, call: call}
}

// Take asks for an attempt. After Wait the user is called once its turn has come: it then has to take its turn, or
// Pass it on. The attempt is ended, or given back, with the permit.
func (u *User) Take() (Answer, Permit) {
	d, now := u.d, time.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	permit := u.permit
	switch {
	case u.turn:
		u.turn = false
		if !d.allows(now, permit) { // since it was given
			d.undoBegin(permit)
			d.turns.add(u)
			d.serve()
			return Wait, 0
		}
	case u.left:
		return Wait, 0
	case !d.turns.empty():
		d.turns.add(u)
		return Wait, 0
	default:
		ok, next := d.mayBegin(now)
		if !ok {
			d.turns.add(u)
			d.setTimer(next)
			return Wait, 0
		}
		permit = d.begin(now)
	}
	if d.policy.Rate.strict() && d.unasked(now) {
		d.undoBegin(permit)
		d.turns.add(u)
		d.serve()
		return Wait, 0
	}
	if d.limited(now) {
		d.metrics.limited.Inc()
		d.undoBegin(permit)
		d.serve()
		return NoToken, 0
	}
	return Go, permit
}

// allows reports whether an attempt that has begun may still be made: the destination is neither paused nor on hold, and its breaker
// has not opened since.
func (d *Destination) allows(now time.Time, p Permit) bool {
	stopped, _ := d.stopped(now)
	return !stopped && !d.breaker.revoked(p)
}

// StillAllowed reports whether an attempt that Take let go may still be made: to be asked right before it. Where not, the
// destination has been paused or put on hold, or its breaker has opened, since then, and the attempt is given back.
func (u *User) StillAllowed(p Permit) bool {
	u.d.mu.Lock()
	defer u.d.mu.Unlock()
	if u.d.paused == nil && u.d.onHoldUntil.IsZero() {
		return !u.d.breaker.revoked(p) // asked before every attempt: spare it the clock
	}
	return u.d.allows(time.Now(), p)
}

// IsAway reports whether a failure of this class, with this HTTP status or 0, says nothing about its action: the breaker is open or
// half-open, and the attempt has found the destination as those before it did. A 500 may be due to the event, whatever else fails.
func (u *User) IsAway(c sink.Class, code int) bool {
	if !Troubling(c) || code == http.StatusInternalServerError {
		return false
	}
	u.d.mu.Lock()
	defer u.d.mu.Unlock()
	return !u.d.breaker.openSince.IsZero()
}

// OnLimit returns what becomes of an action that Take says NoToken of.
func (u *User) OnLimit() OnLimit {
	u.d.mu.Lock()
	defer u.d.mu.Unlock()
	return u.d.policy.Rate.OnLimit
}

// HasTurn reports whether a turn waits for Take.
func (u *User) HasTurn() bool {
	u.d.mu.Lock()
	defer u.d.mu.Unlock()
	return u.turn
}

// Pass gives up the user's place in the queue, and its turn if it has one.
func (u *User) Pass() {
	d := u.d
	d.mu.Lock()
	defer d.mu.Unlock()
	u.pass()
	d.serve()
}

func (u *User) pass() {
	u.d.turns.remove(u)
	if u.turn {
		u.turn = false
		u.d.undoBegin(u.permit)
	}
}

// Leave is Pass for good: the user gets no more turns. Attempts under way are ended with End as usual.
func (u *User) Leave() {
	d := u.d
	d.mu.Lock()
	defer d.mu.Unlock()
	u.left = true
	u.pass()
	d.serve()
}

// Outcome is what a destination learns from an attempt.
type Outcome struct {
	Class      sink.Class
	Code       int           // HTTP status, or 0
	RetryAfter time.Duration // as the answer asked; 0 when it did not
	Error      string        // what went wrong; empty: nothing
	Entity     string        // source and entity of its event; empty: another one than any before
}

// End ends an attempt. o is nil if the attempt says nothing about the destination. End reports whether the user has a
// turn; then its call function is not called.
func (u *User) End(p Permit, o *Outcome) (turn bool) {
	d := u.d
	d.mu.Lock()
	defer d.mu.Unlock()
	d.running--
	if o != nil {
		d.learn(p, o)
	} else {
		d.breaker.saysNothing(p)
	}
	return u.serve()
}

// GiveBack returns a permit whose attempt was not made, and with it the slot and the token that Take took for it. As with End, turn says
// that it is the user's turn again; then its call function is not called.
func (u *User) GiveBack(p Permit) (turn bool) {
	d := u.d
	d.mu.Lock()
	defer d.mu.Unlock()
	d.undoBegin(p)
	if d.policy.Rate.strict() { // else undoBegin has returned it
		d.untake()
	}
	return u.serve()
}

// Spend takes a token for a call that an attempt makes beside its own, such as one that looks for what an earlier attempt did. It does not
// wait: whoever comes next does.
func (u *User) Spend() {
	d := u.d
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.policy.Rate.Limit == 0 {
		return
	}
	if d.shares() && len(d.leases.lots) == 0 {
		d.leases.owed++
	}
	d.take(time.Now())
}

// serve gives turns to those who wait. u learns of its turn from the result instead of its call function.
func (u *User) serve() (turn bool) {
	call := u.call
	u.call = func() {}
	u.d.serve()
	u.call = call
	return u.turn
}
