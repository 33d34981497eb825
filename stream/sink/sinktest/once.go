package sinktest

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/forebay-io/forebay/stream/sink"
)

// Fake is a fake of an API that keeps what was done to it.
type Fake interface {
	http.Handler
	// Done is how often it has done what the action wants.
	Done() int
}

// Effect makes a sink and the fake that it acts on, for [Once].
type Effect struct {
	Fake func() Fake
	// Make points a sink at the fake. An attempt that hangs ends soon, whatever the sink's own timeout is.
	Make func(t testing.TB, url string) sink.Sink
	// Calls is how many calls the longest attempt makes when none is broken: 2, say, where a repeated attempt looks first.
	// Each of them is broken in turn. An attempt that makes more fails the test: what they are would not be broken.
	Calls int
	// Late is a fake whose lists lack for [Lateness] what was made, of a sink that looks before a retry. It also acts after calls that
	// were cut off, and attempts wait [Settle] after one that may have acted, as lanes do. nil: the sink does not look.
	Late func() Fake
	// Action is what is attempted; nil: Action(1).
	Action func() sink.Action

	settle time.Duration
}

// once is one action on its way through a broken API.
type once struct {
	faults *Faults
	fake   Fake
	sink   sink.Sink
	calls  int // of an attempt, at most
	settle time.Duration
}

var errUnknown = errors.New("the outcome is unknown and left to an operator")

// Once attempts an action as lanes do, again as long as the sink's errors say so, while its calls fail in every way that
// [Fault] knows, one by one, and in each pair of what they may leave behind, and while the process is killed before the outcome is recorded. It wants the
// effect exactly once; of unsafe sinks at most once, and exactly once where they say that it is done. Where a call is
// refused for good it wants it at most once, whatever was lost before, and exactly once when an operator runs the action again.
func Once(t *testing.T, e Effect) {
	pairs := []Fault{BeforeActing, AfterActing, WhileAnswering, Refused(429), Refused(503), ActedThen(502)}
	all := append(pairs[:len(pairs):len(pairs)], Refused(408), Refused(500)) // which are as 503
	if e.Action == nil {
		e.Action = func() sink.Action { return Action(1) }
	}
	if e.Late != nil {
		e.late(t, append(all, ActingLate))
	}
	for i := range all {
		for at := range e.Calls {
			script := append(make([]*Fault, at), &all[i])
			t.Run(all[i].Name, func(t *testing.T) { e.retried(t, script) })
			t.Run(all[i].Name+", killed", func(t *testing.T) { e.killed(t, script) })
		}
	}
	for i := range pairs {
		for j := range pairs {
			for at := range e.Calls {
				for more := range e.Calls + 1 {
					script := slices.Concat(make([]*Fault, at), []*Fault{&pairs[i]}, make([]*Fault, more), []*Fault{&pairs[j]})
					t.Run(pairs[i].Name+", "+pairs[j].Name, func(t *testing.T) { e.retried(t, script) })
				}
			}
		}
	}
	t.Run("killed after all went well", func(t *testing.T) { e.killed(t, nil) })
	for at := range e.Calls {
		hang := append(make([]*Fault, at), &Hanging)
		t.Run(Hanging.Name, func(t *testing.T) { e.retried(t, hang) })
		t.Run(Hanging.Name+", killed", func(t *testing.T) { e.killed(t, hang) })
	}
	lost := []Fault{BeforeActing, AfterActing, WhileAnswering, ActedThen(502)}
	for _, dead := range []Fault{Refused(401), Refused(404), Refused(422)} {
		for at := range e.Calls {
			t.Run(dead.Name, func(t *testing.T) { e.refused(t, append(make([]*Fault, at), &dead)) })
			for i := range lost {
				for more := range e.Calls + 1 {
					script := slices.Concat(make([]*Fault, at), []*Fault{&lost[i]}, make([]*Fault, more), []*Fault{&dead})
					t.Run(lost[i].Name+", "+dead.Name, func(t *testing.T) { e.refused(t, script) })
				}
			}
		}
	}
}

// late breaks single calls of a destination that shows late what was done, and does late what it was asked to.
func (e Effect) late(t *testing.T, all []Fault) {
	e.Fake, e.settle = e.Late, Settle
	for i := range all {
		for at := range e.Calls {
			script := append(make([]*Fault, at), &all[i])
			t.Run("late, "+all[i].Name, func(t *testing.T) { e.retried(t, script) })
			t.Run("late, "+all[i].Name+", killed", func(t *testing.T) { e.killed(t, script) })
			then := slices.Concat(script, []*Fault{&all[i]}) // once more, in the look or behind it
			t.Run("late, "+all[i].Name+", twice", func(t *testing.T) { e.retried(t, then) })
		}
	}
	t.Run("late, killed after all went well", func(t *testing.T) { e.killed(t, nil) })
}

// set makes a sink whose destination has the faults of a script.
func (e Effect) set(t *testing.T, script []*Fault) *once {
	o := &once{fake: e.Fake(), calls: e.Calls, settle: e.settle}
	o.faults = &Faults{Fake: o.fake}
	o.faults.Break(script...)
	server := httptest.NewUnstartedServer(o.faults)
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	server.Start()
	o.sink = e.Make(t, server.URL)
	t.Cleanup(func() {
		_ = o.sink.Close(context.Background())
		server.CloseClientConnections()
		server.Close()
	})
	return o
}

// retried attempts until the lane would not any more.
func (e Effect) retried(t *testing.T, script []*Fault) {
	t.Parallel()
	o := e.set(t, script)
	a := e.Action()
	o.judge(t, o.attempts(t, &a))
}

// refused attempts until the action is dead, or done; then what was wrong is mended, and an operator runs it again.
func (e Effect) refused(t *testing.T, script []*Fault) {
	t.Parallel()
	o := e.set(t, script)
	a := e.Action()
	err := o.attempts(t, &a)
	if n := o.fake.Done(); n > 1 || err == nil && n != 1 {
		t.Errorf("done %d times after %d calls: %v", n, o.faults.Calls(), err)
	}
	if err == nil || errors.Is(err, errUnknown) || o.sink.Idempotency() == sink.Unsafe && o.fake.Done() > 0 {
		return // an operator sees that it is done
	}
	o.faults.Break()
	o.settles(t)
	a.Attempt++
	o.judge(t, o.attempts(t, &a))
}

// killed forgets the first attempt, as a process does that ends before it is recorded; a sink that is unsafe is not
// called again.
func (e Effect) killed(t *testing.T, script []*Fault) {
	t.Parallel()
	o := e.set(t, script)
	a := e.Action()
	_, _ = o.do(t, a)
	if o.sink.Idempotency() == sink.Unsafe {
		o.judge(t, errUnknown)
		return
	}
	o.settles(t)
	a.Doubt = true
	o.judge(t, o.attempts(t, &a))
}

func (o *once) do(t *testing.T, a sink.Action) (sink.Outcome, error) {
	t.Helper()
	limit := patience
	if o.faults.hangs() {
		limit = 200 * time.Millisecond
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	calls, broken := o.faults.count()
	out, err := o.sink.Do(ctx, a)
	after, more := o.faults.count()
	if n := after - calls; n > o.calls && more == broken {
		t.Errorf("an attempt of which no call was broken made %d calls, and Effect.Calls is %d: the last ones are broken in no test", n, o.calls)
	}
	return out, err
}

// attempts runs an action until it is done, dead or left to an operator; a is then as it was at the last attempt.
func (o *once) attempts(t *testing.T, a *sink.Action) error {
	first := time.Now()
	for {
		_, err := o.do(t, *a)
		if a.FirstAt.IsZero() {
			a.FirstAt = first
		}
		switch class := sink.ClassOf(err); {
		case class == sink.ClassOK:
			return nil
		case !class.Retried(), a.Attempt > 5:
			return err
		case o.sink.Idempotency() == sink.Unsafe && !sink.Untouched(err):
			return errUnknown
		}
		if !sink.Untouched(err) {
			o.settles(t)
		}
		a.Attempt++
	}
}

// settles waits as lanes do after an attempt that may have acted. What is done late is done by then, on a machine that is busy, too.
func (o *once) settles(t *testing.T) {
	if o.settle == 0 {
		return
	}
	o.faults.Wait()
	select {
	case <-time.After(o.settle):
	case <-t.Context().Done():
	}
}

// judge fails the test if the effect was not there once, or, after an unknown outcome, more than once.
func (o *once) judge(t *testing.T, err error) {
	t.Helper()
	o.faults.Wait()
	n := o.fake.Done()
	switch {
	case errors.Is(err, errUnknown) && n > 1, !errors.Is(err, errUnknown) && n != 1:
		t.Errorf("done %d times after %d calls: %v", n, o.faults.Calls(), err)
	case err != nil && !errors.Is(err, errUnknown):
		t.Errorf("given up: %v", err)
	}
}
