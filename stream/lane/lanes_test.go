package lane

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/sink"
)

// in runs f in a bubble of simulated time with lanes that have opened claim 1.
func in(t *testing.T, change func(*Config), f func(t *testing.T, r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := setup(t, change)
		defer r.stop()
		r.begin(t)
		f(t, r)
	})
}

func same(t *testing.T, what string, got, want any) {
	t.Helper()
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func TestOrderInsideAndConcurrencyAcrossEntities(t *testing.T) {
	in(t, nil, func(t *testing.T, r *rig) {
		gates := map[string]chan struct{}{"a": make(chan struct{}, 10), "b": make(chan struct{}, 10)}
		r.sink.do = func(ctx context.Context, a sink.Action) (sink.Outcome, error) {
			<-gates[string(a.Event.Entity)]
			return sink.Outcome{}, nil
		}
		r.add("a", "a", "b", "b")
		synctest.Wait()
		got := r.sink.ids()
		slices.Sort(got)
		same(t, "both heads run, nothing behind them", got, []string{"a#1", "b#3"})
		gates["b"] <- struct{}{}
		synctest.Wait()
		same(t, "b goes on while a hangs", r.sink.ids()[2:], []string{"b#4"})
		for range 2 {
			gates["a"] <- struct{}{}
		}
		gates["b"] <- struct{}{}
		synctest.Wait()
		same(t, "all done", r.mem.count(r.claim, ledger.Done), 4)
	})
}

func TestNextHeadStartsOnlyAfterTheCommit(t *testing.T) {
	in(t, nil, func(t *testing.T, r *rig) {
		commit := make(chan struct{})
		r.mem.before = func(context.Context, []ledger.Result) error { <-commit; return nil }
		r.add("a", "a", "b")
		time.Sleep(time.Hour)
		synctest.Wait()
		got := r.sink.ids()
		slices.Sort(got)
		same(t, "attempts before any commit", got, []string{"a#1", "b#3"})
		close(commit)
		synctest.Wait()
		same(t, "attempt after the commit", r.sink.ids()[2:], []string{"a#2"})
	})
}

func TestCompletionsAreGrouped(t *testing.T) {
	in(t, func(c *Config) { c.MaxInFlight = 4 }, func(t *testing.T, r *rig) {
		commit := make(chan struct{}, 100)
		r.mem.before = func(context.Context, []ledger.Result) error { <-commit; return nil }
		r.add("first")
		synctest.Wait()
		var many []string
		for i := range 40 {
			many = append(many, fmt.Sprint("e", i))
		}
		r.add(many...)
		synctest.Wait()
		commit <- struct{}{}
		commit <- struct{}{}
		synctest.Wait()
		r.mem.mu.Lock()
		defer r.mem.mu.Unlock()
		var sizes []int
		for _, g := range r.mem.records {
			sizes = append(sizes, len(g))
		}
		same(t, "groups: at once when idle, all that gathered under load", sizes, []int{1, 40})
	})
}

// A replay is told that there is no room as soon as half of a partition's window is taken, and until it is not any more.
func TestLanesAreFullFromHalfTheirWindow(t *testing.T) {
	in(t, func(c *Config) { c.MaxOpen, c.LaneWindow, c.MaxInFlight = 8, 8, 1 }, func(t *testing.T, r *rig) {
		end := make(chan struct{})
		r.sink.do = func(context.Context, sink.Action) (sink.Outcome, error) {
			<-end
			return sink.Outcome{Code: 200}, nil
		}
		full := func(what string, want bool) {
			t.Helper()
			synctest.Wait()
			same(t, what, r.Full(r.claim), want)
		}
		full("nothing open", false)
		r.add("a", "b", "c", "d")
		full("half of the window", false)
		r.add("e")
		full("one more", true)
		end <- struct{}{}
		full("one done", false)
		r.add("f", "g", "h", "i", "j", "k", "l")
		full("more than the window", true)
		close(end)
		full("all done", false)
		if err := r.Close(t.Context(), r.claim); err != nil {
			t.Error(err)
		}
		full("closed", true)
	})
}

// Completions of a moment share a transaction: where other attempts are under way, the recorder waits a moment for them. A single one
// never waits.
func TestRecordLingersForAttemptsUnderWay(t *testing.T) {
	const linger = time.Millisecond
	in(t, func(c *Config) { c.Linger = linger }, func(t *testing.T, r *rig) {
		end := make(chan struct{})
		r.sink.do = func(_ context.Context, a sink.Action) (sink.Outcome, error) {
			if a.Event.Entity == "slow" {
				<-end
			}
			return sink.Outcome{Code: 200}, nil
		}
		sizes := func() (sizes []int) {
			synctest.Wait()
			r.mem.mu.Lock()
			defer r.mem.mu.Unlock()
			for _, g := range r.mem.records {
				sizes = append(sizes, len(g))
			}
			return sizes
		}
		r.add("alone")
		same(t, "with nothing else under way", sizes(), []int{1})
		r.add("slow")
		synctest.Wait()
		r.add("a")
		same(t, "with another under way", sizes(), []int{1})
		time.Sleep(linger - 1)
		r.add("b")
		same(t, "a moment before the end", sizes(), []int{1})
		time.Sleep(time.Nanosecond)
		same(t, "once it has lingered", sizes(), []int{1, 2})
		r.add("c")
		synctest.Wait()
		close(end)
		synctest.Wait()
		time.Sleep(linger)
		same(t, "with the one that it waited for", sizes(), []int{1, 2, 2})
	})
}

func TestParkStopsOneEntity(t *testing.T) {
	in(t, nil, func(t *testing.T, r *rig) {
		r.sink.do = func(ctx context.Context, a sink.Action) (sink.Outcome, error) {
			if a.Event.ID == "bad#1" {
				return failWith(sink.ClassRejected)(ctx, a)
			}
			return sink.Outcome{Code: 200}, nil
		}
		r.add("bad", "bad", "good", "good", "bad")
		synctest.Wait()
		r.add("bad", "good")
		synctest.Wait()
		got := r.sink.ids()
		slices.Sort(got)
		same(t, "calls", got, []string{"bad#1", "good#3", "good#4", "good#7"})
		same(t, "head", r.mem.status(r.claim, 1), ledger.Dead)
		for _, seq := range []int64{2, 5, 6} {
			same(t, "behind it", r.mem.status(r.claim, seq), ledger.Pending)
		}
		if got := r.mem.action(r.claim, 1).Packed; got == nil {
			t.Error("a dead letter has no payload copy")
		}
		// after a restart it is parked all the same
		if err := r.Close(t.Context(), r.claim); err != nil {
			t.Fatal(err)
		}
		r.stop()
		r.relaunch(t, nil)
		defer r.stop()
		r.begin(t)
		r.add("bad", "good")
		synctest.Wait()
		same(t, "calls after the restart", r.sink.ids()[4:], []string{"good#9"})
	})
}

func TestContinueRunsTheNext(t *testing.T) {
	in(t, nil, func(t *testing.T, r *rig) {
		r.sink.do = func(ctx context.Context, a sink.Action) (sink.Outcome, error) {
			if strings.HasSuffix(a.Event.ID, "#1") {
				return failWith(sink.ClassDenied)(ctx, a)
			}
			return sink.Outcome{}, nil
		}
		one := r.make("a", func(a *ledger.Action) { a.OnDead = ledger.Continue })
		r.Add(r.claim, []Item{one, r.make("a", nil)})
		synctest.Wait()
		same(t, "calls", r.sink.ids(), []string{"a#1", "a#2"})
		same(t, "first", r.mem.status(r.claim, 1), ledger.Dead)
		same(t, "second", r.mem.status(r.claim, 2), ledger.Done)
	})
}

func TestRetryScheduleAndExhaustion(t *testing.T) {
	half := func(c *Config) { c.Rand = func() float64 { return 0.5 } }
	in(t, half, func(t *testing.T, r *rig) {
		r.sink.do = failWith(sink.ClassBusy)
		r.add("a", "a")
		time.Sleep(48 * time.Hour)
		var gaps []time.Duration
		at := r.sink.times()
		for i := 1; i < len(at); i++ {
			gaps = append(gaps, at[i].Sub(at[i-1]))
		}
		var want []time.Duration
		policy := sink.RetryPolicy{}.WithDefaults()
		for n := range 6 {
			want = append(want, sink.Delay(policy, n+1, 0, policy.Within, 0.5))
		}
		same(t, "delays", gaps, want)
		same(t, "head", r.mem.status(r.claim, 1), ledger.Dead)
		same(t, "behind it", r.mem.status(r.claim, 2), ledger.Pending)
		res := r.mem.resultsOf(1)
		for i, x := range res {
			if (x.Packed != nil) != (i == 0) {
				t.Errorf("result %d: the payload copy goes with the first failure alone", i)
			}
			same(t, "attempt number", x.Attempt, i+1)
			same(t, "class", x.Class, string(sink.ClassBusy))
		}
	})
}

func TestRetryAfterAndWithin(t *testing.T) {
	cfg := func(c *Config) {
		d := c.Destinations[destName]
		d.Retry = sink.RetryPolicy{Attempts: 100, Within: time.Hour, Min: time.Second, Max: 20 * time.Minute}
		c.Destinations[destName] = d
		c.Rand = func() float64 { return 0 }
	}
	in(t, cfg, func(t *testing.T, r *rig) {
		r.sink.do = func(ctx context.Context, a sink.Action) (sink.Outcome, error) {
			out, err := failWith(sink.ClassThrottled)(ctx, a)
			out.RetryAfter = []time.Duration{25 * time.Minute, 5 * time.Minute}[min(a.Attempt-1, 1)]
			return out, err
		}
		r.add("a")
		time.Sleep(24 * time.Hour)
		at := r.sink.times()
		same(t, "Retry-After capped by max", at[1].Sub(at[0]), 20*time.Minute)
		same(t, "Retry-After as a floor", at[2].Sub(at[1]), 5*time.Minute)
		last := at[len(at)-1].Sub(at[0])
		same(t, "the last attempt is within the hour", last, time.Hour)
		same(t, "then dead", r.mem.status(r.claim, 1), ledger.Dead)
	})
}

// TestAFewAttemptsSpanTheirTime: three attempts in a minute do not give up after a moment, whatever chance says; and where each takes long
// to fail, the last one comes before the minute is over instead of not at all.
func TestAFewAttemptsSpanTheirTime(t *testing.T) {
	for name, tt := range map[string]struct {
		rand  float64
		takes time.Duration
		want  []time.Duration // when attempts begin
	}{
		"by the least chance":          {0, 0, []time.Duration{0, 500 * time.Millisecond, 25500 * time.Millisecond}},
		"by the most":                  {1, 0, []time.Duration{0, time.Second, 51 * time.Second}},
		"hanging, little is left":      {1, 9 * time.Second, []time.Duration{0, 10 * time.Second, time.Minute}},
		"hanging, no half step's left": {1, 18 * time.Second, []time.Duration{0, 19 * time.Second}},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := func(c *Config) {
				d := c.Destinations[destName]
				d.Timeout, d.Retry = time.Minute, sink.RetryPolicy{Attempts: 3, Within: time.Minute}
				c.Destinations[destName] = d
				c.Rand = func() float64 { return tt.rand }
			}
			in(t, cfg, func(t *testing.T, r *rig) {
				began := time.Now()
				r.sink.do = func(ctx context.Context, a sink.Action) (sink.Outcome, error) {
					time.Sleep(tt.takes)
					return failWith(sink.ClassTimeout)(ctx, a)
				}
				r.add("a")
				time.Sleep(time.Hour)
				var got []time.Duration
				for _, at := range r.sink.times() {
					got = append(got, at.Sub(began))
				}
				same(t, "attempts", got, tt.want)
				same(t, "then", r.mem.status(r.claim, 1), ledger.Dead)
			})
		})
	}
}

func TestRestartResumes(t *testing.T) {
	in(t, func(c *Config) { c.Rand = func() float64 { return 0.999999 } }, func(t *testing.T, r *rig) {
		r.sink.do = failWith(sink.ClassNetwork)
		r.add("a", "a", "b")
		time.Sleep(2 * time.Second) // two attempts each, the third 2 s away
		synctest.Wait()
		if err := r.Close(t.Context(), r.claim); err != nil {
			t.Fatal(err)
		}
		r.stop()
		n := len(r.sink.ids())
		same(t, "attempts before", n, 4)
		left := time.Until(r.mem.rows[1][1].due)
		r.sink.do = nil
		clear(r.log.events) // the payload copies must do
		r.relaunch(t, nil)
		defer r.stop()
		began := time.Now()
		r.begin(t)
		time.Sleep(time.Minute)
		same(t, "nothing before it is due", r.sink.times()[n].Sub(began) >= left-time.Millisecond, true)
		r.sink.mu.Lock()
		defer r.sink.mu.Unlock()
		for _, a := range r.sink.calls[n : n+2] {
			same(t, "attempts go on counting", a.Attempt, 3)
		}
		same(t, "a#2 has no copy and its payload is lost", r.mem.status(r.claim, 2), ledger.Dead)
	})
}

func TestPayloadLostIsDead(t *testing.T) {
	in(t, nil, func(t *testing.T, r *rig) {
		item := r.make("a", nil)
		item.Event = nil
		clear(r.log.events)
		r.Add(r.claim, []Item{item})
		synctest.Wait()
		same(t, "calls", len(r.sink.ids()), 0)
		res := r.mem.resultsOf(1)
		same(t, "results", len(res), 1)
		same(t, "status", res[0].Status, ledger.Dead)
		same(t, "class", res[0].Class, "payload_lost")
		same(t, "no attempt was made", res[0].Attempt, 0)
	})
}

func TestLogAwayIsNoAttempt(t *testing.T) {
	in(t, nil, func(t *testing.T, r *rig) {
		var away atomic.Bool
		away.Store(true)
		r.log.fail = func(ledger.Pointer) error {
			if away.Load() {
				return errors.New("broker is away")
			}
			return nil
		}
		item := r.make("a", nil)
		item.Event = nil
		r.Add(r.claim, []Item{item})
		time.Sleep(10 * time.Minute)
		same(t, "results while away", len(r.mem.resultsOf(1)), 0)
		away.Store(false)
		time.Sleep(2 * time.Minute)
		res := r.mem.resultsOf(1)
		same(t, "results", len(res), 1)
		same(t, "first attempt", res[0].Attempt, 1)
		same(t, "done", res[0].Status, ledger.Done)
	})
}

func TestNotAliveWaits(t *testing.T) {
	var alive atomic.Bool
	in(t, func(c *Config) { c.Alive = alive.Load }, func(t *testing.T, r *rig) {
		r.add("a", "b")
		time.Sleep(time.Hour)
		same(t, "calls", len(r.sink.ids()), 0)
		same(t, "results", len(r.mem.resultsOf(1)), 0)
		alive.Store(true)
		time.Sleep(time.Second)
		same(t, "calls", len(r.sink.ids()), 2)
	})
}

func TestUncleanClaimWaitsOutTheTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := setup(t, nil)
		defer r.stop()
		r.make("a", nil)
		r.make("a", nil)
		r.unclean()
		began := time.Now()
		r.begin(t)
		r.add("b")
		time.Sleep(time.Minute)
		at := r.sink.times()
		same(t, "order", r.sink.ids(), []string{"b#3", "a#1", "a#2"})
		same(t, "what came after the claim runs at once", at[0].Sub(began), time.Duration(0))
		same(t, "what was open waits for the destination's timeout once", at[1].Sub(began), 5*time.Second)
		same(t, "its successor does not wait again", at[2].Sub(began), 5*time.Second)
		var doubt []bool
		for _, a := range r.sink.calls {
			doubt = append(doubt, a.Doubt)
		}
		same(t, "only the head of then may have been attempted before", doubt, []bool{false, true, false})
	})
}

// An owner that comes and goes while calls of the one before it may be in flight does not make the claim clean.
func TestCloseOfAnUncleanClaimSaysSoUntilTheTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for wait, clean := range map[time.Duration]bool{0: false, 5*time.Second - 1: false, 5 * time.Second: true} {
			r := setup(t, nil)
			r.make("a", nil)
			r.unclean()
			r.begin(t)
			time.Sleep(wait)
			synctest.Wait()
			err := r.Close(t.Context(), r.claim)
			same(t, "clean after "+wait.String(), err == nil, clean)
			r.stop()
		}
	})
}

// Claims that end sooner than that, as those of a partition that stops, wait together, unless another owner was between them.
func TestUncleanClaimsWaitTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := setup(t, nil)
		defer r.stop()
		r.make("a", nil)
		r.claimed(false)
		began := time.Now()
		for claims := 1; ; claims++ {
			r.begin(t)
			synctest.Wait()
			err := r.Close(t.Context(), r.claim)
			if err == nil {
				same(t, "the last claim, a clean one", claims, 8)
				break
			}
			if claims > 20 {
				t.Fatal("no claim is clean")
			}
			time.Sleep(time.Second)
			r.claimed(false)
			if claims == 2 {
				r.claim.Epoch++ // of another owner, whose calls may be in flight
			}
		}
		same(t, "calls", r.sink.ids(), []string{"a#1"})
		same(t, "when", time.Since(began), 7*time.Second)
	})
}

func TestPanicIsOurFault(t *testing.T) {
	reg := prometheus.NewRegistry()
	in(t, func(c *Config) { c.Registerer = reg }, func(t *testing.T, r *rig) {
		var once sync.Once
		r.sink.do = func(context.Context, sink.Action) (sink.Outcome, error) {
			once.Do(func() { panic("boom") })
			return sink.Outcome{}, nil
		}
		r.add("a")
		time.Sleep(time.Minute)
		res := r.mem.resultsOf(1)
		same(t, "results", len(res), 2)
		same(t, "class", res[0].Class, string(sink.ClassBug))
		same(t, "done", res[1].Status, ledger.Done)
		want := `# HELP forebay_lane_attempts_total Attempts by destination and class of failure; class ok is success. One that was answered 202 is counted once its result is there, or was waited for too long.
# TYPE forebay_lane_attempts_total counter
`
		for _, c := range sink.Classes() {
			class, n := cmp.Or(string(c), "ok"), "0"
			if c == sink.ClassOK || c == sink.ClassBug {
				n = "1"
			}
			want += fmt.Sprintf("forebay_lane_attempts_total{class=%q,destination=%q,subscription=\"acme.triage\"} %s\n",
				class, destName, n)
		}
		if err := testutil.GatherAndCompare(reg, strings.NewReader(want), "forebay_lane_attempts_total"); err != nil {
			t.Error(err)
		}
	})
}

func TestDestinationTimeout(t *testing.T) {
	in(t, nil, func(t *testing.T, r *rig) {
		r.sink.do = func(ctx context.Context, a sink.Action) (sink.Outcome, error) {
			if a.Attempt > 1 {
				return sink.Outcome{}, nil
			}
			<-ctx.Done()
			return sink.Outcome{}, ctx.Err()
		}
		r.add("a")
		time.Sleep(time.Minute)
		res := r.mem.resultsOf(1)
		same(t, "class", res[0].Class, string(sink.ClassTimeout))
		same(t, "latency", res[0].Latency, 5*time.Second)
		same(t, "then done", res[1].Status, ledger.Done)
	})
}

func TestUnknownDestinationEndsDead(t *testing.T) {
	in(t, nil, func(t *testing.T, r *rig) {
		r.Add(r.claim, []Item{r.make("a", func(a *ledger.Action) { a.Destination = "acme/gone" })})
		time.Sleep(48 * time.Hour)
		res := r.mem.resultsOf(1)
		same(t, "attempts", len(res), 7)
		same(t, "dead", res[6].Status, ledger.Dead)
		if !strings.Contains(res[6].Error, "the file has no destination acme/gone that team acme may use") {
			t.Errorf("error %q", res[6].Error)
		}
	})
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	good := func() Config {
		return Config{
			Subscription: "a.b", Ledger: newMemory(), Payloads: &eventLog{}, Codec: jsonCodec, Alive: func() bool { return true },
		}
	}
	if _, err := New(good()); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*Config){
		"no name":     func(c *Config) { c.Subscription = "" },
		"no ledger":   func(c *Config) { c.Ledger = nil },
		"no payloads": func(c *Config) { c.Payloads = nil },
		"no codec":    func(c *Config) { c.Codec.Pack = nil },
		"no alive":    func(c *Config) { c.Alive = nil },
		"negative":    func(c *Config) { c.MaxOpen = -1 },
		"window":      func(c *Config) { c.MaxOpen, c.LaneWindow = 5, 6 },
		"no sink":     func(c *Config) { c.Destinations = map[string]DestinationConfig{"x": {}} },
		"max below min": func(c *Config) {
			c.Destinations = map[string]DestinationConfig{"x": {Sink: &script{}, Retry: sink.RetryPolicy{Max: 1}}}
		},
	} {
		cfg := good()
		spoil(&cfg)
		if _, err := New(cfg); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
