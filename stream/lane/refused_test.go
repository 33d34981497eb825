package lane

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/sink"
)

// refuse makes the ledger refuse every group with a result of which bad says so, as it refuses a violated constraint.
func (r *rig) refuse(bad func(res *ledger.Result) bool) {
	r.mem.mu.Lock()
	defer r.mem.mu.Unlock()
	r.mem.before = func(_ context.Context, results []ledger.Result) error {
		for i := range results {
			if bad(&results[i]) {
				return schemas.Errorf(schemas.Internal, "record results", "action %d is refused", results[i].LaneSeq)
			}
		}
		return nil
	}
}

func upTo(seq int64) func(*ledger.Result) bool {
	return func(res *ledger.Result) bool { return res.LaneSeq <= seq }
}

func none(*ledger.Result) bool { return false }

func (r *rig) unrecorded() (all, aside int) {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	return r.s.q.results.unrecorded(), len(r.s.q.results.refused)
}

// A lost right, a missing column: the attempts stop, as with any trouble of the ledger, and go on once it is mended.
func TestLedgerThatRefusesAllStopsAttempts(t *testing.T) {
	in(t, func(c *Config) { c.MaxUnrecorded = 10 }, func(t *testing.T, r *rig) {
		r.refuse(func(*ledger.Result) bool { return true })
		var entities []string
		for i := range 500 {
			entities = append(entities, fmt.Sprint("e", i))
		}
		r.add(entities...)
		time.Sleep(10 * time.Minute)
		called := len(r.sink.ids())
		if called > 10+8 { // and as many as may be in flight
			t.Errorf("%d calls while nothing is recorded", called)
		}
		all, aside := r.unrecorded()
		same(t, "unrecorded", all, called)
		same(t, "to blame", aside, 0)
		r.refuse(none)
		time.Sleep(10 * time.Second)
		same(t, "done", r.mem.count(r.claim, ledger.Done), 500)
		same(t, "calls", len(r.sink.ids()), 500)
	})
}

// Results that come slowly, each alone, are counted as well.
func TestResultsSetAsideAreUnrecorded(t *testing.T) {
	in(t, func(c *Config) { c.MaxUnrecorded = 2 }, func(t *testing.T, r *rig) {
		r.refuse(upTo(2))
		for i := range 3 {
			r.add(fmt.Sprint("e", i))
			synctest.Wait()
		}
		all, aside := r.unrecorded()
		same(t, "unrecorded", []int{all, aside}, []int{2, 2})
		same(t, "no room for a third", r.sink.ids(), []string{"e0#1", "e1#2"})
		r.refuse(none)
		time.Sleep(time.Minute)
		same(t, "done", r.mem.count(r.claim, ledger.Done), 3)
	})
}

// So many bad results in a row look like trouble of the ledger, until it takes another one.
func TestManyBadResultsHoldNobodyElse(t *testing.T) {
	in(t, nil, func(t *testing.T, r *rig) {
		const bad = 20
		r.refuse(upTo(bad))
		for i := range bad {
			r.add(fmt.Sprint("bad", i))
		}
		time.Sleep(10 * time.Minute)
		for i := range 10 {
			r.add(fmt.Sprint("good", i))
			if wait := 100 * time.Millisecond; i > 0 {
				time.Sleep(wait)
			} else {
				time.Sleep(5 * time.Second) // the ledger is left alone for so long
			}
			same(t, "good ones that are done", r.mem.count(r.claim, ledger.Done), i+1)
		}
		_, aside := r.unrecorded()
		same(t, "to blame", aside, bad)
	})
}

func TestCloseTriesWhatWasSetAside(t *testing.T) {
	in(t, nil, func(t *testing.T, r *rig) {
		r.refuse(upTo(1))
		r.add("a", "b")
		time.Sleep(5 * time.Minute)
		r.refuse(none)
		began := time.Now()
		if err := r.Close(t.Context(), r.claim); err != nil {
			t.Error(err)
		}
		same(t, "took", time.Since(began), time.Duration(0))
		same(t, "done", r.mem.count(r.claim, ledger.Done), 2)
	})
}

// What the ledger refuses holds up no Close. The action may have been called: the claim is not released, so that its next call is
// in doubt.
func TestCloseDoesNotWaitForRefusedResults(t *testing.T) {
	for _, bad := range []int64{1, 20} {
		t.Run(fmt.Sprint(bad), func(t *testing.T) {
			in(t, nil, func(t *testing.T, r *rig) {
				r.refuse(upTo(bad))
				for i := range bad {
					r.add(fmt.Sprint("bad", i))
				}
				r.add("good")
				time.Sleep(5 * time.Minute)
				r.sink.become(func(context.Context, sink.Action) (sink.Outcome, error) {
					time.Sleep(2 * time.Second)
					return sink.Outcome{Code: 200}, nil
				})
				r.add("late")
				synctest.Wait()
				began := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), 45*time.Second)
				defer cancel()
				err := r.Close(ctx, r.claim)
				if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("refuses the results of %d actions", bad)) {
					t.Errorf("got %v", err)
				}
				if took := time.Since(began); took > 8*time.Second { // the call that is under way, or waits for the one result that is tried again
					t.Errorf("took %s", took)
				}
				same(t, "done", r.mem.count(r.claim, ledger.Done), 2)
				r.stop()
				r.refuse(none)
				r.claimed(false)
				r.relaunch(t, nil)
				r.begin(t)
				time.Sleep(time.Minute)
				same(t, "done by the next owner", r.mem.count(r.claim, ledger.Done), int(bad)+2)
				same(t, "in doubt", len(r.doubted()), int(bad))
			})
		})
	}
}

func TestCloseDoesNotWaitForRefusedMarks(t *testing.T) {
	in(t, nil, func(t *testing.T, r *rig) {
		r.sink.kind = sink.Unsafe
		r.refuse(upTo(1))
		r.add("a", "b")
		time.Sleep(5 * time.Minute)
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 45*time.Second)
		defer cancel()
		if err := r.Close(ctx, r.claim); err == nil {
			t.Error("closed clean with a mark that the ledger refuses")
		}
		same(t, "took", time.Since(began), time.Duration(0))
		same(t, "calls", r.sink.ids(), []string{"b#2"})
		same(t, "busy slots", r.busySlots(), 0)
	})
}

// What the ledger lacks of what the claim remembers ends the claim, and the next one reads what is there. Where the ledger lacks it again at
// once, the result is put off as any other that is refused: it must not make call after call.
func TestForgottenResultEndsTheClaimOnce(t *testing.T) {
	var ended atomic.Int64
	in(t, func(c *Config) { c.OnFenced = func(*ledger.Claim) { ended.Add(1) } }, func(t *testing.T, r *rig) {
		r.mem.before = func(_ context.Context, results []ledger.Result) error {
			for i := range results {
				if results[i].LaneSeq == 1 {
					return &schemas.Error{Kind: schemas.Internal, Op: "record results", Err: ledger.ErrForgotten}
				}
			}
			return nil
		}
		r.add("a", "b")
		time.Sleep(30 * time.Second)
		same(t, "given up", ended.Load(), int64(1))
		same(t, "the other entity's result", r.mem.status(r.claim, 2), ledger.Done)
		_, aside := r.unrecorded()
		same(t, "put off", aside, 0)
		r.begin(t)
		time.Sleep(5 * time.Minute)
		same(t, "given up again", ended.Load(), int64(1))
		_, aside = r.unrecorded()
		same(t, "put off", aside, 1)
		time.Sleep(10 * time.Minute)
		same(t, "given up later", ended.Load(), int64(2))
	})
}
