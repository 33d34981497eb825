package policy

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/counter"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/sink"
)

// Allowance is what a part of the file may use up.
//
// A run is the first attempt of an action: retries do not count again, what a replay runs again does, and so does an attempt that is repeated
// because a process was killed in it. What follows attempts that ended before the call, under an owner before this or before its
// lane was read again, is taken for a retry: how many they were is in memory alone. Runs are counted before the call, so that never more than the
// limit reach the destination. What a run costs is known only afterwards: while it is under way it counts with what the run before it has cost, and
// the limit stops the next.
type Allowance struct {
	Path    string        // where the file has it, such as "teams.acme.budget"
	Entity  bool          // each entity has one of its own
	Runs    Cap           // in runs
	Cost    Cap           // in [sink.Cost]
	OnLimit ledger.Status // of an action for which nothing is left: WaitingBudget, Dead or Dropped
}

// Cap is a limit in each window; the zero Cap is none.
type Cap struct {
	Limit int64
	Per   time.Duration
}

// BudgetCounters begins the names of the counters of budgets.
const BudgetCounters = "budget "

// SoftLimit is the share of a limit, in percent, from which on people are told.
const SoftLimit = 80

// Budgets is the guard of all budgets of a subscription's actions.
type Budgets struct {
	counters *counter.Counters
	of       func(destination, action string) []Allowance
	metrics  *BudgetMetrics

	mu      sync.Mutex
	charged map[schemas.ActionID]*charge
	last    map[string]int64 // what a run of an entity that has a budget of its own has cost, by the counter's name
	caps    map[capName]*namedCap
	swept   time.Time
}

// capName is where the file has a cap: the budget, and what of: runs or cost.
type capName struct{ path, of string }

// namedCap is what is the same for all actions that count in a cap.
type namedCap struct {
	counter string     // its name; each entity's goes on behind it
	used    *usedShare // of all subscriptions that count in it
	last    int64      // what a run has cost, where entities have none of their own; under Budgets.mu
}

// charge is what an action was counted with before its attempt.
type charge struct {
	at       time.Time
	keep     time.Duration
	attempt  int  // the last that it is known to be for: one that is not made leaves it to the next
	accepted bool // the attempt was made, and its result is to come; if it never does, the next attempt asks anew, and this stays used
	cost     []reserved
}

type reserved struct {
	cap    *namedCap
	limit  counter.Limit
	n      int64
	window time.Time
}

// askBudget is how long an action waits at most until it asks again: what a process had taken ahead may have come back.
const askBudget = 5 * time.Minute

// keepCharge is how long it is known that an action was counted whose attempt is not made, and keepLong the same of one that was accepted.
const keepCharge, keepLong = 10 * time.Minute, 24 * time.Hour

// BudgetMetrics are shared by the budgets of a process.
type BudgetMetrics struct {
	stopped *prometheus.CounterVec
	used    *usedShares
	refused *prometheus.CounterVec
	log     *slog.Logger
	lines   sync.Map // of the log, by destination: *rate.Limiter
}

// NewBudgetMetrics registers the metrics of budgets. What is no cost is told log, too, of a destination once a minute. caps returns the caps
// that the file has now, each as PATH.runs or PATH.cost: of others it is not told any more what is used; nil has all.
func NewBudgetMetrics(reg prometheus.Registerer, log *slog.Logger, caps func() []string) (*BudgetMetrics, error) {
	m := &BudgetMetrics{
		log: log,
		stopped: prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "forebay", Subsystem: "budget", Name: "stopped_total",
			Help: "Attempts that a budget has not let begin, by where the file has it, and what is used up: runs or cost."}, []string{"budget", "of"}),
		used: newUsedShares(caps),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "forebay", Subsystem: "budget", Name: "costs_refused_total",
			Help: "Answers whose cost is no cost: negative, too high, not a decimal. They count as if the run had cost what the one before it has."},
			[]string{"destination"}),
	}
	for _, c := range []prometheus.Collector{m.stopped, m.used, m.refused} {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// refuse counts an answer whose cost is no cost.
func (m *BudgetMetrics) refuse(a sink.Action) {
	m.refused.WithLabelValues(a.Destination).Inc()
	lines, _ := m.lines.LoadOrStore(a.Destination, rate.NewLimiter(rate.Every(time.Minute), 1))
	if lines.(*rate.Limiter).Allow() {
		m.log.Warn("a destination says a cost that is none: it counts as what the run before has cost; Forebay-Cost is a decimal from 0 to 1000000000, such as 0.25",
			"destination", a.Destination, "action", a.Name, "action_id", string(a.ID))
	}
}

// NewBudgets makes the guard. of returns the budgets that an action has to keep, by its name and its destination's.
func NewBudgets(counters *counter.Counters, metrics *BudgetMetrics, of func(destination, action string) []Allowance) *Budgets {
	return &Budgets{counters: counters, of: of, metrics: metrics, charged: map[schemas.ActionID]*charge{}, last: map[string]int64{}, caps: map[capName]*namedCap{}}
}

// Before implements [Guard]. It counts an action in all its budgets, or in none.
func (g *Budgets) Before(ctx context.Context, a sink.Action) (Verdict, error) {
	budgets := g.of(a.Destination, a.Name)
	if len(budgets) == 0 {
		return Verdict{}, nil
	}
	var room [6]ask
	asks := g.asks(room[:0], budgets, a)
	if asks == nil {
		return Verdict{}, nil
	}
	c := &charge{at: time.Now(), keep: keepCharge, attempt: a.Attempt, cost: make([]reserved, 0, len(budgets))}
	for i := range asks {
		v, window, err := g.take(ctx, &asks[i])
		if err != nil || v.Status != "" {
			for _, r := range asks[:i] {
				g.counters.Settle(r.limit, -r.n, r.window)
			}
			return v, err
		}
		if asks[i].window = window; asks[i].of == "cost" {
			c.cost = append(c.cost, asks[i].reserved)
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.charged[a.ID] = c
	g.sweep(c.at)
	return Verdict{}, nil
}

// ask is what an action needs of one cap of a budget.
type ask struct {
	reserved
	budget *Allowance
	of     string
}

// asks adds to a list what an action needs of its budgets, and returns it; nil if it was counted already and its attempt was not made yet.
func (g *Budgets) asks(list []ask, budgets []Allowance, a sink.Action) []ask {
	g.mu.Lock()
	defer g.mu.Unlock()
	if c := g.charged[a.ID]; c != nil && (!c.accepted || a.Attempt <= c.attempt) {
		return nil
	}
	for i := range budgets {
		b := &budgets[i]
		if b.Runs.Limit > 0 && a.Attempt-a.Unmade == 1 {
			l, known := g.limit(b, "runs", b.Runs, a)
			list = append(list, ask{reserved{cap: known, limit: l, n: 1}, b, "runs"})
		}
		if b.Cost.Limit > 0 {
			l, known := g.limit(b, "cost", b.Cost, a)
			list = append(list, ask{reserved{cap: known, limit: l, n: g.expected(known, l)}, b, "cost"})
		}
	}
	return list
}

// take takes what is asked for. Where there is not as much, the verdict is what the budget says.
func (g *Budgets) take(ctx context.Context, k *ask) (v Verdict, window time.Time, err error) {
	a, err := g.counters.Take(ctx, k.limit, k.n)
	if err != nil {
		return v, window, err
	}
	b, l := k.budget, k.limit
	if a.Asked {
		k.cap.used.set(float64(a.Used)/float64(l.Units), a.Left)
	}
	if a.OK {
		return v, a.Window, nil
	}
	g.metrics.stopped.WithLabelValues(b.Path, k.of).Inc()
	whose, limit, state := "", fmt.Sprint(l.Units), " is used up"
	if b.Entity {
		whose = " of this entity"
	}
	left := ""
	if k.of == "cost" {
		limit = sink.Cost(l.Units).String()
		if l.Units > a.Used { // less than the run is counted with
			left, state = sink.Cost(l.Units-a.Used).String()+" are left of ", ", and the last run has cost "+sink.Cost(k.n).String()
		}
	}
	return Verdict{Status: b.OnLimit, Reason: Budget, Again: min(a.Left, askBudget),
		Text: fmt.Sprintf("%s.%s: %sthe limit of %s in %s%s%s; there is room again at %s",
			b.Path, k.of, left, limit, l.Per, whose, state, a.Window.Add(l.Per).UTC().Format(time.RFC3339))}, a.Window, nil
}

// After implements [Guard]: it counts what the run has cost.
func (g *Budgets) After(a sink.Action, out sink.Outcome, class sink.Class) {
	if out.CostRefused {
		g.metrics.refuse(a)
	}
	g.mu.Lock()
	c := g.charged[a.ID]
	switch {
	case class == NotMade: // it stays counted, for when it is asked for again
		g.mu.Unlock()
		return
	case c == nil || a.Attempt < c.attempt: // or of an attempt before the one that was counted last
		c = g.uncharged(a)
	case out.Later && class == sink.ClassOK && out.Cost == 0: // its result says what it has cost
		c.keep, c.attempt, c.accepted = keepLong, a.Attempt, true
		g.mu.Unlock()
		return
	default:
		delete(g.charged, a.ID)
	}
	if out.Cost > 0 {
		for _, r := range c.cost {
			if r.limit.Name == r.cap.counter {
				r.cap.last = int64(out.Cost)
			} else {
				g.last[r.limit.Name] = int64(out.Cost)
			}
		}
	}
	g.mu.Unlock()
	for _, r := range c.cost {
		if n := int64(out.Cost) - r.n; !out.CostRefused {
			g.counters.Settle(r.limit, n, r.window)
		}
	}
}

// uncharged is the charge of an attempt that another process has counted, or this one before another attempt: what that has set aside for it stays used. The caller holds mu.
func (g *Budgets) uncharged(a sink.Action) *charge {
	c := &charge{}
	for _, b := range g.of(a.Destination, a.Name) {
		if b.Cost.Limit > 0 {
			l, known := g.limit(&b, "cost", b.Cost, a)
			c.cost = append(c.cost, reserved{cap: known, limit: l})
		}
	}
	return c
}

// expected is what a run is counted with while it is not known what it costs: as the last, of its entity where that has a budget of its own, and never more
// than the limit. Another entity's says nothing: a dear one would stop a cheap one. The caller holds mu.
func (g *Budgets) expected(of *namedCap, l counter.Limit) int64 {
	last := of.last
	if l.Name != of.counter {
		last = g.last[l.Name]
	}
	return min(max(1, last), l.Units)
}

// sweep forgets charges of actions that are not attempted after all. The caller holds mu.
func (g *Budgets) sweep(now time.Time) {
	if now.Sub(g.swept) < time.Minute {
		return
	}
	g.swept = now
	for id, c := range g.charged {
		if now.Sub(c.at) > c.keep {
			delete(g.charged, id)
		}
	}
	if len(g.last) > 10_000 {
		clear(g.last)
	}
}

// limit returns the counter of one of the budget's caps for an action, and what is the same for all actions. The caller holds mu.
func (g *Budgets) limit(b *Allowance, of string, c Cap, a sink.Action) (counter.Limit, *namedCap) {
	known := g.caps[capName{b.Path, of}]
	if known == nil {
		known = &namedCap{counter: BudgetCounters + b.Path + "." + of, used: g.metrics.used.share(capName{b.Path, of})}
		g.caps[capName{b.Path, of}] = known
	}
	name := known.counter
	if b.Entity {
		name += " " + a.Event.Source + " " + string(a.Event.Entity)
	}
	return counter.Limit{Name: name, Units: c.Limit, Per: c.Per}, known
}
