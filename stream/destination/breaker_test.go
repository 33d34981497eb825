package destination

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/forebay-io/forebay/stream/sink"
)

// TestBreakerAsksForSeveralEntities: one or two entities that always fail do not open the breaker, however often they do; a third
// one does.
func TestBreakerAsksForSeveralEntities(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		failures int
		of       string
		want     State
	}{
		"one":                   {3, "aaaaaaaaaaaaaaaaaaaa", StateRunning},
		"two":                   {3, "abababababababababab", StateRunning},
		"three, too few":        {4, "abc", StateRunning},
		"three":                 {4, "abca", StateOpen},
		"three, after many":     {4, "aaaaaaaab" + "c", StateOpen},
		"two are enough of two": {2, "aab", StateOpen},
		"one is enough of one":  {1, "a", StateOpen},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := setup(t, Policy{Concurrency: 8, Breaker: Breaker{Failures: c.failures, Window: time.Minute, Wait: time.Hour, MaxWait: time.Hour}})
				w := d.worker("acme")
				for _, entity := range c.of {
					w.try(&Outcome{Class: sink.ClassBusy, Code: 500, Entity: string(entity)})
				}
				same(t, "state", d.Status().State, c.want)
			})
		})
	}
}

// ended ends attempts, so many of each outcome.
func (w *worker) ended(n int, o *Outcome) {
	for range n {
		w.try(o)
	}
}

// TestBreakerFollowsTheShare: what fails among others that get through slows a destination down by its share, and opens nothing.
func TestBreakerFollowsTheShare(t *testing.T) {
	t.Parallel()
	policy := Policy{Concurrency: 40, Breaker: Breaker{Failures: 10, Window: 30 * time.Second, Wait: time.Hour, MaxWait: time.Hour}, Recovery: 10 * time.Second}
	for _, c := range []struct {
		good, failed int
		state        State
		takes        int
	}{
		{0, 9, StateRunning, 40},
		{0, 10, StateOpen, 0},
		{1, 9, StateRunning, 40},
		{10, 10, StateRunning, 40},
		{10, 30, StateRecovering, 20},
		{1, 19, StateRecovering, 4},
		{1, 99, StateRecovering, 1},
		{100, 200, StateOpen, 0}, // the last 200
		{1000, 120, StateRecovering, 32},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := setup(t, policy).worker("acme")
			w.ended(c.good, fine)
			for range c.failed { // as if all had begun before the first has failed
				w.d.mu.Lock()
				w.d.learn(0, broken)
				w.d.mu.Unlock()
			}
			what := fmt.Sprintf("%d got through, %d failed: ", c.good, c.failed)
			same(t, what+"state", w.d.Status().State, c.state)
			same(t, what+"at once", w.takes(), c.takes)
			if c.state == StateRecovering {
				for range c.takes {
					w.End(nil)
				}
				time.Sleep(31 * time.Second)
				w.ended(1, fine) // what failed before is old now
				same(t, what+"later", w.takes(), 40)
				same(t, what+"later", w.d.Status().State, StateRunning)
			}
		})
	}
}

// TestRareFailuresOpenToo: a destination of which little is asked is away for as long as another: its failures are no less for being rare.
func TestRareFailuresOpenToo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := setup(t, Policy{Breaker: Breaker{Failures: 10, Window: 30 * time.Second, Wait: time.Second, MaxWait: time.Minute, Floor: 1}}).worker("acme")
		for range 9 {
			w.ended(1, broken)
			time.Sleep(5 * time.Minute)
		}
		same(t, "after nine", w.d.Status().State, StateRunning)
		w.ended(1, broken)
		same(t, "after ten", w.d.Status().State, StateOpen)
	})
}

// TestWindowForgets: what is older than the window counts no more, if something got through since.
func TestWindowForgets(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := setup(t, Policy{Breaker: Breaker{Failures: 3, Window: 30 * time.Second, Wait: time.Hour, MaxWait: time.Hour}}).worker("acme")
		w.ended(2, broken)
		w.ended(1, fine)
		time.Sleep(31 * time.Second)
		w.ended(2, broken)
		same(t, "two and two", w.d.Status().State, StateRunning)
		w.ended(1, fine)
		time.Sleep(10 * time.Second)
		w.ended(5, broken)
		same(t, "one of them got through", w.d.Status().State, StateRecovering)
		time.Sleep(21 * time.Second)
		w.try(broken)
		same(t, "that was half a minute ago", w.d.Status().State, StateOpen)
	})
}

// TestBreaker follows a breaker without a floor from one state to the next.
func TestBreaker(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := setup(t, Policy{Concurrency: 8, Recovery: 8 * time.Second,
			Breaker: Breaker{Failures: 3, Window: time.Minute, Wait: 10 * time.Second, MaxWait: 30 * time.Second}})
		w := d.worker("acme")
		w.ended(3, broken)
		same(t, "after three", d.Status().State, StateOpen)
		for _, wait := range []time.Duration{10 * time.Second, 20 * time.Second, 30 * time.Second, 30 * time.Second} {
			calls := w.called()
			if w.Take() != Wait {
				t.Fatal("open, and it does not wait")
			}
			same(t, "open until", time.Until(d.Status().OpenUntil), wait)
			time.Sleep(wait - time.Nanosecond)
			synctest.Wait()
			same(t, "calls before the wait is over", w.called(), calls)
			time.Sleep(2 * time.Nanosecond)
			synctest.Wait()
			same(t, "calls after it", w.called(), calls+1)
			same(t, "state", d.Status().State, StateHalfOpen)
			same(t, "probes", w.takes(), probes)
			w.End(nil) // it says nothing: another one may try
			same(t, "another", w.takes(), 1)
			for range probes {
				same(t, "state until all have failed", d.Status().State, StateHalfOpen)
				w.End(broken)
			}
			same(t, "state then", d.Status().State, StateOpen)
		}
		time.Sleep(30 * time.Second)
		w.try(&Outcome{Class: sink.ClassForbidden}) // nobody was asked
		w.try(broken)
		same(t, "state after probes that say nothing, or not enough", d.Status().State, StateHalfOpen)
		w.try(refused)
		same(t, "state after an answer", d.Status().State, StateRecovering)
		same(t, "at once", w.takes(), 1)
		w.End(fine)
		time.Sleep(2*time.Second + 1)
		same(t, "after a quarter of the recovery", w.takes(), 3)
		w.Take()
		time.Sleep(time.Second)
		synctest.Wait()
		same(t, "the growing share calls who waits", w.HasTurn(), true)
		w.Pass()
		for range 3 {
			w.End(fine)
		}
		time.Sleep(5 * time.Second)
		same(t, "state after the recovery", d.Status().State, StateRunning)
		same(t, "all of them", w.takes(), 8)
		time.Sleep(2 * time.Minute)
		for range 8 {
			w.End(broken)
		}
		same(t, "the wait begins again", time.Until(d.Status().OpenUntil), 10*time.Second)
		for to, want := range map[Breaking]float64{Open: 6, HalfOpen: 5, Recovering: 1, Closed: 1} {
			same(t, "transitions to "+string(to), testutil.ToFloat64(d.metrics.transitions.WithLabelValues(string(to))), want)
		}
	})
}

// TestRecoveryFallsBack: while it recovers, single failures among others that get through take nothing back; a share of more than
// half slows it, and nothing but failures opens the breaker again.
func TestRecoveryFallsBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := setup(t, Policy{Concurrency: 10, Recovery: 10 * time.Second,
			Breaker: Breaker{Failures: 5, Window: 30 * time.Second, Wait: time.Second, MaxWait: time.Second}})
		w := d.worker("acme")
		w.ended(5, broken)
		same(t, "after five", d.Status().State, StateOpen)
		time.Sleep(time.Second)
		w.try(fine)
		same(t, "one got through", d.Status().State, StateRecovering)
		time.Sleep(8 * time.Second)
		same(t, "it got through", w.atOnce(), 8)
		w.ended(4, broken)
		same(t, "four failures are too few", w.atOnce(), 8)
		w.ended(3, fine)
		same(t, "half of them fail", w.atOnce(), 8)
		w.ended(12, broken)
		same(t, "4 of 20 got through", w.atOnce(), 4)
		time.Sleep(2 * time.Second)
		same(t, "the time is over, and they still fail", d.Status().State, StateRecovering)
		same(t, "at once then", w.atOnce(), 4)
		w.ended(12, fine)
		same(t, "half got through", w.atOnce(), 10)
		same(t, "state", d.Status().State, StateRunning)
		time.Sleep(31 * time.Second)
		w.ended(5, broken)
		same(t, "nothing but failures", d.Status().State, StateOpen)
	})
}

// atOnce is how many attempts may begin now; none is made.
func (w *worker) atOnce() int {
	n := w.takes()
	for range n {
		w.GiveBack()
	}
	return n
}

// TestLateAnswers: of what began before the breaker opened, a failure is no failed probe, and a success is a success.
func TestLateAnswers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := setup(t, Policy{Concurrency: 40, Recovery: 8 * time.Second,
			Breaker: Breaker{Failures: 3, Window: time.Minute, Wait: 10 * time.Second, MaxWait: time.Minute}})
		w := d.worker("acme")
		for range 20 {
			same(t, "attempt", w.Take(), Go)
		}
		for range 3 {
			w.End(broken)
		}
		until := d.Status().OpenUntil
		w.End(broken)
		same(t, "until", d.Status().OpenUntil, until)
		time.Sleep(10 * time.Second)
		probe := d.worker("acme")
		same(t, "probes", probe.takes(), probes)
		for range 2 * probes {
			w.End(broken)
		}
		same(t, "state after failures of before", d.Status().State, StateHalfOpen)
		w.End(fine)
		same(t, "state after a success of before", d.Status().State, StateRecovering)
	})
}

// crowd plays entities at a destination, each as a lane does: one attempt at a time, and after a failure a wait that doubles. Each
// always has another action, and gives up none.
type crowd struct {
	d     *Destination
	w     *worker
	takes time.Duration // an attempt
	fails func(entity int) bool

	ready   []int
	now     int           // in steps
	ends    map[int][]end // by when
	failed  []int         // by entity, in a row
	begun   int
	through map[int]int // by entity
}

// step is how closely a crowd looks at the time.
const step = 20 * time.Millisecond

// end is that of an attempt of an entity, or of the wait after it.
type end struct {
	entity int
	permit Permit
	waited bool
}

func newCrowd(t *testing.T, p Policy, n int) *crowd {
	d := setup(t, p)
	return &crowd{d: d, w: d.worker("acme"), ready: rand.New(rand.NewPCG(1, 1)).Perm(n), failed: make([]int, n), ends: map[int][]end{}}
}

// play lets time pass, and counts again what begins and gets through.
func (c *crowd) play(during time.Duration) {
	c.begun, c.through = 0, map[int]int{}
	for range int(during / step) {
		for _, e := range c.ends[c.now] {
			if e.waited {
				c.ready = append(c.ready, e.entity)
			} else {
				c.end(e)
			}
		}
		delete(c.ends, c.now)
		for len(c.ready) > 0 {
			answer, permit := c.w.User.Take()
			if answer != Go {
				break
			}
			c.begun++
			c.endIn(c.takes, end{entity: c.ready[0], permit: permit})
			c.ready = c.ready[1:]
		}
		if len(c.ready) == 0 {
			c.w.Pass()
		}
		time.Sleep(step)
		c.now++
	}
}

func (c *crowd) endIn(d time.Duration, e end) {
	at := c.now + int((d+step-1)/step)
	c.ends[at] = append(c.ends[at], e)
}

// end ends an attempt.
func (c *crowd) end(e end) {
	if c.fails(e.entity) {
		c.failed[e.entity]++
		c.w.User.End(e.permit, &Outcome{Class: sink.ClassBusy, Code: 500, Entity: fmt.Sprint(e.entity)})
		c.endIn(time.Second<<min(c.failed[e.entity], 6), end{entity: e.entity, waited: true})
		return
	}
	c.failed[e.entity] = 0
	c.w.User.End(e.permit, &Outcome{Code: 200, Entity: fmt.Sprint(e.entity)})
	c.through[e.entity]++
	c.ready = append(c.ready, e.entity)
}

// usual is the policy of the defaults.
var usual = Policy{Concurrency: 64, Recovery: 30 * time.Second,
	Breaker: Breaker{Failures: 10, Window: 30 * time.Second, Wait: 5 * time.Second, MaxWait: 30 * time.Second, Floor: 1}}

// TestNothingStarves: at a destination where the events of a share of entities always fail, the others get through at a rate that
// is no less than the square of their share of what it can take, and none of them is left out.
func TestNothingStarves(t *testing.T) {
	t.Parallel()
	const n, takes, during = 600, 100 * time.Millisecond, 5 * time.Minute
	percents := []int{1, 10, 50, 90, 99} // that succeed
	if testing.Short() {
		percents = []int{10}
	}
	for _, percent := range percents {
		t.Run(fmt.Sprint(percent), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCrowd(t, usual, n)
				c.takes, c.fails = takes, func(e int) bool { return e*100 >= percent*n }
				c.play(during)
				good, sum, least := n*percent/100, 0, 1<<30
				for e := range good {
					sum += c.through[e]
					least = min(least, c.through[e])
				}
				can := min(float64(usual.Concurrency), float64(good)) / takes.Seconds() * during.Seconds() // as many of them as slots
				share := float64(percent) / 100
				t.Logf("%d%% succeed: %d got through, of %.0f possible; the least of an entity %d; state %s", percent, sum, can, least, c.d.Status().State)
				if float64(sum) < share*share*can {
					t.Errorf("%d got through, want %.0f", sum, share*share*can)
				}
				if least < sum/good/2 {
					t.Errorf("an entity got through %d times, on average one did %d times", least, sum/good)
				}
			})
		})
	}
}

// TestDeadDestinationIsLeftAlone: it gets the floor's attempts, no more and no fewer, and once it works everything comes back.
func TestDeadDestinationIsLeftAlone(t *testing.T) {
	t.Parallel()
	floors := []int{0, 1, 5}
	if testing.Short() {
		floors = []int{1}
	}
	for _, floor := range floors {
		for _, takes := range []time.Duration{10 * time.Millisecond, 10 * time.Second} { // it refuses, it hangs
			t.Run(fmt.Sprint(floor, takes), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					policy, dead := usual, true
					policy.Breaker.Floor = floor
					c := newCrowd(t, policy, 1000)
					c.takes, c.fails = takes, func(int) bool { return dead }
					c.play(time.Minute)
					if most := 2*usual.Concurrency + 60*max(floor, 1); c.begun > most {
						t.Errorf("%d attempts in the first minute, want at most %d", c.begun, most)
					}
					const minutes = 5
					c.play(minutes * time.Minute)
					most, least := minutes*60*floor+2*probes, (minutes*60-2)*floor-2*probes
					if floor == 0 { // probes, every 30 s at the soonest
						most, least = probes*(minutes*2+1), probes*minutes
					}
					if got := c.begun; got > most || got < least {
						t.Errorf("%d attempts in %d minutes, want %d to %d", got, minutes, least, most)
					}
					dead, c.takes = false, 100*time.Millisecond
					c.play(3 * time.Minute)
					same(t, "state", c.d.Status().State, StateRunning)
					same(t, "entities that got through", len(c.through), 1000)
				})
			})
		}
	}
}

// TestFloorIsNotForHoldsAndPauses: who asks to be left alone is left alone.
func TestFloorIsNotForHoldsAndPauses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		policy := usual
		policy.MaxHold = time.Hour
		w := setup(t, policy).worker("acme")
		w.ended(10, broken)
		same(t, "state", w.d.Status().State, StateOpen)
		same(t, "the floor", []Answer{w.Take()}, []Answer{Wait})
		time.Sleep(time.Second)
		synctest.Wait()
		same(t, "its turn", w.Take(), Go)
		w.End(&Outcome{Class: sink.ClassThrottled, Code: 429, RetryAfter: time.Hour})
		w.Take()
		time.Sleep(time.Hour - 1)
		synctest.Wait()
		same(t, "in a hold", w.HasTurn(), false)
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		same(t, "after it", w.HasTurn(), true)
	})
}

// TestRecoveryMovesOn: whatever share of the concurrency grows, the time at which there is to be room for one more is one at which
// there is, to the nanosecond; else a timer would go off again and again.
func TestRecoveryMovesOn(t *testing.T) {
	t.Parallel()
	began := time.Now()
	for _, recovery := range []time.Duration{time.Second, 30 * time.Second, time.Hour} {
		for concurrency := 1; concurrency <= 64; concurrency++ {
			for good := 1; good <= 30; good++ {
				b := breaker{policy: Breaker{Failures: 1, Window: 2 * time.Hour}, recovery: recovery, concurrency: concurrency, state: Recovering, since: began}
				for range good {
					b.last.add(ended{at: began, good: true}, 2*time.Hour)
				}
				for range 31 {
					b.last.add(ended{at: began}, 2*time.Hour)
				}
				for running := 1; running < concurrency; running++ {
					_, next := b.recoveryAllows(began, running)
					if next.IsZero() {
						break // never: the share is too small
					}
					if ok, _ := b.recoveryAllows(next, running); !ok {
						t.Fatalf("recovery %s, concurrency %d, %d of %d got through, %d under way: no room when there is to be some", recovery, concurrency, good, good+31, running)
					}
				}
			}
		}
	}
}
