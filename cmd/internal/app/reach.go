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
	ask   func(ctx context.Context) error
	turn  chan struct{} // full while it is asked; never closed
	until time.Time     // the answer is good for so long
	err   error
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
		tctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reachTry)
		r.err = r.ask(tctx)
		cancel()
		if errors.Is(r.err, context.DeadlineExceeded) {
			r.err = schemas.Errorf(schemas.Unavailable, "check topics", "the brokers do not answer within %s", reachTry)
		}
		if schemas.KindOf(r.err) != schemas.Unavailable {
			break
		}
	}
	r.until = time.Now().Add(reachKept)
	return r.err
}
