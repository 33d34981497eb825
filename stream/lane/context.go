package lane

import (
	"context"
	"errors"
	"sync"
	"time"
)

// attemptContext is the context of an attempt, or of the question whether there is to be one: context.WithDeadlineCause with errTimeout, made
// on first use. Made for every attempt, it took a fifth of the lanes' time for a sink that does not use it.
type attemptContext struct {
	context.Context           // of the claim
	deadline        time.Time // the claim has none

	mu     sync.Mutex
	made   context.Context // nil: not used yet
	cancel context.CancelFunc
	ended  bool // the attempt is over
}

func newAttemptContext(claim context.Context, deadline time.Time) *attemptContext {
	return &attemptContext{Context: claim, deadline: deadline}
}

// look returns the attempt's context, and makes it on the first call. After the attempt it returns a cancelled one.
func (a *attemptContext) look() context.Context {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.made != nil:
	case a.ended:
		a.made, a.cancel = context.WithCancel(a.Context)
		a.cancel()
	default:
		a.made, a.cancel = context.WithDeadlineCause(a.Context, a.deadline, errTimeout)
	}
	return a.made
}

// Deadline implements [context.Context].
func (a *attemptContext) Deadline() (time.Time, bool) { return a.deadline, true }

// Done implements [context.Context].
func (a *attemptContext) Done() <-chan struct{} { return a.look().Done() }

// Err implements [context.Context].
func (a *attemptContext) Err() error { return a.look().Err() }

// Value implements [context.Context].
func (a *attemptContext) Value(key any) any { return a.look().Value(key) }

// timedOut reports whether the context ended by its deadline, and not earlier with the claim.
func (a *attemptContext) timedOut() bool { return errors.Is(context.Cause(a.look()), errTimeout) }

// end cancels the context: nobody may act for the attempt any more.
func (a *attemptContext) end() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ended = true
	if a.cancel != nil {
		a.cancel()
	}
}
