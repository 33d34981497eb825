package lane

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/destination"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/sink"
)

const downName = "acme.down"

// crowd is a small window, long waits between attempts, and a second destination.
func crowd(c *Config) {
	small(c)
	retry := sink.RetryPolicy{Min: 10 * time.Minute, Max: time.Hour}
	d := c.Destinations[destName]
	d.Retry = retry
	c.Destinations[destName] = d
	held, err := destination.New(destination.Config{Name: downName, Policy: destination.Policy{Concurrency: 2, MaxHold: time.Hour}})
	if err != nil {
		panic(err)
	}
	c.Destinations[downName] = DestinationConfig{Sink: d.Sink, Timeout: 5 * time.Second, Retry: retry, Shared: held}
	c.Rand = func() float64 { return 1 }
}

// many adds n entities with two actions each.
func (r *rig) many(name string, n int, change func(*ledger.Action)) {
	var items []Item
	for range 2 {
		for i := range n {
			items = append(items, r.make(fmt.Sprint(name, i), change))
		}
	}
	r.Add(r.claim, items)
}

func (r *rig) spilledLanes() int {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	n := 0
	for _, p := range r.s.q.partitions {
		n += len(p.spilled)
	}
	return n
}

// badUntil fails the bad entities' attempts until they are up.
func badUntil(up *atomic.Bool) func(context.Context, sink.Action) (sink.Outcome, error) {
	return func(ctx context.Context, a sink.Action) (sink.Outcome, error) {
		if a.Event.Entity[0] == 'b' && !up.Load() {
			return failWith(sink.ClassBusy)(ctx, a)
		}
		return sink.Outcome{}, nil
	}
}

// Heads that wait for their next attempt, more of them than the window holds, let others run, and go on in time and order.
func TestRetriesLeaveTheWindowToOthers(t *testing.T) {
	in(t, crowd, func(t *testing.T, r *rig) {
		var up atomic.Bool
		r.sink.do = badUntil(&up)
		r.many("bad", 50, nil)
		r.many("good", 50, nil)
		time.Sleep(time.Minute)
		same(t, "the good ones are done", r.mem.count(r.claim, ledger.Done), 100)
		same(t, "the bad ones were tried once", r.mem.count(r.claim, ledger.Failed), 50)
		if n := r.loaded(); n > 8+2 {
			t.Errorf("%d actions loaded", n)
		}
		if n := r.spilledLanes(); n < 40 {
			t.Errorf("%d lanes are spilled", n)
		}
		up.Store(true)
		time.Sleep(8 * time.Minute)
		same(t, "none of them before its time", r.mem.count(r.claim, ledger.Done), 100)
		time.Sleep(4 * time.Minute)
		same(t, "all are done", r.mem.count(r.claim, ledger.Done), 200)
		same(t, "calls", len(r.sink.ids()), 250)
		same(t, "loaded", r.loaded(), 0)
		same(t, "at rest", r.spilledLanes(), 0)
		checkRepeats(t, r)
	})
}

// One entity in a hundred that fails for a day is hundreds of thousands of lanes: spilled, they take some bytes each.
func TestMemoryOfSpilledLanes(t *testing.T) {
	const n = 200_000
	in(t, crowd, func(t *testing.T, r *rig) {
		before := heapSize()
		r.s.mu.Lock()
		defer r.s.mu.Unlock()
		p := r.s.q.partitions[r.claim]
		for i := range n {
			r.s.q.push(p, &ledger.Action{
				LaneSeq: int64(i + 1), Entity: schemas.EntityKey(fmt.Sprintf("186853002/%d", i)), Status: ledger.Failed, Attempts: 1,
				NextIn: time.Hour, Destination: destName,
			}, nil, false)
			r.loader.spillWaiting(p)
		}
		p.loadedTo = n
		same(t, "spilled, and in memory", []int{len(p.spilled), len(p.lanes)}, []int{n - 4, 4})
		each := (heapSize() - before) / n
		t.Logf("%d bytes a lane", each)
		if each > 160 {
			t.Errorf("%d bytes a lane", each)
		}
		r.s.mu.check = nil // the double of the ledger has none of them
	})
}

// Two heads that are due at once, far from each other in the ledger: what is between them is not read.
func TestHeadsAreReadBackWithoutWhatIsBetween(t *testing.T) {
	in(t, crowd, func(t *testing.T, r *rig) {
		r.sink.do = failWith(sink.ClassBusy)
		r.s.mu.Lock()
		r.s.mu.check = nil // it looks at all lanes after each step
		r.s.mu.Unlock()
		const n = 2 * pageSize
		var items []Item
		for i := range n {
			items = append(items, r.make(fmt.Sprint("bad", i), nil))
		}
		r.Add(r.claim, items)
		for r.spilledLanes() < n-8 {
			time.Sleep(time.Second)
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		r.s.mu.Lock()
		p := r.s.q.partitions[r.claim]
		first, last := spilledAt{p: p}, spilledAt{p: p}
		for key, at := range p.spilled {
			if first.key == (laneKey{}) || at.head < p.spilled[first.key].head {
				first.key = key
			}
			if at.head > p.spilled[last.key].head {
				last.key = key
			}
		}
		gave := r.mem.given()
		r.s.q.spilled.reload(first, true)
		r.s.q.spilled.reload(last, true)
		r.s.mu.Unlock()
		synctest.Wait()
		if n := r.mem.given() - gave; n > 4*smallPage {
			t.Errorf("%d actions were read", n)
		}
		r.s.mu.Lock()
		defer r.s.mu.Unlock()
		same(t, "they are back", []bool{p.lanes[first.key] != nil, p.lanes[last.key] != nil}, []bool{true, true})
	})
}

// What becomes due while nothing may be attempted, or is to ask its guard, comes back into memory only as the window takes it.
func TestDueLanesComeBackAsTheWindowTakesThem(t *testing.T) {
	in(t, crowd, func(t *testing.T, r *rig) {
		var up atomic.Bool
		r.sink.do = badUntil(&up)
		const n = 400
		r.many("bad", n, nil)
		time.Sleep(time.Minute)
		same(t, "all were tried once", r.mem.count(r.claim, ledger.Failed), n)
		r.SetPauses(Pauses{Since: time.Now()})
		time.Sleep(time.Hour) // all are due
		r.s.mu.Lock()
		p := r.s.q.partitions[r.claim]
		if lanes := len(p.lanes); lanes > 3*r.cfg.MaxOpen {
			t.Errorf("%d of %d lanes are in memory, where the window takes %d", lanes, n, r.cfg.MaxOpen)
		}
		same(t, "none is lost", len(p.lanes)+len(p.spilled), n)
		r.s.mu.Unlock()
		up.Store(true)
		r.SetPauses(Pauses{})
		time.Sleep(time.Minute)
		same(t, "all are done", r.mem.count(r.claim, ledger.Done), 2*n)
		same(t, "at rest", r.spilledLanes(), 0)
		checkRepeats(t, r)
	})
}

// As many lanes are spilled as memory may have. One more waits in the window, which the others share. The log names the limit.
func TestMoreRetriesThanAreKept(t *testing.T) {
	var log bytes.Buffer
	in(t, func(c *Config) {
		crowd(c)
		c.maxSpilled, c.Logger = 40, slog.New(slog.NewTextHandler(&log, nil))
	}, func(t *testing.T, r *rig) {
		var up atomic.Bool
		r.sink.do = badUntil(&up)
		r.many("bad", 41, nil)
		r.many("good", 50, nil)
		time.Sleep(time.Minute)
		same(t, "the good ones are done", r.mem.count(r.claim, ledger.Done), 100)
		same(t, "spilled", r.spilledLanes() <= 40, true)
		r.many("bad too", 20, nil)
		time.Sleep(10 * time.Second)
		same(t, "spilled", r.spilledLanes(), 40)
		if n := strings.Count(log.String(), "as memory may have"); n != 1 {
			t.Errorf("it was said %d times", n)
		}
		same(t, "it is known of its destination", r.Waiting()[destName].Crowded, true)
		r.s.mu.Lock()
		p := r.s.q.partitions[r.claim]
		for key := range p.spilled { // the first that is due
			r.s.q.spilled.reload(spilledAt{p, key}, true)
			break
		}
		r.s.mu.Unlock()
		same(t, "even while one of them is tried", r.Waiting()[destName].Crowded, true)
		up.Store(true)
		time.Sleep(3 * time.Hour)
		same(t, "all are done", r.mem.count(r.claim, ledger.Done), 222)
		same(t, "and that it is over", r.Waiting()[destName].Crowded, false)
		checkRepeats(t, r)
	})
}

// checkRepeats is checkOrder where heads may come again.
func checkRepeats(t *testing.T, r *rig) {
	t.Helper()
	seen := map[string]int64{}
	for _, id := range r.sink.ids() {
		var n, seq int64
		var name string
		if _, err := fmt.Sscanf(id, "bad%d#%d", &n, &seq); err == nil {
			name = fmt.Sprint("bad", n)
		} else if _, err := fmt.Sscanf(id, "good%d#%d", &n, &seq); err == nil {
			name = fmt.Sprint("good", n)
		}
		if seq < seen[name] {
			t.Errorf("%s after %d", id, seen[name])
		}
		seen[name] = seq
	}
}

// A destination that takes nothing for a while lets those of others run, and gets its own once it does.
func TestSleepingDestinationLeavesTheWindowToOthers(t *testing.T) {
	in(t, crowd, func(t *testing.T, r *rig) {
		var held atomic.Bool
		r.sink.do = func(_ context.Context, a sink.Action) (sink.Outcome, error) {
			if a.Destination != downName {
				return sink.Outcome{}, nil
			}
			if held.CompareAndSwap(false, true) {
				return sink.Outcome{Code: 429, RetryAfter: 20 * time.Minute},
					&sink.AttemptError{Class: sink.ClassThrottled, Err: errors.New("slower")}
			}
			time.Sleep(time.Second) // what it said is heard before the next begins
			return sink.Outcome{}, nil
		}
		r.many("bad", 50, func(a *ledger.Action) { a.Destination = downName })
		r.many("good", 50, nil)
		time.Sleep(time.Minute)
		done := r.mem.count(r.claim, ledger.Done)
		if done < 100 || done > 190 { // some of the others ran before what it said was heard
			t.Errorf("%d are done", done)
		}
		time.Sleep(18 * time.Minute)
		same(t, "done while it holds", r.mem.count(r.claim, ledger.Done), done)
		if n := r.loaded(); n > 8+2 {
			t.Errorf("%d actions loaded", n)
		}
		time.Sleep(time.Hour)
		same(t, "all are done", r.mem.count(r.claim, ledger.Done), 200)
		same(t, "at rest", r.spilledLanes(), 0)
		checkRepeats(t, r)
	})
}

// slowly is crowd with a token a minute at the second destination.
func slowly(c *Config) {
	crowd(c)
	d := c.Destinations[downName]
	slow, err := destination.New(destination.Config{Name: downName, Policy: destination.Policy{Concurrency: 2,
		Rate: destination.Rate{Limit: 1, Per: time.Minute, Burst: 1, OnLimit: destination.Queue}}})
	if err != nil {
		panic(err)
	}
	d.Shared = slow
	c.Destinations[downName] = d
}

// The same of a destination whose next token is far away.
func TestSlowRateLeavesTheWindowToOthers(t *testing.T) {
	in(t, slowly, func(t *testing.T, r *rig) {
		r.many("bad", 50, func(a *ledger.Action) { a.Destination = downName })
		r.many("good", 50, nil)
		time.Sleep(10*time.Minute + time.Second)
		same(t, "done", r.mem.count(r.claim, ledger.Done), 100+11)
		if n := r.loaded(); n > 8+2 {
			t.Errorf("%d actions loaded", n)
		}
		time.Sleep(2 * time.Hour)
		same(t, "all are done", r.mem.count(r.claim, ledger.Done), 200)
		same(t, "at rest", r.spilledLanes(), 0)
		checkRepeats(t, r)
	})
}

// A token is for one head: no more than it is read back, and as many as the destination keeps to go on with, while others'
// backlog fills the window.
func TestTokenReadsBackOneHead(t *testing.T) {
	if testing.Short() {
		t.Skip("six minutes of a thousand lanes take seconds: not with -short")
	}
	in(t, func(c *Config) { slowly(c); c.MaxOpen = 1024 }, func(t *testing.T, r *rig) {
		r.sink.do = func(_ context.Context, a sink.Action) (sink.Outcome, error) {
			if a.Destination == destName {
				time.Sleep(4 * time.Second)
			}
			return sink.Outcome{}, nil
		}
		r.many("bad", 1024, func(a *ledger.Action) { a.Destination = downName })
		r.many("good", 1024, nil)
		time.Sleep(time.Minute + time.Second) // the window is full of the good ones
		if n := r.spilledLanes(); n < 300 {
			t.Errorf("%d lanes are spilled", n)
		}
		gave := r.mem.given()
		time.Sleep(5 * time.Minute)
		same(t, "done", r.mem.count(r.claim, ledger.Done) >= 700, true)
		if n := r.mem.given() - gave; n > 1500 {
			t.Errorf("%d actions were read", n)
		}
	})
}

// A destination of which only the slots are taken keeps its place in the window.
func TestBusyDestinationKeepsItsWindow(t *testing.T) {
	in(t, crowd, func(t *testing.T, r *rig) {
		release := make(chan struct{})
		r.sink.do = func(context.Context, sink.Action) (sink.Outcome, error) {
			<-release
			return sink.Outcome{}, nil
		}
		r.many("bad", 50, func(a *ledger.Action) { a.Destination = downName })
		time.Sleep(time.Minute)
		same(t, "at rest", r.spilledLanes(), 0)
		close(release)
		time.Sleep(time.Minute)
		same(t, "all are done", r.mem.count(r.claim, ledger.Done), 100)
	})
}

// Spilled lanes are let go of with their claim, and the next owner finds everything.
func TestSpillEndsWithTheClaim(t *testing.T) {
	in(t, crowd, func(t *testing.T, r *rig) {
		var up atomic.Bool
		r.sink.do = func(ctx context.Context, a sink.Action) (sink.Outcome, error) {
			if !up.Load() {
				return failWith(sink.ClassBusy)(ctx, a)
			}
			return sink.Outcome{}, nil
		}
		r.many("bad", 50, nil)
		time.Sleep(time.Minute)
		if r.spilledLanes() == 0 {
			t.Error("none is spilled")
		}
		if err := r.Close(t.Context(), r.claim); err != nil {
			t.Fatal(err)
		}
		same(t, "at rest", r.s.q.spilledLanes(), 0)
		same(t, "timers", len(r.s.q.spilled.byTime)+len(r.s.q.timers.heap), 0)
		r.stop()
		up.Store(true)
		r.relaunch(t, crowd)
		defer r.stop()
		r.begin(t)
		time.Sleep(time.Hour)
		same(t, "all are done", r.mem.count(r.claim, ledger.Done), 100)
		checkRepeats(t, r)
	})
}

// The ledger that fails while heads are read back loses none of them.
func TestSpilledHeadsAreReadAgain(t *testing.T) {
	in(t, crowd, func(t *testing.T, r *rig) {
		var up atomic.Bool
		r.sink.do = badUntil(&up)
		r.many("bad", 50, nil)
		r.many("good", 5, nil)
		time.Sleep(time.Minute)
		up.Store(true)
		n := 0
		r.mem.mu.Lock()
		r.mem.onOpen = func(int64, int) error {
			if n++; n%3 != 0 {
				return errors.New("scripted")
			}
			return nil
		}
		r.mem.mu.Unlock()
		time.Sleep(3 * time.Hour)
		same(t, "all are done", r.mem.count(r.claim, ledger.Done), 110)
		checkRepeats(t, r)
	})
}

// A head that has ended in another way while its lane rested lets what is behind it run.
func TestHeadThatEndsWhileItsLaneIsSpilled(t *testing.T) {
	in(t, crowd, func(t *testing.T, r *rig) {
		var up atomic.Bool
		r.sink.do = badUntil(&up)
		r.many("bad", 50, nil)
		time.Sleep(time.Minute)
		rested := r.spilledLanes()
		r.s.mu.Lock()
		r.mem.mu.Lock()
		for _, at := range r.s.q.partitions[r.claim].spilled {
			r.mem.rows[r.claim.ID][at.head].Status = ledger.Done
		}
		r.mem.mu.Unlock()
		r.s.mu.Unlock()
		up.Store(true)
		time.Sleep(3 * time.Hour)
		same(t, "all are done", r.mem.count(r.claim, ledger.Done), 100)
		if rested < 40 {
			t.Errorf("%d lanes rested", rested)
		}
		checkRepeats(t, r)
	})
}

// A lane whose head ends during its refill asks for another. Where the page has all it left and then no room for the next
// lane, only that one still needs a refill.
func TestPageWithoutRoomForTheLast(t *testing.T) {
	in(t, small, func(t *testing.T, r *rig) {
		r.sink.do = func(ctx context.Context, _ sink.Action) (sink.Outcome, error) {
			<-ctx.Done()
			return sink.Outcome{}, ctx.Err()
		}
		a, b := *r.make("a", nil).Action, *r.make("b", nil).Action
		synctest.Wait() // the loader waits
		r.s.mu.Lock()
		p := r.s.q.partitions[r.claim]
		for _, action := range []ledger.Action{a, b} {
			la := p.lane(action.Entity, action.LaneSeq-1)
			la.skippedTo = action.LaneSeq
			p.needsRefill[la] = struct{}{}
		}
		p.loadedTo, p.more = b.LaneSeq, false
		r.loader.refill(p)
		p.needsRefill[p.lanes[laneKeyOf("a")]] = struct{}{}
		fill := p.cfg.MaxOpen + p.cfg.MaxOpen/4 - 1 - p.open
		p.open += fill
		r.s.q.open += fill
		if !r.loader.takeRefill(p, []ledger.Action{a, b}, b.LaneSeq) {
			t.Error("the refill goes on")
		}
		r.s.mu.check = nil // the lanes that fill the window are not there
		defer r.s.mu.Unlock()
		var needs []laneKey
		for la := range p.needsRefill {
			needs = append(needs, la.key)
		}
		same(t, "what needs a refill", needs, []laneKey{laneKeyOf("b")})
		p.open -= fill
		r.s.q.open -= fill
	})
}
