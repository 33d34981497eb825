package lane

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/sink"
)

func small(c *Config) { c.MaxOpen, c.LaneWindow = 8, 4 }

func (r *rig) loaded() int {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	n := 0
	for _, p := range r.s.q.partitions {
		for _, la := range p.lanes {
			for e := la.head; e != nil; e = e.next {
				n++
			}
		}
		if n != p.open {
			panic(fmt.Sprintf("%d entries, %d counted", n, p.open))
		}
	}
	return n
}

func TestWindowOverflowRunsEverythingOnceInOrder(t *testing.T) {
	in(t, small, func(t *testing.T, r *rig) {
		release := make(chan struct{})
		r.sink.do = func(context.Context, sink.Action) (sink.Outcome, error) {
			<-release
			return sink.Outcome{}, nil
		}
		most := 0
		for i := range 50 {
			r.add(fmt.Sprint("e", i%5), "hot", "hot")
			synctest.Wait()
			most = max(most, r.loaded())
		}
		if most > 8 {
			t.Errorf("%d actions loaded, the window is 8", most)
		}
		close(release)
		time.Sleep(time.Minute)
		same(t, "done", r.mem.count(r.claim, ledger.Done), 150)
		same(t, "left in memory", r.loaded(), 0)
		checkOrder(t, r)
	})
}

// checkOrder looks that every entity's calls are in lane order, each action once, whatever repeats of the head.
func checkOrder(t *testing.T, r *rig) {
	t.Helper()
	last := map[schemas.EntityKey]int64{}
	r.sink.mu.Lock()
	defer r.sink.mu.Unlock()
	for _, a := range r.sink.calls {
		var name string
		var seq int64
		for i := len(a.Event.ID) - 1; i > 0; i-- {
			if a.Event.ID[i] == '#' {
				name = a.Event.ID[:i]
				_, _ = fmt.Sscan(a.Event.ID[i+1:], &seq)
				break
			}
		}
		if seq <= last[a.Event.Entity] {
			t.Fatalf("%s: %d after %d", name, seq, last[a.Event.Entity])
		}
		last[a.Event.Entity] = seq
	}
}

func TestParkedBacklogLeavesTheWindowToOthers(t *testing.T) {
	in(t, small, func(t *testing.T, r *rig) {
		r.sink.do = func(ctx context.Context, a sink.Action) (sink.Outcome, error) {
			if a.Event.Entity == "bad" {
				return failWith(sink.ClassRejected)(ctx, a)
			}
			return sink.Outcome{}, nil
		}
		r.add("bad")
		for range 200 {
			r.add("bad", "bad", "bad")
		}
		r.add("good")
		for range 10 {
			r.add("bad", "bad", "good")
		}
		time.Sleep(time.Second)
		same(t, "bad was called once", countOf(r, "bad"), 1)
		same(t, "good ran", countOf(r, "good"), 11)
		same(t, "nothing of it is loaded", r.loaded(), 0)

		if err := r.Close(t.Context(), r.claim); err != nil {
			t.Fatal(err)
		}
		r.stop()
		r.relaunch(t, small)
		defer r.stop()
		r.make("good", nil)
		r.begin(t)
		time.Sleep(time.Second)
		same(t, "after a restart good is found behind bad's backlog", countOf(r, "good"), 12)
		same(t, "bad stands", countOf(r, "bad"), 1)
	})
}

func countOf(r *rig, entity schemas.EntityKey) (n int) {
	r.sink.mu.Lock()
	defer r.sink.mu.Unlock()
	for _, a := range r.sink.calls {
		if a.Event.Entity == entity {
			n++
		}
	}
	return n
}

func TestSlowEntityDoesNotFillTheWindow(t *testing.T) {
	in(t, func(c *Config) { c.MaxOpen, c.LaneWindow = 16, 4 }, func(t *testing.T, r *rig) {
		release := make(chan struct{})
		r.sink.do = func(_ context.Context, a sink.Action) (sink.Outcome, error) {
			if a.Event.Entity == "slow" {
				<-release
			}
			return sink.Outcome{}, nil
		}
		for range 100 {
			r.add("slow", "slow", "quick")
		}
		synctest.Wait()
		same(t, "quick is through", countOf(r, "quick"), 100)
		same(t, "slow holds its lane window", r.loaded(), 4)
		close(release)
		time.Sleep(time.Second)
		same(t, "slow is through", countOf(r, "slow"), 200)
		checkOrder(t, r)
	})
}

func TestAddWhileTheLoaderReads(t *testing.T) {
	in(t, small, func(t *testing.T, r *rig) {
		var hold atomic.Bool
		reading, goOn := make(chan struct{}), make(chan struct{})
		for range 9 {
			r.make(fmt.Sprint("e", r.seq), nil)
		}
		r.mem.onOpen = func(after int64, _ int) error {
			if after == 8 && hold.CompareAndSwap(true, false) {
				r.mem.mu.Unlock()
				reading <- struct{}{}
				<-goOn
				r.mem.mu.Lock()
			}
			return nil
		}
		// nine are in the ledger of which the window takes eight; while the loader reads the ninth, a tenth is
		// committed that its read sees, and added afterwards all the same
		hold.Store(true)
		items := make([]Item, 0, 9)
		for seq := int64(1); seq <= 9; seq++ {
			a := r.mem.action(r.claim, seq)
			items = append(items, Item{Action: &a})
		}
		r.Add(r.claim, items)
		<-reading
		tenth := r.make("e3", nil)
		close(goOn)
		synctest.Wait()
		r.Add(r.claim, []Item{tenth})
		r.add("e1")
		synctest.Wait()
		same(t, "calls", len(r.sink.ids()), 11)
		checkOrder(t, r)
		same(t, "done", r.mem.count(r.claim, ledger.Done), 11)
	})
}

func TestLoaderGoesOnAfterErrors(t *testing.T) {
	in(t, small, func(t *testing.T, r *rig) {
		fails := 3
		r.mem.onOpen = func(int64, int) error {
			if fails > 0 {
				fails--
				return errors.New("connection refused")
			}
			return nil
		}
		var many []string
		for i := range 30 {
			many = append(many, fmt.Sprint("e", i%7))
		}
		r.add(many...)
		time.Sleep(time.Minute)
		same(t, "done", r.mem.count(r.claim, ledger.Done), 30)
		same(t, "failed reads", fails, 0)
		checkOrder(t, r)
	})
}

func TestOpenFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := setup(t, nil)
		defer r.stop()
		away := errors.New("away")
		r.mem.onOpen = func(int64, int) error { return away }
		if err := r.Open(t.Context(), r.claim); !errors.Is(err, away) {
			t.Fatalf("got %v", err)
		}
		r.add("a")
		synctest.Wait()
		same(t, "nothing runs of a claim that was not opened", len(r.sink.ids()), 0)
	})
}

func TestPayloadBytesAreCapped(t *testing.T) {
	const size, most = 10_000, 8 * (10_000 + sink.MaxResponse)
	capped := func(c *Config) { c.MaxBytes = most }
	in(t, capped, func(t *testing.T, r *rig) {
		release := make(chan struct{})
		r.sink.do = func(context.Context, sink.Action) (sink.Outcome, error) {
			<-release
			return sink.Outcome{}, nil
		}
		var items []Item
		for i := range 50 {
			item := r.make(fmt.Sprint("e", i), nil)
			item.Event.Data = make([]byte, size-512)
			items = append(items, item)
		}
		r.Add(r.claim, items)
		synctest.Wait()
		r.s.mu.Lock()
		held := r.s.q.budget.bytes()
		r.s.mu.Unlock()
		same(t, "bytes held", held <= most, true)
		same(t, "attempts under way: what half of the cap allows, answers counted", len(r.sink.ids()), 4)
		close(release)
		time.Sleep(time.Second)
		same(t, "done", r.mem.count(r.claim, ledger.Done), 50)
		r.s.mu.Lock()
		same(t, "bytes held at the end", r.s.q.budget.bytes(), int64(0))
		r.s.mu.Unlock()
		if r.log.loads == 0 {
			t.Error("nothing was loaded again: the cap was not reached")
		}
	})
}

// parsing is a sink that reads more of an answer than is kept.
type parsing struct{ sink.Sink }

func (parsing) Answer() int { return 64 << 10 }

// TestAnswersAreCounted: destinations that answer at length, all at once, take no more memory than the cap.
func TestAnswersAreCounted(t *testing.T) {
	const most = 10 * (64<<10 + 1024)
	capped := func(c *Config) {
		c.MaxBytes = most
		for name, d := range c.Destinations {
			d.Sink = parsing{d.Sink}
			c.Destinations[name] = d
		}
	}
	in(t, capped, func(t *testing.T, r *rig) {
		release := make(chan struct{})
		r.sink.do = func(context.Context, sink.Action) (sink.Outcome, error) {
			<-release
			return sink.Outcome{}, nil
		}
		for i := range 50 {
			r.add(fmt.Sprint("e", i))
		}
		synctest.Wait()
		same(t, "attempts under way: what half of the cap allows, answers counted", len(r.sink.ids()), 5)
		close(release)
		time.Sleep(time.Second)
		same(t, "done", r.mem.count(r.claim, ledger.Done), 50)
		r.s.mu.Lock()
		same(t, "bytes held at the end", r.s.q.budget.bytes(), int64(0))
		r.s.mu.Unlock()
	})
}

// looking is a sink that reads much where it looks for an earlier attempt.
type looking struct{ sink.Sink }

func (looking) Look() int { return 64 << 10 }

// TestLooksAreCounted: attempts that look for earlier ones, all at once, take no more memory than the cap; first attempts, which have
// nothing to look for, do not wait for that.
func TestLooksAreCounted(t *testing.T) {
	capped := func(c *Config) {
		c.MaxBytes = 10 * (64<<10 + 1024)
		for name, d := range c.Destinations {
			d.Sink = looking{d.Sink}
			c.Destinations[name] = d
		}
	}
	in(t, capped, func(t *testing.T, r *rig) {
		release := make(chan struct{})
		var first, again atomic.Int32
		r.sink.do = func(_ context.Context, a sink.Action) (sink.Outcome, error) {
			if a.Attempt == 1 {
				first.Add(1)
				return sink.Outcome{}, &sink.AttemptError{Class: sink.ClassNetwork, Err: errors.New("cut off")}
			}
			again.Add(1)
			<-release
			return sink.Outcome{}, nil
		}
		for i := range 20 {
			r.add(fmt.Sprint("e", i))
		}
		time.Sleep(time.Minute)
		same(t, "first attempts", first.Load(), int32(20))
		same(t, "second attempts under way: what half of the cap allows, looks counted", again.Load(), int32(5))
		close(release)
		time.Sleep(time.Minute)
		same(t, "done", r.mem.count(r.claim, ledger.Done), 20)
		r.s.mu.Lock()
		same(t, "bytes held at the end", r.s.q.budget.bytes(), int64(0))
		r.s.mu.Unlock()
	})
}

// slowLog takes a moment for each load and knows the most that were under way at once.
type slowLog struct {
	Payloads
	now, most atomic.Int32
}

func (g *slowLog) Load(ctx context.Context, p ledger.Pointer) (*schemas.Event, error) {
	g.most.Store(max(g.most.Load(), g.now.Add(1)))
	defer g.now.Add(-1)
	time.Sleep(time.Millisecond)
	return g.Payloads.Load(ctx, p)
}

// Payloads of unknown size count as what may come until they turn out to be smaller, and again once a large one came.
func TestLoadsOfUnknownSize(t *testing.T) {
	const body = 25 << 20
	for _, tt := range []struct {
		size         int
		maxBody      int64
		first, later int32 // the most loads at once: of the first three, of the next hundred
	}{{100, body, 1, maxLoads}, {body, body, 1, 1}, {body / 5, body, 1, 6}, {100, 0, 3, maxLoads}} {
		var log *slowLog
		in(t, func(c *Config) {
			log = &slowLog{Payloads: c.Payloads}
			c.Payloads, c.MaxBody, c.MaxInFlight = log, tt.maxBody, 64
			c.Destinations[destName] = DestinationConfig{Sink: c.Destinations[destName].Sink, Concurrency: 64}
		}, func(t *testing.T, r *rig) {
			data := make([]byte, tt.size)
			load := func(n int) int32 {
				log.most.Store(0)
				var items []Item
				for i := range n {
					item := r.make(fmt.Sprint("e", i), nil)
					item.Event.Data, item.Event = data, nil // the log has it
					items = append(items, item)
				}
				r.Add(r.claim, items)
				time.Sleep(time.Minute)
				return log.most.Load()
			}
			same(t, fmt.Sprintf("loads of %d, limit %d", tt.size, tt.maxBody), []int32{load(3), load(100)}, []int32{tt.first, tt.later})
			same(t, "done", r.mem.count(r.claim, ledger.Done), 103)
		})
	}
}

func TestPayloadLargerThanTheCapRunsAlone(t *testing.T) {
	in(t, func(c *Config) { c.MaxBytes = 1000 }, func(t *testing.T, r *rig) {
		for _, known := range []bool{true, false} {
			item := r.make("a", nil)
			item.Event.Data = make([]byte, 50_000)
			if !known {
				item.Event = nil
			}
			r.Add(r.claim, []Item{item})
		}
		synctest.Wait()
		same(t, "done", r.mem.count(r.claim, ledger.Done), 2)
	})
}

func TestLedgerCopyIsReadAgain(t *testing.T) {
	tight := func(c *Config) { c.MaxBytes = 2 }
	synctest.Test(t, func(t *testing.T) {
		r := setup(t, tight)
		defer r.stop()
		packed := jsonCodec.Pack(&schemas.Event{ID: "a#1", Entity: "a", Data: []byte("{}")})
		r.make("a", func(a *ledger.Action) { a.Packed, a.HasCopy = packed, true })
		r.make("b", func(a *ledger.Action) { a.Packed, a.HasCopy = []byte("not json"), true })
		clear(r.log.events)
		r.begin(t)
		time.Sleep(time.Second)
		same(t, "calls", r.sink.ids(), []string{"a#1"})
		same(t, "a", r.mem.status(r.claim, 1), ledger.Done)
		same(t, "a copy that does not unpack is lost", r.mem.resultsOf(2)[0].Class, "payload_lost")
		if !slices.Contains([]ledger.Status{ledger.Dead}, r.mem.status(r.claim, 2)) {
			t.Error("b is not dead")
		}
	})
}

// A lane that is alone with a backlog reads what it has room for, not a page each time.
func TestRefillReadsWhatItTakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := setup(t, func(c *Config) { c.MaxOpen = 256 })
		for range 3000 {
			r.make("hot", nil)
		}
		asked := 0
		r.mem.onOpen = func(_ int64, limit int) error { asked += limit; return nil }
		r.begin(t)
		time.Sleep(50 * time.Second) // before what is open is compared with what is loaded
		same(t, "done", r.mem.count(r.claim, ledger.Done), 3000)
		checkOrder(t, r)
		if asked > 6*3000 {
			t.Errorf("%d actions were asked for", asked)
		}
	})
}

// A lane that is read again while it is refilled is read for no further: its backlog may be the whole topic's.
func TestRefillEndsWithItsLane(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := setup(t, func(c *Config) {
			crowd(c)
			c.MaxOpen, c.LaneWindow = 256, 4
		})
		var mended atomic.Bool
		busy := failWith(sink.ClassBusy)
		r.sink.do = func(ctx context.Context, a sink.Action) (sink.Outcome, error) {
			if mended.Load() {
				return sink.Outcome{Code: 200}, nil
			}
			return busy(ctx, a)
		}
		for range 4 {
			r.make("hot", nil)
		}
		for i := range 5000 { // all of them stand, and are read over
			r.make(fmt.Sprint("cold", i), func(a *ledger.Action) { a.Status = ledger.Dead })
		}
		r.make("hot", nil)
		r.begin(t)
		time.Sleep(time.Minute) // its head waits, and the last is left in the ledger
		synctest.Wait()
		var again atomic.Int64
		before := r.mem.given()
		runAgain := func() {
			r.s.mu.Lock()
			defer r.s.mu.Unlock()
			again.Add(1)
			r.s.q.rerun(r.s.q.partitions[r.claim], "hot", 1)
		}
		r.mem.mu.Lock()
		r.mem.onOpen = func(after int64, _ int) error {
			if after > 0 && after < 100 && again.Load() < 10 {
				runAgain()
			}
			return nil
		}
		r.mem.mu.Unlock()
		runAgain()
		time.Sleep(time.Minute)
		synctest.Wait()
		same(t, "read again", again.Load(), int64(10))
		if n := r.mem.given() - before; n > 2*5000 {
			t.Errorf("%d actions were read", n)
		}
		mended.Store(true)
		time.Sleep(time.Hour)
		synctest.Wait()
		same(t, "done", r.mem.count(r.claim, ledger.Done), 5)
	})
}

// runAgain has an action whose row an operator has changed run again.
func (r *rig) runAgain(entity schemas.EntityKey, laneSeq int64) {
	r.mem.mu.Lock()
	a := r.mem.rows[r.claim.ID][laneSeq]
	a.Status, a.Replay = ledger.Failed, &ledger.ReplayRequest{Force: true}
	r.mem.mu.Unlock()
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	var cmd ledger.Command
	cmd.LaneSeq, cmd.VersionLine.Entity = laneSeq, entity
	r.commandApplied(r.s.q.partitions[r.claim], cmd, ledger.Failed)
}

// A dead action that no page had is read when it is to run again, whatever a batch adds before, meanwhile or after.
func TestRunAgainOfWhatWasNotLoaded(t *testing.T) {
	dead := func(a *ledger.Action) { a.Status, a.OnDead = ledger.Dead, ledger.Continue }
	for name, add := range map[string]func(*rig, func()){
		"idle":   func(_ *rig, replay func()) { replay() },
		"before": func(r *rig, replay func()) { r.add("b"); replay() },
		"after":  func(r *rig, replay func()) { replay(); r.add("b") },
		"meanwhile": func(r *rig, replay func()) { // the batch is committed, and its Add comes late
			item := r.make("b", nil)
			replay()
			synctest.Wait()
			r.Add(r.claim, []Item{item})
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := setup(t, nil)
				defer r.stop()
				r.make("a", dead)
				r.begin(t)
				synctest.Wait()
				add(r, func() { r.runAgain("a", 1) })
				synctest.Wait()
				r.add("c")
				synctest.Wait()
				calls := r.sink.ids()
				slices.Sort(calls)
				want := []string{"a#1", "b#2", "c#3"}
				if name == "idle" {
					want = []string{"a#1", "c#2"}
				}
				same(t, "calls", calls, want)
				same(t, "nothing is left to be read", r.Full(r.claim), false)
			})
		})
	}
}

// staleable is the double of the ledger for an action that is overtaken when it is to run again.
type staleable struct{ *memory }

func (s staleable) EndStale(_ context.Context, c *ledger.Claim, laneSeq int64) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rows[c.ID][laneSeq].Status = ledger.Stale
	return false, nil
}

// TestLaneGoesOnBehindAStaleHead: when the last action that a lane has in memory ends as stale, what it left in the ledger is read, though
// nothing else happens.
func TestLaneGoesOnBehindAStaleHead(t *testing.T) {
	in(t, func(c *Config) { c.LaneWindow, c.Ledger = 1, staleable{c.Ledger.(*memory)} }, func(t *testing.T, r *rig) {
		synctest.Wait() // the loader has nothing more to do
		again := r.state("a", 1, func(a *ledger.Action) { a.Replay = &ledger.ReplayRequest{At: time.Now()} })
		again.Event.Payload = schemas.Snapshot
		next := r.state("a", 2)
		r.Add(r.claim, []Item{again, next})
		time.Sleep(30 * time.Second) // less than until the ledger is compared with what is loaded
		synctest.Wait()
		same(t, "statuses", r.statuses(1, 2), []string{"stale", "done"})
	})
}
