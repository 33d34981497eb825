package lane

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/sink"
)

// enricher completes events as do says.
type enricher struct {
	do func(ctx context.Context, e *schemas.Event) (*schemas.Event, sink.Outcome, error)
}

func (x *enricher) Enrich(ctx context.Context, e *schemas.Event) (*schemas.Event, sink.Outcome, error) {
	return x.do(ctx, e)
}

// full is e with another body.
func full(e *schemas.Event, body string) *schemas.Event {
	c := *e
	c.Data = []byte(body)
	return &c
}

// enriching runs f on lanes whose enricher is x.
func enriching(t *testing.T, x *enricher, f func(t *testing.T, r *rig)) {
	t.Helper()
	in(t, func(c *Config) {
		c.Enrich = x
		d := c.Destinations[destName]
		d.Retry = sink.RetryPolicy{Attempts: 3, Within: time.Hour, Min: time.Second, Max: time.Minute}
		c.Destinations[destName] = d
	}, f)
}

func fails(class sink.Class, out sink.Outcome) func(context.Context, *schemas.Event) (*schemas.Event, sink.Outcome, error) {
	return func(context.Context, *schemas.Event) (*schemas.Event, sink.Outcome, error) {
		return nil, out, &sink.AttemptError{Class: class, Err: errors.New("the document cannot be had")}
	}
}

// The sink sees the fetched body under the event's own identity; what the ledger copies is the event as it came.
func TestSinkSeesTheEnrichedBody(t *testing.T) {
	x := &enricher{do: func(_ context.Context, e *schemas.Event) (*schemas.Event, sink.Outcome, error) {
		if e.Entity == "plain" {
			return e, sink.Outcome{}, nil
		}
		return full(e, `{"whole":true}`), sink.Outcome{}, nil
	}}
	enriching(t, x, func(t *testing.T, r *rig) {
		r.sink.do = failWith(sink.ClassRejected)
		r.add("thin", "plain")
		synctest.Wait()
		bodies := map[string]string{}
		for _, a := range r.sink.calls {
			bodies[a.Event.ID] = string(a.Event.Data)
		}
		same(t, "bodies", bodies, map[string]string{"thin#1": `{"whole":true}`, "plain#2": `{"n":1}`})
		kept, err := jsonCodec.Unpack(r.mem.action(r.claim, 1).Packed)
		if err != nil || string(kept.Data) != `{"n":1}` {
			t.Errorf("the ledger's copy is %s, %v; want the event as it came", kept.Data, err)
		}
	})
}

// A fetch that failed is a failed attempt, with the class, the code and the wait of the table, and the sink is not called.
func TestFailedFetchIsAFailedAttempt(t *testing.T) {
	for _, test := range []struct {
		name   string
		kind   sink.Idempotency
		class  sink.Class
		out    sink.Outcome
		status ledger.Status
		least  time.Duration // until the next attempt
	}{
		{"server error", sink.Idempotent, sink.ClassBusy, sink.Outcome{Code: 500}, ledger.Failed, 0},
		{"throttled", sink.Idempotent, sink.ClassThrottled, sink.Outcome{Code: 429, RetryAfter: 20 * time.Second}, ledger.Failed, 20 * time.Second},
		{"gone", sink.Idempotent, sink.ClassRejected, sink.Outcome{Code: 410}, ledger.Dead, 0},
		{"denied", sink.Idempotent, sink.ClassDenied, sink.Outcome{Code: 403}, ledger.Dead, 0},
		{"the sink is unsafe and was not called", sink.Unsafe, sink.ClassTimeout, sink.Outcome{}, ledger.Failed, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			enriching(t, &enricher{do: fails(test.class, test.out)}, func(t *testing.T, r *rig) {
				r.sink.kind = test.kind
				r.add("a", "b")
				synctest.Wait()
				same(t, "calls of the sink", len(r.sink.ids()), 0)
				results := r.mem.resultsOf(1)
				if len(results) == 0 {
					t.Fatal("nothing was recorded")
				}
				res := results[0]
				same(t, "status", res.Status, test.status)
				same(t, "class", res.Class, string(test.class))
				same(t, "code", res.Code, test.out.Code)
				same(t, "attempt", res.Attempt, 1)
				if res.NextIn < test.least {
					t.Errorf("next attempt in %s, want at least %s", res.NextIn, test.least)
				}
				if res.Packed == nil {
					t.Error("what waits or is dead has no payload copy")
				}
				if test.status == ledger.Failed {
					time.Sleep(time.Hour)
					synctest.Wait()
					last := r.mem.resultsOf(1)
					same(t, "attempts in all", len(last), 3)
					same(t, "after the last", last[2].Status, ledger.Dead)
				}
			})
		})
	}
}

func TestFetchThatWorksAtLastRunsTheAction(t *testing.T) {
	n := 0
	x := &enricher{}
	x.do = func(ctx context.Context, e *schemas.Event) (*schemas.Event, sink.Outcome, error) {
		if n++; n < 3 {
			return fails(sink.ClassNetwork, sink.Outcome{})(ctx, e)
		}
		return full(e, "whole"), sink.Outcome{}, nil
	}
	enriching(t, x, func(t *testing.T, r *rig) {
		r.add("a")
		time.Sleep(time.Hour)
		synctest.Wait()
		same(t, "calls", r.sink.ids(), []string{"a#1"})
		same(t, "attempt", r.sink.calls[0].Attempt, 3)
		same(t, "status", r.mem.status(r.claim, 1), ledger.Done)
	})
}

// A limit of our own is no failure of anybody: the head waits and keeps its attempts.
func TestNotYetUsesUpNoAttempt(t *testing.T) {
	began := time.Time{}
	x := &enricher{do: func(_ context.Context, e *schemas.Event) (*schemas.Event, sink.Outcome, error) {
		if began.IsZero() {
			began = time.Now()
		}
		if wait := 10*time.Minute - time.Since(began); wait > 0 {
			return nil, sink.Outcome{}, &sink.NotYet{Wait: min(wait, time.Minute)}
		}
		return full(e, "whole"), sink.Outcome{}, nil
	}}
	enriching(t, x, func(t *testing.T, r *rig) {
		r.add("a")
		time.Sleep(9 * time.Minute)
		synctest.Wait()
		same(t, "results while it waits", len(r.mem.resultsOf(1)), 0)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		same(t, "attempt", r.sink.calls[0].Attempt, 1)
		same(t, "status", r.mem.status(r.claim, 1), ledger.Done)
	})
}

func TestPanicOfTheEnricherIsAFailedAttempt(t *testing.T) {
	x := &enricher{do: func(context.Context, *schemas.Event) (*schemas.Event, sink.Outcome, error) { panic("slip") }}
	enriching(t, x, func(t *testing.T, r *rig) {
		r.add("a")
		synctest.Wait()
		same(t, "class", r.mem.resultsOf(1)[0].Class, string(sink.ClassBug))
		same(t, "status", r.mem.status(r.claim, 1), ledger.Failed)
	})
}

// While a process must not act it does not, however far it got with the body.
func TestAliveIsAskedAfterTheFetch(t *testing.T) {
	alive, fetched := true, 0
	x := &enricher{do: func(_ context.Context, e *schemas.Event) (*schemas.Event, sink.Outcome, error) {
		fetched++
		alive = fetched > 1
		return full(e, "whole"), sink.Outcome{}, nil
	}}
	in(t, func(c *Config) { c.Enrich, c.Alive = x, func() bool { return alive } }, func(t *testing.T, r *rig) {
		r.add("a")
		synctest.Wait()
		same(t, "calls while not alive", len(r.sink.ids()), 0)
		time.Sleep(time.Minute)
		synctest.Wait()
		same(t, "calls", r.sink.ids(), []string{"a#1"})
	})
}

// What an attempt holds beside its payload counts against the cap, and is given back.
func TestEnrichedBytesAreCounted(t *testing.T) {
	x := &enricher{do: func(_ context.Context, e *schemas.Event) (*schemas.Event, sink.Outcome, error) {
		return full(e, string(make([]byte, 1<<20))), sink.Outcome{}, nil
	}}
	enriching(t, x, func(t *testing.T, r *rig) {
		held := func() int64 {
			r.s.mu.Lock()
			defer r.s.mu.Unlock()
			return r.s.q.budget.bytes()
		}
		answer := make(chan struct{})
		r.sink.do = func(context.Context, sink.Action) (sink.Outcome, error) {
			<-answer
			return sink.Outcome{Code: 200}, nil
		}
		r.add("a", "b")
		synctest.Wait()
		if got := held(); got < 2<<20 {
			t.Errorf("%d bytes are counted while two bodies of 1 MiB are in flight", got)
		}
		close(answer)
		synctest.Wait()
		same(t, "bytes held at the end", held(), int64(0))
	})
}

// A lost fence in the middle of a fetch ends it, and nothing is called or written.
func TestDropEndsTheFetch(t *testing.T) {
	x := &enricher{do: func(ctx context.Context, _ *schemas.Event) (*schemas.Event, sink.Outcome, error) {
		<-ctx.Done()
		return nil, sink.Outcome{}, &sink.AttemptError{Class: sink.ClassNetwork, Err: context.Cause(ctx)}
	}}
	enriching(t, x, func(t *testing.T, r *rig) {
		r.add("a")
		synctest.Wait()
		r.Drop(r.claim)
		synctest.Wait()
		same(t, "results", len(r.mem.resultsOf(1)), 0)
		same(t, "calls", len(r.sink.ids()), 0)
	})
}

// TestAlertSaysWhoseFault: of a body that could not be fetched the source's keys are to be mended, and the destination's of a call that it refused.
func TestAlertSaysWhoseFault(t *testing.T) {
	var out safeBuffer
	x := &enricher{do: fails(sink.ClassDenied, sink.Outcome{Code: 401})}
	in(t, func(c *Config) {
		c.Enrich, c.Logger = x, slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{Level: slog.LevelError}))
	}, func(t *testing.T, r *rig) {
		r.add("a")
		synctest.Wait()
		x.do = func(_ context.Context, e *schemas.Event) (*schemas.Event, sink.Outcome, error) {
			return full(e, "whole"), sink.Outcome{}, nil
		}
		r.sink.do = failWith(sink.ClassDenied)
		r.add("b")
		synctest.Wait()
		var said []any
		for _, line := range out.lines(t) {
			said = append(said, line["msg"])
		}
		same(t, "alerts", said, []any{"action is dead; mend thin of the source (url, headers, allow_networks), then replay", "action is dead; " + sink.ClassDenied.Mend()})
	})
}

// Close waits for a fetch in flight, and nothing is called after it: the next owner finds the action as it was.
func TestCloseStartsNoAttemptAfterTheFetch(t *testing.T) {
	x := &enricher{do: func(_ context.Context, e *schemas.Event) (*schemas.Event, sink.Outcome, error) {
		time.Sleep(3 * time.Second)
		return full(e, "whole"), sink.Outcome{}, nil
	}}
	enriching(t, x, func(t *testing.T, r *rig) {
		r.add("a")
		synctest.Wait()
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := r.Close(ctx, r.claim); err != nil {
			t.Fatal(err)
		}
		same(t, "waited", time.Since(began), 3*time.Second)
		same(t, "calls", len(r.sink.ids()), 0)
		same(t, "results", len(r.mem.resultsOf(1)), 0)
		same(t, "status", r.mem.status(r.claim, 1), ledger.Pending)
	})
}
