package lane

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// Whoever looks at the context of an attempt sees what one of the standard library would show, whether anybody has looked before
// or not.
func TestAttemptContextIsAContext(t *testing.T) {
	t.Parallel()
	type key struct{}
	errClaim := errors.New("the claim was given up")
	later := func(d time.Duration) { time.Sleep(d); synctest.Wait() }
	steps := map[string]func(end context.CancelCauseFunc, cancel func()){
		"nothing":                      func(context.CancelCauseFunc, func()) {},
		"a moment":                     func(context.CancelCauseFunc, func()) { later(time.Second - 1) },
		"the deadline":                 func(context.CancelCauseFunc, func()) { later(time.Second) },
		"the claim":                    func(end context.CancelCauseFunc, _ func()) { end(errClaim) },
		"the end":                      func(_ context.CancelCauseFunc, cancel func()) { cancel() },
		"the end, then the deadline":   func(_ context.CancelCauseFunc, cancel func()) { cancel(); later(time.Minute) },
		"the end, then the claim":      func(end context.CancelCauseFunc, cancel func()) { cancel(); end(errClaim) },
		"the claim, then the end":      func(end context.CancelCauseFunc, cancel func()) { end(errClaim); cancel() },
		"the deadline, then the end":   func(_ context.CancelCauseFunc, cancel func()) { later(time.Second); cancel() },
		"the claim, then the deadline": func(end context.CancelCauseFunc, _ func()) { end(errClaim); later(time.Minute) },
	}
	for name, step := range steps {
		for _, waits := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					claim, end := context.WithCancelCause(context.WithValue(t.Context(), key{}, "of the claim"))
					defer end(nil)
					want, cancel := context.WithTimeoutCause(claim, time.Second, errTimeout)
					got := newAttemptContext(claim, time.Now().Add(time.Second))
					var child, wantChild context.Context = got, want
					if waits {
						var stop context.CancelFunc
						child, stop = context.WithCancel(got)
						defer stop()
						wantChild, stop = context.WithCancel(want)
						defer stop()
					}
					step(end, func() { cancel(); got.end() })
					synctest.Wait()
					if name == "the deadline, then the end" && !waits {
						return // by the time that somebody looks, both have come
					}
					same(t, "error", fmt.Sprint(got.Err()), fmt.Sprint(want.Err()))
					same(t, "the error of its child", fmt.Sprint(child.Err()), fmt.Sprint(wantChild.Err()))
					same(t, "ended by the deadline", got.timedOut(), errors.Is(context.Cause(want), errTimeout))
					same(t, "waiting ends", closed(got.Done()), closed(want.Done()))
					same(t, "the child ends", closed(child.Done()), closed(wantChild.Done()))
					same(t, "error once somebody waits", fmt.Sprint(got.Err()), fmt.Sprint(want.Err()))
					if waits {
						same(t, "cause", fmt.Sprint(context.Cause(got)), fmt.Sprint(context.Cause(want)))
						same(t, "cause of the child", fmt.Sprint(context.Cause(child)), fmt.Sprint(context.Cause(wantChild)))
					}
					at, _ := got.Deadline()
					wantAt, _ := want.Deadline()
					same(t, "deadline", at, wantAt)
					same(t, "value", got.Value(key{}), any("of the claim"))
					cancel()
					got.end()
				})
			})
		}
	}
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
