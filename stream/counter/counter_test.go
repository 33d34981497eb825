package counter_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
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

// process is the counters of one process.
type process struct {
	*counter.Counters
	store *mortal
	stop  func() // cleanly
}

// mortal is a store that a process which was killed reaches no more.
type mortal struct {
	counter.Store
	dead atomic.Bool
	n    atomic.Int64 // statements
}

func (m *mortal) Count(ctx context.Context, asks []ledger.CounterAsk) ([]ledger.CounterGrant, error) {
	if m.dead.Load() {
		return nil, errors.New("killed")
	}
	m.n.Add(1)
	return m.Store.Count(ctx, asks)
}

func start(t *testing.T, store counter.Store) *process {
	ctx, cancel := context.WithCancel(t.Context())
	m := &mortal{Store: store}
	p := &process{Counters: counter.New(m, nil), store: m}
	var running sync.WaitGroup
	running.Go(func() { p.Run(ctx) })
	p.stop = func() { cancel(); running.Wait() }
	t.Cleanup(p.stop)
	return p
}

// kill ends the process as kill -9 does.
func (p *process) kill() {
	p.store.dead.Store(true)
	p.stop()
}

// TestNeverMoreThanTheLimit: whatever processes take, give back, spend and however they end, no window has more than its limit used; and what
// is out of use after a kill is little.
func TestNeverMoreThanTheLimit(t *testing.T) {
	t.Parallel()
	for seed := range uint64(60) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			var store ledgertest.Counters
			l := counter.Limit{Name: "a", Units: []int64{1, 4, 100, 5000}[r.IntN(4)], Per: time.Hour}
			used := map[int64]int64{} // by window
			refused := map[int64]bool{}
			processes := []*process{start(t, &store), start(t, &store)}
			kills := int64(0)
			var held []time.Time // windows of units that may go back, by processes that may not have asked since
			for range 1500 {
				i := r.IntN(2)
				p := processes[i]
				window := time.Now().Unix() / 3600
				switch x := r.IntN(200); {
				case x == 0:
					p.kill()
					processes[i], kills, held = start(t, &store), kills+1, nil
				case x == 1:
					p.stop()
					processes[i], held = start(t, &store), nil
				case x < 6:
					time.Sleep(time.Duration(r.Int64N(int64(10 * time.Minute))))
				case x < 20 && len(held) > 0:
					p.Settle(l, -1, held[0])
					if held[0].Unix()/3600 == window {
						used[window]--
					}
					held = nil
				default:
					n := 1 + r.Int64N(min(l.Units, 3))
					a, err := p.Take(t.Context(), l, n)
					if err != nil {
						t.Fatal(err)
					}
					refused[window] = refused[window] || !a.OK && n == 1
					if a.OK {
						used[window] += n
						held = []time.Time{a.Window}
					}
					if a.Left > l.Per {
						t.Fatalf("the window ends in %s", a.Left)
					}
				}
			}
			for w, n := range used {
				if n > l.Units {
					t.Errorf("seed %d: window %d has used %d of %d", seed, w, n, l.Units)
				}
				// What others have taken ahead and not used when one is refused, too, is at most a 64th each.
				if lost := l.Units/64 + 1; refused[w] && kills == 0 && n < l.Units-2*lost-3 {
					t.Errorf("seed %d: window %d was refused with %d of %d used", seed, w, n, l.Units)
				}
			}
		})
	}
}

// TestSettleOfAWindowThatIsOver: what was taken in one window adds nothing to the next.
func TestSettleOfAWindowThatIsOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var store ledgertest.Counters
		p := start(t, &store)
		l := counter.Limit{Name: "a", Units: 2, Per: time.Hour}
		before, err := p.Take(t.Context(), l, 1)
		if err != nil || !before.OK {
			t.Fatalf("%+v %v", before, err)
		}
		time.Sleep(time.Hour)
		if a, err := p.Take(t.Context(), l, 2); err != nil || !a.OK {
			t.Fatalf("%+v %v", a, err)
		}
		p.Settle(l, -1, before.Window)
		if a, err := p.Take(t.Context(), l, 1); err != nil || a.OK {
			t.Errorf("a third of two: %+v %v", a, err)
		}
	})
}

// TestIdleUnitsGoBack: what one process has taken ahead and does not use, another gets.
func TestIdleUnitsGoBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var store ledgertest.Counters
		one, other := start(t, &store), start(t, &store)
		l := counter.Limit{Name: "a", Units: 6400, Per: 24 * time.Hour}
		if a, err := one.Take(t.Context(), l, 1); err != nil || !a.OK || a.Used != 100 {
			t.Fatalf("%+v %v", a, err)
		}
		if a, _ := other.Take(t.Context(), l, 6300); !a.OK {
			t.Fatalf("%+v", a)
		}
		if a, _ := other.Take(t.Context(), l, 1); a.OK || a.Left != l.Per { // synctest begins at midnight
			t.Fatalf("%+v", a)
		}
		time.Sleep(7 * time.Second)
		synctest.Wait()
		if got := store.Used("a"); got != 6301 {
			t.Errorf("used: %d", got)
		}
		if a, _ := other.Take(t.Context(), l, 99); !a.OK {
			t.Errorf("%+v", a)
		}
		other.Settle(l, 7, time.Time{}) // it was used already
		synctest.Wait()
		if got := store.Used("a"); got != 6407 {
			t.Errorf("spent: %d", got)
		}
	})
}

// late is a store that takes its time.
type late struct{ counter.Store }

func (l late) Count(ctx context.Context, asks []ledger.CounterAsk) ([]ledger.CounterGrant, error) {
	time.Sleep(100 * time.Millisecond)
	return l.Store.Count(ctx, asks)
}

// TestLeftUnitsGoBack: what is granted to a caller that has left goes back with what was taken ahead; what is to be counted stays so.
func TestLeftUnitsGoBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var store ledgertest.Counters
		p := start(t, late{&store})
		l := counter.Limit{Name: "a", Units: 6400, Per: 24 * time.Hour}
		for range 10 {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
			if a, err := p.Take(ctx, l, 3); err == nil {
				t.Errorf("%+v", a)
			}
			cancel()
			time.Sleep(time.Second)
		}
		synctest.Wait()
		if got := store.Used("a"); got != 0 {
			t.Errorf("%d are used of takes that nobody has waited for", got)
		}
		p.Settle(l, 7, time.Now().Truncate(l.Per))
		time.Sleep(time.Second)
		if got := store.Used("a"); got != 7 {
			t.Errorf("used: %d", got)
		}
	})
}

// TestWhatManyPutBack: units that workers take and put back, again and again, are no more out of others' use than what is taken ahead.
func TestWhatManyPutBack(t *testing.T) {
	t.Parallel()
	for _, n := range []int64{1, 10} {
		synctest.Test(t, func(t *testing.T) {
			var store ledgertest.Counters
			one, other := start(t, &store), start(t, &store)
			l := counter.Limit{Name: "a", Units: 100, Per: 24 * time.Hour}
			for range 60 / n {
				go func() {
					for range 60 {
						a, err := one.Take(t.Context(), l, n)
						if err != nil {
							t.Error(err)
						}
						time.Sleep(100 * time.Millisecond) // for another budget, which is used up
						if a.OK {
							one.Settle(l, -n, a.Window)
						}
						time.Sleep(time.Second)
					}
				}()
			}
			time.Sleep(time.Minute) // all of them have put back
			synctest.Wait()
			for had := int64(0); ; had++ {
				if a, err := other.Take(t.Context(), l, 1); err != nil {
					t.Fatal(err)
				} else if a.OK {
					continue
				}
				if had < l.Units-2 {
					t.Errorf("another process can take %d of 100, of which none is used", had)
				}
				break
			}
			time.Sleep(time.Minute)
		})
	}
}

// TestSettleAhead: what runs cost more or less than they were counted with is settled with what was taken ahead, without a statement each; nothing of it
// is lost or counted twice.
func TestSettleAhead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var store ledgertest.Counters
		p := start(t, &store)
		l := counter.Limit{Name: "a", Units: 6400, Per: time.Hour}
		a, err := p.Take(t.Context(), l, 10)
		if err != nil || !a.OK || a.Used != 100 {
			t.Fatalf("%+v %v", a, err)
		}
		for range 20 {
			p.Settle(l, 3, a.Window)
			p.Settle(l, -1, a.Window)
		}
		synctest.Wait()
		if n := p.store.n.Load(); n != 1 {
			t.Errorf("%d statements", n)
		}
		p.Settle(l, -50, a.Window) // with the 50 that are left, more than a 64th
		p.Settle(l, 90, a.Window)  // more than are left
		p.Settle(counter.Limit{Name: "a", Units: 640, Per: time.Hour}, 5, a.Window)
		p.stop()
		if got := store.Used("a"); got != 10+40-50+90+5 {
			t.Errorf("used: %d", got)
		}
	})
}

// TestSettleTogether: what was used while the ledger did not answer is counted in one statement, what goes back in another.
func TestSettleTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var store ledgertest.Counters
		store.Fail(schemas.Errorf(schemas.Unavailable, "", "away"))
		p := start(t, &store)
		l := counter.Limit{Name: "a", Units: 64, Per: time.Hour}
		for range 100 {
			p.Settle(l, 2, time.Now().Truncate(time.Hour))
			p.Settle(l, 1, time.Now().Truncate(time.Hour).Add(-time.Hour))
		}
		synctest.Wait()
		store.Fail(nil)
		before := p.store.n.Load()
		time.Sleep(time.Second)
		synctest.Wait()
		if got, n := store.Used("a"), p.store.n.Load()-before; got != 300 || n > 3 {
			t.Errorf("used: %d, by %d statements", got, n)
		}
	})
}

// TestWithoutLedger: nothing is given while the ledger does not answer, and what was spent is counted once it does.
func TestWithoutLedger(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var store ledgertest.Counters
		store.Fail(schemas.Errorf(schemas.Unavailable, "", "away"))
		p := start(t, &store)
		l := counter.Limit{Name: strings.Repeat("é", 400), Units: 5, Per: time.Hour}
		if a, err := p.Take(t.Context(), l, 1); schemas.KindOf(err) != schemas.Unavailable || a.OK {
			t.Fatalf("%+v %v", a, err)
		}
		p.Settle(l, 5, time.Time{})
		time.Sleep(3500 * time.Millisecond)
		store.Fail(nil)
		time.Sleep(time.Second)
		synctest.Wait()
		if a, err := p.Take(t.Context(), l, 1); err != nil || a.OK || a.Used != 5 {
			t.Errorf("%+v %v", a, err)
		}
		p.stop()
		time.Sleep(2 * time.Second)
		if _, err := p.Take(t.Context(), l, 1); schemas.KindOf(err) != schemas.Unavailable {
			t.Errorf("after its end: %v", err)
		}
	})
}

// TestTwoWorkersAndAKill: on Postgres, of two processes that take as fast as they can, one is killed in between and started again.
func TestTwoWorkersAndAKill(t *testing.T) {
	t.Parallel()
	url, schema := pgtest.Migrated(t)
	open := func() *ledger.Ledger {
		l, err := ledger.Open(t.Context(), ledger.Config{URL: schemas.NewSecret(url), Schema: schema, MaxConns: 4})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(l.Close)
		return l
	}
	const entities, limit = 3, 200
	var used [entities]atomic.Int64
	work := func(p *process, name string) {
		var workers sync.WaitGroup
		for range 8 {
			workers.Go(func() {
				for i := 0; i < 2*entities*limit; i++ {
					l := counter.Limit{Name: fmt.Sprint("entity ", i%entities), Units: limit, Per: 366 * 24 * time.Hour}
					a, err := p.Take(t.Context(), l, 1)
					if err != nil {
						return // it was killed
					}
					if a.OK && used[i%entities].Add(1) >= limit/4 && name == "first" {
						p.store.dead.Store(true)
					}
				}
			})
		}
		workers.Wait()
	}
	first, second := start(t, open()), start(t, open())
	var both sync.WaitGroup
	both.Go(func() { work(second, "second") })
	work(first, "first")
	first.kill()
	third := start(t, open())
	work(third, "third")
	both.Wait()
	for i := range used {
		if n := used[i].Load(); n > limit || n < limit-3*(limit/64+1)-8 {
			t.Errorf("entity %d: %d of %d were used", i, n, limit)
		}
	}
}

// unused is a context that nobody may wait for: to make it costs a timer.
type unused struct {
	context.Context
	t *testing.T
}

func (u unused) Done() <-chan struct{} {
	u.t.Error("the context is used")
	return nil
}

// TestTakeAhead: units that are taken ahead cost no statement and no context, for as long as they are used and their window lasts. Those of a window
// that is over are not used in the next one.
func TestTakeAhead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var store ledgertest.Counters
		p := start(t, &store)
		l := counter.Limit{Name: "a", Units: 6400, Per: time.Hour}
		time.Sleep(time.Until(time.Now().Truncate(time.Hour).Add(time.Hour - 20*time.Second)))
		first, err := p.Take(t.Context(), l, 1)
		if err != nil || !first.OK || !first.Asked {
			t.Fatal(first, err)
		}
		for range 6 {
			time.Sleep(3 * time.Second) // it is never idle for long
			if a, err := p.Take(unused{t.Context(), t}, l, 1); err != nil || !a.OK || a.Asked || a.Window != first.Window || a.Used != first.Used || a.Left > first.Left {
				t.Errorf("%+v %v", a, err)
			}
		}
		synctest.Wait()
		if n := p.store.n.Load(); n != 1 {
			t.Errorf("%d statements", n)
		}
		time.Sleep(2 * time.Second)
		next, err := p.Take(t.Context(), l, 1)
		if err != nil || !next.OK || next.Window != first.Window.Add(time.Hour) || p.store.n.Load() != 2 {
			t.Errorf("in the next window: %+v %v, %d statements", next, err, p.store.n.Load())
		}
	})
}

// TestSettleAheadOfAnother: what goes back stays here up to a 64th of what is left, and nothing of another limit or window is settled with it.
func TestSettleAheadOfAnother(t *testing.T) {
	t.Parallel()
	l := counter.Limit{Name: "a", Units: 6400, Per: time.Hour}
	for name, tt := range map[string]struct {
		settle func(p *process, window time.Time)
		used   int64 // by what the ledger has, of the 100 that are taken
	}{
		"back to its window": {func(p *process, w time.Time) { p.Settle(l, -1, w) }, 100},
		"more than a 64th":   {func(p *process, w time.Time) { p.Settle(l, -50, w) }, 50},
		"of another window":  {func(p *process, w time.Time) { p.Settle(l, -1, w.Add(-time.Hour)) }, 100},
		"of another limit":   {func(p *process, w time.Time) { p.Settle(counter.Limit{Name: "a", Units: 640, Per: time.Hour}, 5, w) }, 105},
	} {
		synctest.Test(t, func(t *testing.T) {
			var store ledgertest.Counters
			p := start(t, &store)
			a, err := p.Take(t.Context(), l, 50)
			if err != nil || !a.OK || store.Used("a") != 100 {
				t.Fatal(a, err)
			}
			tt.settle(p, a.Window)
			synctest.Wait()
			if got := store.Used("a"); got != tt.used {
				t.Errorf("%s: the ledger has %d used", name, got)
			}
			p.stop()
			if want := map[string]int64{"back to its window": 49, "more than a 64th": 0, "of another window": 50, "of another limit": 55}[name]; store.Used("a") != want {
				t.Errorf("%s: %d used at the end, not %d", name, store.Used("a"), want)
			}
		})
	}
}
