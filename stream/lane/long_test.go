package lane

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/trace"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/policy"
	"github.com/forebay-io/forebay/stream/sink"
)

// take answers 202 wherever that is offered.
func take(_ context.Context, a sink.Action) (sink.Outcome, error) {
	return sink.Outcome{Code: 202, Later: a.Later != nil}, nil
}

// longRig is a rig whose destination finishes later.
type longRig struct {
	*rig
	change func(*Config)
}

func startLongWork(t *testing.T, policy LongPolicy, change func(*Config), f func(t *testing.T, r *longRig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &longRig{}
		r.change = func(c *Config) {
			c.Later = func(ref ledger.AttemptRef, id schemas.ActionID, _ trace.Place) sink.Later {
				return sink.Later{URL: "https://forebay.test/v1/actions/" + string(id), Token: schemas.NewSecret(fmt.Sprint(ref))}
			}
			d := c.Destinations[destName]
			d.Long, d.Retry = policy, sink.RetryPolicy{Min: time.Minute, Max: time.Minute, Attempts: 3}
			c.Destinations[destName] = d
			c.Rand = func() float64 { return 0.999 }
			if change != nil {
				change(c)
			}
		}
		r.rig = setup(t, r.change)
		defer func() { r.stop() }()
		r.sink.do = take
		r.begin(t)
		f(t, r)
	})
}

// restart is a new process on the same ledger; unclean: the one before was killed.
func (r *longRig) restart(t *testing.T, unclean bool) {
	t.Helper()
	r.stop()
	r.claimed(!unclean)
	r.relaunch(t, r.change)
	r.begin(t)
}

func (r *longRig) status(seq int64) ledger.Status { return r.mem.status(r.claim, seq) }

var halfHour = LongPolicy{Deadline: 30 * time.Minute}

func TestLaneBehindLongWorkWaitsOthersDoNot(t *testing.T) {
	startLongWork(t, halfHour, func(c *Config) { c.MaxInFlight, c.MaxOpen, c.LaneWindow = 1, 4, 2 }, func(t *testing.T, r *longRig) {
		d := r.s.q.dispatch.byName[destName]
		d.Concurrency = 1
		r.sink.do = func(ctx context.Context, a sink.Action) (sink.Outcome, error) {
			if strings.HasPrefix(string(a.Event.Entity), "slow") {
				return take(ctx, a)
			}
			return sink.Outcome{Code: 200}, nil
		}
		// More of them than workers, slots and places in the window, with more behind them than a lane's window.
		for i := range 10 {
			name := fmt.Sprint("slow", i)
			r.add(name, name, name, name)
		}
		r.add("quick", "quick", "quick")
		time.Sleep(time.Second)
		synctest.Wait()
		same(t, "processing", r.mem.count(r.claim, ledger.Processing), 10)
		same(t, "done meanwhile", r.mem.count(r.claim, ledger.Done), 3)
		same(t, "calls", len(r.sink.ids()), 13)
		r.s.mu.Lock()
		same(t, "workers, slots, window and bytes held", []int64{int64(r.s.q.dispatch.sleeping), int64(d.running), int64(r.s.q.open), r.s.q.budget.bytes()}, []int64{1, 0, 0, 0})
		r.s.mu.Unlock()

		began := time.Now()
		r.mem.report(1, 1, ledger.Done)
		for r.status(2) != ledger.Processing {
			time.Sleep(10 * time.Millisecond)
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("the next head ran %s after the result", took)
		}
		same(t, "the first is done", r.status(1), ledger.Done)
		same(t, "what was said is applied", r.mem.outcome(1, 1), "applied")
		same(t, "calls", r.sink.ids()[13:], []string{"slow0#2"})
	})
}

func TestReportsAreJudged(t *testing.T) {
	startLongWork(t, halfHour, nil, func(t *testing.T, r *longRig) {
		r.add("done", "failed", "dead")
		synctest.Wait()
		r.mem.report(1, 1, ledger.Done)
		r.mem.report(2, 1, ledger.Failed)
		r.mem.report(3, 1, ledger.Dead)
		time.Sleep(time.Second)
		synctest.Wait()
		same(t, "status", []ledger.Status{r.status(1), r.status(2), r.status(3)}, []ledger.Status{ledger.Done, ledger.Failed, ledger.Dead})
		time.Sleep(time.Minute)
		synctest.Wait()
		same(t, "tried again", []any{r.status(2), r.mem.action(r.claim, 2).Attempts}, []any{ledger.Processing, 2})
		for n := 2; n <= 3; n++ { // the third is the last
			r.mem.report(2, n, ledger.Failed)
			time.Sleep(2 * time.Minute)
		}
		synctest.Wait()
		same(t, "spent", r.status(2), ledger.Dead)
		var classes []string
		for _, res := range append(r.mem.resultsOf(2), r.mem.resultsOf(3)...) {
			classes = append(classes, string(res.Status)+" "+res.Class)
		}
		same(t, "recorded", classes, []string{"processing ", "failed unavailable", "processing ", "failed unavailable", "processing ", "dead_letter unavailable",
			"processing ", "dead_letter rejected"})
		d := r.s.q.dispatch.byName[destName].metrics
		same(t, "given up", testutil.ToFloat64(d.dead), 2.)
		counted := map[sink.Class]float64{}
		for class, n := range d.attempts {
			if v := testutil.ToFloat64(n); v > 0 {
				counted[class] = v
			}
		}
		same(t, "counted, each once its result is there", counted, map[sink.Class]float64{sink.ClassOK: 1, sink.ClassBusy: 3, sink.ClassRejected: 1})
	})
}

// What is not reported before its deadline is judged as a timeout, by the kind of its sink.
func TestDeadline(t *testing.T) {
	for kind, want := range map[sink.Idempotency]ledger.Status{sink.Idempotent: ledger.Failed, sink.Fenced: ledger.Failed, sink.Unsafe: ledger.Unknown} {
		t.Run(string(kind), func(t *testing.T) {
			startLongWork(t, halfHour, nil, func(t *testing.T, r *longRig) {
				r.sink.kind = kind
				r.add("a", "a")
				time.Sleep(30*time.Minute - time.Second)
				synctest.Wait()
				same(t, "before the deadline", r.status(1), ledger.Processing)
				time.Sleep(2 * time.Second)
				synctest.Wait()
				same(t, "after it", r.status(1), want)
				last := r.mem.resultsOf(1)[len(r.mem.resultsOf(1))-1]
				same(t, "class", []any{last.Class, last.Attempt, last.Error}, []any{"timeout", 1, "no result before the deadline"})
				same(t, "the lane waits", r.sink.ids(), []string{"a#1"})
				d := r.s.q.dispatch.byName[destName].metrics
				given := map[ledger.Status]float64{ledger.Unknown: 1}[want]
				same(t, "counted", []float64{testutil.ToFloat64(d.dead), testutil.ToFloat64(d.attempts[sink.ClassTimeout]), testutil.ToFloat64(d.attempts[sink.ClassOK])},
					[]float64{given, 1, 0})
			})
		})
	}
}

func TestHeartbeatsExtendAndTheirLossEnds(t *testing.T) {
	startLongWork(t, LongPolicy{Deadline: time.Hour, Heartbeat: time.Minute}, nil, func(t *testing.T, r *longRig) {
		r.add("beats", "silent")
		began := time.Now()
		for time.Since(began) < 10*time.Minute {
			time.Sleep(50 * time.Second)
			r.mem.heartbeat(1)
			synctest.Wait()
		}
		same(t, "status", []ledger.Status{r.status(1), r.status(2)}, []ledger.Status{ledger.Processing, ledger.Dead}) // three attempts of a minute, a minute apart
		first := r.mem.resultsOf(2)[1]
		same(t, "why", []any{first.Status, first.Class, first.Error}, []any{ledger.Failed, "timeout", "no heartbeat for 1m0s"})
		if d := first.Latency; d < time.Minute || d > 61*time.Second {
			t.Errorf("the silence was noticed after %s", d)
		}
		time.Sleep(61 * time.Second)
		synctest.Wait()
		same(t, "once it is silent", r.status(1), ledger.Failed)
		r.mem.mu.Lock()
		opens := r.mem.opens
		r.mem.mu.Unlock()
		if audits := int(time.Since(began) / auditEvery); opens > 5+audits {
			t.Errorf("the ledger was asked for open actions %d times", opens)
		}
	})
}

// Heartbeats do not put the deadline off.
func TestDeadlineInSpiteOfHeartbeats(t *testing.T) {
	startLongWork(t, LongPolicy{Deadline: 5 * time.Minute, Heartbeat: time.Minute}, nil, func(t *testing.T, r *longRig) {
		r.add("a")
		for range 11 {
			time.Sleep(28 * time.Second)
			r.mem.heartbeat(1)
		}
		synctest.Wait()
		same(t, "after the deadline", r.status(1), ledger.Failed)
	})
}

// A report that comes after the timeout counts until the next attempt begins, and then changes nothing.
func TestLateReport(t *testing.T) {
	startLongWork(t, halfHour, nil, func(t *testing.T, r *longRig) {
		r.add("a", "b")
		time.Sleep(30*time.Minute + time.Second)
		synctest.Wait()
		same(t, "timed out", []ledger.Status{r.status(1), r.status(2)}, []ledger.Status{ledger.Failed, ledger.Failed})
		r.mem.report(1, 1, ledger.Done)
		time.Sleep(time.Second)
		synctest.Wait()
		same(t, "it counts, at once", r.status(1), ledger.Done)
		time.Sleep(time.Minute)
		synctest.Wait()
		same(t, "the other one is attempted again", r.status(2), ledger.Processing)
		r.mem.report(2, 1, ledger.Done)
		time.Sleep(time.Second)
		synctest.Wait()
		same(t, "it changes nothing", []any{r.status(2), r.mem.outcome(2, 1)}, []any{ledger.Processing, "late"})
		r.mem.report(2, 2, ledger.Done)
		time.Sleep(time.Second)
		synctest.Wait()
		same(t, "the second attempt's counts", r.status(2), ledger.Done)
		calls := r.sink.ids()
		slices.Sort(calls)
		same(t, "calls", calls, []string{"a#1", "b#2", "b#2"})
	})
}

// The result of an attempt comes while the next one is under way: where that comes to nothing, the job is done and not called again.
func TestReportWhileTheNextAttemptRuns(t *testing.T) {
	for name, tt := range map[string]struct {
		answer  func(context.Context, sink.Action) (sink.Outcome, error)
		kind    sink.Idempotency
		status  ledger.Status
		outcome string
	}{
		"failed":   {failWith(sink.ClassBusy), sink.Idempotent, ledger.Done, "applied"},
		"rejected": {failWith(sink.ClassRejected), sink.Idempotent, ledger.Done, "applied"},
		"unknown":  {failWith(sink.ClassNetwork), sink.Unsafe, ledger.Done, "applied"},
		"done":     {nil, sink.Idempotent, ledger.Done, "late"},
		"taken":    {take, sink.Idempotent, ledger.Processing, "late"},
	} {
		t.Run(name, func(t *testing.T) {
			startLongWork(t, halfHour, nil, func(t *testing.T, r *longRig) {
				r.sink.do = func(ctx context.Context, a sink.Action) (sink.Outcome, error) {
					if a.Attempt == 1 {
						return take(ctx, a)
					}
					time.Sleep(4 * time.Second)
					if tt.answer == nil {
						return sink.Outcome{Code: 200}, nil
					}
					return tt.answer(ctx, a)
				}
				r.add("a")
				time.Sleep(31*time.Minute + time.Second)
				synctest.Wait()
				same(t, "the second is under way", []any{len(r.sink.ids()), r.status(1)}, []any{2, ledger.Failed})
				r.mem.report(1, 1, ledger.Done)
				time.Sleep(4 * time.Second)
				synctest.Wait()
				same(t, "after it", []any{r.status(1), r.mem.outcome(1, 1), len(r.sink.ids())}, []any{tt.status, tt.outcome, 2})
			})
		})
	}
}

// The result comes right before the last attempt comes to nothing, later than reports were read.
func TestReportRightBeforeTheEnd(t *testing.T) {
	for name, tt := range map[string]struct {
		trouble error
		without bool // the file has no long any more
	}{
		"read":               {},
		"the ledger is away": {trouble: context.DeadlineExceeded},
		"without the policy": {without: true},
	} {
		t.Run(name, func(t *testing.T) {
			startLongWork(t, halfHour, nil, func(t *testing.T, r *longRig) {
				r.sink.do = func(ctx context.Context, a sink.Action) (sink.Outcome, error) {
					if a.Attempt == 1 {
						return take(ctx, a)
					}
					time.Sleep(4*time.Second - 10*time.Millisecond)
					r.reportNow(tt.trouble)
					time.Sleep(10 * time.Millisecond)
					return failWith(sink.ClassRejected)(ctx, a)
				}
				r.add("a")
				time.Sleep(30*time.Minute + time.Second)
				if tt.without {
					r.withoutPolicy(t)
				}
				time.Sleep(time.Minute + 9*time.Second)
				r.mem.mu.Lock()
				r.mem.failLong = nil
				r.mem.mu.Unlock()
				time.Sleep(2 * time.Second)
				synctest.Wait()
				same(t, "after it", []any{r.status(1), r.mem.outcome(1, 1), len(r.sink.ids())}, []any{ledger.Done, "applied", 2})
			})
		})
	}
}

// reportNow reports the first attempt of action 1 as done; then the ledger may be away.
func (r *longRig) reportNow(trouble error) {
	r.mem.report(1, 1, ledger.Done)
	r.mem.mu.Lock()
	defer r.mem.mu.Unlock()
	r.mem.failLong = trouble
}

// withoutPolicy has the destination finish nothing later any more.
func (r *longRig) withoutPolicy(t *testing.T) {
	t.Helper()
	if _, err := r.Replace(destName, DestinationConfig{Sink: r.sink, Timeout: time.Minute, Retry: r.cfg.Destinations[destName].Retry}); err != nil {
		t.Fatal(err)
	}
}

// The result comes right before a guard ends the action, in place of its next attempt.
func TestReportRightBeforeAGuardEndsIt(t *testing.T) {
	for _, verdict := range endings {
		t.Run(string(verdict), func(t *testing.T) {
			var r *longRig
			guard := guardFunc{before: func(_ context.Context, a sink.Action) (policy.Verdict, error) {
				if a.Attempt == 1 {
					return policy.Verdict{}, nil
				}
				r.reportNow(nil)
				return policy.Verdict{Status: verdict, Reason: policy.Removed, Text: "the file has no such action"}, nil
			}}
			startLongWork(t, halfHour, func(c *Config) { c.Guard = guard }, func(t *testing.T, rig *longRig) {
				r = rig
				r.add("a")
				time.Sleep(31*time.Minute + 10*time.Second)
				synctest.Wait()
				same(t, "after it", []any{r.status(1), r.mem.outcome(1, 1), len(r.sink.ids())}, []any{ledger.Done, "applied", 1})
			})
		})
	}
}

// Results of two attempts are there at once: the last one's is applied, and where that has failed, what the first one did.
func TestReportsOfTwoAttempts(t *testing.T) {
	for said, want := range map[ledger.Status][]string{ledger.Done: {"late", "applied"}, ledger.Failed: {"applied", "applied"}, ledger.Dead: {"applied", "applied"}} {
		t.Run(string(said), func(t *testing.T) {
			startLongWork(t, halfHour, nil, func(t *testing.T, r *longRig) {
				r.sink.do = func(ctx context.Context, a sink.Action) (sink.Outcome, error) {
					if a.Attempt == 2 {
						<-ctx.Done()
					}
					return take(ctx, a)
				}
				r.add("a")
				time.Sleep(31*time.Minute + time.Second)
				r.Drop(r.claim) // the second attempt is recorded by nobody
				synctest.Wait()
				r.mem.report(1, 2, said)
				r.mem.report(1, 1, ledger.Done)
				r.restart(t, true)
				time.Sleep(10 * time.Second)
				synctest.Wait()
				same(t, "done", []any{r.status(1), r.mem.outcome(1, 1), r.mem.outcome(1, 2), len(r.sink.ids())}, []any{ledger.Done, want[0], want[1], 2})
			})
		})
	}
}

// A result of a head that waits for its next attempt in the ledger, since the window is full, is applied at once all the same.
func TestReportOfASpilledLane(t *testing.T) {
	startLongWork(t, halfHour, func(c *Config) {
		small(c)
		d := c.Destinations[destName]
		d.Retry.Min, d.Retry.Max = time.Hour, time.Hour
		c.Destinations[destName] = d
	}, func(t *testing.T, r *longRig) {
		for i := range 40 {
			r.add(fmt.Sprint("e", i))
		}
		time.Sleep(31 * time.Minute)
		synctest.Wait()
		same(t, "timed out", r.mem.count(r.claim, ledger.Failed), 40)
		r.add("new")
		time.Sleep(time.Second)
		var seq int64
		r.s.mu.Lock()
		for _, at := range r.s.q.partitions[r.claim].spilled {
			seq = at.head
		}
		r.s.mu.Unlock()
		if seq == 0 {
			t.Fatal("no lane is spilled")
		}
		r.mem.report(seq, 1, ledger.Done)
		time.Sleep(time.Second)
		synctest.Wait()
		same(t, "status", r.status(seq), ledger.Done)
		same(t, "calls", len(r.sink.ids()), 41)
	})
}

// A result is applied at once whatever keeps its action's next attempt from beginning.
func TestReportOfWhatMayNotRun(t *testing.T) {
	for name, block := range map[string]func(t *testing.T, r *longRig){
		"full":                func(_ *testing.T, r *longRig) { r.add("b") },
		"paused":              func(t *testing.T, r *longRig) { pause(t, r.s.q.dispatch.byName[destName].Shared) },
		"subscription paused": func(_ *testing.T, r *longRig) { r.SetPauses(Pauses{Since: time.Now()}) },
	} {
		t.Run(name, func(t *testing.T) {
			startLongWork(t, LongPolicy{Deadline: 30 * time.Minute, Most: 1}, nil, func(t *testing.T, r *longRig) {
				r.add("a")
				time.Sleep(30*time.Minute + time.Second)
				block(t, r)
				r.add("c") // is ready, too
				time.Sleep(2 * time.Minute)
				synctest.Wait()
				r.s.mu.Lock()
				same(t, "its retry", r.lane("a").state, ready)
				r.s.mu.Unlock()
				calls := r.sink.ids()
				r.mem.report(1, 1, ledger.Done)
				time.Sleep(time.Second)
				synctest.Wait()
				same(t, "status", []any{r.status(1), r.status(r.seq)}, []any{ledger.Done, ledger.Pending})
				same(t, "calls", r.sink.ids(), calls)
			})
		})
	}
}

// A result is applied before the lane is read again because an operator has what is before its action run again.
func TestReportBeforeAnEarlierActionRunsAgain(t *testing.T) {
	startLongWork(t, halfHour, nil, func(t *testing.T, r *longRig) {
		r.Add(r.claim, []Item{r.make("a", func(a *ledger.Action) { a.OnDead = ledger.Continue }), r.make("a", nil)})
		synctest.Wait()
		r.mem.report(1, 1, ledger.Dead)
		time.Sleep(time.Second)
		synctest.Wait()
		same(t, "status", []ledger.Status{r.status(1), r.status(2)}, []ledger.Status{ledger.Dead, ledger.Processing})
		r.runAgain("a", 1)
		r.mem.report(2, 1, ledger.Done)
		time.Sleep(time.Second)
		synctest.Wait()
		same(t, "status", []ledger.Status{r.status(1), r.status(2)}, []ledger.Status{ledger.Processing, ledger.Done})
		same(t, "calls", r.sink.ids(), []string{"a#1", "a#2", "a#1"})
	})
}

// What nobody knew the outcome of ends with the word of who did it.
func TestLateReportEndsWhatIsUnknown(t *testing.T) {
	startLongWork(t, halfHour, nil, func(t *testing.T, r *longRig) {
		r.sink.kind = sink.Unsafe
		r.add("a", "a")
		time.Sleep(30*time.Minute + time.Second)
		synctest.Wait()
		same(t, "timed out", r.status(1), ledger.Unknown)
		r.mem.report(1, 1, ledger.Done)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		same(t, "status", []ledger.Status{r.status(1), r.status(2)}, []ledger.Status{ledger.Done, ledger.Processing})
		same(t, "calls", r.sink.ids(), []string{"a#1", "a#2"})
	})
}

// A report at the last moment is found before the timeout.
func TestReportAtTheDeadline(t *testing.T) {
	startLongWork(t, halfHour, nil, func(t *testing.T, r *longRig) {
		r.add("a")
		synctest.Wait()
		time.Sleep(30*time.Minute - time.Millisecond)
		r.mem.report(1, 1, ledger.Done)
		time.Sleep(time.Second)
		synctest.Wait()
		same(t, "status", r.status(1), ledger.Done)
		same(t, "results", len(r.mem.resultsOf(1)), 2)
	})
}

// The result is there before the 202: it waits for the attempt's end, whatever that says.
func TestReportBeforeTheAnswer(t *testing.T) {
	for name, answer := range map[string]func(context.Context, sink.Action) (sink.Outcome, error){
		"202": take, "500": failWith(sink.ClassBusy), "reset": failWith(sink.ClassNetwork),
	} {
		t.Run(name, func(t *testing.T) {
			startLongWork(t, halfHour, nil, func(t *testing.T, r *longRig) {
				r.sink.do = func(ctx context.Context, a sink.Action) (sink.Outcome, error) {
					time.Sleep(2 * time.Second)
					return answer(ctx, a)
				}
				r.add("a")
				time.Sleep(time.Second)
				r.mem.report(1, 1, ledger.Done)
				time.Sleep(2 * time.Second)
				synctest.Wait()
				same(t, "status", r.status(1), ledger.Done)
				time.Sleep(time.Hour)
				same(t, "calls", r.sink.ids(), []string{"a#1"})
			})
		})
	}
}

// The owner dies with work out: the next one waits for the same result, for what is left of the time, and gives who was to send
// a heartbeat a whole silence.
func TestRestart(t *testing.T) {
	startLongWork(t, LongPolicy{Deadline: 30 * time.Minute, Heartbeat: 10 * time.Minute}, nil, func(t *testing.T, r *longRig) {
		r.add("a", "a", "b", "c")
		synctest.Wait()
		time.Sleep(5 * time.Minute)
		r.stop()
		time.Sleep(6 * time.Minute)
		r.mem.report(1, 1, ledger.Done)
		r.restart(t, true)
		time.Sleep(6 * time.Second) // what may be in flight elsewhere holds a lane that runs, not one that waits for a result
		synctest.Wait()
		same(t, "status", []ledger.Status{r.status(1), r.status(2), r.status(3), r.status(4)},
			[]ledger.Status{ledger.Done, ledger.Processing, ledger.Processing, ledger.Processing})
		r.mem.heartbeat(3)
		time.Sleep(9*time.Minute + 50*time.Second)
		synctest.Wait()
		same(t, "no heartbeat since the restart", []ledger.Status{r.status(3), r.status(4)}, []ledger.Status{ledger.Processing, ledger.Processing})
		time.Sleep(5 * time.Second)
		synctest.Wait()
		same(t, "no heartbeat since the restart", []ledger.Status{r.status(3), r.status(4)}, []ledger.Status{ledger.Processing, ledger.Failed})
		r.mem.heartbeat(3)
		time.Sleep(9*time.Minute + 30*time.Second)
		synctest.Wait()
		same(t, "the deadline is the first owner's", r.status(3), ledger.Failed)
		calls := r.sink.ids()[:4]
		slices.Sort(calls)
		same(t, "calls", calls, []string{"a#1", "a#2", "b#3", "c#4"})
	})
}

// The result came, the 202 did not come to be recorded, and the owner died: the next one does not act again.
func TestReportOfAnAttemptThatNobodyRecorded(t *testing.T) {
	startLongWork(t, halfHour, nil, func(t *testing.T, r *longRig) {
		r.sink.do = func(ctx context.Context, _ sink.Action) (sink.Outcome, error) {
			<-ctx.Done()
			return sink.Outcome{}, ctx.Err()
		}
		r.add("a", "a")
		time.Sleep(time.Second)
		r.Drop(r.claim)
		synctest.Wait()
		r.mem.report(1, 1, ledger.Done)
		r.sink.do = take
		r.restart(t, true)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		same(t, "calls", r.sink.ids(), []string{"a#1", "a#2"})
		same(t, "status", []any{r.status(1), r.status(2), r.mem.outcome(1, 1)}, []any{ledger.Done, ledger.Processing, "applied"})
	})
}

// The owner is killed with a call that it has not recorded; the next one calls again, with the same number. What is said of the first
// call ends no other: the second one is waited for. Done counts where the second call fails.
func TestReportOfALostAttempt(t *testing.T) {
	startLongWork(t, halfHour, nil, func(t *testing.T, r *longRig) {
		r.sink.do = func(ctx context.Context, _ sink.Action) (sink.Outcome, error) {
			<-ctx.Done()
			return sink.Outcome{}, ctx.Err()
		}
		r.add("dead", "failed", "done", "refuses")
		time.Sleep(time.Second)
		killed := r.claim.Epoch
		r.Drop(r.claim)
		synctest.Wait()
		r.sink.do = func(ctx context.Context, a sink.Action) (sink.Outcome, error) {
			time.Sleep(5 * time.Second)
			if a.Event.Entity == "refuses" {
				return failWith(sink.ClassBusy)(ctx, a)
			}
			return take(ctx, a)
		}
		r.restart(t, true)
		for len(r.sink.ids()) < 8 {
			time.Sleep(100 * time.Millisecond)
		}
		for seq, status := range []ledger.Status{ledger.Dead, ledger.Failed, ledger.Done, ledger.Done} {
			r.mem.reportBy(int64(seq+1), 1, killed, status) // while the second call is under way
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		for seq := int64(1); seq <= 3; seq++ {
			same(t, "the second call is waited for", []any{r.status(seq), r.mem.outcome(seq, 1)}, []any{ledger.Processing, "late"})
			r.mem.reportBy(seq, 1, r.claim.Epoch, ledger.Done)
		}
		same(t, "done, and the second call failed", []any{r.status(4), r.mem.outcome(4, 1)}, []any{ledger.Done, "applied"})
		time.Sleep(time.Second)
		synctest.Wait()
		for seq := int64(1); seq <= 3; seq++ {
			same(t, "what the second call came to", r.status(seq), ledger.Done)
		}
		same(t, "calls", len(r.sink.ids()), 8)
	})
}

// A destination that takes everything gets no more than it may have; what it has after a restart counts.
func TestMostAtOnce(t *testing.T) {
	startLongWork(t, LongPolicy{Deadline: time.Hour, Most: 3}, nil, func(t *testing.T, r *longRig) {
		for i := range 10 {
			r.add(fmt.Sprint("e", i))
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		same(t, "taken", r.mem.count(r.claim, ledger.Processing), 3)
		r.restart(t, false)
		time.Sleep(time.Minute)
		synctest.Wait()
		same(t, "after a restart", r.mem.count(r.claim, ledger.Processing), 3)
		r.mem.report(1, 1, ledger.Dead)
		time.Sleep(time.Second)
		synctest.Wait()
		same(t, "one ended, one taken", []int{r.mem.count(r.claim, ledger.Processing), len(r.sink.ids())}, []int{3, 4})
	})
}

// Closing a claim does not wait for long work, and counts nothing of it any more; nor does losing it.
func TestCloseWithLongWork(t *testing.T) {
	startLongWork(t, halfHour, nil, func(t *testing.T, r *longRig) {
		r.add("a", "a", "b")
		synctest.Wait()
		began := time.Now()
		if err := r.Close(t.Context(), r.claim); err != nil || time.Since(began) > 0 {
			t.Errorf("%v after %s", err, time.Since(began))
		}
		r.mem.report(1, 1, ledger.Done)
		time.Sleep(time.Hour)
		synctest.Wait()
		same(t, "nothing is written after it", []any{r.status(1), r.mem.outcome(1, 1)}, []any{ledger.Processing, ""})
		r.s.mu.Lock()
		same(t, "left behind", []int{r.s.q.long.count, r.s.q.dispatch.byName[destName].accepted, len(r.s.q.timers.heap), r.s.q.open}, []int{0, 0, 0, 0})
		r.s.mu.Unlock()
	})
}

// The ledger does not answer when the deadline passes, or the silence is too long: nothing is given up on a guess, nor before who was
// refused meanwhile could call again.
func TestTroubleAtTheDeadline(t *testing.T) {
	for name, tt := range map[string]struct {
		policy LongPolicy
		call   func(*longRig) // once the ledger is back
		status ledger.Status
	}{
		"heartbeat":          {LongPolicy{Deadline: time.Hour, Heartbeat: time.Minute}, func(r *longRig) { r.mem.heartbeat(1) }, ledger.Processing},
		"none":               {LongPolicy{Deadline: time.Hour, Heartbeat: time.Minute}, func(*longRig) { time.Sleep(time.Minute) }, ledger.Failed},
		"result":             {LongPolicy{Deadline: time.Minute}, func(r *longRig) { r.mem.report(1, 1, ledger.Done) }, ledger.Done},
		"result, heartbeats": {LongPolicy{Deadline: 100 * time.Second, Heartbeat: time.Minute}, func(r *longRig) { r.mem.report(1, 1, ledger.Done) }, ledger.Done},
		"no result":          {LongPolicy{Deadline: time.Minute}, func(*longRig) { time.Sleep(reportGrace) }, ledger.Failed},
	} {
		t.Run(name, func(t *testing.T) {
			startLongWork(t, tt.policy, nil, func(t *testing.T, r *longRig) {
				r.add("a")
				synctest.Wait()
				fail := func(err error) {
					r.mem.mu.Lock()
					defer r.mem.mu.Unlock()
					r.mem.failLong = err
				}
				fail(context.DeadlineExceeded)
				time.Sleep(2 * time.Minute)
				synctest.Wait()
				same(t, "while the ledger is gone", r.status(1), ledger.Processing)
				fail(nil)
				time.Sleep(5 * time.Second)
				synctest.Wait()
				same(t, "it may have been refused meanwhile", r.status(1), ledger.Processing)
				tt.call(r)
				time.Sleep(10 * time.Second)
				synctest.Wait()
				same(t, "in the end", []any{r.status(1), len(r.mem.resultsOf(1))}, []any{tt.status, map[bool]int{true: 1, false: 2}[tt.status == ledger.Processing]})
			})
		})
	}
}

// A result is applied where its destination finishes nothing later any more: the file was changed while the action waits for its next attempt,
// whether in this process or in the one before it.
func TestReportWithoutThePolicy(t *testing.T) {
	for name, without := range map[string]func(*testing.T, *longRig){
		"replaced": func(t *testing.T, r *longRig) { r.withoutPolicy(t) },
		"restarted": func(t *testing.T, r *longRig) {
			change := r.change
			r.change = func(c *Config) {
				change(c)
				d := c.Destinations[destName]
				d.Long = LongPolicy{}
				c.Destinations[destName] = d
			}
			r.restart(t, false)
		},
	} {
		t.Run(name, func(t *testing.T) {
			startLongWork(t, halfHour, nil, func(t *testing.T, r *longRig) {
				r.add("a")
				time.Sleep(30*time.Minute + time.Second)
				without(t, r)
				r.mem.report(1, 1, ledger.Done)
				time.Sleep(reportRarely + time.Second)
				synctest.Wait()
				same(t, "before its next attempt", []any{r.status(1), r.mem.outcome(1, 1)}, []any{ledger.Done, "applied"})
				r.mem.mu.Lock()
				r.mem.reads = 0
				r.mem.mu.Unlock()
				time.Sleep(time.Hour)
				same(t, "calls", r.sink.ids(), []string{"a#1"})
				r.mem.mu.Lock()
				same(t, "reads while nothing is open", r.mem.reads, 0)
				r.mem.mu.Unlock()
			})
		})
	}
}

// Without a policy 202 is success, and the call offers nothing else.
func TestNoLongWork(t *testing.T) {
	in(t, nil, func(t *testing.T, r *rig) {
		r.sink.do = func(_ context.Context, a sink.Action) (sink.Outcome, error) {
			return sink.Outcome{Code: 202, Later: true}, nil
		}
		r.add("a")
		synctest.Wait()
		same(t, "status", r.mem.status(r.claim, 1), ledger.Done)
		same(t, "offered", r.sink.calls[0].Later, (*sink.Later)(nil))
	})
}

// TestReportUnderAFormerName: a destination that finishes later is found by the name that it had when the action was made, as the only one of
// its subscription that does. What it reports is read at once, also where that comes after the deadline: the action is not called again.
func TestReportUnderAFormerName(t *testing.T) {
	for late, want := range map[bool]int{false: 1, true: 2} { // what is recorded until the report: accepted, timed out
		startLongWork(t, halfHour, nil, func(t *testing.T, r *longRig) {
			r.add("a") // for acme/agent
			if late {
				time.Sleep(30*time.Minute + time.Second)
			}
			synctest.Wait()
			same(t, "recorded", len(r.mem.resultsOf(1)), want)
			r.stop()
			r.claimed(true)
			r.relaunch(t, func(c *Config) {
				r.change(c)
				to := c.Destinations[destName]
				c.Destinations = map[string]DestinationConfig{otherName: {Sink: &script{}}}
				c.Find = func(string) (string, DestinationConfig, bool) { return "agent", to, true }
			})
			synctest.Wait() // all of the process runs before it claims the partition
			r.begin(t)
			synctest.Wait()
			time.Sleep(10 * time.Second)
			r.mem.report(1, 1, ledger.Done)
			time.Sleep(time.Second)
			synctest.Wait()
			same(t, "a second after the report", r.status(1), ledger.Done)
			same(t, "calls", len(r.sink.ids()), 1)
		})
	}
}
