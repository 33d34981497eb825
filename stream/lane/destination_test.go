package lane

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/destination"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/sink"
)

const otherName = "acme/other"

func newShared(t *testing.T, p destination.Policy) *destination.Destination {
	t.Helper()
	d, err := destination.New(destination.Config{Name: destName, Policy: p})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// sharing puts a shared destination under the rig's sink, and another one beside it that always works.
func sharing(d *destination.Destination, other *script) func(*Config) {
	return func(c *Config) {
		own := c.Destinations[destName]
		own.Shared = d
		c.Destinations[destName] = own
		c.Destinations[otherName] = DestinationConfig{Sink: other, Concurrency: 1}
	}
}

func toOther(a *ledger.Action) { a.Destination = otherName }

// answerWith is what a script gives.
func answerWith(out sink.Outcome, class sink.Class) func(context.Context, sink.Action) (sink.Outcome, error) {
	return func(context.Context, sink.Action) (sink.Outcome, error) {
		return out, &sink.AttemptError{Class: class, Err: errors.New("scripted")}
	}
}

// TestBlockedDestination: nothing is attempted at a destination that is paused, held, open or out of tokens, for as long
// as it is; that costs no attempt, and others go on. Then all of it runs, in order.
func TestBlockedDestination(t *testing.T) {
	for _, tt := range []struct {
		name    string
		policy  destination.Policy
		first   func(context.Context, sink.Action) (sink.Outcome, error) // what blocks it; nil: a pause
		ids     []string                                                 // the calls that are made before
		blocked time.Duration
	}{
		{"paused", destination.Policy{Concurrency: 4}, nil, nil, time.Hour},
		{"held", destination.Policy{Concurrency: 4, MaxHold: time.Hour},
			answerWith(sink.Outcome{Code: 503, RetryAfter: time.Hour}, sink.ClassBusy), []string{"first#1"}, time.Hour},
		{"open", destination.Policy{Concurrency: 4, Breaker: destination.Breaker{Failures: 1, Window: time.Minute, Wait: time.Hour, MaxWait: time.Hour}},
			answerWith(sink.Outcome{}, sink.ClassNetwork), []string{"first#1"}, time.Hour},
		{"out of tokens", destination.Policy{Concurrency: 4, Rate: destination.Rate{Limit: 1, Per: time.Hour, Burst: 1, OnLimit: destination.Queue}},
			answerWith(sink.Outcome{}, sink.ClassRejected), []string{"first#1"}, time.Hour},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, other := newShared(t, tt.policy), &script{}
				r := setup(t, sharing(d, other))
				defer r.stop()
				r.begin(t)
				resume := func() {}
				if tt.first == nil {
					resume = pause(t, d)
				}
				r.sink.do = func(ctx context.Context, a sink.Action) (sink.Outcome, error) {
					if a.Event.Entity == "first" {
						return tt.first(ctx, a)
					}
					return sink.Outcome{Code: 200}, nil
				}
				if tt.first != nil {
					r.add("first")
					synctest.Wait()
				}
				r.add("a", "a", "b")
				for range 100 {
					r.Add(r.claim, []Item{r.make("elsewhere", toOther)})
				}
				time.Sleep(tt.blocked - time.Minute)
				synctest.Wait()
				same(t, "calls as long as it is blocked", r.sink.ids(), tt.ids)
				same(t, "calls elsewhere", len(other.ids()), 100)
				r.s.mu.Lock()
				same(t, "workers that wait", r.s.q.dispatch.sleeping, r.cfg.MaxInFlight)
				r.s.mu.Unlock()
				resume()
				time.Sleep(4 * time.Hour)
				synctest.Wait()
				got := slices.DeleteFunc(r.sink.ids(), func(id string) bool { return strings.HasPrefix(id, "first") })
				slices.Sort(got)
				n := len(tt.ids)
				want := []string{fmt.Sprint("a#", n+1), fmt.Sprint("a#", n+2), fmt.Sprint("b#", n+3)}
				same(t, "calls in the end", got, want)
				for i := n + 1; i <= n+3; i++ {
					same(t, "attempts", r.mem.action(r.claim, int64(i)).Attempts, 1)
				}
			})
		})
	}
}

// pause pauses a destination, as an operator does.
func pause(t *testing.T, d *destination.Destination) (resume func()) {
	t.Helper()
	kept := &kept{states: map[string]ledger.DestinationState{destName: {
		Paused: &destination.Pause{At: time.Now(), By: "ann", Reason: "they move"}, PausedFrom: time.Now()}}}
	k := &destination.Keeper{Store: kept, Destinations: map[string]*destination.Destination{destName: d}, Logger: slog.New(slog.DiscardHandler)}
	if err := k.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	return func() {
		clear(kept.states)
		if err := k.Sync(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// TestPauseOvertakesTheAttempt: a head that had its slot when the destination was paused, and whose body is fetched, its
// payload read or its mark written meanwhile, is not attempted, costs no attempt, and runs once resumed.
func TestPauseOvertakesTheAttempt(t *testing.T) {
	for name, slow := range map[string]func(c *Config, r *rig, gate chan struct{}){
		"reading": func(_ *Config, r *rig, gate chan struct{}) {
			r.log.fail = func(ledger.Pointer) error { <-gate; return nil }
		},
		"fetching": func(c *Config, _ *rig, gate chan struct{}) {
			c.Enrich = &enricher{do: func(_ context.Context, e *schemas.Event) (*schemas.Event, sink.Outcome, error) {
				<-gate
				return e, sink.Outcome{}, nil
			}}
		},
		"marking": func(_ *Config, r *rig, gate chan struct{}) {
			r.sink.kind = sink.Unsafe
			r.mem.before = func(context.Context, []ledger.Result) error { <-gate; return nil }
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newShared(t, destination.Policy{Concurrency: 2, Rate: destination.Rate{Limit: 1, Per: 24 * time.Hour, Burst: 1, OnLimit: destination.Queue}})
				r, gate := &rig{mem: newMemory(), log: &eventLog{events: map[int64]*schemas.Event{}}, sink: &script{}, claim: claimOf(1)}, make(chan struct{})
				r.relaunch(t, func(c *Config) {
					sharing(d, &script{})(c)
					slow(c, r, gate)
				})
				defer r.stop()
				r.make("a", nil) // left to the ledger: its payload has to be read
				r.begin(t)
				synctest.Wait()
				same(t, "on its way", d.Status().Running, 1)
				resume := pause(t, d)
				close(gate)
				time.Sleep(time.Hour)
				synctest.Wait()
				same(t, "calls while it is paused", len(r.sink.ids()), 0)
				same(t, "slots while it is paused", d.Status().Running, 0)
				resume()
				time.Sleep(time.Minute)
				synctest.Wait()
				same(t, "calls once it is resumed", r.sink.ids(), []string{"a#1"})
				attempts := 1
				if name == "marking" { // a mark cannot be taken back
					attempts = 2
					res := r.mem.resultsOf(1)[1]
					same(t, "what takes its place", []any{res.Attempt, res.Status, res.Class, res.Marked}, []any{1, ledger.Failed, string(sink.ClassBusy), true})
				}
				same(t, "attempts", r.mem.action(r.claim, 1).Attempts, attempts)
				same(t, "status", r.mem.status(r.claim, 1), ledger.Done)
			})
		})
	}
}

// TestNoAttemptCostsNoToken: a head that is put off before its call, because nobody can say whether the process may act, finds
// the token again, where it would be dropped without one.
func TestNoAttemptCostsNoToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newShared(t, destination.Policy{Concurrency: 1, Rate: destination.Rate{Limit: 1, Per: time.Hour, Burst: 1, OnLimit: destination.Drop}})
		var alive atomic.Bool
		r := setup(t, func(c *Config) {
			sharing(d, &script{})(c)
			c.Alive = alive.Load
		})
		defer r.stop()
		r.begin(t)
		r.add("a")
		time.Sleep(10 * time.Second)
		alive.Store(true)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		same(t, "calls", r.sink.ids(), []string{"a#1"})
		same(t, "status", r.mem.status(r.claim, 1), ledger.Done)
	})
}

// TestWithinStandsStillWhilePaused: what was tried before a long pause has its retries after it, in the process that saw the
// pause, with the head in memory or not, and in the next one.
func TestWithinStandsStillWhilePaused(t *testing.T) {
	for _, restart := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			d := newShared(t, destination.Policy{Concurrency: 2})
			r := setup(t, sharing(d, &script{}))
			r.begin(t)
			r.sink.do = failWith(sink.ClassBusy)
			r.add("a")
			synctest.Wait()
			resume, from := pause(t, d), time.Now()
			time.Sleep(72 * time.Hour)
			same(t, "calls", len(r.sink.ids()), 1)
			if restart {
				r.stop()
				resume()
				d = newShared(t, destination.Policy{Concurrency: 2})
				k := &destination.Keeper{Destinations: map[string]*destination.Destination{destName: d}, Logger: slog.New(slog.DiscardHandler),
					Store: &kept{ended: map[string][]ledger.Span{destName: {{From: from, To: time.Now()}}}}}
				if err := k.LoadEndedPauses(t.Context()); err != nil {
					t.Fatal(err)
				}
				r.relaunch(t, sharing(d, &script{}))
				r.begin(t)
			} else {
				resume()
			}
			defer r.stop()
			synctest.Wait()
			same(t, "tried again", len(r.sink.ids()), 2)
			same(t, "status", r.mem.status(r.claim, 1), ledger.Failed)
			time.Sleep(24 * time.Hour)
			synctest.Wait()
			same(t, "all attempts", len(r.sink.ids()), 7)
		})
	}
}

// TestBoundOfAClassIsItsOwn: failures of other classes do not count against a name that does not resolve, and what fails in
// between begins its row again.
func TestBoundOfAClassIsItsOwn(t *testing.T) {
	in(t, func(c *Config) {
		d := c.Destinations[destName]
		d.Retry = sink.RetryPolicy{Attempts: 100, Max: time.Hour}
		c.Destinations[destName] = d
	}, func(t *testing.T, r *rig) {
		dns := sink.ClassDNS.Most()
		r.sink.do = func(ctx context.Context, a sink.Action) (sink.Outcome, error) {
			if a.Attempt <= 6 || a.Attempt == 6+dns {
				return failWith(sink.ClassBusy)(ctx, a)
			}
			return failWith(sink.ClassDNS)(ctx, a)
		}
		r.add("a")
		time.Sleep(23 * time.Hour)
		synctest.Wait()
		at := r.sink.times()
		same(t, "attempts", len(at), 6+2*dns)
		same(t, "status", r.mem.status(r.claim, 1), ledger.Dead)
		for i := 7; i < 6+dns; i++ {
			if apart := at[i].Sub(at[i-1]); apart < time.Minute {
				t.Errorf("%s between attempts %d and %d", apart, i, i+1)
			}
		}
	})
}

// TestWhatAlwaysFailsEnds: where nothing runs but events that the destination answers with 500, its breaker opens, and they are given up
// after their attempts all the same.
func TestWhatAlwaysFailsEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newShared(t, destination.Policy{Concurrency: 64, Recovery: 30 * time.Second,
			Breaker: destination.Breaker{Failures: 10, Window: 30 * time.Second, Wait: 5 * time.Second, MaxWait: 30 * time.Second, Floor: 1}})
		r := setup(t, func(c *Config) {
			sharing(d, &script{})(c)
			own := c.Destinations[destName]
			own.Retry = sink.RetryPolicy{Within: time.Hour}
			c.Destinations[destName] = own
		})
		defer r.stop()
		r.begin(t)
		r.sink.become(failWith(sink.ClassBusy))
		r.add("a", "b", "c", "d", "e")
		time.Sleep(3 * time.Hour)
		synctest.Wait()
		same(t, "dead", r.mem.count(r.claim, ledger.Dead), 5)
		same(t, "attempts of the first", r.mem.action(r.claim, 1).Attempts, 7)
	})
}

// TestOutageCostsNoAttempt: a destination is away for longer than within, in two processes of which the second begins in the
// middle, and for so long that each action is tried more often than its attempts: all of them run once it is back. What fails after
// that is given up after its attempts.
func TestOutageCostsNoAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		policy := destination.Policy{Concurrency: 64, Recovery: 30 * time.Second,
			Breaker: destination.Breaker{Failures: 10, Window: 30 * time.Second, Wait: 5 * time.Second, MaxWait: 30 * time.Second, Floor: 1}}
		store := &kept{states: map[string]ledger.DestinationState{}, ended: map[string][]ledger.Span{}}
		// process begins one, whose keeper runs until the end of the test.
		process := func(d *destination.Destination) func(*Config) {
			k := &destination.Keeper{Destinations: map[string]*destination.Destination{destName: d}, Logger: slog.New(slog.DiscardHandler), Store: store}
			if err := errors.Join(k.Sync(t.Context()), k.LoadEndedPauses(t.Context())); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			var running sync.WaitGroup
			running.Go(func() { k.Run(ctx) })
			t.Cleanup(func() { cancel(); running.Wait() })
			return func(c *Config) {
				sharing(d, &script{})(c)
				own := c.Destinations[destName]
				own.Retry = sink.RetryPolicy{Within: time.Hour}
				c.Destinations[destName] = own
			}
		}
		r := setup(t, process(newShared(t, policy)))
		r.begin(t)
		r.sink.become(answerWith(sink.Outcome{Code: 503}, sink.ClassBusy))
		for e := range 20 {
			r.add(fmt.Sprint("e", e))
		}
		time.Sleep(90 * time.Minute)
		r.stop()
		before := len(r.sink.ids())
		r.relaunch(t, process(newShared(t, policy)))
		r.begin(t)
		time.Sleep(time.Second)
		if n := len(r.sink.ids()) - before; n > 2 {
			t.Errorf("%d attempts in the first second of a process that can know better", n)
		}
		defer r.stop()
		time.Sleep(90 * time.Minute)
		tried := r.mem.action(r.claim, 1)
		if tried.Attempts <= 7 || tried.Attempts-tried.Spent >= 7 {
			t.Errorf("%d attempts, of which %d do not count", tried.Attempts, tried.Spent)
		}
		r.sink.become(nil)
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		same(t, "done", r.mem.count(r.claim, ledger.Done), 20)
		r.sink.become(func(ctx context.Context, a sink.Action) (sink.Outcome, error) {
			if a.Event.Entity == "fails" {
				return failWith(sink.ClassBusy)(ctx, a)
			}
			return sink.Outcome{Code: 200}, nil
		})
		r.add("fails")
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		same(t, "attempts of what fails alone", r.mem.action(r.claim, 21).Attempts, 7)
		same(t, "its status", r.mem.status(r.claim, 21), ledger.Dead)
	})
}

// TestRetryAfterHasOneCap: what asks for an hour is heeded for ten minutes, by the head as by the others, although its policy has
// shorter delays and less time; time of a hold does not count. What holds nobody else is heeded as long, in the head's own time.
func TestRetryAfterHasOneCap(t *testing.T) {
	for code, class := range map[int]sink.Class{429: sink.ClassThrottled, 500: sink.ClassBusy} {
		synctest.Test(t, func(t *testing.T) {
			d := newShared(t, destination.Policy{Concurrency: 1, MaxHold: 10 * time.Minute})
			r := setup(t, func(c *Config) {
				sharing(d, &script{})(c)
				own := c.Destinations[destName]
				own.Retry = sink.RetryPolicy{Within: 20 * time.Minute, Max: time.Minute}
				if code == 429 {
					own.Retry.Within = 5 * time.Minute
				}
				c.Destinations[destName] = own
			})
			defer r.stop()
			r.begin(t)
			r.sink.do = func(ctx context.Context, a sink.Action) (sink.Outcome, error) {
				if a.Event.Entity == "asks" && a.Attempt == 1 {
					return answerWith(sink.Outcome{Code: code, RetryAfter: time.Hour}, class)(ctx, a)
				}
				return sink.Outcome{Code: 200}, nil
			}
			began := time.Now()
			r.add("asks")
			synctest.Wait()
			r.add("other")
			time.Sleep(30 * time.Minute)
			synctest.Wait()
			same(t, "done", r.mem.count(r.claim, ledger.Done), 2)
			for i, at := range r.sink.times() {
				waited, want := at.Sub(began), time.Duration(0)
				if i > 0 && (code == 429 || r.sink.ids()[i] == "asks#1") {
					want = 10 * time.Minute
				}
				same(t, fmt.Sprintf("attempt %d, after %d", i, code), waited.Round(time.Second), want)
			}
		})
	}
}

// TestTryAgain: once the hold of its destination is ended, the head that was asked to wait longest goes on, too, and that of another destination does not.
func TestTryAgain(t *testing.T) {
	in(t, func(c *Config) {
		d := c.Destinations[destName]
		d.Retry = sink.RetryPolicy{Within: 30 * 24 * time.Hour, Max: 24 * time.Hour}
		c.Destinations[destName] = d
	}, func(t *testing.T, r *rig) {
		r.sink.become(func(context.Context, sink.Action) (sink.Outcome, error) {
			return sink.Outcome{Code: 429, RetryAfter: 24 * time.Hour}, &sink.AttemptError{Class: sink.ClassThrottled, Err: errors.New("busy")}
		})
		r.add("a")
		time.Sleep(time.Hour)
		r.sink.become(func(context.Context, sink.Action) (sink.Outcome, error) { return sink.Outcome{}, nil })
		r.TryAgain("other", destination.AgainAll)
		time.Sleep(time.Hour)
		same(t, "calls", len(r.sink.ids()), 1)
		r.TryAgain(destName, destination.AgainAll)
		time.Sleep(time.Second)
		same(t, "calls", len(r.sink.ids()), 2)
		same(t, "done", r.mem.count(r.claim, ledger.Done), 1)

		// What is under way when an operator says so is tried once more, too.
		r.sink.become(func(context.Context, sink.Action) (sink.Outcome, error) {
			time.Sleep(time.Second)
			return sink.Outcome{Code: 429, RetryAfter: 24 * time.Hour}, &sink.AttemptError{Class: sink.ClassThrottled, Err: errors.New("busy")}
		})
		r.add("b")
		time.Sleep(time.Second / 2)
		r.TryAgain(destName, destination.AgainAll)
		time.Sleep(time.Hour)
		same(t, "calls", len(r.sink.ids()), 4)
	})
}

// kept is a Store in memory for pauses and outages.
type kept struct {
	mu     sync.Mutex
	states map[string]ledger.DestinationState
	ended  map[string][]ledger.Span
}

func (k *kept) Destinations(context.Context) (map[string]ledger.DestinationState, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return maps.Clone(k.states), nil
}
func (k *kept) PauseDestination(context.Context, string, destination.Pause) (p destination.Pause, err error) {
	return p, nil
}
func (k *kept) EndedPauses(context.Context) (map[string][]ledger.Span, error) { return k.ended, nil }
func (k *kept) FailDestination(_ context.Context, name string, since, away time.Time) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := k.states[name]
	switch {
	case !since.IsZero():
		s.Failing, s.OpenSince = cmp.Or(s.Failing, since), cmp.Or(s.OpenSince, away)
		k.states[name] = s
		return nil
	case !s.OpenSince.IsZero():
		k.ended[name] = append(k.ended[name], ledger.Span{From: s.OpenSince, To: time.Now()})
	}
	delete(k.states, name)
	return nil
}

func (k *kept) Processes(context.Context) (int, error) { return 1, nil }

func (k *kept) EndOutage(_ context.Context, name string, outage bool) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := k.states[name]
	if outage && !s.OpenSince.IsZero() {
		k.ended[name] = append(k.ended[name], ledger.Span{From: s.OpenSince, To: time.Now()})
	}
	s.OpenSince = time.Time{}
	k.states[name] = s
	return nil
}

// TestClaimsAreGivenUpAtABlockedDestination: what waits there holds no partition.
func TestClaimsAreGivenUpAtABlockedDestination(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newShared(t, destination.Policy{Concurrency: 1, MaxHold: time.Hour})
		r := setup(t, sharing(d, &script{}))
		defer r.stop()
		r.begin(t)
		r.sink.do = answerWith(sink.Outcome{Code: 429, RetryAfter: time.Hour}, sink.ClassThrottled)
		r.add("a")
		synctest.Wait()
		r.add("b", "c", "d")
		synctest.Wait()
		began := time.Now()
		if err := r.Close(t.Context(), r.claim); err != nil {
			t.Error(err)
		}
		same(t, "the close took", time.Since(began), time.Duration(0))
		r.sink.do = nil
		r.begin(t) // claimed again
		time.Sleep(time.Minute)
		same(t, "calls before the hold is over", len(r.sink.ids()), 1)
		time.Sleep(time.Hour)
		synctest.Wait()
		same(t, "all done then", r.mem.count(r.claim, ledger.Done), 4)
		same(t, "slots", d.Status().Running, 0)
	})
}

// TestFairBetweenTeams: a destination that two teams share is busy with thousands of actions of the one; the next event of the
// other has its turn after the one that has waited already, and in a team its subscriptions take turns.
func TestFairBetweenTeams(t *testing.T) {
	const backlog = 2000
	synctest.Test(t, func(t *testing.T) {
		d, order := newShared(t, destination.Policy{Concurrency: 1}), []string(nil)
		to := &script{do: func(_ context.Context, a sink.Action) (sink.Outcome, error) {
			order = append(order, a.Subscription+" "+string(a.Event.Entity)) // one at a time
			time.Sleep(time.Second)
			return sink.Outcome{Code: 200}, nil
		}}
		team := func(name string) *rig {
			r := setup(t, func(c *Config) {
				c.Subscription = name
				c.MaxOpen = backlog
				c.Destinations = map[string]DestinationConfig{destName: {Sink: to, Shared: d}}
			})
			r.begin(t)
			return r
		}
		big, small := team("big.all"), team("small.all")
		defer big.stop()
		defer small.stop()
		bigger := team("big.more")
		defer bigger.stop()
		items := make([]Item, backlog)
		for i := range items {
			items[i] = big.make(fmt.Sprint("e", i%(backlog/2)), nil)
		}
		big.Add(big.claim, items)
		time.Sleep(10*time.Second - 1)
		small.add("x", "y", "x")
		bigger.add("p", "q")
		time.Sleep(10 * time.Second)
		synctest.Wait()
		same(t, "calls", order[9:20], []string{"big.all e9", // under way
			"big.all e10", "small.all x", "big.more p", "small.all y", "big.all e11", "small.all x", "big.more q", "big.all e12", "big.all e13", "big.all e14"})
	})
}

// TestNoTurnWhereResultsWait: a subscription whose results wait for the ledger starts no attempt, so it holds no slot of a destination that
// another subscription wants, not even one that it was given just before. When the ledger is back, its attempt is made.
func TestNoTurnWhereResultsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, to, other := newShared(t, destination.Policy{Concurrency: 1}), &script{}, &script{}
		lasts := func(takes time.Duration) func(context.Context, sink.Action) (sink.Outcome, error) {
			return func(context.Context, sink.Action) (sink.Outcome, error) {
				time.Sleep(takes)
				return sink.Outcome{Code: 200}, nil
			}
		}
		to.do, other.do = lasts(time.Second), lasts(3*time.Second)
		team := func(name string, change func(*Config)) *rig {
			r := setup(t, func(c *Config) {
				c.Subscription, c.MaxInFlight = name, 1
				c.Destinations = map[string]DestinationConfig{destName: {Sink: to, Shared: d}, otherName: {Sink: other, Concurrency: 1}}
				change(c)
			})
			r.begin(t)
			return r
		}
		stuck := team("acme.stuck", func(c *Config) { c.MaxUnrecorded = 1 })
		defer stuck.stop()
		free := team("acme.free", func(*Config) {})
		defer free.stop()
		back := make(chan struct{})
		stuck.mem.before = func(context.Context, []ledger.Result) error { <-back; return nil }

		free.add("a", "b") // a is called at once, b after it
		synctest.Wait()
		// x waits for its turn at the shared destination, and gets it while the only worker is busy with y. y's result fills the room.
		stuck.Add(stuck.claim, []Item{stuck.make("x", nil), stuck.make("y", toOther)})
		time.Sleep(10 * time.Second)
		synctest.Wait()
		same(t, "called while the ledger of one does not answer", to.ids(), []string{"a#1", "b#2"})
		same(t, "slots taken", d.Status().Running, 0)
		close(back)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		same(t, "called in the end", to.ids(), []string{"a#1", "b#2", "x#1"})
	})
}

// TestRateOfADestination: what finds no token is dropped or fails, without a call.
func TestRateOfADestination(t *testing.T) {
	for _, tt := range []struct {
		mode   destination.OnLimit
		status ledger.Status
		class  sink.Class
		n      int // attempts
	}{{destination.Drop, ledger.Dead, sink.ClassDropped, 0}, {destination.Error, ledger.Failed, sink.ClassThrottled, 1}} {
		synctest.Test(t, func(t *testing.T) {
			d := newShared(t, destination.Policy{Concurrency: 1, Rate: destination.Rate{Limit: 1, Per: time.Hour, Burst: 2, OnLimit: tt.mode}})
			r := setup(t, sharing(d, &script{}))
			defer r.stop()
			r.begin(t)
			for range 3 {
				r.Add(r.claim, []Item{r.make("a", func(a *ledger.Action) { a.OnDead = ledger.Continue })})
			}
			synctest.Wait()
			same(t, "calls", r.sink.ids(), []string{"a#1", "a#2"})
			res := r.mem.resultsOf(3)
			if len(res) != 1 {
				t.Fatal(res)
			}
			same(t, "result", []any{res[0].Status, res[0].Class, res[0].Attempt, res[0].Error, res[0].Packed != nil},
				[]any{tt.status, string(tt.class), tt.n, "the destination's rate is used up", true})
			same(t, "slots", d.Status().Running, 0)
		})
	}
}

// TestMostAndAlerts: a class's own bound counts, and it is alerted.
func TestMostAndAlerts(t *testing.T) {
	for _, class := range sink.Classes() {
		if class == sink.ClassOK {
			continue
		}
		var out safeBuffer
		reg := prometheus.NewRegistry()
		in(t, func(c *Config) {
			c.Logger, c.Registerer = slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{Level: slog.LevelError})), reg
		}, func(t *testing.T, r *rig) {
			r.sink.do = failWith(class)
			r.add("a")
			time.Sleep(48 * time.Hour)
			synctest.Wait()
			want := 1
			if class.Retried() {
				want = 7
			}
			if class.Most() > 0 {
				want = class.Most()
			}
			same(t, "attempts of "+string(class), len(r.sink.ids()), want)
			same(t, "status", r.mem.status(r.claim, 1), ledger.Dead)
			same(t, "dead letters counted", testutil.ToFloat64(r.s.q.dispatch.metrics.dead.WithLabelValues(destName)), 1.0)
			lines := out.lines(t)
			if !class.Alerted() {
				same(t, "lines of "+string(class), len(lines), 0)
				return
			}
			if len(lines) != 1 || lines[0]["msg"] != "action is dead; "+class.Mend() || lines[0]["destination"] != destName || lines[0]["class"] != string(class) {
				t.Error(lines)
			}
			same(t, "counted", testutil.ToFloat64(r.s.q.dispatch.metrics.alerts.WithLabelValues(destName, string(class))), 1.0)
		})
	}
}

// TestOutcomesReachTheDestination: the answer of an attempt counts, one that nobody gave does not.
func TestOutcomesReachTheDestination(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newShared(t, destination.Policy{Concurrency: 4, Endpoint: true})
		r := setup(t, sharing(d, &script{}))
		defer r.stop()
		r.begin(t)
		r.sink.do = func(ctx context.Context, a sink.Action) (sink.Outcome, error) {
			if a.Event.Entity == "gone" {
				return answerWith(sink.Outcome{Code: 410}, sink.ClassRejected)(ctx, a)
			}
			<-ctx.Done()
			return sink.Outcome{}, &sink.AttemptError{Class: sink.ClassNetwork, Err: ctx.Err()}
		}
		r.add("hangs")
		synctest.Wait()
		r.Drop(r.claim)
		synctest.Wait()
		same(t, "after an attempt that we cancelled", d.Status().Failures, 0)
		r.begin(t)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		same(t, "after one that timed out", d.Status().Failures, 1)
		r.add("gone")
		synctest.Wait()
		same(t, "after 410", d.Status().State, destination.StatePaused)
	})
}

// TestSharedSlotsComeBack plays subscriptions of teams at one destination whose claims come and go while attempts fail,
// hang and succeed, and while heads that have a slot wait for what is fetched for them, so that the destination is held or opens, or
// the process may not act, before their call: in the end everything is done, in order, and no slot and no turn is lost.
func TestSharedSlotsComeBack(t *testing.T) {
	seeds := 5
	if os.Getenv("FOREBAY_SOAK") != "" {
		seeds = 20
	}
	for seed := range uint64(seeds) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { playShared(t, rand.New(rand.NewPCG(seed, 1))) })
		})
	}
}

func playShared(t *testing.T, rng *rand.Rand) {
	d := newShared(t, destination.Policy{Concurrency: 2, Recovery: time.Second, MaxHold: time.Second,
		Breaker: destination.Breaker{Failures: 3, Window: time.Minute, Wait: 100 * time.Millisecond, MaxWait: time.Second, Floor: rng.IntN(2)},
		Rate:    destination.Rate{Limit: 200, Per: time.Second, Burst: 5, OnLimit: destination.Queue}})
	var mu, drawing sync.Mutex
	draw := func(n int) int {
		drawing.Lock()
		defer drawing.Unlock()
		return rng.IntN(n)
	}
	under, most, last, calm := 0, 0, map[string]int64{}, false
	givenBack := 0         // heads, by processes that may not act
	alive := func() bool { // no the first time: where only chance says no, a play in a thousand has none
		mu.Lock()
		defer mu.Unlock()
		if calm || givenBack > 0 && draw(10) > 0 {
			return true
		}
		givenBack++
		return false
	}
	fetch := &enricher{do: func(ctx context.Context, e *schemas.Event) (*schemas.Event, sink.Outcome, error) {
		select {
		case <-time.After(time.Duration(draw(30)) * time.Millisecond):
		case <-ctx.Done():
		}
		return e, sink.Outcome{}, nil
	}}
	to := &script{do: func(ctx context.Context, a sink.Action) (sink.Outcome, error) {
		mu.Lock()
		under++
		most = max(most, under)
		lane := a.Subscription + string(a.Event.Entity)
		var seq int64
		fmt.Sscan(a.Event.ID[strings.Index(a.Event.ID, "#")+1:], &seq)
		if seq < last[lane] {
			t.Errorf("%s after %d", a.Event.ID, last[lane])
		}
		last[lane] = seq
		what, wait := draw(10), time.Duration(draw(30))*time.Millisecond
		if calm {
			what = 9
		}
		mu.Unlock()
		defer func() { mu.Lock(); under--; mu.Unlock() }()
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return sink.Outcome{}, &sink.AttemptError{Class: sink.ClassTimeout, Err: ctx.Err()}
		}
		switch what {
		case 0:
			return sink.Outcome{Code: 429, RetryAfter: 50 * time.Millisecond}, &sink.AttemptError{Class: sink.ClassThrottled, Err: errors.New("scripted")}
		case 1, 2, 3:
			return failWith(sink.ClassBusy)(ctx, a)
		}
		return sink.Outcome{Code: 200}, nil
	}}
	var rigs []*rig
	for _, name := range []string{"one.a", "one.b", "two.a"} {
		r := setup(t, func(c *Config) {
			c.Subscription, c.MaxInFlight, c.Alive, c.Enrich = name, 1+draw(4), alive, fetch
			c.Destinations = map[string]DestinationConfig{destName: {Sink: to, Shared: d, Retry: sink.RetryPolicy{Attempts: 1000, Min: time.Millisecond, Max: 50 * time.Millisecond}}}
		})
		defer r.stop()
		r.begin(t)
		rigs = append(rigs, r)
	}
	for range 200 {
		r := rigs[draw(len(rigs))]
		switch draw(8) {
		case 0:
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
			_ = r.Close(ctx, r.claim)
			cancel()
			r.begin(t)
		case 1:
			r.Drop(r.claim)
			r.begin(t)
		default:
			r.add(fmt.Sprint("e", draw(5)), fmt.Sprint("e", draw(5)))
		}
		time.Sleep(time.Duration(draw(50)) * time.Millisecond)
	}
	mu.Lock()
	calm = true
	mu.Unlock()
	time.Sleep(time.Minute)
	synctest.Wait()
	for _, r := range rigs {
		same(t, r.cfg.Subscription+" is done", r.mem.count(r.claim, ledger.Done), int(r.seq))
	}
	s := d.Status()
	same(t, "slots, waiting, state", []any{s.Running, s.Waiting, s.State}, []any{0, 0, destination.StateRunning})
	if most != 2 {
		t.Errorf("%d attempts at once, want 2 at some time and never more", most)
	}
	if givenBack == 0 {
		t.Error("no head was given back")
	}
}
