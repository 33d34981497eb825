package policy_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/counter"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/ledger/ledgertest"
	"github.com/forebay-io/forebay/stream/policy"
	"github.com/forebay-io/forebay/stream/sink"
)

// budgets makes the guard of one process over a store.
func budgets(t *testing.T, store counter.Store, list ...policy.Allowance) *policy.Budgets {
	t.Helper()
	c := counter.New(store, nil)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { c.Run(ctx); close(done) }()
	t.Cleanup(func() { cancel(); <-done })
	m, err := policy.NewBudgetMetrics(prometheus.NewRegistry(), slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	return policy.NewBudgets(c, m, func(string, string) []policy.Allowance { return list })
}

func action(n int, entity string) sink.Action {
	return sink.Action{ID: schemas.ActionID(fmt.Sprint("action ", n)), Name: "run", Destination: "acme/agent", Attempt: 1,
		Event: &schemas.Event{Source: "/acme/github", Entity: schemas.EntityKey(entity)}}
}

func before(t *testing.T, g policy.Guard, a sink.Action) policy.Verdict {
	t.Helper()
	v, err := g.Before(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestBudgetOfRuns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var store ledgertest.Counters
		g := budgets(t, &store, policy.Allowance{Path: "teams.acme.budget", Runs: policy.Cap{Limit: 3, Per: time.Hour}, OnLimit: ledger.WaitingBudget})
		for n := range 3 {
			for range 2 { // asked twice: the attempt was put off in between
				if v := before(t, g, action(n, "1")); v.Status != "" {
					t.Fatalf("run %d: %+v", n, v)
				}
				g.After(action(n, "1"), sink.Outcome{}, policy.NotMade)
			}
			before(t, g, action(n, "1"))
			g.After(action(n, "1"), sink.Outcome{}, sink.ClassBusy)
		}
		v := before(t, g, action(4, "1"))
		if v.Status != ledger.WaitingBudget || v.Reason != policy.Budget || v.Again != 5*time.Minute || !strings.Contains(v.Text, "teams.acme.budget.runs") {
			t.Errorf("above the limit: %+v", v)
		}
		retry := action(1, "1")
		retry.Attempt = 2
		if v := before(t, g, retry); v.Status != "" {
			t.Errorf("a retry is no run: %+v", v)
		}
		unmade := action(5, "1")
		unmade.Attempt, unmade.Unmade = 3, 2
		if v := before(t, g, unmade); v.Status != ledger.WaitingBudget {
			t.Errorf("the first attempt that is made is a run: %+v", v)
		}
		time.Sleep(time.Hour)
		if v := before(t, g, action(4, "1")); v.Status != "" {
			t.Errorf("in the next window: %+v", v)
		}
	})
}

// TestBudgetOfAll: an action that one budget stops is not counted in the others, and an entity has one of its own.
func TestBudgetOfAll(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var store ledgertest.Counters
		g := budgets(t, &store,
			policy.Allowance{Path: "teams.acme.budget", Runs: policy.Cap{Limit: 2, Per: time.Hour}, OnLimit: ledger.Dead},
			policy.Allowance{Path: "entity", Entity: true, Runs: policy.Cap{Limit: 1, Per: time.Hour}, OnLimit: ledger.Dropped})
		for n, want := range []struct {
			entity string
			status ledger.Status
		}{{"1", ""}, {"1", ledger.Dropped}, {"1", ledger.Dropped}, {"2", ""}, {"3", ledger.Dead}} {
			if v := before(t, g, action(n, want.entity)); v.Status != want.status {
				t.Errorf("action %d of entity %s: %+v", n, want.entity, v)
			}
		}
	})
}

// TestRefusedCostsAreLogged: once a minute of each destination, whose action it was.
func TestRefusedCostsAreLogged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		m, err := policy.NewBudgetMetrics(prometheus.NewRegistry(), slog.New(slog.NewTextHandler(&log, nil)), nil)
		if err != nil {
			t.Fatal(err)
		}
		g := policy.NewBudgets(counter.New(&ledgertest.Counters{}, nil), m, func(string, string) []policy.Allowance { return nil })
		says := func(n int, destination string, out sink.Outcome) {
			a := action(n, "1")
			a.Destination = destination
			g.After(a, out, sink.ClassOK)
		}
		for range 2 {
			says(1, "acme/agent", sink.Outcome{CostRefused: true})
			says(2, "acme/agent", sink.Outcome{CostRefused: true})
			says(3, "acme/other", sink.Outcome{CostRefused: true})
			says(4, "acme/third", sink.Outcome{Cost: 1})
			time.Sleep(time.Minute)
		}
		for about, want := range map[string]int{"level=WARN": 4, "destination=acme/agent": 2, fmt.Sprintf("action_id=%q", action(1, "1").ID): 2, "destination=acme/other": 2} {
			if got := strings.Count(log.String(), about); got != want {
				t.Errorf("%s %d times, want %d:\n%s", about, got, want, &log)
			}
		}
	})
}

// TestBudgetOfCost: what runs have cost stops the next; while it is not known, a run counts as much as the last; nonsense costs as much, too.
func TestBudgetOfCost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var store ledgertest.Counters
		name := "budget b.cost"
		g := budgets(t, &store, policy.Allowance{Path: "b", Cost: policy.Cap{Limit: 50e6, Per: 24 * time.Hour}, OnLimit: ledger.WaitingBudget})
		run := func(n int, out sink.Outcome) policy.Verdict {
			t.Helper()
			v := before(t, g, action(n, "1"))
			if v.Status == "" {
				g.After(action(n, "1"), out, sink.ClassOK)
			}
			time.Sleep(10 * time.Second) // what was taken ahead goes back
			synctest.Wait()
			return v
		}
		used := func(want int64) {
			t.Helper()
			if got := store.Used(name); got != want {
				t.Errorf("used %d, want %d", got, want)
			}
		}
		run(1, sink.Outcome{Cost: 20e6})
		used(20e6)
		run(2, sink.Outcome{CostRefused: true})
		used(40e6)
		v := before(t, g, action(3, "1")) // 20 are not left, while it is not known
		if !strings.Contains(v.Text, "10 are left of the limit of 50 in 24h0m0s, and the last run has cost 20; there is room again at ") {
			t.Errorf("%+v", v)
		}
		used(40e6)
		run(4, sink.Outcome{})
		if v := run(5, sink.Outcome{}); v.Status != ledger.WaitingBudget || !strings.Contains(v.Text, "50 in 24h0m0s") {
			t.Errorf("%+v", v)
		}
		time.Sleep(24 * time.Hour)
		if v := run(6, sink.Outcome{Cost: 80e6}); v.Status != "" {
			t.Errorf("%+v", v)
		}
		used(80e6) // known only afterwards
		if v := run(7, sink.Outcome{}); v.Status != ledger.WaitingBudget {
			t.Errorf("%+v", v)
		}
		time.Sleep(24 * time.Hour)
		run(8, sink.Outcome{Later: true}) // it is at work
		used(50e6)
		g.After(action(8, "1"), sink.Outcome{Cost: 3e6}, sink.ClassOK) // its result
		time.Sleep(10 * time.Second)
		synctest.Wait()
		used(3e6)
		g.After(action(9, "1"), sink.Outcome{Cost: 1e6}, sink.ClassOK) // of one that another process has begun
		synctest.Wait()
		used(4e6)
		run(10, sink.Outcome{Later: true})
		used(5e6)
		if v := before(t, g, action(10, "1")); v.Status != "" { // the same attempt, under the next claim
			t.Errorf("%+v", v)
		}
		used(5e6)
		retry := action(10, "1")
		retry.Attempt = 2
		before(t, g, retry) // after silence; what was set aside for the attempt before it stays used
		used(6e6)
		g.After(action(10, "1"), sink.Outcome{Cost: 2e6}, policy.TooLate)
		g.After(retry, sink.Outcome{Cost: 3e6}, sink.ClassOK)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		used(10e6)
		run(11, sink.Outcome{Later: true})
		run(12, sink.Outcome{Cost: 80e6})
		retry = action(11, "1")
		retry.Attempt = 2
		if v := before(t, g, retry); v.Status != ledger.WaitingBudget {
			t.Errorf("a retry of work that fell silent: %+v", v)
		}
	})
}

// TestBudgetOfCostOfManyEntities: what a run has cost is known of a budget of all entities, however many have one of their own, and of an entity that
// nothing is known of it is what the last of all has cost.
func TestBudgetOfCostOfManyEntities(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const entities, cost, left = 10_001, 1_000_000, 10
		of := func(path string, entity bool, limit int64) policy.Allowance {
			return policy.Allowance{Path: path, Entity: entity, Cost: policy.Cap{Limit: limit, Per: time.Hour}, OnLimit: ledger.WaitingBudget}
		}
		g := budgets(t, &ledgertest.Counters{}, of("all", false, (entities+left)*cost), of("each", true, 3*cost))
		for n := range entities {
			before(t, g, action(n, fmt.Sprint(n)))
			g.After(action(n, fmt.Sprint(n)), sink.Outcome{Cost: cost}, sink.ClassOK)
		}
		time.Sleep(61 * time.Second) // what is known of entities is forgotten
		let := 0
		for n := range 64 {
			if v := before(t, g, action(entities+n, fmt.Sprint("other ", n))); v.Status == "" {
				let++
			}
		}
		if let != left {
			t.Errorf("let go: %d, at once, with money for %d", let, left)
		}
	})
}

// TestDearEntityStopsNoOther: what a run of one entity has cost says nothing of one whose runs are not known.
func TestDearEntityStopsNoOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, each := &ledgertest.Counters{}, policy.Allowance{Path: "each", Entity: true, Cost: policy.Cap{Limit: 5_000_000, Per: 24 * time.Hour}, OnLimit: ledger.WaitingBudget}
		g := budgets(t, store, each)
		before(t, g, action(1, "cheap"))
		g.After(action(1, "cheap"), sink.Outcome{Cost: 10_000}, sink.ClassOK)
		g = budgets(t, store, each) // the process is another
		before(t, g, action(2, "dear"))
		g.After(action(2, "dear"), sink.Outcome{Cost: 5_000_000}, sink.ClassOK)
		if v := before(t, g, action(3, "cheap")); v.Status != "" {
			t.Errorf("%+v", v)
		}
	})
}

// TestBudgetWithoutLedger: nothing is let go on that cannot be counted.
func TestBudgetWithoutLedger(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var store ledgertest.Counters
		store.Fail(schemas.Errorf(schemas.Unavailable, "", "away"))
		g := budgets(t, &store, policy.Allowance{Path: "b", Runs: policy.Cap{Limit: 3, Per: time.Hour}})
		if v, err := g.Before(t.Context(), action(1, "1")); err == nil || v.Status != "" {
			t.Errorf("%+v %v", v, err)
		}
	})
}

// TestBudgetUsedEndsWithItsWindow: what is used is told until the window ends, also where nobody asks for the budget after that,
// and while the file has it.
func TestBudgetUsedEndsWithItsWindow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := counter.New(&ledgertest.Counters{}, nil)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { c.Run(ctx); close(done) }()
		defer func() { cancel(); <-done }()
		caps := []string{"a.runs", "b.cost"}
		reg := prometheus.NewRegistry()
		m, err := policy.NewBudgetMetrics(reg, slog.New(slog.DiscardHandler), func() []string { return caps })
		if err != nil {
			t.Fatal(err)
		}
		g := policy.NewBudgets(c, m, func(string, string) []policy.Allowance {
			return []policy.Allowance{{Path: "a", Runs: policy.Cap{Limit: 2, Per: time.Hour}, OnLimit: ledger.WaitingBudget},
				{Path: "b", Cost: policy.Cap{Limit: 4, Per: 2 * time.Hour}}}
		})
		told := func(when, want string) {
			t.Helper()
			families, err := reg.Gather()
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, f := range families {
				for _, x := range f.GetMetric() {
					if f.GetName() == "forebay_budget_used_ratio" {
						got = append(got, fmt.Sprint(x.GetLabel()[0].GetValue(), ".", x.GetLabel()[1].GetValue(), " ", x.GetGauge().GetValue()))
					}
				}
			}
			if strings.Join(got, ", ") != want {
				t.Errorf("%s: %q, want %q", when, got, want)
			}
		}
		told("at first", "")
		for n := range 3 {
			before(t, g, action(n, "1"))
		}
		told("all runs are used", "a.runs 1, b.cost 0.5")
		caps = caps[:1]
		told("the file has the other no more", "a.runs 1")
		caps = []string{"a.runs", "b.cost"}
		time.Sleep(time.Hour)
		told("one window has ended", "b.cost 0.5")
		time.Sleep(time.Hour)
		told("both have", "")
	})
}

// TestBudgetsMakeNamesOnce: what a budget is called is made once, and not for each action; what is used of it is told.
func TestBudgetsMakeNamesOnce(t *testing.T) { // not parallel: it counts allocations
	var store ledgertest.Counters
	limit := policy.Cap{Limit: 64_000_000, Per: 366 * 24 * time.Hour}
	list := []policy.Allowance{{Path: "a", Runs: limit, Cost: limit}, {Path: "b", Runs: limit, Cost: limit}, {Path: "c", Runs: limit, Cost: limit}}
	c := counter.New(&store, nil)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { c.Run(ctx); close(done) }()
	defer func() { cancel(); <-done }()
	reg := prometheus.NewRegistry()
	m, err := policy.NewBudgetMetrics(reg, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	g := policy.NewBudgets(c, m, func(string, string) []policy.Allowance { return list })
	a := action(1, "1")
	if n := testing.AllocsPerRun(100, func() {
		if v, err := g.Before(ctx, a); err != nil || v.Status != "" {
			t.Error(v, err)
		}
		g.After(a, sink.Outcome{Cost: 1}, sink.ClassOK)
	}); n > 4 {
		t.Errorf("%.0f allocations", n)
	}
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	told := 0
	for _, f := range families {
		for _, x := range f.GetMetric() {
			if f.GetName() == "forebay_budget_used_ratio" && x.GetGauge().GetValue() > 0 {
				told++
			}
		}
	}
	if told != 6 {
		t.Errorf("of %d caps it is told what is used", told)
	}
}

// TestReplayOfWhatFellSilentIsARun: a run that was answered 202, and of which nobody has heard again, counts as another once an operator has it run
// again. A retry counts as none.
func TestReplayOfWhatFellSilentIsARun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var store ledgertest.Counters
		g := budgets(t, &store, policy.Allowance{Path: "teams.acme.budget", Runs: policy.Cap{Limit: 2, Per: time.Hour}, OnLimit: ledger.WaitingBudget})
		a := action(1, "1")
		for _, step := range []struct {
			attempt, unmade int
			want            ledger.Status
		}{{1, 0, ""}, {2, 0, ""}, {3, 2, ""}, {4, 2, ""}, {5, 4, ledger.WaitingBudget}} {
			a.Attempt, a.Unmade = step.attempt, step.unmade
			if v := before(t, g, a); v.Status != step.want {
				t.Errorf("attempt %d, %d of a run before: %+v", step.attempt, step.unmade, v)
			}
			if step.want == "" {
				g.After(a, sink.Outcome{Later: true}, sink.ClassOK)
			}
		}
	})
}
