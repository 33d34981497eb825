package app

import (
	"context"
	"errors"
	"time"

	"github.com/forebay-io/forebay/schemas"
)

const (
	reachKept = 2 * time.Second // probes come from several sides; the brokers are asked once for all of them
	reachTry  = time.Second
)

// reach is whether the brokers can be reached, asked by who wants to know and kept for a moment. Safe for concurrent use:
// who comes while it is asked waits for that answer.
type reach struct {
	ask    func(ctx context.Context) error
	turn   chan struct{} // full while it is asked; never closed
	until  time.Time     // the answer is good for so long
	err    error
	answer chan error // capacity 1; nil: no question is out. Who has the turn guards it
}

func newReach(ask func(ctx context.Context) error) *reach {
	return &reach{ask: ask, turn: make(chan struct{}, 1)}
}

// check asks twice: of several brokers, one that is gone without a word costs the first try and no more. The answer is
// for everybody, so the asker's context does not end it.
func (r *reach) check(ctx context.Context) error {
	select {
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if time.Now().Before(r.until) {
		return r.err
	}
	for range 2 {
		if r.err = r.try(context.WithoutCancel(ctx)); errors.Is(r.err, context.DeadlineExceeded) {
			r.err = schemas.Errorf(schemas.Unavailable, "check topics", "the brokers do not answer within %s", reachTry)
		}
		if schemas.KindOf(r.err) != schemas.Unavailable {
			break
		}
	}
	r.until = time.Now().Add(reachKept)
	return r.err
}

// try waits a little longer than it lets a question take, and no more: a client that is connecting to a broker that hangs
// hears of no context. Such a question is left to come back, and none is asked beside it.
func (r *reach) try(ctx context.Context) error {
	if len(r.answer) > 0 { // it came back too late
		r.answer = nil
	}
	if r.answer == nil {
		answer := make(chan error, 1)
		r.answer = answer
		go func() {
			ctx, cancel := context.WithTimeout(ctx, reachTry)
			defer cancel()
			answer <- r.ask(ctx)
		}()
	}
	timer := time.NewTimer(reachTry + reachTry/10)
	defer timer.Stop()
	select {
	case err := <-r.answer:
		r.answer = nil
		return err
	case <-timer.C:
		return context.DeadlineExceeded
	}
}
