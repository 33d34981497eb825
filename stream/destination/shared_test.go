package destination

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/counter"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/ledger/ledgertest"
	"github.com/forebay-io/forebay/stream/ledger/pgtest"
)

// slow is a store of counters that takes its time, and counts how often it is asked.
type slow struct {
	counter.Store
	took  time.Duration
	asked atomic.Int64
}

func (s *slow) Count(ctx context.Context, asks []ledger.CounterAsk) ([]ledger.CounterGrant, error) {
	s.asked.Add(1)
	time.Sleep(s.took)
	return s.Store.Count(ctx, asks)
}

// sharing is the destination of a process that shares its rate. counting returns when ctx has ended.
func sharing(ctx context.Context, t testing.TB, r Rate, store counter.Store, processes int, counting *sync.WaitGroup) *Destination {
	d := setup(t, Policy{Rate: r})
	c := counter.New(store, nil)
	counting.Go(func() { c.Run(ctx) })
	d.share(c, processes)
	return d
}

// began are the times of attempts, of all processes.
type began struct {
	mu sync.Mutex
	at []time.Time
}

func (b *began) note() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.at = append(b.at, time.Now())
}

// attempt makes attempts until ctx ends, each as soon as it may and after idle.
func attempt(ctx context.Context, d *Destination, b *began, idle func() time.Duration) (over int) {
	called := make(chan struct{}, 1)
	u := d.Join("acme", func() { called <- struct{}{} })
	defer u.Leave()
	for ctx.Err() == nil {
		answer, permit := u.Take()
		switch answer {
		case Go:
			b.note()
			u.End(permit, nil)
		case NoToken:
			over++
		}
		if wait := idle(); answer != Wait && wait > 0 {
			time.Sleep(wait)
		}
		if answer == Wait {
			select {
			case <-called:
			case <-ctx.Done():
			}
		}
	}
	return over
}

// most returns by how many attempts the fullest of all windows has more than the rate allows.
func (b *began) over(r Rate) (worst float64) {
	slices.SortFunc(b.at, time.Time.Compare)
	for i := range b.at {
		for j := i; j < len(b.at); j++ {
			worst = max(worst, float64(j-i+1)-float64(r.Burst)-r.perSecond()*b.at[j].Sub(b.at[i]).Seconds())
		}
	}
	return worst
}

// TestRateOfAllProcesses: however many processes there are, and whatever each has to do, in no window do they begin more attempts than one might;
// those that have enough to do begin as many; and the ledger is asked a few times a second.
func TestRateOfAllProcesses(t *testing.T) {
	t.Parallel()
	for _, r := range []Rate{
		{Limit: 100, Per: time.Second, Burst: 100}, {Limit: 100, Per: time.Second, Burst: 20}, {Limit: 7, Per: time.Second, Burst: 1},
		{Limit: 1000, Per: time.Minute, Burst: 200}, {Limit: 2, Per: time.Second, Burst: 30}, {Limit: 200, Per: time.Second, Burst: 1},
	} {
		for _, n := range []int{1, 2, 5} {
			for _, busy := range []bool{true, false} {
				synctest.Test(t, func(t *testing.T) {
					r := r
					r.OnLimit = Queue
					name := fmt.Sprintf("%d processes, busy %t, %+v", n, busy, r)
					rng := rand.New(rand.NewPCG(uint64(n), uint64(r.Limit)))
					var all began
					store := &slow{Store: &ledgertest.Counters{}, took: 2 * time.Millisecond}
					counted, stop := context.WithCancel(t.Context())
					ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
					defer cancel()
					var counting, working sync.WaitGroup
					var mu sync.Mutex
					for i := range n {
						d := sharing(counted, t, r, store, n, &counting)
						working.Go(func() {
							attempt(ctx, d, &all, func() time.Duration {
								if busy {
									return 0
								}
								mu.Lock()
								defer mu.Unlock()
								// One has enough to do at times, others a little.
								if rng.IntN(20*(i+1)) > 0 {
									return 0
								}
								return time.Duration(rng.Int64N(int64(3 * time.Second)))
							})
						})
					}
					working.Wait()
					stop()
					counting.Wait()
					most, _, burst := r.lease()
					if over, allowed := all.over(r), float64(max(0, burst+most-int64(r.Burst))); most > 1 && over > allowed+1e-6 || most == 1 && n == 1 && over > 1e-6 {
						t.Errorf("%s: %f attempts too many in a window", name, over)
					} else if over > 1 && most == 1 {
						t.Errorf("%s: %f attempts too many in a window", name, over)
					}
					if want := 0.95 * (20*r.perSecond() + float64(r.Burst)) * boolTo(busy); float64(len(all.at)) < want-2 {
						t.Errorf("%s: %d attempts, want %f", name, len(all.at), want)
					}
					if asked, bound := store.asked.Load(), int64(21*20*n+2*r.Burst); asked > bound {
						t.Errorf("%s: the ledger was asked %d times in 20 s", name, asked)
					}
				})
			}
		}
	}
}

func boolTo(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// TestRateOfAllProcessesDrops: an action that does not wait is told at once that there is no token, but never before the ledger has said so.
func TestRateOfAllProcessesDrops(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := Rate{Limit: 8, Per: time.Second, Burst: 8, OnLimit: Drop}
		ctx, cancel := context.WithTimeout(t.Context(), 9900*time.Millisecond)
		defer cancel()
		counted, stop := context.WithCancel(t.Context())
		var counting, working sync.WaitGroup
		var all began
		var dropped atomic.Int64
		store := &slow{Store: &ledgertest.Counters{}, took: time.Millisecond}
		for range 2 {
			d := sharing(counted, t, r, store, 2, &counting)
			working.Go(func() {
				dropped.Add(int64(attempt(ctx, d, &all, func() time.Duration { return 100 * time.Millisecond })))
			})
		}
		working.Wait()
		stop()
		counting.Wait()
		if n := len(all.at); n > 8+80 || n < 80 {
			t.Errorf("%d attempts", n)
		}
		if got := int(dropped.Load()) + len(all.at); got < 180 || dropped.Load() < 90 {
			t.Errorf("%d dropped and %d made: who asks does not wait", dropped.Load(), len(all.at))
		}
	})
}

// TestRateOfOneProcessDrops: a process that has used the rate up alone says so of each action at once, as long as there is no token.
func TestRateOfOneProcessDrops(t *testing.T) {
	t.Parallel()
	for name, r := range map[string]Rate{
		"one token at a time": {Limit: 1, Per: time.Minute, Burst: 1, OnLimit: Drop}, "used by looks": {Limit: 100, Per: time.Minute, Burst: 8, OnLimit: Error},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				counted, stop := context.WithCancel(t.Context())
				var counting sync.WaitGroup
				w := sharing(counted, t, r, &ledgertest.Counters{}, 1, &counting).worker("acme")
				for range 2 {
					same(t, "the ledger is asked", w.Take(), Wait)
					synctest.Wait()
					same(t, "its turn", w.Take(), Go)
					for range r.Burst - 1 {
						w.Spend()
					}
					w.End(fine)
					for range 3 {
						time.Sleep(150 * time.Millisecond)
						same(t, "without a token", w.Take(), NoToken)
					}
					time.Sleep(time.Duration(float64(r.Burst) / r.perSecond() * float64(time.Second)))
				}
				stop()
				counting.Wait()
			})
		})
	}
}

// TestRateWithoutLedger: without the ledger each process keeps its part of the rate, and with it again all of them together.
func TestRateWithoutLedger(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := Rate{Limit: 40, Per: time.Second, Burst: 40, OnLimit: Queue}
		counted, stop := context.WithCancel(t.Context())
		var counting sync.WaitGroup
		var model ledgertest.Counters
		model.Fail(schemas.Errorf(schemas.Unavailable, "", "away"))
		d := sharing(counted, t, r, &model, 4, &counting)
		run := func(long time.Duration) int {
			ctx, cancel := context.WithTimeout(t.Context(), long)
			defer cancel()
			var all began
			attempt(ctx, d, &all, func() time.Duration { return 0 })
			return len(all.at)
		}
		run(2 * time.Second)
		if n := run(10 * time.Second); n < 98 || n > 102 {
			t.Errorf("%d attempts in 10 s with a quarter of 40 in a second", n)
		}
		model.Fail(nil)
		run(5 * time.Second)
		if n := run(10 * time.Second); n < 385 || n > 415 {
			t.Errorf("%d attempts in 10 s with all of 40 in a second", n)
		}
		stop()
		counting.Wait()
		d.Join("acme", func() {}).Leave()
	})
}

// TestRateByReload: what several processes share of a rate that a reload adds, or of a destination that it adds, they share from the first attempt on.
func TestRateByReload(t *testing.T) {
	t.Parallel()
	for _, added := range []string{"a rate", "a destination"} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			var running sync.WaitGroup
			var store ledgertest.Counters
			with := Policy{Rate: Rate{Limit: 100, Per: time.Hour, Burst: 100, OnLimit: Queue}}
			var all began
			for range 3 {
				c := counter.New(&store, nil)
				running.Go(func() { c.Run(ctx) })
				k := &Keeper{Store: &kept{}, Tokens: c, Destinations: map[string]*Destination{}, Logger: slog.New(slog.DiscardHandler),
					Watch: func(func()) (stop func()) { return func() {} }}
				d := setup(t, Policy{})
				if added == "a rate" {
					k.Destinations[d.Name()] = d
				}
				running.Go(func() { k.Run(ctx) })
				synctest.Wait()
				if err := d.SetPolicy(with); err != nil {
					t.Fatal(err)
				}
				if added == "a destination" {
					k.Add(d)
				}
				running.Go(func() { attempt(ctx, d, &all, func() time.Duration { return 0 }) })
				synctest.Wait()
				same(t, "processes that are known to share "+added, d.leases.processes, 2) // kept says so
			}
			time.Sleep(time.Minute)
			cancel()
			running.Wait()
			if n := len(all.at); n > 105 || n < 95 {
				t.Errorf("%s: %d attempts of a rate of 100", added, n)
			}
		})
	}
}

// TestRateTokensGoBack: what a process has taken ahead, was given back, or is of another policy, another gets.
func TestRateTokensGoBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := Rate{Limit: 600, Per: time.Minute, Burst: 40, OnLimit: Queue}
		counted, stop := context.WithCancel(t.Context())
		var counting sync.WaitGroup
		var model ledgertest.Counters
		d := sharing(counted, t, r, &model, 2, &counting)
		used := func() int { return int(model.Used(d.bucket(r))) }
		w := d.worker("acme")
		same(t, "the ledger is asked", w.Take(), Wait)
		synctest.Wait()
		same(t, "taken", used(), 1)
		same(t, "its turn", w.Take(), Go)
		w.GiveBack()
		time.Sleep(time.Second)
		synctest.Wait()
		same(t, "given back", used(), 0)
		for range 9 {
			if w.Take() == Wait {
				synctest.Wait()
				same(t, "its turn", w.Take(), Go)
			}
			w.End(fine)
		}
		w.Spend()
		same(t, "taken ahead", used() > 10, true)
		if err := d.SetPolicy(Policy{}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		same(t, "none is kept by a policy without a rate", used(), 10)
		same(t, "nor asked for", w.Take(), Go)
		w.End(fine)
		stop()
		counting.Wait()
	})
}

// TestTwoProcessesOnPostgres: two processes that make attempts as fast as they may begin together as many as the rate lets one begin.
func TestTwoProcessesOnPostgres(t *testing.T) {
	t.Parallel()
	url, schema := pgtest.Migrated(t)
	r := Rate{Limit: 100, Per: time.Second, Burst: 50, OnLimit: Queue}
	counted, stop := context.WithCancel(t.Context())
	var counting, working sync.WaitGroup
	defer counting.Wait()
	defer stop()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	var each [2]began
	var all began
	for i := range each {
		l, err := ledger.Open(t.Context(), ledger.Config{URL: schemas.NewSecret(url), Schema: schema, MaxConns: 4})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		d := setup(t, Policy{Rate: r})
		c := counter.New(l, nil)
		counting.Go(func() { c.Run(counted) })
		k := &Keeper{Store: l, Destinations: map[string]*Destination{d.Name(): d}, Logger: d.log, Tokens: c}
		if err := k.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
		working.Go(func() { attempt(ctx, d, &each[i], func() time.Duration { return 0 }) })
	}
	working.Wait()
	for i := range each {
		all.at = append(all.at, each[i].at...)
	}
	if n := len(all.at); n > 50+300+5 || n < 280 {
		t.Errorf("%d and %d attempts in 3 s", len(each[0].at), len(each[1].at))
	}
	// A loaded machine may make an attempt later than its token was taken.
	if over := all.over(r); over > 10 {
		t.Errorf("%f attempts too many in a window", over)
	}
}

// TestRateOfWhatIsHeld: what one process has taken ahead, and what another takes after a quiet time, are together no more than burst.
func TestRateOfWhatIsHeld(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := Rate{Limit: 100, Per: time.Second, Burst: 100, OnLimit: Queue}
		counted, stop := context.WithCancel(t.Context())
		var counting sync.WaitGroup
		var model ledgertest.Counters
		one, other := sharing(counted, t, r, &model, 2, &counting).worker("acme"), sharing(counted, t, r, &model, 2, &counting).worker("acme")
		burst := func(w *worker, most int) (n int) {
			for n < most {
				answer := w.Take()
				if synctest.Wait(); answer == Wait && !w.HasTurn() {
					break
				}
				if answer == Go {
					w.End(fine)
					n++
				}
			}
			w.Pass()
			return n
		}
		same(t, "at first", burst(one, 60), 60)
		time.Sleep(5 * time.Second)
		same(t, "after a quiet time", burst(one, 1), 1)
		time.Sleep(240 * time.Millisecond) // the bucket is full again
		n, m := burst(one, 100), burst(other, 100)
		if n+m > 100 || n+m < 80 || n < 10 {
			t.Errorf("%d and %d at once, of a burst of 100", n, m)
		}
		stop()
		counting.Wait()
	})
}
