package lane

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/policy"
	"github.com/forebay-io/forebay/stream/sink"
)

// plan is a drawn run: batches, what each attempt does, and what goes wrong around it.
type plan struct {
	batches  [][]int         // entities
	pauses   []time.Duration // after each batch
	ends     []sink.Class    // of attempts, in turn
	takes    []time.Duration
	parks    bool // on_dead
	commits  []time.Duration
	misses   []bool           // whether a Record fails
	opens    []bool           // whether an Open fails, the first excepted
	restarts []int            // after which batches the process is replaced
	asks     []policy.Verdict // of guards, in turn; status error: they cannot answer
	afters   atomic.Int64     // attempts that guards let go on and were not told of
	broke    error            // the first promise that a call broke
	config   Config
}

func drawPlan(t *rapid.T) *plan {
	ms := func(most int) *rapid.Generator[time.Duration] {
		return rapid.Map(rapid.IntRange(0, most), func(n int) time.Duration { return time.Duration(n) * time.Millisecond })
	}
	ends := rapid.SampledFrom([]sink.Class{
		sink.ClassOK, sink.ClassOK, sink.ClassOK, sink.ClassBusy, sink.ClassNetwork, sink.ClassRejected, sink.ClassBug,
	})
	verdicts := rapid.Custom(func(t *rapid.T) policy.Verdict {
		return policy.Verdict{
			Status: rapid.SampledFrom([]ledger.Status{"", "", "", "error", "error", ledger.Skipped, ledger.Dropped, ledger.Denied, ledger.Dead,
				ledger.WaitingApproval, ledger.WaitingBudget, ledger.WaitingBudget}).Draw(t, "verdict"),
			Reason: "drawn", Text: rapid.SampledFrom([]string{"one", "two"}).Draw(t, "text"),
			Again: time.Duration(rapid.IntRange(-1, 90).Draw(t, "again")) * time.Second,
		}
	})
	window := rapid.IntRange(1, 8).Draw(t, "lane window")
	return &plan{
		batches:  rapid.SliceOfN(rapid.SliceOfN(rapid.IntRange(0, 5), 1, 12), 1, 8).Draw(t, "batches"),
		pauses:   rapid.SliceOfN(ms(300), 1, 4).Draw(t, "pauses"),
		ends:     rapid.SliceOfN(ends, 1, 40).Draw(t, "ends"),
		takes:    rapid.SliceOfN(ms(200), 1, 10).Draw(t, "takes"),
		parks:    rapid.Bool().Draw(t, "parks"),
		commits:  rapid.SliceOfN(ms(50), 1, 5).Draw(t, "commits"),
		misses:   append(rapid.SliceOfN(rapid.Bool(), 0, 4).Draw(t, "misses"), false),
		opens:    append(rapid.SliceOfN(rapid.Bool(), 0, 3).Draw(t, "opens"), false),
		restarts: rapid.SliceOfN(rapid.IntRange(0, 7), 0, 2).Draw(t, "restarts"),
		asks:     append(rapid.SliceOfN(verdicts, 0, 12).Draw(t, "asks"), policy.Verdict{}),
		config: Config{
			MaxInFlight: rapid.IntRange(1, 6).Draw(t, "in flight"), LaneWindow: window,
			MaxOpen:  rapid.IntRange(window, 20).Draw(t, "window"),
			MaxBytes: int64(rapid.SampledFrom([]int{1, 1500, 5000, 1 << 20}).Draw(t, "bytes")),
			MaxGroup: rapid.IntRange(1, 5).Draw(t, "group"), MaxUnrecorded: rapid.IntRange(1, 5).Draw(t, "unrecorded"),
		},
	}
}

// TestModel holds the lanes against what a queue per entity would do: every entity's calls are its actions in lane
// order, where only the current head may repeat, and it goes on only after a result that lets it.
func TestModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		p := drawPlan(rt)
		var err error
		synctest.Test(t, func(t *testing.T) { err = p.run(t) })
		err = cmp.Or(err, p.broke)
		if err != nil {
			rt.Fatal(err)
		}
	})
}

func (p *plan) run(t *testing.T) error {
	change := func(c *Config) {
		c.Guard = p.guard()
		c.MaxInFlight, c.LaneWindow, c.MaxOpen = p.config.MaxInFlight, p.config.LaneWindow, p.config.MaxOpen
		c.MaxBytes, c.MaxGroup, c.MaxUnrecorded = p.config.MaxBytes, p.config.MaxGroup, p.config.MaxUnrecorded
		c.Destinations[destName] = DestinationConfig{Sink: c.Destinations[destName].Sink, Retry: sink.RetryPolicy{Attempts: 3, Max: 10 * time.Second}}
	}
	r := setup(t, change)
	defer func() { r.stop() }()
	p.script(r)
	r.begin(t)
	opened := false // guarded by mem.mu
	r.mem.mu.Lock()
	r.mem.onOpen = func(after int64, _ int) error {
		k := r.mem.opens
		if opened && p.opens[k%len(p.opens)] {
			return errors.New("connection refused")
		}
		return nil
	}
	r.mem.mu.Unlock()
	for i, batch := range p.batches {
		r.mem.mu.Lock()
		opened = true
		r.mem.mu.Unlock()
		var items []Item
		for _, e := range batch {
			items = append(items, r.make(fmt.Sprint("e", e), func(a *ledger.Action) {
				if !p.parks {
					a.OnDead = ledger.Continue
				}
			}))
		}
		r.Add(r.claim, items)
		time.Sleep(p.pauses[i%len(p.pauses)])
		for _, at := range p.restarts {
			if at == i {
				ctx, cancel := context.WithTimeout(context.Background(), 30*time.Millisecond)
				closeErr := r.Close(ctx, r.claim)
				cancel()
				r.stop()
				r.claimed(closeErr == nil)
				r.mem.mu.Lock()
				opened = false
				r.mem.mu.Unlock()
				r.relaunch(t, change)
				r.begin(t)
			}
		}
	}
	time.Sleep(6 * time.Hour)
	synctest.Wait()
	return p.check(r)
}

func (p *plan) script(r *rig) {
	calls, records := 0, 0
	r.sink.do = func(ctx context.Context, a sink.Action) (sink.Outcome, error) {
		if ended := r.mem.endedByGuard(a.Event.ID); ended != "" && p.broke == nil {
			p.broke = fmt.Errorf("%s ran, and a guard had ended it as %s", a.Event.ID, ended)
		}
		r.sink.mu.Lock()
		k := calls
		calls++
		r.sink.mu.Unlock()
		wait := time.NewTimer(p.takes[k%len(p.takes)])
		defer wait.Stop()
		select {
		case <-wait.C:
		case <-ctx.Done():
			return sink.Outcome{}, &sink.AttemptError{Class: sink.ClassNetwork, Err: ctx.Err()}
		}
		if class := p.ends[k%len(p.ends)]; class != sink.ClassOK {
			return sink.Outcome{}, &sink.AttemptError{Class: class, Err: errors.New("drawn")}
		}
		return sink.Outcome{Code: 200}, nil
	}
	r.mem.before = func(ctx context.Context, _ []ledger.Result) error {
		k := records
		records++
		wait := time.NewTimer(p.commits[k%len(p.commits)])
		defer wait.Stop()
		select {
		case <-wait.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		if p.misses[k%len(p.misses)] {
			return errors.New("connection refused")
		}
		return nil
	}
}

// guarded are the statuses with which guards end an action whose lane goes on.
var guarded = map[ledger.Status]bool{ledger.Skipped: true, ledger.Dropped: true, ledger.Denied: true}

// parkedByGuard reports whether a guard has made an action a dead letter.
func (m *memory) parkedByGuard(c *ledger.Claim, seq int64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.rows[c.ID][seq]
	return r.Status == ledger.Dead && r.guarded
}

// endedByGuard returns the status with which a guard has ended the action of an event; empty: none has.
func (m *memory) endedByGuard(event string) ledger.Status {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, rows := range m.rows {
		for _, r := range rows {
			if r.EventID == event && r.guarded && !r.Status.Waits() {
				return r.Status
			}
		}
	}
	return ""
}

// guard returns a guard that gives the drawn verdicts.
func (p *plan) guard() policy.Guard {
	n := atomic.Int64{}
	return guardFunc{
		before: func(_ context.Context, a sink.Action) (policy.Verdict, error) {
			v := p.asks[int(n.Add(1)-1)%len(p.asks)]
			if v.Status == "error" {
				return policy.Verdict{}, errors.New("drawn")
			}
			if v.Status == "" {
				p.afters.Add(1)
			}
			return v, nil
		},
		after: func(sink.Action, sink.Outcome, sink.Class) { p.afters.Add(-1) },
	}
}

// check walks the calls per entity beside the ledger's rows.
func (p *plan) check(r *rig) error {
	lanes := map[string][]ledger.Action{} // in lane order
	for seq := int64(1); seq <= r.seq; seq++ {
		a := r.mem.action(r.claim, seq)
		lanes[string(a.Entity)] = append(lanes[string(a.Entity)], a)
	}
	at := map[string]int{}
	for _, c := range r.sink.calls {
		e := string(c.Event.Entity)
		for at[e] < len(lanes[e]) && lanes[e][at[e]].EventID != c.Event.ID {
			at[e]++ // the next head: never back
		}
		if at[e] == len(lanes[e]) {
			return fmt.Errorf("%s was called out of order", c.Event.ID)
		}
		if at[e] > 0 {
			before := lanes[e][at[e]-1].Status
			if before != ledger.Done && !guarded[before] && !(before == ledger.Dead && !p.parks && !r.mem.parkedByGuard(r.claim, lanes[e][at[e]-1].LaneSeq)) {
				return fmt.Errorf("%s ran behind one that is %s", c.Event.ID, before)
			}
		}
	}
	if n := p.afters.Load(); n != 0 {
		return fmt.Errorf("guards were not told of %d attempts", n)
	}
	called := map[string]bool{}
	for _, c := range r.sink.calls {
		called[c.Event.ID] = true
	}
	for _, lane := range lanes {
		parked := false
		for _, a := range lane {
			switch {
			case parked && (a.Status != ledger.Pending || called[a.EventID]):
				return fmt.Errorf("%s is %s behind a dead head", a.EventID, a.Status)
			case guarded[a.Status] && !parked:
			case a.Status == ledger.Dead && r.mem.parkedByGuard(r.claim, a.LaneSeq) && !parked:
			case !parked && a.Status != ledger.Done && a.Status != ledger.Dead:
				return fmt.Errorf("%s is %s in the end", a.EventID, a.Status)
			case !parked && !called[a.EventID]:
				return fmt.Errorf("%s is %s and was never called", a.EventID, a.Status)
			}
			parked = parked || a.Status == ledger.Dead && (p.parks || r.mem.parkedByGuard(r.claim, a.LaneSeq))
		}
	}
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	if r.s.q.budget.bytes() != 0 || r.s.q.results.unrecorded() != 0 || r.s.q.budget.loads != 0 || r.s.q.open != 0 || r.s.q.dispatch.ready != 0 {
		return fmt.Errorf("left over: %d and %d bytes, %d unrecorded, %d loads, %d open, %d ready",
			r.s.q.budget.queued, r.s.q.budget.inFlight, r.s.q.results.unrecorded(), r.s.q.budget.loads, r.s.q.open, r.s.q.dispatch.ready)
	}
	return nil
}
