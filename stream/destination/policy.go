package destination

import (
	"errors"
	"fmt"
	"time"
)

// Policy says how a destination is treated. The zero value bounds nothing.
type Policy struct {
	// Concurrency caps attempts under way in this process; 0: no cap.
	Concurrency int
	Rate        Rate
	Breaker     Breaker
	// MaxHold is the longest that an answer's Retry-After holds the destination; 0: it holds only the action that got it.
	MaxHold time.Duration
	// Recovery is how long it takes until all of Concurrency, and the pace of before, are used again after the breaker was
	// open, a hold or a pause; 0: at once.
	Recovery time.Duration
	Pause    AutoPause
	// Endpoint says that the destination is one place, which answers that it is gone pause: see [sink.Endpoint].
	Endpoint bool
	// Agent is who is behind it: a pause of the agent is one of the destination, too.
	Agent string
}

// Rate is a token bucket; the zero value is none.
type Rate struct {
	Limit   int           // tokens per Per
	Per     time.Duration // above zero
	Burst   int           // tokens at most
	OnLimit OnLimit
}

// OnLimit is what becomes of an action that finds no token.
type OnLimit string

const (
	Queue OnLimit = "queue" // it waits
	Drop  OnLimit = "drop"  // it is dead at once
	Error OnLimit = "error" // its attempt fails
)

// Breaker says when a destination is slowed down or left alone because attempts fail; the zero value never does.
type Breaker struct {
	Failures int           // so many of the last attempts must have failed before anything follows, at most [MostFailures]; 0: nothing ever does
	Window   time.Duration // how long an attempt counts as one of the last
	// Wait is for how long it opens at first; doubled each time that all probes after it fail, up to MaxWait.
	Wait, MaxWait time.Duration
	// Floor is how many attempts a second may begin all the same; 0: none.
	Floor int
}

// MostFailures is the most that Breaker.Failures may be.
const MostFailures = windowSize

// AutoPause says when the destination is paused by itself; a zero field never does.
type AutoPause struct {
	Failures int           // this many in a row
	After    time.Duration // nothing but failures for this long
}

func (p Policy) validate() error {
	if p.Concurrency < 0 || p.MaxHold < 0 || p.Recovery < 0 || p.Pause.Failures < 0 || p.Pause.After < 0 || p.Breaker.Failures < 0 || p.Breaker.Floor < 0 {
		return errors.New("a limit is negative")
	}
	if r := p.Rate; r != (Rate{}) && (r.Limit <= 0 || r.Per <= 0 || r.Burst <= 0 || r.OnLimit != Queue && r.OnLimit != Drop && r.OnLimit != Error) {
		return errors.New("rate needs limit, per and burst above zero and one of queue, drop and error")
	}
	if p.Breaker.Failures > MostFailures {
		return fmt.Errorf("breaker waits for %d failures: only the last %d attempts count", p.Breaker.Failures, MostFailures)
	}
	if b := p.Breaker; b.Failures > 0 && (b.Window <= 0 || b.Wait <= 0 || b.MaxWait < b.Wait) {
		return errors.New("breaker needs a window and a wait above zero, and a wait that is not above the longest")
	}
	return nil
}
