package lane

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/sink"
)

func withLatest(c *Config) { c.Latest = true }

// little is a window that holds next to nothing: what is newer is in the ledger.
func little(c *Config) {
	c.Latest = true
	c.MaxOpen, c.LaneWindow = 3, 2
}

// state makes a snapshot of a version of an entity.
func (r *rig) state(entity string, value int64, change ...func(*ledger.Action)) Item {
	return r.make(entity, func(a *ledger.Action) {
		a.Version, a.Payload = schemas.Version{Kind: schemas.Sequence, Value: value}, schemas.Snapshot
		for _, c := range change {
			c(a)
		}
	})
}

func delta(a *ledger.Action)          { a.Payload = schemas.Delta }
func unwritten(a *ledger.Action)      { a.Payload = "" }
func lately(a *ledger.Action)         { a.Late = true }
func redriven(a *ledger.Action)       { a.Reason = gate.ReasonRedriven }
func again(a *ledger.Action)          { a.Reason = gate.ReasonReprocess }
func tried(a *ledger.Action)          { a.Attempts = 1 }
func failed(a *ledger.Action)         { a.Status, a.Attempts = ledger.Failed, 1 }
func arrived(a *ledger.Action)        { a.Reason = gate.ReasonArrival }
func withoutVersion(a *ledger.Action) { a.Version = schemas.Version{Kind: schemas.None} }
func clock(name string) func(*ledger.Action) {
	return func(a *ledger.Action) { a.Version.Clock = name }
}
func named(name string) func(*ledger.Action) {
	return func(a *ledger.Action) { a.Name = name }
}

// statuses are those of the actions from, up to and with to.
func (r *rig) statuses(from, to int64) (out []string) {
	for seq := from; seq <= to; seq++ {
		out = append(out, string(r.mem.status(r.claim, seq)))
	}
	return out
}

// What is superseded, and what is not, of a backlog that the lanes find in the ledger.
func TestLatest(t *testing.T) {
	const done, superseded = "done", "superseded"
	for name, c := range map[string]struct {
		make func(r *rig)
		want string
	}{
		"whole states":                 {func(r *rig) { r.state("a", 1); r.state("a", 2); r.state("a", 3) }, "superseded superseded done"},
		"deltas run":                   {func(r *rig) { r.state("a", 1); r.state("a", 2, delta); r.state("a", 3) }, "superseded done done"},
		"before a delta":               {func(r *rig) { r.state("a", 1); r.state("a", 2, delta) }, "done done"},
		"kind not known":               {func(r *rig) { r.state("a", 1, unwritten); r.state("a", 2) }, "done done"},
		"the same version":             {func(r *rig) { r.state("a", 1); r.state("a", 2); r.state("a", 2); r.state("a", 2) }, "superseded done done done"},
		"other entities":               {func(r *rig) { r.state("a", 1); r.state("b", 2) }, "done done"},
		"other clocks":                 {func(r *rig) { r.state("a", 1, clock("x")); r.state("a", 2, clock("y")); r.state("a", 3, clock("x")) }, "superseded done done"},
		"each action by name":          {func(r *rig) { r.state("a", 1); r.state("a", 1, named("tell")); r.state("a", 2) }, "superseded done done"},
		"tried before":                 {func(r *rig) { r.state("a", 1, tried); r.state("a", 2) }, "done done"},
		"failed before":                {func(r *rig) { r.state("a", 1, failed); r.state("a", 2); r.state("a", 3) }, "done superseded done"},
		"a late one overtakes nothing": {func(r *rig) { r.state("a", 3); r.state("a", 2, lately) }, "done done"},
		"a late one is overtaken":      {func(r *rig) { r.state("a", 3); r.state("a", 2, lately); r.state("a", 4) }, "superseded superseded done"},
		"released by an operator":      {func(r *rig) { r.state("a", 5, redriven); r.state("a", 6); r.state("a", 3, redriven) }, "done done done"},
		"run again by a replay":        {func(r *rig) { r.state("a", 2, again); r.state("a", 1, again) }, "done done"},
		"again, and then a newer one":  {func(r *rig) { r.state("a", 1, again); r.state("a", 2) }, "superseded done"},
		"order of arrival":             {func(r *rig) { r.state("a", 1, arrived); r.state("a", 2, arrived) }, "done done"},
		"no versions":                  {func(r *rig) { r.state("a", 0, withoutVersion); r.state("a", 0, withoutVersion) }, "done done"},
		"of another epoch":             {func(r *rig) { r.state("a", 9); r.state("a", 1, func(a *ledger.Action) { a.Version.Epoch = 1 }) }, "superseded done"},
		"an entity among many": {func(r *rig) {
			r.state("a", 1)
			r.add("b", "c", "d", "e", "f")
			r.state("a", 2)
			r.add("g", "h")
			r.state("a", 3)
		},
			"superseded done done done done done superseded done done done"},
	} {
		for size, change := range map[string]func(*Config){"in memory": withLatest, "left to the ledger": little} {
			t.Run(name+" "+size, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := setup(t, change)
					c.make(r)
					r.begin(t)
					time.Sleep(time.Minute)
					synctest.Wait()
					same(t, "statuses", strings.Join(r.statuses(1, r.seq), " "), c.want)
					same(t, "calls", len(r.sink.ids()), strings.Count(c.want, done))
					same(t, "nothing is remembered", len(r.s.q.partitions[r.claim].latest.newest), 0)
					same(t, "or busy", r.s.q.partitions[r.claim].busy, 0)
				})
			})
		}
	}
}

// Without it everything runs.
func TestBacklogAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := setup(t, nil)
		r.state("a", 1)
		r.state("a", 2)
		r.begin(t)
		time.Sleep(time.Minute)
		same(t, "statuses", strings.Join(r.statuses(1, 2), " "), "done done")
	})
}

// What waits for its destination is decided when it would start: what came meanwhile counts, also what has no room.
func TestLatestDecidesAtTheStart(t *testing.T) {
	for size, change := range map[string]func(*Config){"in memory": withLatest, "left to the ledger": little} {
		t.Run(size, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				hold := make(chan struct{})
				r := setup(t, func(c *Config) {
					change(c)
					c.Destinations[destName] = DestinationConfig{Sink: c.Destinations[destName].Sink, Concurrency: 1, Timeout: time.Hour}
				})
				r.sink.do = func(context.Context, sink.Action) (sink.Outcome, error) { <-hold; return sink.Outcome{}, nil }
				r.begin(t)
				r.Add(r.claim, []Item{r.state("busy", 1)})
				synctest.Wait() // it holds the destination
				for v := range int64(9) {
					r.Add(r.claim, []Item{r.state("a", v+1)})
					synctest.Wait()
				}
				close(hold)
				time.Sleep(time.Minute)
				same(t, "calls", fmt.Sprint(r.sink.ids()), "[busy#1 a#10]")
				same(t, "superseded", r.mem.count(r.claim, ledger.Superseded), 8)
			})
		})
	}
}

// After an unclean claim the first open action of an entity may have been tried: it runs. Those behind it were not.
func TestLatestAfterAnUncleanClaim(t *testing.T) {
	for size, change := range map[string]func(*Config){"in memory": withLatest, "left to the ledger": little} {
		t.Run(size, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := setup(t, change)
				for v := range int64(6) {
					r.state("a", v+1)
					r.state("b", v+1)
				}
				r.unclean()
				r.begin(t)
				time.Sleep(time.Second)
				ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
				defer cancel()
				if err := r.Close(ctx, r.claim); err == nil { // the timeout of the owner before is not over
					t.Error("the claim was given back as a clean one")
				}
				r.claimed(false)
				r.begin(t)
				time.Sleep(time.Minute)
				ids := r.sink.ids()
				slices.Sort(ids)
				same(t, "calls", fmt.Sprint(ids), "[a#1 a#11 b#12 b#2]")
				if err := r.Close(t.Context(), r.claim); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// As long as nobody knows whether an owner before has tried an action, it is not superseded, however often its claim was
// given back since.
func TestLatestKeepsTheDoubt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var alive atomic.Bool
		change := func(c *Config) { c.Latest, c.Alive = true, alive.Load }
		r := setup(t, change)
		r.state("a", 1)
		r.state("a", 2)
		r.unclean()
		for range 3 {
			r.begin(t)
			time.Sleep(time.Hour) // long after the timeout
			if err := r.Close(t.Context(), r.claim); err != nil {
				t.Fatal(err)
			}
			r.stop()
			r.claimed(true)
			r.relaunch(t, change)
		}
		alive.Store(true)
		r.begin(t)
		time.Sleep(time.Minute)
		same(t, "calls", fmt.Sprint(r.sink.ids()), "[a#1 a#2]")
	})
}

// Nothing runs before the whole backlog is known, and reading goes on after errors.
func TestLatestReadsAllFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := setup(t, little)
		for v := range int64(50) {
			r.state("a", v+1)
		}
		var opened atomic.Bool
		var fails atomic.Int64
		r.mem.onOpen = func(int64, int) error {
			if opened.Load() && fails.Load() < 5 {
				fails.Add(1)
				return errors.New("connection refused")
			}
			return nil
		}
		r.begin(t)
		opened.Store(true)
		time.Sleep(time.Minute)
		same(t, "calls", fmt.Sprint(r.sink.ids()), "[a#50]")
		same(t, "errors", fails.Load(), int64(5))
	})
}

// One Record takes a bounded number of results, those that are superseded counted.
func TestLatestGroups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := setup(t, func(c *Config) { c.Latest, c.MaxGroup, c.LaneWindow = true, 5, 4 })
		for v := range int64(8) {
			for e := range 6 {
				r.state(fmt.Sprint("e", e), v+1)
			}
		}
		r.begin(t)
		time.Sleep(time.Minute)
		same(t, "superseded", r.mem.count(r.claim, ledger.Superseded), 6*7)
		for _, group := range r.mem.records {
			if len(group) > 5 {
				t.Errorf("a group of %d results", len(group))
			}
		}
	})
}

// backlogPlan is a drawn run of lanes with backlog: latest.
type backlogPlan struct {
	*plan
	lines [][]drawnAction // by batch
}

type drawnAction struct {
	entity, clock int
	step          int // of the version; 0 repeats it
	change        int // see kinds
}

var kinds = []func(*ledger.Action){func(*ledger.Action) {}, func(*ledger.Action) {}, func(*ledger.Action) {}, delta, lately, unwritten}

// TestLatestModel holds backlog: latest against what it says: whatever is superseded was whole, never called and is
// before a newer snapshot; whatever is called for the first time had nothing newer behind it then. Over windows that hold
// next to nothing, errors, clean and unclean restarts.
func TestLatestModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		p := backlogPlan{plan: drawPlan(rt)}
		one := rapid.Custom(func(t *rapid.T) drawnAction {
			return drawnAction{rapid.IntRange(0, 3).Draw(t, "entity"), rapid.IntRange(0, 1).Draw(t, "clock"), rapid.IntRange(0, 2).Draw(t, "step"), rapid.IntRange(0, len(kinds)-1).Draw(t, "kind")}
		})
		p.lines = rapid.SliceOfN(rapid.SliceOfN(one, 1, 20), 1, 8).Draw(rt, "lines")
		var err error
		synctest.Test(t, func(t *testing.T) { err = p.run(t) })
		if err != nil {
			rt.Fatal(err)
		}
	})
}

// history is what the model knows besides the ledger.
type history struct {
	at    map[int64]time.Time // when an action was added
	doubt map[int64]bool      // may run after an unclean claim
	first map[string]time.Time
}

func (p *backlogPlan) run(t *testing.T) error {
	change := func(c *Config) {
		c.Latest = true
		c.MaxInFlight, c.LaneWindow, c.MaxOpen = p.config.MaxInFlight, p.config.LaneWindow, p.config.MaxOpen
		c.MaxBytes, c.MaxGroup, c.MaxUnrecorded = p.config.MaxBytes, p.config.MaxGroup, p.config.MaxUnrecorded
		c.Destinations[destName] = DestinationConfig{Sink: c.Destinations[destName].Sink, Retry: sink.RetryPolicy{Attempts: 3, Max: 10 * time.Second}, Concurrency: 2}
	}
	r := setup(t, change)
	defer func() { r.stop() }()
	p.script(r)
	h := history{at: map[int64]time.Time{}, doubt: map[int64]bool{}, first: map[string]time.Time{}}
	values := map[[2]int]int64{}
	r.begin(t)
	for i, batch := range p.lines {
		var items []Item
		for _, d := range batch {
			line := [2]int{d.entity, d.clock}
			values[line] += int64(d.step)
			value := values[line] + 1
			items = append(items, r.state(fmt.Sprint("e", d.entity), value, clock(fmt.Sprint(d.clock)), kinds[d.change], func(a *ledger.Action) {
				if a.Late {
					a.Version.Value--
				}
				if !p.parks {
					a.OnDead = ledger.Continue
				}
			}))
			h.at[r.seq] = time.Now()
		}
		r.Add(r.claim, items)
		time.Sleep(p.pauses[i%len(p.pauses)])
		if slices.Contains(p.restarts, i) {
			p.restart(t, r, change, &h)
		}
	}
	time.Sleep(12 * time.Hour)
	synctest.Wait()
	return p.check(r, &h)
}

// restart replaces the process.
func (p *backlogPlan) restart(t *testing.T, r *rig, change func(*Config), h *history) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Millisecond)
	closeErr := r.Close(ctx, r.claim)
	cancel()
	r.stop()
	r.claimed(closeErr == nil)
	if r.claim.DoubtTo > 0 {
		met := map[schemas.EntityKey]bool{}
		open, _, _ := (&memory{rows: r.mem.rows}).Open(context.Background(), r.claim, 0, 1<<20)
		for _, a := range open {
			h.doubt[a.LaneSeq] = h.doubt[a.LaneSeq] || !met[a.Entity] && a.LaneSeq < r.claim.DoubtTo
			met[a.Entity] = true
		}
	}
	r.relaunch(t, change)
	r.begin(t)
}

func (p *backlogPlan) check(r *rig, h *history) error {
	all := make([]ledger.Action, r.seq+1)
	first := map[string]time.Time{}
	for i, c := range r.sink.calls {
		if _, known := first[c.Event.ID]; !known {
			first[c.Event.ID] = r.sink.at[i]
		}
	}
	for seq := int64(1); seq <= r.seq; seq++ {
		all[seq] = r.mem.action(r.claim, seq)
	}
	// overtakes is the first snapshot behind a of a newer version of its line; 0: none.
	overtakes := func(a *ledger.Action) int64 {
		for seq := a.LaneSeq + 1; seq <= r.seq; seq++ {
			b := &all[seq]
			if b.Entity == a.Entity && b.Version.Clock == a.Version.Clock && !b.Late && b.Payload == schemas.Snapshot && b.Version.Compare(a.Version) > 0 {
				return seq
			}
		}
		return 0
	}
	parked := map[schemas.EntityKey]bool{}
	for seq := int64(1); seq <= r.seq; seq++ {
		a := &all[seq]
		newer := overtakes(a)
		began, called := first[a.EventID]
		switch {
		case a.Status == ledger.Superseded && (called || newer == 0 || a.Payload != schemas.Snapshot || a.Attempts > 0):
			return fmt.Errorf("%s (%s, called %v) is superseded, by %d", a.EventID, a.Payload, called, newer)
		case called && a.Payload == schemas.Snapshot && newer > 0 && h.at[newer].Before(began) && !h.doubt[seq]:
			return fmt.Errorf("%s was called at %v, %d had come at %v", a.EventID, began, newer, h.at[newer])
		case parked[a.Entity] && a.Status != ledger.Pending:
			return fmt.Errorf("%s is %s behind a dead head", a.EventID, a.Status)
		case !parked[a.Entity] && a.Status != ledger.Done && a.Status != ledger.Dead && a.Status != ledger.Superseded:
			return fmt.Errorf("%s is %s in the end", a.EventID, a.Status)
		case !parked[a.Entity] && !called && a.Status != ledger.Superseded:
			return fmt.Errorf("%s is %s and was never called", a.EventID, a.Status)
		}
		parked[a.Entity] = parked[a.Entity] || a.Status == ledger.Dead && p.parks
	}
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	if r.s.q.budget.bytes() != 0 || r.s.q.results.unrecorded() != 0 || r.s.q.budget.loads != 0 || r.s.q.open != 0 || r.s.q.dispatch.ready != 0 {
		return fmt.Errorf("left over: %d and %d bytes, %d unrecorded, %d loads, %d open, %d ready",
			r.s.q.budget.queued, r.s.q.budget.inFlight, r.s.q.results.unrecorded(), r.s.q.budget.loads, r.s.q.open, r.s.q.dispatch.ready)
	}
	return nil
}
