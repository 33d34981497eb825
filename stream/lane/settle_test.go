package lane

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/forebay-io/forebay/stream/destination"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/sink"
)

func settling(settle time.Duration) func(*Config) {
	return func(c *Config) {
		d := c.Destinations[destName]
		d.Settle, d.Retry = settle, sink.RetryPolicy{Attempts: 3, Within: time.Hour, Min: time.Millisecond, Max: 2 * time.Millisecond}
		c.Destinations[destName] = d
	}
}

// TestSettle: what an attempt may have done can be seen only after a while; the next attempt, which looks for it, is not made before.
func TestSettle(t *testing.T) {
	const settle = 7 * time.Second
	for name, tt := range map[string]struct {
		end  sink.AttemptError
		wait time.Duration // at least, until the next attempt
	}{
		"a timeout":                 {sink.AttemptError{Class: sink.ClassTimeout}, settle},
		"a 5xx":                     {sink.AttemptError{Class: sink.ClassBusy}, settle},
		"a connection that is lost": {sink.AttemptError{Class: sink.ClassNetwork}, settle},
		"one that was never made":   {sink.AttemptError{Class: sink.ClassNetwork, Untouched: true}, 0},
		"more than it takes":        {sink.AttemptError{Class: sink.ClassThrottled}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, settling(settle), func(t *testing.T, r *rig) {
				var at []time.Time
				r.sink.do = func(context.Context, sink.Action) (sink.Outcome, error) {
					at = append(at, time.Now())
					if len(at) == 1 {
						end := tt.end
						end.Err = errors.New("scripted")
						return sink.Outcome{}, &end
					}
					return sink.Outcome{}, nil
				}
				r.add("a")
				time.Sleep(time.Minute)
				synctest.Wait()
				if len(at) != 2 {
					t.Fatalf("%d attempts", len(at))
				}
				if apart := at[1].Sub(at[0]); apart < tt.wait || apart > tt.wait+100*time.Millisecond {
					t.Errorf("%s from one attempt to the next, want %s", apart, tt.wait)
				}
			})
		})
	}
}

// TestSettleAfterAKill: an owner that was killed may have acted until its claim was over; the next one's attempt comes after that.
func TestSettleAfterAKill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const settle = 7 * time.Second
		r := setup(t, settling(settle))
		defer func() { r.stop() }()
		var at time.Time
		r.sink.do = func(context.Context, sink.Action) (sink.Outcome, error) {
			at = time.Now()
			return sink.Outcome{}, nil
		}
		r.make("a", nil)
		r.unclean()
		r.begin(t)
		time.Sleep(time.Minute)
		synctest.Wait()
		a := r.sink.calls[0]
		if !a.Doubt || at.Before(a.DoubtEnd.Add(settle)) || at.After(a.DoubtEnd.Add(settle+time.Second)) {
			t.Errorf("attempted %s after what is in doubt was over, want %s (in doubt: %v)", at.Sub(a.DoubtEnd), settle, a.Doubt)
		}
	})
}

// TestSettleWhenEarly: an attempt that is made before its time, as its destination is back or an operator wants it, is made no earlier than that
// either, in memory, read again under a full window, or by the next owner; and what it fails with is still beside the retry policy.
func TestSettleWhenEarly(t *testing.T) {
	const settle = 7 * time.Second
	patient := func(c *Config) {
		crowd(c)
		d := c.Destinations[destName]
		d.Settle, d.Retry.Attempts = settle, 4
		c.Destinations[destName] = d
	}
	for name, tt := range map[string]struct {
		entities int
		between  func(t *testing.T, r *rig) // the failure and the early try
	}{
		"in memory":      {1, func(*testing.T, *rig) {}},
		"spilled":        {20, func(t *testing.T, r *rig) { same(t, "some are spilled", r.spilledLanes() > 0, true) }},
		"the next owner": {1, func(t *testing.T, r *rig) { r.handOver(t, patient) }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := setup(t, patient)
				defer func() { r.stop() }()
				r.begin(t)
				last, early := map[string]time.Time{}, 0 // the ends of attempts by event
				r.sink.do = func(_ context.Context, a sink.Action) (sink.Outcome, error) {
					r.sink.mu.Lock()
					defer r.sink.mu.Unlock()
					if at, again := last[a.Event.ID]; again {
						early++
						if apart := time.Since(at); apart < settle || apart > time.Minute {
							t.Errorf("%s from the end of one attempt to the next", apart)
						}
					}
					last[a.Event.ID] = time.Now()
					return sink.Outcome{}, &sink.AttemptError{Class: sink.ClassTimeout, Err: errors.New("scripted")}
				}
				r.many("e", tt.entities, nil)
				time.Sleep(time.Second)
				tt.between(t, r)
				for range 5 { // again while it settles
					r.TryAgain(destName, destination.AgainAll)
					time.Sleep(time.Second)
				}
				time.Sleep(4 * time.Minute)
				r.sink.mu.Lock()
				same(t, "tried early", early >= tt.entities, true)
				r.sink.mu.Unlock()
				for seq := range int64(tt.entities) {
					a := r.mem.action(r.claim, seq+1)
					same(t, "attempts that the policy counts", a.Attempts-a.Spent, 1)
				}
			})
		})
	}
}

// TestSettleOfACallInFlight: a call that is under way when its destination comes back, and is cut off then, settles too.
func TestSettleOfACallInFlight(t *testing.T) {
	const settle = 7 * time.Second
	change := func(c *Config) {
		waits(c)
		d := c.Destinations[destName]
		d.Settle = settle
		c.Destinations[destName] = d
	}
	in(t, change, func(t *testing.T, r *rig) {
		r.sink.do = func(context.Context, sink.Action) (sink.Outcome, error) {
			time.Sleep(3 * time.Second)
			return sink.Outcome{}, &sink.AttemptError{Class: sink.ClassTimeout, Err: errors.New("scripted")}
		}
		r.add("a")
		time.Sleep(time.Second)
		r.TryAgain(destName, destination.AgainAway)
		time.Sleep(time.Minute)
		at := r.sink.times()
		same(t, "attempts", len(at) > 1, true)
		same(t, "from the end of one to the next", at[1].Sub(at[0]), 3*time.Second+settle)
	})
}

// TestSettleAfterAKillOfARetry: an owner that was killed may have made one more attempt of what had one, until its calls have timed out. A claim that
// ends before that has settled is not released, or the next one would know nothing of it.
func TestSettleAfterAKillOfARetry(t *testing.T) {
	const settle = 7 * time.Second
	for _, handedOn := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			r := setup(t, settling(settle))
			defer func() { r.stop() }()
			r.make("a", func(a *ledger.Action) { a.Attempts, a.Status, a.FirstAt = 1, ledger.Failed, time.Now() })
			r.unclean()
			killed := time.Now()
			r.begin(t)
			time.Sleep(5*time.Second + time.Second) // its timeout, and a part of what it takes to settle
			synctest.Wait()
			same(t, "attempts before", len(r.sink.times()), 0)
			if handedOn {
				same(t, "released", r.Close(t.Context(), r.claim) == nil, false)
				return
			}
			r.TryAgain(destName, destination.AgainAll)
			time.Sleep(time.Minute)
			at := r.sink.times()
			same(t, "attempts", len(at), 1)
			same(t, "after the kill", at[0].Sub(killed), 5*time.Second+settle)
		})
	}
}

// TestDueHasSettled: a retry that is due when it is read from the ledger has settled by then.
func TestDueHasSettled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := setup(t, settling(7*time.Second))
		defer func() { r.stop() }()
		r.make("a", func(a *ledger.Action) { a.Attempts, a.Status, a.FirstAt = 1, ledger.Failed, time.Now() })
		r.begin(t)
		synctest.Wait()
		same(t, "attempts", len(r.sink.times()), 1)
	})
}

// TestLooksSpendTheRate: calls that only look are calls of the destination's rate.
func TestLooksSpendTheRate(t *testing.T) {
	d := newShared(t, destination.Policy{Concurrency: 8, Rate: destination.Rate{Limit: 1, Per: time.Second, Burst: 1, OnLimit: destination.Queue}})
	in(t, sharing(d, &script{}), func(t *testing.T, r *rig) {
		var at []time.Time
		r.sink.do = func(_ context.Context, a sink.Action) (sink.Outcome, error) {
			at = append(at, time.Now())
			if len(at) == 1 {
				for range 9 {
					a.Looks()
				}
			}
			return sink.Outcome{}, nil
		}
		r.add("a", "b")
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(at) != 2 || at[1].Sub(at[0]) < 9*time.Second || at[1].Sub(at[0]) > 11*time.Second {
			t.Errorf("attempts at %v: the second comes after the nine looks of the first and its own turn", at)
		}
	})
}
