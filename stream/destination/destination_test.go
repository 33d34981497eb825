package destination

import (
	std "cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"

	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/sink"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func setup(t testing.TB, p Policy) *Destination {
	t.Helper()
	d, err := New(Config{Name: "acme/agent", Policy: p, Logger: slog.New(slog.NewTextHandler(t.Output(), nil))})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// worker is a user of the tests: it notes when it is called, and ends its attempts with the newest permit.
type worker struct {
	*User
	mu     sync.Mutex
	calls  int
	permit Permit
}

func (w *worker) Take() Answer {
	answer, permit := w.User.Take()
	if answer == Go {
		w.permit = permit
	}
	return answer
}

func (w *worker) End(o *Outcome) bool { return w.User.End(w.permit, o) }
func (w *worker) GiveBack() bool      { return w.User.GiveBack(w.permit) }
func (w *worker) StillAllowed() bool  { return w.User.StillAllowed(w.permit) }

func (d *Destination) worker(team string) *worker {
	w := &worker{}
	w.User = d.Join(team, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.calls++
	})
	return w
}

func (w *worker) called() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.calls
}

var (
	fine    = &Outcome{Code: 200}
	broken  = &Outcome{Class: sink.ClassBusy, Code: 500}
	refused = &Outcome{Class: sink.ClassRejected, Code: 422}
)

func same(t *testing.T, what string, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// try takes and ends an attempt at once; false where it has to wait.
func (w *worker) try(o *Outcome) bool {
	if w.Take() != Go {
		w.Pass()
		return false
	}
	w.End(o)
	return true
}

// takes is how many attempts may begin now.
func (w *worker) takes() (n int) {
	for w.Take() == Go {
		n++
	}
	w.Pass()
	return n
}

func TestZeroPolicyBoundsNothing(t *testing.T) {
	t.Parallel()
	w := setup(t, Policy{}).worker("acme")
	for range 10_000 {
		if w.Take() != Go {
			t.Fatal("it waits")
		}
	}
	for range 10_000 {
		w.End(&Outcome{Class: sink.ClassThrottled, Code: 429, RetryAfter: time.Hour})
	}
	same(t, "state", w.d.Status().State, StateRunning)
}

func TestPolicyIsChecked(t *testing.T) {
	t.Parallel()
	for _, p := range []Policy{
		{Concurrency: -1}, {MaxHold: -1}, {Recovery: -1}, {Pause: AutoPause{Failures: -1}}, {Pause: AutoPause{After: -1}}, {Breaker: Breaker{Failures: -1}},
		{Rate: Rate{Limit: 1}}, {Rate: Rate{Limit: 1, Per: 1, Burst: 1, OnLimit: "wait"}}, {Rate: Rate{Limit: -1, Per: 1, Burst: 1, OnLimit: Queue}},
		{Breaker: Breaker{Failures: 1, Window: 1}}, {Breaker: Breaker{Failures: 1, Window: 1, Wait: 2, MaxWait: 1}}, {Breaker: Breaker{Failures: 1, Wait: 1, MaxWait: 1}},
		{Breaker: Breaker{Failures: MostFailures + 1, Window: 1, Wait: 1, MaxWait: 1}}, {Breaker: Breaker{Floor: -1}},
	} {
		if _, err := New(Config{Name: "acme/agent", Policy: p}); err == nil || !strings.Contains(err.Error(), "acme/agent") {
			t.Errorf("%+v: %v", p, err)
		}
	}
}

func TestConcurrencyIsOfAllUsers(t *testing.T) {
	t.Parallel()
	d := setup(t, Policy{Concurrency: 3})
	a, b := d.worker("a"), d.worker("b")
	same(t, "a and b", []Answer{a.Take(), b.Take(), a.Take(), b.Take()}, []Answer{Go, Go, Go, Wait})
	if turn := a.End(fine); turn {
		t.Error("a does not wait and has a turn")
	}
	same(t, "b is called", b.called(), 1)
	same(t, "the slot is b's", a.Take(), Wait)
	same(t, "b", b.Take(), Go)
	if turn := a.End(nil); !turn || a.called() != 0 {
		t.Errorf("who ends and is next is told by End, not called: %v, %d calls", turn, a.called())
	}
}

// TestTurns has one team with three users that always have something and one with a single user: teams take turns, and
// users in them.
func TestTurns(t *testing.T) {
	t.Parallel()
	d := setup(t, Policy{Concurrency: 1})
	users := map[string]*worker{}
	for _, name := range []string{"big/1", "big/2", "big/3", "small/1"} {
		team, _, _ := strings.Cut(name, "/")
		users[name] = d.worker(team)
	}
	if users["big/1"].Take() != Go {
		t.Fatal("nobody waits")
	}
	for _, name := range []string{"big/1", "big/2", "big/3", "small/1"} {
		if users[name].Take() != Wait {
			t.Fatal("there is one slot")
		}
	}
	var got []string
	last := users["big/1"]
	for range 8 {
		last.End(fine)
		for _, name := range slices.Sorted(maps.Keys(users)) {
			if u := users[name]; u.HasTurn() {
				got, last = append(got, name), u
			}
		}
		if last.Take() != Go {
			t.Fatal("no turn")
		}
		last.Take() // there is more
	}
	same(t, "turns", got, []string{"big/1", "small/1", "big/2", "small/1", "big/3", "small/1", "big/1", "small/1"})
}

func TestTurnPassesOn(t *testing.T) {
	t.Parallel()
	d := setup(t, Policy{Concurrency: 1})
	a, b, c := d.worker("a"), d.worker("b"), d.worker("c")
	a.Take()
	for _, u := range []*worker{b, c} {
		u.Take()
	}
	a.End(fine)
	b.Pass()
	same(t, "c is called once b has passed", []int{b.called(), c.called()}, []int{1, 1})
	a.Take()
	c.Leave()
	same(t, "a is called once c has left", a.called(), 1)
	same(t, "who has left gets nothing", c.Take(), Wait)
	same(t, "a", a.Take(), Go)
	if d.Status().Waiting != 0 {
		t.Error("who has left waits")
	}
}

func TestHold(t *testing.T) {
	t.Parallel()
	for _, f := range sink.Failures() {
		code := 0
		if len(f.Codes) > 0 {
			code = f.Codes[0][0]
		}
		t.Run(f.What, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := setup(t, Policy{Concurrency: 4, MaxHold: time.Minute})
				w := d.worker("acme")
				w.try(&Outcome{Class: f.Class, Code: code, RetryAfter: 10 * time.Second})
				same(t, "held", d.Status().State == StateOnHold, f.Hold)
				if !f.Hold {
					return
				}
				w.Take()
				time.Sleep(5 * time.Second)
				d.worker("other").try(nil)
				same(t, "held until", time.Until(d.Status().OnHoldUntil), 5*time.Second)
				time.Sleep(5*time.Second - 1)
				synctest.Wait()
				same(t, "called too early", w.called(), 0)
				time.Sleep(time.Nanosecond)
				synctest.Wait()
				same(t, "called", w.called(), 1)
			})
		})
	}
}

// The newest failure is told, also after a success: with its time, so that who looks sees how old it is.
func TestLastFailureIsTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := setup(t, Policy{})
		w := d.worker("acme")
		w.try(fine)
		same(t, "before the first", d.Status().Last, (*Failure)(nil))
		at := time.Now()
		w.try(&Outcome{Class: sink.ClassRejected, Code: 302, Error: "rejected: destination answered 302, a redirect to https://login.example.com/"})
		time.Sleep(time.Minute)
		w.try(fine)
		same(t, "the last", d.Status().Last, &Failure{At: at, Class: sink.ClassRejected, Code: 302, Error: "rejected: destination answered 302, a redirect to https://login.example.com/"})
	})
}

func TestHoldIsCapped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := setup(t, Policy{Concurrency: 4, MaxHold: time.Minute})
		w := d.worker("acme")
		w.Take()
		w.try(&Outcome{Class: sink.ClassThrottled, Code: 429, RetryAfter: 1000 * time.Hour})
		same(t, "held for", time.Until(d.Status().OnHoldUntil), time.Minute)
		time.Sleep(30 * time.Second)
		w.End(&Outcome{Class: sink.ClassBusy, Code: 503, RetryAfter: time.Second})
		same(t, "a shorter one does not end it", time.Until(d.Status().OnHoldUntil), 30*time.Second)
		time.Sleep(30 * time.Second)
		same(t, "after it", w.Take(), Go)
	})
}

// TestHoldEndsEarly: an operator's resume ends a hold once, in each process, and what is left of it counts as time in which attempts could begin; a
// hold that comes later stands.
func TestHoldEndsEarly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := setup(t, Policy{Concurrency: 4, MaxHold: 24 * time.Hour})
		k := &kept{states: map[string]ledger.DestinationState{}}
		var told []Again
		keeper := &Keeper{Store: k, Destinations: map[string]*Destination{d.Name(): d}, TryAgain: func(_ string, which Again) { told = append(told, which) }}
		sync := func() { same(t, "sync", keeper.Sync(t.Context()), nil) }
		w, began := d.worker("acme"), time.Now()
		asks := func() { w.try(&Outcome{Class: sink.ClassThrottled, Code: 429, RetryAfter: 24 * time.Hour}) }
		asks()
		time.Sleep(time.Hour)
		same(t, "on hold", w.Take(), Wait)
		k.states[d.Name()] = ledger.DestinationState{Resumed: time.Now()}
		sync()
		same(t, "resumed", []bool{w.Take() == Go, d.Status().OnHoldUntil.IsZero()}, []bool{true, true})
		w.End(fine)
		same(t, "on hold in all", d.BlockedFor(began, began.Add(48*time.Hour)).Round(time.Minute), time.Hour)
		asks()
		sync()
		same(t, "on hold again", d.Status().State, StateOnHold)
		same(t, "told", told, []Again{AgainAll, AgainAway})
	})
}

// TestResumesSlower: a destination that took 20 a second until it asked to be left alone gets half of that at first,
// then more and more.
func TestResumesSlower(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := setup(t, Policy{Concurrency: 4, MaxHold: time.Minute, Recovery: 100 * time.Second})
		w := d.worker("acme")
		for range 60 {
			w.try(fine)
			time.Sleep(50 * time.Millisecond)
		}
		w.try(&Outcome{Class: sink.ClassThrottled, Code: 429, RetryAfter: 10 * time.Second})
		time.Sleep(10 * time.Second)
		persecond := func() (n int) {
			for range 1000 {
				if w.try(fine) {
					n++
				}
				time.Sleep(time.Millisecond)
			}
			return n
		}
		near := func(got, want int) {
			t.Helper()
			if got < want-1 || got > want+1 {
				t.Errorf("%d a second, want %d", got, want)
			}
		}
		near(persecond(), 10)
		time.Sleep(49 * time.Second)
		near(persecond(), 15)
		time.Sleep(45 * time.Second)
		near(persecond(), 20)
		time.Sleep(10 * time.Second)
		near(persecond(), 1000)
		same(t, "state", d.Status().State, StateRunning)
	})
}

// TestSlowDestinationIsNotStuck: the pace of one that has hardly been used is no reason to wait beyond its recovery.
func TestSlowDestinationIsNotStuck(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := setup(t, Policy{Concurrency: 4, MaxHold: time.Minute, Recovery: 10 * time.Second})
		w := d.worker("acme")
		w.try(fine)
		time.Sleep(time.Hour)
		w.try(&Outcome{Class: sink.ClassThrottled, Code: 429, RetryAfter: time.Second})
		time.Sleep(time.Second)
		w.try(fine)
		same(t, "right after", w.Take(), Wait)
		time.Sleep(2*time.Second + 1)
		synctest.Wait()
		same(t, "two seconds later", w.HasTurn(), true)
	})
}

func TestBucketQueues(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := setup(t, Policy{Rate: Rate{Limit: 6, Per: time.Minute, Burst: 2, OnLimit: Queue}})
		w := d.worker("acme")
		began := time.Now()
		var at []time.Duration
		for len(at) < 5 {
			switch w.Take() {
			case Go:
				at = append(at, time.Since(began).Round(time.Millisecond))
				w.End(fine)
			case Wait:
				before := w.called()
				time.Sleep(10*time.Second + time.Millisecond)
				synctest.Wait()
				same(t, "called by the token, not by looking", w.called(), before+1)
			case NoToken:
				t.Fatal("over")
			}
		}
		for i, want := range []time.Duration{0, 0, 10 * time.Second, 20 * time.Second, 30 * time.Second} {
			if off := at[i] - want; off < 0 || off > 5*time.Millisecond {
				t.Errorf("attempt %d after %s, want %s", i, at[i], want)
			}
		}
	})
}

func TestBucketDropsAndFails(t *testing.T) {
	t.Parallel()
	for _, mode := range []OnLimit{Drop, Error} {
		synctest.Test(t, func(t *testing.T) {
			d := setup(t, Policy{Concurrency: 1, Rate: Rate{Limit: 1, Per: time.Second, Burst: 2, OnLimit: mode}})
			w := d.worker("acme")
			var got []Answer
			for range 3 {
				if got = append(got, w.Take()); got[len(got)-1] == Go {
					w.End(fine)
				}
			}
			same(t, "what is over takes no slot", d.Status().Running, 0)
			time.Sleep(time.Second)
			got = append(got, w.Take())
			same(t, "answers", got, []Answer{Go, Go, NoToken, Go})
			same(t, "mode", w.OnLimit(), mode)
			same(t, "who waits for a slot", w.Take(), Wait)
			w.End(fine)
			other := d.worker("acme")
			same(t, "who comes behind it", other.Take(), Wait)
			same(t, "has its turn, without a token", w.Take(), NoToken)
			same(t, "and makes room for the next", other.HasTurn(), true)
			same(t, "counted", testutil.ToFloat64(d.metrics.limited), 2.0)
		})
	}
}

func TestPausesAfterFailuresInARow(t *testing.T) {
	t.Parallel()
	for _, f := range sink.Failures() {
		t.Run(f.What, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := setup(t, Policy{Pause: AutoPause{Failures: 10}})
				w := d.worker("acme")
				o := &Outcome{Class: f.Class}
				if len(f.Codes) > 0 {
					o.Code = f.Codes[0][0]
				}
				for range 9 {
					w.try(broken)
				}
				w.try(o)
				pauses := map[sink.Class]bool{sink.ClassDenied: true, sink.ClassThrottled: true, sink.ClassBusy: true, sink.ClassTimeout: true,
					sink.ClassNetwork: true, sink.ClassDNS: true, sink.ClassForbidden: true}[f.Class]
				same(t, "paused", d.Status().Paused != nil, pauses)
				if pauses {
					same(t, "why", *d.Status().Paused, Pause{At: time.Now(), By: "forebay", Class: string(f.Class), Reason: "10 failures in a row"})
					same(t, "an attempt", w.Take(), Wait)
					return
				}
				w.try(broken)
				same(t, "what the destination has dealt with alone ends the row", d.Status().Paused == nil, f.Class == sink.ClassOK || f.Class == sink.ClassRejected)
			})
		})
	}
}

// What is attempted while the breaker is open asks whether the destination is back, and pauses nothing.
func TestOutageDoesNotPause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := setup(t, Policy{Pause: AutoPause{Failures: 20}, Breaker: Breaker{Failures: 10, Window: 30 * time.Second, Wait: time.Second, MaxWait: 30 * time.Second, Floor: 1}}).worker("acme")
		w.ended(10, broken)
		for range 6 * 3600 {
			time.Sleep(time.Second)
			w.try(broken)
		}
		s := w.d.Status()
		same(t, "paused", s.Paused != nil, false)
		if s.Failures < 3600 {
			t.Errorf("%d attempts in six hours", s.Failures)
		}
	})
}

func TestPausesAfterNothingButFailure(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := setup(t, Policy{Pause: AutoPause{After: 72 * time.Hour}})
		w := d.worker("acme")
		w.try(broken)
		time.Sleep(71 * time.Hour)
		w.try(fine)
		w.try(broken)
		since := time.Now()
		for range 71 {
			time.Sleep(time.Hour)
			w.try(broken)
		}
		ours := &Outcome{Class: sink.ClassTemplate} // says nothing of it
		w.try(ours)
		same(t, "after 71 h", d.Status().State, StateRunning)
		time.Sleep(time.Hour)
		w.try(ours)
		same(t, "what was not its fault", d.Status().State, StateRunning)
		w.try(broken)
		same(t, "after 72 h", d.Status().Paused, &Pause{At: time.Now(), By: "forebay", Class: "unavailable",
			Reason: "nothing but failures since " + since.UTC().Format(time.RFC3339)})
	})
	synctest.Test(t, func(t *testing.T) {
		w := setup(t, Policy{Pause: AutoPause{After: 72 * time.Hour}}).worker("acme")
		w.try(broken)
		time.Sleep(71 * time.Hour)
		w.try(refused)
		time.Sleep(2 * time.Hour)
		w.try(broken)
		same(t, "what it has refused it has dealt with", w.d.Status().State, StateRunning)
	})
}

func TestPausesWhereThePlaceIsGone(t *testing.T) {
	t.Parallel()
	for _, f := range sink.Failures() {
		for _, endpoint := range []bool{true, false} {
			if f.PauseAfter == 0 {
				continue
			}
			t.Run(fmt.Sprint(f.What, endpoint), func(t *testing.T) {
				t.Parallel()
				d := setup(t, Policy{Endpoint: endpoint})
				w := d.worker("acme")
				gone := &Outcome{Class: f.Class, Code: f.Codes[0][0]}
				for range f.PauseAfter - 1 {
					w.try(gone)
				}
				if f.PauseAfter > 1 {
					w.try(refused)
					for range f.PauseAfter - 1 {
						w.try(gone)
						w.try(&Outcome{Class: sink.ClassTimeout}) // nobody answered
					}
				}
				same(t, "before", d.Status().Paused == nil, true)
				w.try(gone)
				same(t, "paused", d.Status().Paused != nil, endpoint)
				if endpoint && !strings.Contains(d.Status().Paused.Reason, fmt.Sprint("status ", f.Codes[0][0])) {
					t.Error(d.Status().Paused.Reason)
				}
			})
		}
	}
}

// kept is a Store in memory.
type kept struct {
	mu     sync.Mutex
	states map[string]ledger.DestinationState
	ended  map[string][]ledger.Span
	err    error
	unread error // of EndedPauses
	writes int
	refuse error // to write
}

func (k *kept) EndedPauses(context.Context) (map[string][]ledger.Span, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.ended, std.Or(k.err, k.unread)
}

func (k *kept) Destinations(context.Context) (map[string]ledger.DestinationState, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return maps.Clone(k.states), k.err
}

func (k *kept) PauseDestination(_ context.Context, name string, p Pause) (Pause, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.err != nil {
		return p, k.err
	}
	s := k.states[name]
	if s.Paused == nil {
		k.writes++
		p.At = p.At.Round(time.Microsecond)
		s.Paused, s.PausedFrom = &p, time.Now()
		k.states[name] = s
	}
	return *s.Paused, nil
}

// pause pauses the agent now, whatever its time says.
func (k *kept) pause(p Pause) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.states = map[string]ledger.DestinationState{"acme/agent": {Paused: &p, PausedFrom: time.Now()}}
}

func (k *kept) resume(name string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.states, name)
}

func (k *kept) FailDestination(_ context.Context, name string, since, away time.Time) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.err != nil || k.refuse != nil {
		return std.Or(k.err, k.refuse)
	}
	k.writes++
	s := k.states[name]
	if since.IsZero() {
		if !s.OpenSince.IsZero() {
			k.ended[name] = append(k.ended[name], ledger.Span{From: s.OpenSince, To: time.Now()})
		}
		s.Failing, s.OpenSince = since, since
	} else {
		s.Failing, s.OpenSince = std.Or(s.Failing, since), std.Or(s.OpenSince, away)
	}
	k.states[name] = s
	return nil
}

func (k *kept) Processes(context.Context) (int, error) { return 2, nil }

func (k *kept) EndOutage(_ context.Context, name string, outage bool) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.err != nil || k.refuse != nil {
		return std.Or(k.err, k.refuse)
	}
	k.writes++
	s := k.states[name]
	if outage && !s.OpenSince.IsZero() {
		k.ended[name] = append(k.ended[name], ledger.Span{From: s.OpenSince, To: time.Now()})
	}
	s.OpenSince = time.Time{}
	k.states[name] = s
	return nil
}

// wrote is how often something was written, and what is kept of the agent.
func (k *kept) wrote() (n int, s ledger.DestinationState) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.writes, k.states["acme/agent"]
}

func (k *kept) fail(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.err = err
}

// keep runs a Keeper until the test ends.
func keep(t *testing.T, k *kept, list ...*Destination) *Keeper {
	t.Helper()
	keeper := &Keeper{Store: k, Destinations: map[string]*Destination{}, Logger: slog.New(slog.DiscardHandler)}
	for _, d := range list {
		keeper.Destinations[d.Name()] = d
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { keeper.Run(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
	return keeper
}

// TestPausesReachEveryProcess: what one process finds out pauses the other, and both go on when it is resumed.
func TestPausesReachEveryProcess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := &kept{states: map[string]ledger.DestinationState{}}
		policy := Policy{Concurrency: 4, Endpoint: true, Recovery: 10 * time.Second}
		one, other := setup(t, policy), setup(t, policy)
		here := keep(t, k, one)
		keep(t, k, other)
		w, v := one.worker("acme"), other.worker("acme")
		synctest.Wait()
		time.Sleep(100 * time.Millisecond)
		k.fail(errors.New("postgres is away"))
		w.try(&Outcome{Class: sink.ClassRejected, Code: 410})
		time.Sleep(time.Minute)
		synctest.Wait()
		same(t, "as long as nobody can be told", []State{one.Status().State, other.Status().State}, []State{StatePaused, StateRunning})
		k.fail(nil)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		same(t, "then", []State{one.Status().State, other.Status().State}, []State{StatePaused, StatePaused})
		n, _ := k.wrote()
		same(t, "written once", n, 1)
		same(t, "waits", []Answer{w.Take(), v.Take()}, []Answer{Wait, Wait})
		k.resume("acme/agent")
		if err := here.Sync(t.Context()); err != nil {
			t.Error(err)
		}
		same(t, "at once where somebody looks", []int{w.called(), v.called()}, []int{1, 0})
		time.Sleep(time.Second)
		synctest.Wait()
		same(t, "within a second elsewhere", []int{w.called(), v.called()}, []int{1, 1})
		same(t, "and slowly", []State{one.Status().State, other.Status().State}, []State{StateRecovering, StateRecovering})
	})
}

func TestOperatorsPauseStaysBesideItsOwn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		theirs := Pause{At: time.Now(), By: "ann@ops", Reason: "they move"}
		k := &kept{states: map[string]ledger.DestinationState{"acme/agent": {Paused: &theirs}}}
		d := setup(t, Policy{Endpoint: true})
		w := d.worker("acme")
		w.Take()
		w.End(&Outcome{Class: sink.ClassRejected, Code: 410})
		keep(t, k, d)
		synctest.Wait()
		same(t, "pause", *d.Status().Paused, theirs)
	})
}

// TestFailureOutlivesAProcess: the time goes on in the next process, and end where any process gets through.
func TestFailureOutlivesAProcess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := &kept{states: map[string]ledger.DestinationState{}}
		policy := Policy{Pause: AutoPause{After: 72 * time.Minute}}
		one, next, other := setup(t, policy), setup(t, policy), setup(t, policy)
		keep(t, k, one)
		one.worker("acme").try(broken)
		since := time.Now()
		time.Sleep(30 * time.Second)
		synctest.Wait()
		n, _ := k.wrote()
		same(t, "what has failed for half a minute is not told", n, 0)
		time.Sleep(40 * time.Minute)
		keep(t, k, next)
		keep(t, k, other)
		synctest.Wait()
		same(t, "the next process knows", next.Status().Failing.Equal(since), true)
		w := next.worker("acme")
		w.try(broken)
		other.worker("acme").try(fine)
		time.Sleep(3 * time.Second)
		synctest.Wait()
		_, state := k.wrote()
		same(t, "ended by another process", state.Failing.IsZero(), true)
		time.Sleep(35 * time.Minute)
		w.try(broken)
		same(t, "35 min after that", next.Status().State, StateRunning)
		time.Sleep(37 * time.Minute)
		synctest.Wait()
		w.try(broken)
		same(t, "72 min after that", next.Status().State, StatePaused)
	})
}

// TestOutageOutlivesAProcess: a process that begins while a destination is away begins with an open breaker, and knows for how long no
// time has counted, also where it begins after the outage. Where another process gets through, the breaker goes on, too.
func TestOutageOutlivesAProcess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began, k := time.Now(), &kept{states: map[string]ledger.DestinationState{}, ended: map[string][]ledger.Span{}}
		policy := usual
		policy.MaxHold = time.Hour
		one, next, after := setup(t, policy), setup(t, policy), setup(t, policy)
		keep(t, k, one)
		one.worker("acme").ended(10, broken)
		time.Sleep(30 * time.Second)
		n, _ := k.wrote()
		same(t, "what is away for half a minute is not told", n, 0)
		time.Sleep(time.Hour)
		keep(t, k, next)
		synctest.Wait()
		same(t, "the next process knows", next.Status().Breaker, Open)
		same(t, "for how long", next.BlockedFor(began, time.Now()), time.Since(began))
		w := next.worker("acme")
		time.Sleep(time.Hour)
		w.try(fine)
		away := time.Since(began)
		time.Sleep(time.Hour)
		synctest.Wait()
		same(t, "it got through", next.Status().Breaker, Closed)
		same(t, "the first goes on", one.Status().Breaker != Open && one.Status().Breaker != HalfOpen, true)
		keep(t, k, after)
		synctest.Wait()
		same(t, "a process after it", after.Status().Breaker, Closed)
		for name, d := range map[string]*Destination{"the next": next, "the one after it": after} {
			same(t, name+" knows how long it was away", d.BlockedFor(began, time.Now()).Round(5*time.Second), away.Round(5*time.Second))
		}
	})
}

// TestOneProcessWithoutNetwork: one that cannot connect neither opens the breaker of one that gets through, nor makes an outage of it.
// Where the other gets nothing through any more, it is one for both.
func TestOneProcessWithoutNetwork(t *testing.T) {
	t.Parallel()
	for _, every := range []time.Duration{10 * time.Second, 50 * time.Second, 10 * time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			began, k := time.Now(), &kept{states: map[string]ledger.DestinationState{}, ended: map[string][]ledger.Span{}}
			healthy, cutOff := setup(t, usual), setup(t, usual)
			keep(t, k, healthy)
			keep(t, k, cutOff)
			w, v := healthy.worker("acme"), cutOff.worker("acme")
			stored := 0
			for at := time.Duration(0); at < time.Hour; at += time.Second {
				v.try(broken)
				if at%every == 0 {
					same(t, "the healthy one attempts", w.try(fine), true)
				}
				time.Sleep(time.Second)
				synctest.Wait()
				if s := healthy.Status(); s.Breaker != Closed {
					t.Fatalf("one success each %s: breaker %s after %s", every, s.Breaker, at)
				}
				if _, s := k.wrote(); !s.OpenSince.IsZero() {
					stored++
				}
			}
			same(t, "the other's breaker", cutOff.Status().Breaker != Closed, true)
			same(t, "was stored", stored > 0, true)
			same(t, "counts for no retry", healthy.BlockedFor(began, time.Now()), time.Duration(0))
			same(t, "outages kept", len(k.ended["acme/agent"]), 0)
			for range 200 {
				v.try(broken)
				w.try(broken)
				time.Sleep(10 * time.Second)
			}
			synctest.Wait()
			same(t, "breaker where nothing gets through any more", healthy.Status().Breaker != Closed, true)
			w.try(fine)
			time.Sleep(2 * time.Second)
			synctest.Wait()
			same(t, "outages kept then", len(k.ended["acme/agent"]), 1)
		})
	}
}

// TestOutageEndsWithARefusal: where an outage ends in 401, it is over, for this process and the next, and nothing succeeds yet all the same.
func TestOutageEndsWithARefusal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began, k := time.Now(), &kept{states: map[string]ledger.DestinationState{}, ended: map[string][]ledger.Span{}}
		d, next := setup(t, usual), setup(t, usual)
		keep(t, k, d)
		w := d.worker("acme")
		for range 300 {
			w.try(broken)
			time.Sleep(time.Second)
		}
		same(t, "refused", w.try(&Outcome{Class: sink.ClassDenied, Code: 401}), true)
		back := time.Now()
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		_, s := k.wrote()
		same(t, "what is kept", []bool{s.Failing.Equal(began), s.OpenSince.IsZero(), len(k.ended["acme/agent"]) == 1}, []bool{true, true, true})
		keep(t, k, next)
		synctest.Wait()
		for name, d := range map[string]*Destination{"it": d, "the next": next} {
			same(t, "breaker of "+name, d.Status().Breaker, Closed)
			same(t, "time that does not count in "+name, d.BlockedFor(back.Add(2*time.Second), time.Now()), time.Duration(0))
			same(t, "failing since, in "+name, d.Status().Failing.Equal(began), true)
		}
	})
}

// TestSuccessIsToldUntilItIsKept: what the store did not take is told again, and not forgotten for the failure that it has.
func TestSuccessIsToldUntilItIsKept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := &kept{states: map[string]ledger.DestinationState{"acme/agent": {Failing: time.Now().Add(-time.Hour)}}}
		d := setup(t, Policy{Pause: AutoPause{After: 2 * time.Hour}})
		w := d.worker("acme")
		keep(t, k, d)
		synctest.Wait()
		k.mu.Lock()
		k.refuse = errors.New("read only")
		k.mu.Unlock()
		w.try(fine)
		time.Sleep(10 * time.Second)
		w.try(broken)
		since := time.Now()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		same(t, "since when it fails, while nothing is kept", d.Status().Failing.Equal(since), true)
		k.mu.Lock()
		k.refuse = nil
		k.mu.Unlock()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		_, state := k.wrote()
		same(t, "kept", state.Failing.IsZero(), true)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		_, state = k.wrote()
		same(t, "and the failure after it", state.Failing.Equal(since), true)
	})
}

// TestTokensComeBack: an attempt that is not made costs no token, whichever way it is charged and given up.
func TestTokensComeBack(t *testing.T) {
	t.Parallel()
	for _, mode := range []OnLimit{Queue, Drop, Error} {
		synctest.Test(t, func(t *testing.T) {
			d := setup(t, Policy{Concurrency: 1, Rate: Rate{Limit: 1, Per: time.Hour, Burst: 1, OnLimit: mode}})
			w, v := d.worker("acme"), d.worker("acme")
			for range 3 {
				same(t, "taken", w.Take(), Go)
				w.GiveBack()
			}
			same(t, "taken", w.Take(), Go)
			same(t, "the other waits", v.Take(), Wait)
			w.GiveBack()
			same(t, "and has its turn, with the token", v.HasTurn(), true)
			v.Pass()
			same(t, "which it passes on", w.Take(), Go)
			w.End(fine)
			over := map[OnLimit]Answer{Queue: Wait, Drop: NoToken, Error: NoToken}[mode]
			same(t, "made, it is spent", w.Take(), over)
			w.Pass()
			same(t, "slots", d.Status().Running, 0)
		})
	}
}

// TestPaceComesBack: the same of the pace after a hold.
func TestPaceComesBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := setup(t, Policy{MaxHold: time.Minute, Recovery: time.Hour})
		w := d.worker("acme")
		w.try(&Outcome{Class: sink.ClassThrottled, Code: 429, RetryAfter: time.Minute})
		time.Sleep(time.Minute)
		for range 3 {
			same(t, "taken", w.Take(), Go)
			w.GiveBack()
		}
		same(t, "taken", w.Take(), Go)
		w.End(fine)
		same(t, "made, it is spent", w.Take(), Wait)
	})
}

// TestTurnStandsNoLongerThanItsDestination: what was given before a pause, a hold or an open breaker is not taken in it.
func TestTurnStandsNoLongerThanItsDestination(t *testing.T) {
	t.Parallel()
	held := &Outcome{Class: sink.ClassBusy, Code: 503, RetryAfter: time.Minute}
	for name, stop := range map[string]*Outcome{"held": held, "open": broken, "paused": {Class: sink.ClassRejected, Code: 410}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := setup(t, Policy{Concurrency: 3, Endpoint: true, MaxHold: time.Minute,
					Breaker: Breaker{Failures: 1, Window: time.Minute, Wait: time.Minute, MaxWait: time.Minute}})
				a, b, c := d.worker("acme"), d.worker("acme"), d.worker("acme")
				same(t, "there are three slots", []Answer{a.Take(), b.Take(), b.Take(), c.Take()}, []Answer{Go, Go, Go, Wait})
				b.End(nil)
				same(t, "c has its turn", c.HasTurn(), true)
				same(t, "b stands", b.StillAllowed(), true)
				b.End(stop)
				same(t, "nothing stands", []bool{a.StillAllowed(), c.StillAllowed()}, []bool{false, false})
				same(t, "c waits", []any{c.Take(), c.HasTurn()}, []any{Wait, false})
				a.GiveBack()
				same(t, "no slot is lost", d.Status().Running, 0)
				if stop.Code == 410 {
					d.mu.Lock()
					d.resume(time.Now())
					d.mu.Unlock()
				}
				time.Sleep(2 * time.Minute)
				synctest.Wait()
				same(t, "until it is over", []any{c.called(), c.Take()}, []any{2, Go})
			})
		})
	}
}

// TestTimeNobodyCouldAttempt: for how long nobody could attempt anything, by whatever kept them, and counted once.
func TestTimeNobodyCouldAttempt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		k := &kept{states: map[string]ledger.DestinationState{},
			ended: map[string][]ledger.Span{"acme/agent": {{From: began.Add(-5 * time.Hour), To: began.Add(-3 * time.Hour)}}}}
		d := setup(t, Policy{Concurrency: 9, MaxHold: time.Hour, Breaker: Breaker{Failures: 1, Window: time.Minute, Wait: time.Hour, MaxWait: time.Hour}})
		w := d.worker("acme")
		keep(t, k, d)
		synctest.Wait()
		away := func(what string, want time.Duration) {
			t.Helper()
			same(t, what, d.BlockedFor(began, time.Now()).Round(time.Minute), want)
		}
		same(t, "before this process", d.BlockedFor(began.Add(-4*time.Hour), began), time.Hour)
		away("nothing yet", 0)
		w.try(&Outcome{Class: sink.ClassThrottled, Code: 429, RetryAfter: time.Hour})
		time.Sleep(30 * time.Minute)
		away("in a hold", 30*time.Minute)
		time.Sleep(90 * time.Minute)
		away("after it", time.Hour)
		w.try(broken)
		time.Sleep(90 * time.Minute)
		away("behind an open breaker, also when nobody tries any more", 2*time.Hour+30*time.Minute)
		for range 3 {
			w.try(broken)
			time.Sleep(time.Hour)
		}
		w.try(fine)
		away("whose attempts fail", 5*time.Hour+30*time.Minute)
		k.pause(Pause{At: time.Now(), By: "ann@ops", Reason: "they move"})
		time.Sleep(10 * time.Hour)
		away("paused", 15*time.Hour+30*time.Minute)
		k.resume("acme/agent")
		time.Sleep(time.Hour)
		away("resumed", 15*time.Hour+30*time.Minute)
	})
}

// TestTimeNobodyCouldAttemptOfADestinationThatFlaps: what is kept is bounded, and how long it was blocked is known of all of it, however often: of a
// part of it nearly.
func TestTimeNobodyCouldAttemptOfADestinationThatFlaps(t *testing.T) {
	t.Parallel()
	d := setup(t, Policy{})
	const times, every, blocked = 20 * maxSpans, 1000 * time.Second, 100 * time.Second
	began := time.Unix(0, 0)
	for i := range times {
		from := began.Add(time.Duration(i) * every)
		d.addBlocked(from, from.Add(blocked))
		d.addBlocked(from.Add(-blocked/2), from.Add(blocked/2)) // a part of it once more
	}
	same(t, "spans", len(d.blocked), maxSpans)
	end := began.Add(times * every)
	same(t, "of all the time", d.BlockedFor(began.Add(-every), end).Round(time.Second), times*(blocked+blocked/2))
	for _, part := range []int{2, 3, 10, 100} {
		from := end.Add(-times * every / time.Duration(part))
		got, want := d.BlockedFor(from, end), times*(blocked+blocked/2)/time.Duration(part)
		if off := got - want; off.Abs() > want/10 {
			t.Errorf("%s in the last 1/%d, want %s", got, part, want)
		}
	}
	whole := d.BlockedFor(began, end, ledger.Span{From: began, To: end})
	same(t, "a subscription that was paused all the time", whole, end.Sub(began))
}

// TestTimeNobodyCouldAttemptLeavesOutAttempts: between a hold and the next one attempts were made; behind an open breaker only those
// that tried whether it works again.
func TestTimeNobodyCouldAttemptLeavesOutAttempts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began, d := time.Now(), setup(t, Policy{MaxHold: time.Hour})
		w := d.worker("acme")
		for range 90 {
			w.try(&Outcome{Class: sink.ClassThrottled, Code: 429, RetryAfter: 5 * time.Second})
			time.Sleep(10 * time.Second)
			w.try(fine)
			time.Sleep(30 * time.Second)
		}
		same(t, "throttled now and then", d.BlockedFor(began, time.Now()), 90*5*time.Second)
	})
	synctest.Test(t, func(t *testing.T) {
		began, d := time.Now(), setup(t, Policy{Breaker: Breaker{Failures: 1, Window: time.Minute, Wait: 5 * time.Second, MaxWait: 5 * time.Second}})
		w := d.worker("acme")
		for range 90 {
			same(t, "taken", w.Take(), Go)
			time.Sleep(10 * time.Second)
			w.End(broken)
			time.Sleep(30 * time.Second)
		}
		same(t, "away since the first has failed", d.BlockedFor(began, time.Now()), (90*40-10)*time.Second)
		w.try(fine)
		time.Sleep(time.Hour)
		same(t, "until one gets through", d.BlockedFor(began, time.Now()), (90*40-10)*time.Second)
	})
}

// TestTimeNobodyCouldAttemptEndsWithTheResume: a resume ends the wait of a breaker that opened before, not what an answer asked for.
func TestTimeNobodyCouldAttemptEndsWithTheResume(t *testing.T) {
	t.Parallel()
	for _, held := range []time.Duration{0, 40 * time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			began, d := time.Now(), setup(t, Policy{MaxHold: time.Hour, Breaker: Breaker{Failures: 1, Window: time.Minute, Wait: time.Hour, MaxWait: time.Hour}})
			k := &kept{states: map[string]ledger.DestinationState{}}
			w := d.worker("acme")
			w.try(&Outcome{Class: sink.ClassBusy, Code: 503, RetryAfter: held})
			keep(t, k, d)
			k.pause(Pause{At: time.Now(), By: "ann@ops", Reason: "they move"})
			time.Sleep(10 * time.Minute)
			k.resume("acme/agent")
			time.Sleep(2 * time.Hour)
			synctest.Wait()
			same(t, "taken", w.try(fine), true)
			same(t, "away", d.BlockedFor(began, time.Now()).Round(time.Minute), max(held, 10*time.Minute))
		})
	}
}

// TestTimeOfAPauseIsOurs: a pause that another's clock gives a time an hour off lasted as long as it lasted.
func TestTimeOfAPauseIsOurs(t *testing.T) {
	t.Parallel()
	for _, off := range []time.Duration{-time.Hour, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			began, d := time.Now(), setup(t, Policy{})
			k := &kept{states: map[string]ledger.DestinationState{}}
			keep(t, k, d)
			time.Sleep(2 * time.Hour)
			k.pause(Pause{At: time.Now().Add(off), By: "ann@ops", Reason: "they move"})
			time.Sleep(30 * time.Minute)
			same(t, "paused", d.BlockedFor(began, time.Now()).Round(time.Minute), 30*time.Minute)
			k.resume("acme/agent")
			time.Sleep(4 * time.Hour)
			same(t, "resumed", d.BlockedFor(began, time.Now()).Round(time.Minute), 30*time.Minute)
		})
	}
}

// TestPausesAreReadFirst: what was before cannot be read, and what is now is known all the same; it is asked for again.
func TestPausesAreReadFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began, d := time.Now(), setup(t, Policy{})
		k := &kept{unread: errors.New("canceling statement due to statement timeout"),
			ended: map[string][]ledger.Span{"acme/agent": {{From: began.Add(-2 * time.Hour), To: began.Add(-time.Hour)}}}}
		k.pause(Pause{At: began, By: "ann@ops", Reason: "they move"})
		keeper := keep(t, k, d)
		synctest.Wait()
		same(t, "state", d.Status().State, StatePaused)
		same(t, "what is known, and what is not", []bool{keeper.Sync(t.Context()) == nil, keeper.LoadEndedPauses(t.Context()) == nil}, []bool{true, false})
		k.resume("acme/agent")
		time.Sleep(2 * time.Second)
		synctest.Wait()
		same(t, "state", d.Status().State, StateRunning)
		k.mu.Lock()
		k.unread = nil
		k.mu.Unlock()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		same(t, "before this process", d.BlockedFor(began.Add(-3*time.Hour), began), time.Hour)
	})
}

// TestBlockedWithoutTokens: who waits long for each token leaves what it has to the ledger, who waits for moments does not.
func TestBlockedWithoutTokens(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		rate Rate
		want bool
	}{
		{Rate{Limit: 1, Per: time.Minute, Burst: 1, OnLimit: Queue}, true},
		{Rate{Limit: 10, Per: time.Minute, Burst: 3, OnLimit: Queue}, true},
		{Rate{Limit: 2, Per: time.Second, Burst: 1, OnLimit: Queue}, false},
		{Rate{Limit: 1, Per: time.Minute, Burst: 1, OnLimit: Drop}, false},
		{Rate{}, false},
	} {
		w := setup(t, Policy{Rate: tt.rate}).worker("acme")
		same(t, "with tokens", w.Blocked(), false)
		for range tt.rate.Burst {
			w.try(fine)
		}
		same(t, fmt.Sprintf("%+v", tt.rate), w.Blocked(), tt.want)
	}
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		reg := prometheus.NewPedanticRegistry()
		for _, name := range []string{"acme/agent", "acme/other"} {
			d, err := New(Config{Name: name, Policy: Policy{Concurrency: 2, MaxHold: time.Minute}, Registerer: reg})
			if err != nil {
				t.Fatal(err)
			}
			w := d.worker("acme")
			w.Take()
			if name == "acme/agent" {
				w.try(&Outcome{Class: sink.ClassThrottled, Code: 429, RetryAfter: 30 * time.Second})
				w.Take()
			}
		}
		want := `# HELP forebay_destination_hold_seconds For how long the destination is still to be left alone, as it asked.
# TYPE forebay_destination_hold_seconds gauge
forebay_destination_hold_seconds{destination="acme/agent"} 30
forebay_destination_hold_seconds{destination="acme/other"} 0
# HELP forebay_destination_running_attempts Attempts under way at the destination.
# TYPE forebay_destination_running_attempts gauge
forebay_destination_running_attempts{destination="acme/agent"} 1
forebay_destination_running_attempts{destination="acme/other"} 1
# HELP forebay_destination_waiting_subscriptions Subscriptions that have something to attempt at the destination and may not now.
# TYPE forebay_destination_waiting_subscriptions gauge
forebay_destination_waiting_subscriptions{destination="acme/agent"} 1
forebay_destination_waiting_subscriptions{destination="acme/other"} 0
`
		if err := testutil.GatherAndCompare(reg, strings.NewReader(want), "forebay_destination_hold_seconds",
			"forebay_destination_running_attempts", "forebay_destination_waiting_subscriptions"); err != nil {
			t.Error(err)
		}
		if n, err := testutil.GatherAndCount(reg, "forebay_destination_state"); n != 2*len(States()) || err != nil {
			t.Error(n, err)
		}
	})
}

// BenchmarkAdmission is what a destination costs an attempt that need not wait.
func BenchmarkAdmission(b *testing.B) {
	for _, bb := range []struct {
		name   string
		policy Policy
	}{
		{"all bounds", Policy{Concurrency: 64, MaxHold: time.Hour, Recovery: time.Minute, Endpoint: true,
			Breaker: Breaker{Failures: 10, Window: time.Minute, Wait: time.Second, MaxWait: time.Minute}, Pause: AutoPause{Failures: 100, After: time.Hour}}},
		{"and a rate", Policy{Concurrency: 64, Rate: Rate{Limit: 1 << 30, Per: time.Second, Burst: 1 << 30, OnLimit: Queue}}},
	} {
		b.Run(bb.name, func(b *testing.B) {
			w := setup(b, bb.policy).worker("acme")
			b.ReportAllocs()
			for b.Loop() {
				if w.Take() != Go || !w.StillAllowed() {
					b.Fatal("it waits")
				}
				w.End(fine)
			}
		})
	}
}

// TestComesBack: where nothing has got through for a while and an attempt does, what waits is tried again, in processes that attempt nothing, too, and
// slowly at first. Until then one attempt is made now and then. What fails among others that get through changes nothing, and a process that alone is cut
// off tries what waits there now and then.
func TestComesBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := &kept{states: map[string]ledger.DestinationState{}, ended: map[string][]ledger.Span{}}
		one, idle := setup(t, usual), setup(t, usual)
		w := one.worker("acme")
		told := map[*Destination][]Again{}
		keepers := map[*Destination]*Keeper{}
		for _, d := range []*Destination{one, idle} {
			keepers[d] = &Keeper{Store: k, Destinations: map[string]*Destination{d.Name(): d}, Logger: slog.New(slog.DiscardHandler),
				TryAgain: func(_ string, which Again) {
					told[d] = append(told[d], which)
					if d == one && which == AgainOne {
						w.try(broken)
					}
				}}
		}
		pass := func(d time.Duration) {
			for range d / (10 * time.Second) {
				time.Sleep(10 * time.Second)
				same(t, "sync", errors.Join(keepers[one].Sync(t.Context()), keepers[idle].Sync(t.Context())), nil)
			}
		}
		w.try(fine)
		w.try(broken)
		pass(30 * time.Second)
		w.try(fine)
		w.try(broken)
		pass(30 * time.Second)
		w.try(fine)
		pass(time.Minute)
		same(t, "what fails among others", len(told), 0)

		w.try(broken)
		pass(5 * time.Minute)
		same(t, "a probe", told[one], []Again{AgainOne})
		pass(8 * time.Hour)
		n := len(told[one])
		same(t, "probes, fewer and fewer", n > 10 && n < 40, true)
		waits := len(told[idle])
		w.try(fine)
		pass(10 * time.Second)
		same(t, "back", told[one][n:], []Again{AgainAway})
		same(t, "back, as the other has found", told[idle][waits:], []Again{AgainAway})
		same(t, "slowly", []State{one.Status().State, idle.Status().State}, []State{StateRecovering, StateRecovering})
		pass(time.Hour)
		same(t, "once", []int{len(told[one]), len(told[idle])}, []int{n + 1, waits + 1})

		clear(told)
		began := time.Now()
		for other := idle.worker("acme"); time.Since(began) < time.Hour; pass(20 * time.Second) {
			w.try(broken)
			pass(10 * time.Second)
			other.try(fine)
		}
		same(t, "cut off alone, now and then", len(told[one]) > 5 && len(told[one]) <= 12, true)
		same(t, "the one that gets through", len(told[idle]), 0)

		quiet := setup(t, usual) // its breaker does not open
		v := quiet.worker("acme")
		v.try(broken)
		time.Sleep(2 * time.Minute)
		v.try(fine)
		same(t, "slowly, too", quiet.Status().State, StateRecovering)
		asked := setup(t, usual)
		asked.adopt(ledger.DestinationState{Resumed: time.Now().Add(-time.Hour)})
		same(t, "an operator's word of before", asked.Status().State, StateRunning)
		same(t, "all", asked.adopt(ledger.DestinationState{Resumed: time.Now()}).again, AgainAll)
		same(t, "slowly, as an operator wants", asked.Status().State, StateRecovering)
	})
}
