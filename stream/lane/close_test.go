package lane

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/sink"
)

// hanging is a sink that hangs until it is released or cancelled, and reports why it was cancelled.
func hanging(r *rig) (release chan struct{}, causes chan error) {
	release, causes = make(chan struct{}), make(chan error, 10)
	r.sink.do = func(ctx context.Context, a sink.Action) (sink.Outcome, error) {
		select {
		case <-release:
			return sink.Outcome{Code: 200}, nil
		case <-ctx.Done():
			causes <- context.Cause(ctx)
			return sink.Outcome{}, &sink.AttemptError{Class: sink.ClassNetwork, Err: ctx.Err()}
		}
	}
	return release, causes
}

func (r *rig) busySlots() int {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	return r.s.q.dispatch.byName[destName].running
}

func TestCloseDrains(t *testing.T) {
	in(t, nil, func(t *testing.T, r *rig) {
		release, _ := hanging(r)
		r.add("a", "a", "b")
		synctest.Wait()
		closed := make(chan error)
		go func() { closed <- r.Close(context.Background(), r.claim) }()
		synctest.Wait()
		select {
		case <-closed:
			t.Fatal("closed with attempts under way")
		default:
		}
		r.add("c")
		close(release)
		if err := <-closed; err != nil {
			t.Fatal(err)
		}
		same(t, "what was in flight is recorded", r.mem.count(r.claim, ledger.Done), 2)
		time.Sleep(time.Hour)
		same(t, "nothing started after", len(r.sink.ids()), 2)
		r.begin(t) // claimed again by the same process
		synctest.Wait()
		same(t, "the rest runs then", r.mem.count(r.claim, ledger.Done), 4)
	})
}

func TestCloseGivesUpWhenItsTimeEnds(t *testing.T) {
	in(t, nil, func(t *testing.T, r *rig) {
		_, causes := hanging(r)
		r.add("a", "b")
		synctest.Wait()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		err := r.Close(ctx, r.claim)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("got %v", err)
		}
		same(t, "cause", errors.Is(<-causes, errClosed), true)
		time.Sleep(time.Hour)
		same(t, "nothing is written", len(r.mem.records), 0)
		same(t, "attempts", len(r.sink.ids()), 2)
	})
}

func TestCloseCutsTheLedgerOff(t *testing.T) {
	in(t, nil, func(t *testing.T, r *rig) {
		other := claimOf(2)
		if err := r.Open(t.Context(), other); err != nil {
			t.Fatal(err)
		}
		var away atomic.Bool
		away.Store(true)
		r.mem.before = func(ctx context.Context, _ []ledger.Result) error {
			if away.Load() {
				<-ctx.Done()
				return context.Cause(ctx)
			}
			return nil
		}
		r.add("a")
		synctest.Wait()
		item := r.make("b", func(a *ledger.Action) { a.Claim = 2 })
		r.Add(other, []Item{item})
		synctest.Wait()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := r.Close(ctx, r.claim); err == nil {
			t.Fatal("closed clean with an unrecorded result")
		}
		away.Store(false)
		r.Drop(claimOf(9)) // not ours: nothing happens
		r.s.mu.Lock()
		if r.s.q.results.abort != nil {
			r.s.q.results.abort(errClosed) // the group of the other claim hangs in the double
		}
		r.s.mu.Unlock()
		time.Sleep(time.Minute)
		same(t, "a is left to the next owner", r.mem.status(r.claim, 1), ledger.Pending)
		same(t, "b's result was never dropped", r.mem.status(other, 2), ledger.Done)
	})
}

func TestDropWritesNothing(t *testing.T) {
	in(t, nil, func(t *testing.T, r *rig) {
		_, causes := hanging(r)
		r.add("a", "a", "b")
		synctest.Wait()
		r.Drop(r.claim)
		synctest.Wait()
		same(t, "cause", errors.Is(<-causes, errFenced), true)
		time.Sleep(time.Hour)
		same(t, "records", len(r.mem.records), 0)
		same(t, "attempts", len(r.sink.ids()), 2)
		same(t, "busy slots", r.busySlots(), 0)
		r.s.mu.Lock()
		same(t, "bytes", r.s.q.budget.bytes(), int64(0))
		r.s.mu.Unlock()
		r.Drop(r.claim)
		if err := r.Close(t.Context(), r.claim); err != nil {
			t.Error(err)
		}
	})
}

func TestFencedResultDropsTheClaimAlone(t *testing.T) {
	in(t, nil, func(t *testing.T, r *rig) {
		other := claimOf(2)
		if err := r.Open(t.Context(), other); err != nil {
			t.Fatal(err)
		}
		r.mem.fenced[r.claim] = true
		r.add("a", "a", "b")
		r.Add(other, []Item{
			r.make("a", func(a *ledger.Action) { a.Claim = 2 }), r.make("a", func(a *ledger.Action) { a.Claim = 2 }),
		})
		synctest.Wait()
		same(t, "the other claim goes on", r.mem.count(other, ledger.Done), 2)
		same(t, "the fenced one wrote nothing", r.mem.count(r.claim, ledger.Done), 0)
		same(t, "and stopped", slices.Contains(r.sink.ids(), "a#2"), false)
		r.add("c")
		synctest.Wait()
		same(t, "and takes nothing more", slices.Contains(r.sink.ids(), "c#6"), false)
	})
}

// Without it a partition that gets no more records would stay unserved until the process ends.
func TestOnFencedIsCalledOnceWithoutLocks(t *testing.T) {
	var fenced []*ledger.Claim
	var r *rig
	in(t, func(c *Config) {
		c.OnFenced = func(c *ledger.Claim) {
			r.Drop(c) // would deadlock under the lanes' lock
			fenced = append(fenced, c)
		}
	}, func(t *testing.T, lanes *rig) {
		r = lanes
		r.mem.fenced[r.claim] = true
		r.add("a", "b", "c", "d")
		synctest.Wait()
		r.add("e")
		synctest.Wait()
		same(t, "calls", len(fenced), 1)
		same(t, "of the claim", fenced[0] == r.claim, true)
	})
}

func TestLedgerErrorsAreRetriedNeverDropped(t *testing.T) {
	in(t, nil, func(t *testing.T, r *rig) {
		fails := 5
		r.mem.before = func(context.Context, []ledger.Result) error {
			if fails > 0 {
				fails--
				return errors.New("connection refused")
			}
			return nil
		}
		r.add("a", "a", "b")
		time.Sleep(time.Minute)
		same(t, "done", r.mem.count(r.claim, ledger.Done), 3)
		same(t, "attempts", len(r.sink.ids()), 3)
	})
}

func TestOneBadResultHoldsNobodyElse(t *testing.T) {
	in(t, nil, func(t *testing.T, r *rig) {
		r.mem.before = func(_ context.Context, results []ledger.Result) error {
			for _, res := range results {
				if res.LaneSeq == 1 {
					return errors.New("the database never takes this one")
				}
			}
			return nil
		}
		for range 20 {
			r.add("bad", "a", "b", "c", "d", "e", "f", "g")
		}
		time.Sleep(10 * time.Minute)
		same(t, "done", r.mem.count(r.claim, ledger.Done), 140)
		same(t, "bad was tried once", countOf(r, "bad"), 1)
	})
}

func TestRunRecordsWhatIsThereWhenItEnds(t *testing.T) {
	in(t, nil, func(t *testing.T, r *rig) {
		commit := make(chan struct{})
		r.mem.before = func(context.Context, []ledger.Result) error { <-commit; return nil }
		r.add("a", "b", "c")
		synctest.Wait()
		go func() { time.Sleep(time.Second); close(commit) }()
		r.stop()
		same(t, "done", r.mem.count(r.claim, ledger.Done), 3)
		if err := r.Open(t.Context(), claimOf(7)); err == nil {
			t.Error("opened after the end")
		}
	})
}

func TestUnsafeIsMarkedBeforeTheCall(t *testing.T) {
	in(t, nil, func(t *testing.T, r *rig) {
		r.sink.kind = sink.Unsafe
		r.sink.do = func(ctx context.Context, a sink.Action) (sink.Outcome, error) {
			if s := r.mem.status(r.claim, int64(a.Event.ID[2]-'0')); s != ledger.Unknown {
				t.Errorf("called with status %s", s)
			}
			switch a.Event.Entity {
			case "t":
				if a.Attempt < 3 {
					return failWith(sink.ClassThrottled)(ctx, a)
				}
			case "u":
				if a.Attempt < 3 {
					return sink.Outcome{}, &sink.AttemptError{Class: sink.ClassNetwork, Err: errors.New("refused"), Untouched: true}
				}
			case "n":
				return failWith(sink.ClassNetwork)(ctx, a)
			case "r":
				return failWith(sink.ClassRejected)(ctx, a)
			}
			return sink.Outcome{}, nil
		}
		r.add("g", "t", "n", "r", "n", "u")
		time.Sleep(time.Hour)
		same(t, "good", r.mem.status(r.claim, 1), ledger.Done)
		same(t, "a refusal by rate is retried", r.mem.status(r.claim, 2), ledger.Done)
		same(t, "an unknown outcome stays", r.mem.status(r.claim, 3), ledger.Unknown)
		same(t, "a refusal is dead", r.mem.status(r.claim, 4), ledger.Dead)
		same(t, "unknown is never retried", countOf(r, "n"), 1)
		same(t, "what reached nobody is retried", r.mem.status(r.claim, 6), ledger.Done)
		marks := r.mem.resultsOf(2)
		same(t, "marks and results", len(marks), 6)
		same(t, "mark", marks[0].Attempt, 1)
	})
}

func TestUnsafeUnknownIsParkedAfterARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := setup(t, nil)
		defer r.stop()
		r.sink.kind = sink.Unsafe
		r.make("a", func(a *ledger.Action) { a.Status, a.Attempts = ledger.Unknown, 1 })
		r.make("a", nil)
		r.begin(t)
		r.add("a", "b")
		time.Sleep(time.Hour)
		same(t, "calls", r.sink.ids(), []string{"b#4"})
	})
}

func TestUnsafeCancelledAfterItsMark(t *testing.T) {
	in(t, nil, func(t *testing.T, r *rig) {
		r.sink.kind = sink.Unsafe
		hanging(r)
		r.add("a")
		synctest.Wait()
		r.Drop(r.claim)
		synctest.Wait()
		same(t, "the mark stands: nobody knows", r.mem.status(r.claim, 1), ledger.Unknown)
		same(t, "results", len(r.mem.resultsOf(1)), 1)
		same(t, "busy slots", r.busySlots(), 0)
	})
}

func TestUnsafeStoppedWhileMarking(t *testing.T) {
	in(t, func(c *Config) { c.MaxGroup = 1 }, func(t *testing.T, r *rig) {
		r.sink.kind = sink.Unsafe
		commit := make(chan struct{})
		r.mem.before = func(context.Context, []ledger.Result) error { <-commit; return nil }
		r.add("a", "b")
		synctest.Wait()
		go func() { time.Sleep(time.Second); close(commit) }()
		r.stop()
		same(t, "calls", len(r.sink.ids()), 0)
		same(t, "the mark that was on its way stands, the other was taken back", []int{
			r.mem.count(r.claim, ledger.Unknown), r.mem.count(r.claim, ledger.Pending),
		}, []int{1, 1})
	})
}

func TestUnsafeDroppedWhileMarking(t *testing.T) {
	in(t, nil, func(t *testing.T, r *rig) {
		r.sink.kind = sink.Unsafe
		commit := make(chan struct{})
		r.mem.before = func(context.Context, []ledger.Result) error { <-commit; return errors.New("cut") }
		r.add("a", "b")
		synctest.Wait()
		r.Drop(r.claim)
		synctest.Wait()
		close(commit)
		time.Sleep(time.Minute)
		same(t, "calls", len(r.sink.ids()), 0)
		same(t, "busy slots", r.busySlots(), 0)
		r.s.mu.Lock()
		defer r.s.mu.Unlock()
		same(t, "unrecorded", r.s.q.results.unrecorded(), 0)
	})
}

// Results that nobody wants any more make room for attempts of others, and these start.
func TestDroppedResultsMakeRoomForOthers(t *testing.T) {
	in(t, func(c *Config) { c.MaxUnrecorded, c.MaxGroup = 2, 1 }, func(t *testing.T, r *rig) {
		other := claimOf(2)
		if err := r.Open(t.Context(), other); err != nil {
			t.Fatal(err)
		}
		fail := make(chan struct{})
		var failed atomic.Bool
		r.mem.before = func(context.Context, []ledger.Result) error {
			if !failed.Swap(true) {
				<-fail
				return errors.New("connection reset")
			}
			return nil
		}
		r.add("a", "b")
		synctest.Wait() // one result is being recorded, one waits: no attempt may start
		r.Add(other, []Item{r.make("c", func(a *ledger.Action) { a.Claim = 2 })})
		synctest.Wait()
		same(t, "attempts", len(r.sink.ids()), 2)
		r.Drop(r.claim)
		close(fail)
		time.Sleep(time.Minute)
		same(t, "the other's", r.mem.count(other, ledger.Done), 1)
	})
}
