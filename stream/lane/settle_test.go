package lane

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/forebay-io/forebay/stream/destination"
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
