package app

import (
	"context"
	"errors"
	"time"

	"github.com/forebay-io/forebay/schemas"
)

const (
	reachKept = 2 * time.Second // how long an answer is kept: probes come from several sides, and one question serves them all
	reachTry  = time.Second     // how long the brokers have to answer
)

// reachability checks whether the brokers can be reached, and keeps the answer for reachKept. Safe for concurrent use: calls that come
// while the brokers are being asked wait for that answer.
type reachability struct {
	ask  func(ctx context.Context) error
	turn chan struct{} // a mutex for the fields below that can be waited for with a context: full while it is held; never closed

	err    error // the last answer
	until  time.Time
	answer chan error // of the question that is under way; capacity 1; nil if none is
}

// newReach makes a reachability. ask asks the brokers.
func newReach(ask func(ctx context.Context) error) *reachability {
	return &reachability{ask: ask, turn: make(chan struct{}, 1)}
}

// check returns nil if the brokers can be reached. It asks them, unless the last answer is still good. It tries twice, since the first
// try may have asked a broker that has just gone. The caller's ctx ends only the wait for another caller's question: its own goes on,
// because others wait for the answer.
func (r *reachability) check(ctx context.Context) error {
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
		if r.err = r.askOnce(context.WithoutCancel(ctx)); errors.Is(r.err, context.DeadlineExceeded) {
			r.err = schemas.Errorf(schemas.Unavailable, "check topics", "the brokers do not answer within %s", reachTry)
		}
		if schemas.KindOf(r.err) != schemas.Unavailable {
			break
		}
	}
	r.until = time.Now().Add(reachKept)
	return r.err
}

// askOnce asks once, with a timeout. A client that is connecting to a broker that hangs does not heed its context: then it returns at the
// timeout, and the next call waits for the answer to the same question instead of asking another one.
func (r *reachability) askOnce(ctx context.Context) error {
	if len(r.answer) > 0 { // an earlier call's answer, which came too late to be true now
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
