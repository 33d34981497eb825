package lane

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/destination"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/policy"
	"github.com/forebay-io/forebay/stream/sink"
)

// guardFunc is a guard of two functions; without after it is not told.
type guardFunc struct {
	before func(context.Context, sink.Action) (policy.Verdict, error)
	after  func(sink.Action, sink.Outcome, sink.Class)
}

func (g guardFunc) Before(ctx context.Context, a sink.Action) (policy.Verdict, error) {
	return g.before(ctx, a)
}

func (g guardFunc) After(a sink.Action, out sink.Outcome, class sink.Class) {
	if g.after != nil {
		g.after(a, out, class)
	}
}

// desk is a guard that says one thing of each entity, and counts how often it is asked.
type desk struct {
	mu   sync.Mutex
	says map[string]policy.Verdict
	errs map[string]error
	asks []string // events, in order
	told []string // events with the class of their attempt
}

func (d *desk) Before(_ context.Context, a sink.Action) (policy.Verdict, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asks = append(d.asks, a.Event.ID)
	return d.says[string(a.Event.Entity)], d.errs[string(a.Event.Entity)]
}

func (d *desk) After(a sink.Action, _ sink.Outcome, class sink.Class) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.told = append(d.told, a.Event.ID+" "+string(class))
}

func (d *desk) say(entity string, v policy.Verdict, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.says == nil {
		d.says, d.errs = map[string]policy.Verdict{}, map[string]error{}
	}
	d.says[entity], d.errs[entity] = v, err
}

func (d *desk) asked(event string) (n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, a := range d.asks {
		if a == event {
			n++
		}
	}
	return n
}

func guardedBy(g policy.Guard, more ...func(*Config)) func(*Config) {
	return func(c *Config) {
		c.Guard = g
		for _, f := range more {
			f(c)
		}
	}
}

var waitsForApproval = policy.Verdict{Status: ledger.WaitingApproval, Reason: policy.Approval, Text: "asked", Again: 10 * time.Minute}

// What a guard ends has no attempt, is recorded with reason and text, and lets its lane go on.
func TestGuardEndsActions(t *testing.T) {
	for _, status := range []ledger.Status{ledger.Skipped, ledger.Dropped, ledger.Denied} {
		t.Run(string(status), func(t *testing.T) {
			first := guardFunc{before: func(_ context.Context, a sink.Action) (policy.Verdict, error) {
				if a.Event.ID == "a#1" {
					return policy.Verdict{Status: status, Reason: "when", Text: "not\nthis one"}, nil
				}
				return policy.Verdict{}, nil
			}}
			in(t, guardedBy(first), func(t *testing.T, r *rig) {
				r.add("a", "a")
				synctest.Wait()
				same(t, "calls", r.sink.ids(), []string{"a#2"})
				res := r.mem.resultsOf(1)
				if len(res) != 1 || res[0].Status != status || res[0].Class != "when" || res[0].Error != "not this one" || res[0].Attempt != 0 || res[0].Packed != nil {
					t.Errorf("recorded as %+v", res)
				}
				same(t, "counted", testutil.ToFloat64(r.s.q.dispatch.metrics.verdicts.WithLabelValues(string(status), "when")), 1.0)
			})
		})
	}
}

// A dead letter by a guard parks its lane whatever on_dead says, and the next owner finds it parked.
func TestGuardParks(t *testing.T) {
	d := &desk{}
	d.say("a", policy.Verdict{Status: ledger.Dead, Reason: policy.Expression, Text: "no such key"}, nil)
	change := guardedBy(d)
	in(t, change, func(t *testing.T, r *rig) {
		var items []Item
		for range 2 {
			items = append(items, r.make("a", func(a *ledger.Action) { a.OnDead = ledger.Continue }))
		}
		r.Add(r.claim, items)
		synctest.Wait()
		same(t, "calls", len(r.sink.ids()), 0)
		same(t, "statuses", r.statuses(1, 2), []string{"dead_letter", "pending"})
		if a := r.mem.action(r.claim, 1); len(a.Packed) == 0 {
			t.Error("the dead letter has no payload copy")
		}
		r.handOver(t, change)
		time.Sleep(time.Hour)
		same(t, "after a hand-over", r.statuses(1, 2), []string{"dead_letter", "pending"})
		same(t, "calls after a hand-over", len(r.sink.ids()), 0)
	})
}

// What waits is recorded once with a copy, uses no attempt, holds nothing of its destination, and is asked for again no more often than its
// guard wants.
func TestGuardWaits(t *testing.T) {
	d := &desk{}
	d.say("a", waitsForApproval, nil)
	one := func(c *Config) {
		dest := c.Destinations[destName]
		dest.Concurrency = 1
		c.Destinations[destName] = dest
	}
	in(t, guardedBy(d, one), func(t *testing.T, r *rig) {
		r.add("a", "a", "b")
		time.Sleep(time.Hour + time.Second)
		same(t, "others go on", r.sink.ids(), []string{"b#3"})
		same(t, "statuses", r.statuses(1, 3), []string{"waiting_approval", "pending", "done"})
		same(t, "asked in an hour", d.asked("a#1"), 7)
		res := r.mem.resultsOf(1)
		if len(res) != 1 || res[0].NextIn != 10*time.Minute || res[0].Class != "approval" || res[0].Error != "asked" || res[0].Attempt != 0 || len(res[0].Packed) == 0 {
			t.Errorf("recorded as %+v", res)
		}
		r.s.mu.Lock()
		oldest := r.s.q.oldest(r.s.q.partitions[r.claim])
		r.s.mu.Unlock()
		same(t, "nothing counts as late", oldest, []time.Time{{}})
		w := r.Waiting()[destName]
		same(t, "waits, and is held", []int{w.Actions, w.Held}, []int{2, 2})
		same(t, "since when, and for its destination", []bool{w.Since.IsZero(), w.Due.IsZero()}, []bool{false, true})

		d.say("a", policy.Verdict{}, nil)
		r.AskAgain(ledger.WaitingBudget)
		synctest.Wait()
		same(t, "another status asks again", len(r.sink.ids()), 1)
		r.AskAgain(ledger.WaitingApproval)
		synctest.Wait()
		same(t, "calls", r.sink.ids(), []string{"b#3", "a#1", "a#2"})
		if a := r.mem.action(r.claim, 1); a.Attempts != 1 || a.Status != ledger.Done {
			t.Errorf("%d attempts, %s", a.Attempts, a.Status)
		}
		same(t, "told", slices.Sorted(slices.Values(d.told)), []string{"a#1 ", "a#2 ", "b#3 "})
	})
}

// An action that waits for its guards is asked about again and again: a fetch that fails uses up none of its attempts meanwhile, and a rate that is
// used up does not drop it. A document that is gone ends it.
func TestNothingButItsGuardsEndsWhatWaits(t *testing.T) {
	for name, tt := range map[string]struct {
		fetch  func(context.Context, *schemas.Event) (*schemas.Event, sink.Outcome, error)
		status ledger.Status
	}{
		"the source is away":   {fails(sink.ClassBusy, sink.Outcome{Code: 503}), ledger.WaitingApproval},
		"the document is gone": {fails(sink.ClassRejected, sink.Outcome{Code: 404}), ledger.Dead},
	} {
		t.Run(name, func(t *testing.T) {
			d, away := &desk{}, &atomic.Bool{}
			d.say("a", waitsForApproval, nil)
			x := &enricher{do: func(ctx context.Context, e *schemas.Event) (*schemas.Event, sink.Outcome, error) {
				if away.Load() {
					return tt.fetch(ctx, e)
				}
				return full(e, "whole"), sink.Outcome{}, nil
			}}
			in(t, guardedBy(d, func(c *Config) { c.Enrich = x }), func(t *testing.T, r *rig) {
				r.add("a")
				synctest.Wait()
				away.Store(true)
				time.Sleep(24 * time.Hour)
				synctest.Wait()
				same(t, "status", r.mem.status(r.claim, 1), tt.status)
				if tt.status == ledger.Dead {
					return
				}
				same(t, "recorded", len(r.mem.resultsOf(1)), 1)
				away.Store(false)
				d.say("a", policy.Verdict{}, nil)
				r.AskAgain(ledger.WaitingApproval)
				time.Sleep(2 * time.Minute)
				synctest.Wait()
				same(t, "attempt", r.sink.calls[0].Attempt, 1)
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		d := &desk{}
		d.say("a", waitsForApproval, nil)
		to := newShared(t, destination.Policy{Concurrency: 1, Rate: destination.Rate{Limit: 1, Per: 24 * time.Hour, Burst: 1, OnLimit: destination.Drop}})
		r := setup(t, guardedBy(d, sharing(to, &script{})))
		defer r.stop()
		r.begin(t)
		r.add("a")
		synctest.Wait()
		r.add("b")
		time.Sleep(time.Hour)
		synctest.Wait()
		same(t, "statuses", r.statuses(1, 2), []string{"waiting_approval", "done"})
	})
}

// TestGuardsKnowWhatWasNotMade: an attempt that ended before the destination was called is recorded, and guards know of it.
func TestGuardsKnowWhatWasNotMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen []string
		g := guardFunc{before: func(_ context.Context, a sink.Action) (policy.Verdict, error) {
			seen = append(seen, fmt.Sprintf("%s %d", a.Event.ID, a.Attempt-a.Unmade))
			return policy.Verdict{}, nil
		}}
		to := newShared(t, destination.Policy{Concurrency: 1, Rate: destination.Rate{Limit: 1, Per: time.Second, Burst: 1, OnLimit: destination.Error}})
		r := setup(t, guardedBy(g, sharing(to, &script{})))
		defer r.stop()
		r.begin(t)
		r.add("a", "b")
		time.Sleep(time.Hour)
		synctest.Wait()
		same(t, "seen", seen, []string{"a#1 1", "b#2 1"})
		if n := r.sink.calls[1].Attempt; n < 2 {
			t.Errorf("attempt %d: the rate was not used up", n)
		}
	})
}

// TestGuardsKnowARunAnew: the first attempt after a replay is one, what follows it are retries, in memory or read again.
func TestGuardsKnowARunAnew(t *testing.T) {
	for size, change := range map[string]func(*Config){"in memory": nil, "left to the ledger": func(c *Config) { c.MaxOpen, c.LaneWindow = 1, 1 }} {
		t.Run(size, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := setup(t, change)
				defer r.stop()
				for _, entity := range []string{"a", "b"} {
					r.make(entity, func(a *ledger.Action) {
						a.Status, a.Attempts, a.Spent, a.FirstAt, a.Replay = ledger.Failed, 7, 7, time.Now(), &ledger.ReplayRequest{At: time.Now()}
					})
				}
				r.sink.do = func(ctx context.Context, a sink.Action) (sink.Outcome, error) {
					if a.Attempt < 10 {
						return failWith(sink.ClassBusy)(ctx, a)
					}
					return sink.Outcome{Code: 200}, nil
				}
				r.begin(t)
				time.Sleep(time.Hour)
				synctest.Wait()
				seen := map[string][]int{}
				for _, a := range r.sink.calls {
					seen[a.Event.ID] = append(seen[a.Event.ID], a.Attempt-a.Unmade)
				}
				same(t, "attempts of the run", seen, map[string][]int{"a#1": {1, 2, 3}, "b#2": {1, 2, 3}})
			})
		})
	}
}

// TestGuardsKnowARunOverAClaim: an attempt of a run that may have acted is one of that run for the next owner, too, also where it was made while the
// destination was away. So what is newer by then voids no approval that the attempt has used.
func TestGuardsKnowARunOverAClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var seen []string
		g := guardFunc{before: func(_ context.Context, a sink.Action) (policy.Verdict, error) {
			mu.Lock()
			defer mu.Unlock()
			if a.Event.Entity == "a" {
				seen = append(seen, fmt.Sprintf("attempt %d of the run, before it none: %t", a.Attempt-a.Unmade, a.Overtaken != nil))
			}
			return policy.Verdict{}, nil
		}}
		change := func(c *Config) {
			d := newShared(t, destination.Policy{Concurrency: 4, Breaker: destination.Breaker{Failures: 1, Window: time.Minute, Wait: time.Minute, MaxWait: time.Minute}})
			guardedBy(g, sharing(d, &script{}))(c)
		}
		r := setup(t, change)
		defer func() { r.stop() }()
		r.make("a", func(a *ledger.Action) {
			a.Status, a.Attempts, a.Spent, a.FirstAt, a.Replay = ledger.Failed, 3, 3, time.Now(), &ledger.ReplayRequest{At: time.Now()}
		})
		r.make("other", nil)
		r.sink.do = func(_ context.Context, a sink.Action) (sink.Outcome, error) {
			time.Sleep(time.Second) // both have begun
			if a.Event.Entity == "a" {
				time.Sleep(500 * time.Millisecond) // the other opens the breaker meanwhile
			}
			return sink.Outcome{}, &sink.AttemptError{Class: sink.ClassBusy, Err: errors.New("busy")}
		}
		r.begin(t)
		time.Sleep(2 * time.Second)
		if a := r.mem.action(r.claim, 1); a.Attempts != 4 || a.Spent != 4 {
			t.Errorf("%d attempts, of which %d do not count: the destination was not away", a.Attempts, a.Spent)
		}
		r.sink.become(nil)
		r.handOver(t, change)
		time.Sleep(time.Hour)
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		same(t, "seen", seen, []string{"attempt 1 of the run, before it none: true", "attempt 5 of the run, before it none: false"})
	})
}

// A guard that says the same without a time to ask again does not make a lane spin.
func TestGuardThatGivesNoTime(t *testing.T) {
	d := &desk{}
	d.say("zero", policy.Verdict{Status: ledger.WaitingBudget, Reason: policy.Budget}, nil)
	d.say("small", policy.Verdict{Status: ledger.WaitingBudget, Reason: policy.Budget, Again: time.Nanosecond}, nil)
	in(t, guardedBy(d), func(t *testing.T, r *rig) {
		r.add("zero", "small")
		time.Sleep(10*time.Minute + time.Millisecond)
		same(t, "zero", d.asked("zero#1"), 11)
		same(t, "small", d.asked("small#2"), 601)
	})
}

// An error of a guard, a panic and a verdict that is none have no effect and record nothing; the action is asked for again, and the log has it once.
func TestGuardFails(t *testing.T) {
	var up atomic.Bool
	failing := map[string]func() (policy.Verdict, error){
		"error":   func() (policy.Verdict, error) { return policy.Verdict{}, errors.New("the ledger is away") },
		"panic":   func() (policy.Verdict, error) { panic("nil map") },
		"nothing": func() (policy.Verdict, error) { return policy.Verdict{Status: ledger.Done}, nil },
	}
	g := guardFunc{before: func(_ context.Context, a sink.Action) (policy.Verdict, error) {
		if f := failing[string(a.Event.Entity)]; f != nil && !up.Load() {
			return f()
		}
		return policy.Verdict{}, nil
	}}
	var out safeBuffer
	in(t, guardedBy(g, func(c *Config) { c.Logger = slog.New(slog.NewJSONHandler(&out, nil)) }), func(t *testing.T, r *rig) {
		r.add("error", "panic", "nothing", "good")
		time.Sleep(time.Hour)
		same(t, "calls", r.sink.ids(), []string{"good#4"})
		same(t, "statuses", r.statuses(1, 4), []string{"pending", "pending", "pending", "done"})
		lines := slices.DeleteFunc(out.lines(t), func(l map[string]any) bool {
			return l["msg"] != "a guard could not answer; the action waits and asks again"
		})
		same(t, "logged", len(lines), 3)
		up.Store(true)
		time.Sleep(2 * time.Minute)
		same(t, "done in the end", r.mem.count(r.claim, ledger.Done), 4)
	})
}

// A question that hangs ends by its timeout.
func TestGuardHangs(t *testing.T) {
	var up atomic.Bool
	g := guardFunc{before: func(ctx context.Context, _ sink.Action) (policy.Verdict, error) {
		if !up.Load() {
			<-ctx.Done()
		}
		return policy.Verdict{}, ctx.Err()
	}}
	in(t, guardedBy(g), func(t *testing.T, r *rig) {
		r.add("a")
		time.Sleep(guardTimeout - time.Second)
		up.Store(true)
		same(t, "calls", len(r.sink.ids()), 0)
		time.Sleep(5 * time.Second)
		same(t, "calls", r.sink.ids(), []string{"a#1"})
	})
}

// Lanes that wait leave a full window to others; what was spilled is asked for at its time, and at once when AskAgain says so.
func TestGuardsWaitUnderAFullWindow(t *testing.T) {
	d := &desk{}
	for i := range 50 {
		d.say(fmt.Sprint("bad", i), waitsForApproval, nil)
	}
	in(t, guardedBy(d, crowd), func(t *testing.T, r *rig) {
		r.many("bad", 50, nil)
		r.many("good", 50, nil)
		time.Sleep(time.Minute)
		same(t, "the good ones are done", r.mem.count(r.claim, ledger.Done), 100)
		if n := r.spilledLanes(); n == 0 {
			t.Fatal("no lane was spilled")
		}
		for i := range 50 {
			d.say(fmt.Sprint("bad", i), policy.Verdict{}, nil)
		}
		r.AskAgain(ledger.WaitingApproval)
		r.s.mu.Lock()
		same(t, "they come back only as the window takes them", len(r.s.q.partitions[r.claim].lanes) <= 3*r.cfg.MaxOpen, true)
		r.s.mu.Unlock()
		time.Sleep(time.Minute) // far before their time
		same(t, "all are done", r.mem.count(r.claim, ledger.Done), 200)
		same(t, "in order", inOrder(r.sink.calls), true)
	})
}

func inOrder(calls []sink.Action) bool {
	last := map[string]int64{}
	for _, c := range calls {
		var seq int64
		if _, err := fmt.Sscanf(c.Event.ID[len(c.Event.Entity):], "#%d", &seq); err != nil || seq <= last[string(c.Event.Entity)] {
			return false
		}
		last[string(c.Event.Entity)] = seq
	}
	return true
}

// The next owner loads what waits, asks for it at once, and does not take it for attempted; but it waits for what the one before may have in
// flight, and AskAgain does not cut that short.
func TestGuardsAreAskedByTheNextOwner(t *testing.T) {
	d := &desk{}
	d.say("a", waitsForApproval, nil)
	change := guardedBy(d)
	in(t, change, func(t *testing.T, r *rig) {
		r.add("a", "a")
		time.Sleep(time.Minute)
		r.stop()
		d.say("a", policy.Verdict{}, nil)
		r.claimed(false)
		r.relaunch(t, change)
		r.begin(t)
		r.AskAgain(ledger.WaitingApproval)
		synctest.Wait()
		same(t, "calls while one may be in flight", len(r.sink.ids()), 0)
		time.Sleep(time.Minute)
		same(t, "calls", r.sink.ids(), []string{"a#1", "a#2"})
		if !r.sink.calls[0].Doubt {
			t.Error("what the owner before may have called is not in doubt")
		}
	})
}

// AskAgain while the guards' word is being recorded is not lost.
func TestAskAgainWhileItIsRecorded(t *testing.T) {
	d := &desk{}
	d.say("a", waitsForApproval, nil)
	in(t, guardedBy(d), func(t *testing.T, r *rig) {
		commit := make(chan struct{})
		r.mem.before = func(context.Context, []ledger.Result) error { <-commit; return nil }
		r.add("a")
		synctest.Wait()
		d.say("a", policy.Verdict{}, nil)
		r.AskAgain(ledger.WaitingApproval)
		close(commit)
		synctest.Wait()
		same(t, "calls", r.sink.ids(), []string{"a#1"})
	})
}

// An attempt that is not made after its guards let it go on is told as not made: the subscription's destination was paused meanwhile.
func TestGuardsHearOfAttemptsThatAreNotMade(t *testing.T) {
	var alive atomic.Bool
	alive.Store(true)
	var mu sync.Mutex
	var told []sink.Class
	g := guardFunc{
		before: func(context.Context, sink.Action) (policy.Verdict, error) {
			mu.Lock()
			defer mu.Unlock()
			alive.Store(len(told) > 0)
			return policy.Verdict{}, nil
		},
		after: func(_ sink.Action, _ sink.Outcome, class sink.Class) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, class)
			alive.Store(true)
		},
	}
	in(t, guardedBy(g, func(c *Config) { c.Alive = alive.Load }), func(t *testing.T, r *rig) {
		r.add("a")
		time.Sleep(time.Minute)
		mu.Lock()
		defer mu.Unlock()
		same(t, "told", told, []sink.Class{policy.NotMade, sink.ClassOK})
		same(t, "calls", r.sink.ids(), []string{"a#1"})
	})
}

// What a destination reports later is told once more, with its cost, once it is recorded.
func TestGuardsHearOfReports(t *testing.T) {
	var mu sync.Mutex
	var told []string
	g := guardFunc{
		before: func(context.Context, sink.Action) (policy.Verdict, error) { return policy.Verdict{}, nil },
		after: func(a sink.Action, out sink.Outcome, class sink.Class) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, fmt.Sprintf("%s %s %q %t %s", a.ID, a.Event.Entity, class, out.Later, out.Cost))
		},
	}
	startLongWork(t, halfHour, func(c *Config) { c.Guard = g }, func(t *testing.T, r *longRig) {
		r.add("a")
		synctest.Wait()
		id := fmt.Sprint(r.sink.calls[0].ID)
		r.mem.report(1, 1, ledger.Failed)
		time.Sleep(2 * time.Minute)
		r.mem.report(1, 2, ledger.Done)
		time.Sleep(time.Second)
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		same(t, "told", told, []string{id + ` a "" true 0`, id + ` a "unavailable" false 0.25`, id + ` a "" true 0`, id + ` a "" false 0.25`})
	})
}

// A result that comes when nobody waits for it any more changes nothing, and what it has cost is told all the same, once.
func TestGuardsHearWhatLateResultsHaveCost(t *testing.T) {
	var mu sync.Mutex
	var told []string
	g := guardFunc{
		before: func(context.Context, sink.Action) (policy.Verdict, error) { return policy.Verdict{}, nil },
		after: func(a sink.Action, out sink.Outcome, class sink.Class) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, fmt.Sprintf("%s %s %s %s %d %q %s", a.ID, a.Name, a.Destination, a.Event.Entity, a.Attempt, class, out.Cost))
		},
	}
	startLongWork(t, halfHour, func(c *Config) { c.Guard = g }, func(t *testing.T, r *longRig) {
		r.add("a")
		time.Sleep(3 * time.Hour) // three attempts, and nothing comes of any
		same(t, "given up", r.status(1), ledger.Dead)
		first := r.sink.calls[0]
		mu.Lock()
		told = nil
		mu.Unlock()
		r.mem.mu.Lock()
		r.mem.leaveOpen = true
		r.mem.mu.Unlock()
		r.mem.reportBy(1, 3, r.mem.epochOf(1, 3), ledger.Done)
		time.Sleep(time.Minute)
		mu.Lock()
		defer mu.Unlock()
		same(t, "told", told, []string{fmt.Sprintf("%s %s %s a 3 %q 0.25", first.ID, first.Name, first.Destination, policy.TooLate)})
		same(t, "nothing changes", r.status(1), ledger.Dead)
		same(t, "calls", len(r.sink.ids()), 3)
	})
}

// With backlog: latest, what waits ends as superseded as soon as a newer state stands behind it.
func TestWaitingActionIsSuperseded(t *testing.T) {
	d := &desk{}
	d.say("a", waitsForApproval, nil)
	in(t, guardedBy(d, func(c *Config) { c.Latest = true }), func(t *testing.T, r *rig) {
		r.Add(r.claim, []Item{r.state("a", 1)})
		time.Sleep(time.Second)
		same(t, "before", r.statuses(1, 1), []string{"waiting_approval"})
		r.Add(r.claim, []Item{r.state("a", 2)})
		synctest.Wait()
		same(t, "after", r.statuses(1, 2), []string{"superseded", "waiting_approval"})
		if res := r.mem.resultsOf(1); len(res) != 2 || res[0].Status != ledger.WaitingApproval || res[1].ID == "" {
			t.Errorf("its approval cannot be found: %+v", res)
		}
	})
}

// A guard can find out that the entity has moved on, of what was not attempted in this run: also where a guard behind it holds the action, or the
// destination takes nothing.
func TestGuardsSeeThatTheEntityHasMovedOn(t *testing.T) {
	for _, away := range []bool{false, true} {
		t.Run(fmt.Sprintf("breaker open %t", away), func(t *testing.T) { guardsSeeThatTheEntityHasMovedOn(t, away) })
	}
}

// guardsSeeThatTheEntityHasMovedOn has an attempt that may have acted fail; away, while the breaker is open by those of another entity.
func guardsSeeThatTheEntityHasMovedOn(t *testing.T, away bool) {
	var mu sync.Mutex
	var seen []string
	holds := policy.Verdict{Status: ledger.WaitingBudget, Reason: policy.Budget, Text: "used up", Again: time.Minute}
	g := guardFunc{before: func(ctx context.Context, a sink.Action) (policy.Verdict, error) {
		if a.Event.Entity == "other" {
			return policy.Verdict{}, nil
		}
		mu.Lock()
		defer mu.Unlock()
		if a.Overtaken == nil {
			seen = append(seen, a.Event.ID+" goes on")
			return policy.Verdict{}, nil
		}
		newer, err := a.Overtaken(ctx)
		seen = append(seen, fmt.Sprint(a.Event.ID, " ", newer))
		if len(seen) > 1 {
			holds = policy.Verdict{}
		}
		return holds, err
	}}
	synctest.Test(t, func(t *testing.T) {
		d := newShared(t, destination.Policy{Concurrency: 4, Breaker: destination.Breaker{Failures: 1, Window: time.Minute, Wait: 5 * time.Second, MaxWait: 5 * time.Second}})
		r := setup(t, guardedBy(g, sharing(d, &script{})))
		defer r.stop()
		r.begin(t)
		r.sink.do = func(_ context.Context, a sink.Action) (sink.Outcome, error) {
			switch {
			case a.Event.Entity == "other":
				return sink.Outcome{}, &sink.AttemptError{Class: sink.ClassBusy, Err: errors.New("busy")}
			case a.Attempt == 1:
				return sink.Outcome{}, &sink.AttemptError{Class: sink.ClassTimeout, Err: errors.New("late")}
			}
			return sink.Outcome{}, nil
		}
		r.Add(r.claim, []Item{r.state("a", 1)})
		time.Sleep(time.Second)
		r.Add(r.claim, []Item{r.state("a", 2)})
		if away {
			r.Add(r.claim, []Item{r.state("other", 1)})
		}
		time.Sleep(10 * time.Minute)
		mu.Lock()
		defer mu.Unlock()
		same(t, "seen", seen, []string{"a#1 false", "a#1 true", "a#1 goes on", "a#2 false", "a#2 goes on"})
		if n := r.mem.action(r.claim, 1).Spent; (n > 0) != away {
			t.Errorf("%d attempts were spent", n)
		}
	})
}
