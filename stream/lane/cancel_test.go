package lane

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/sink"
)

// cancelable is a sink that can be told to cancel, and keeps what it was told.
type cancelable struct {
	*script
	mu     sync.Mutex
	told   []sink.Cancel
	at     []time.Time
	answer func(n int) error // to the n-th call; nil: none fails
}

func (s *cancelable) Cancel(_ context.Context, c sink.Cancel) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.told, s.at = append(s.told, c), append(s.at, time.Now())
	if s.answer == nil {
		return nil
	}
	return s.answer(len(s.told))
}

// urls are what was called, in order.
func (s *cancelable) urls() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	urls := make([]string, len(s.told))
	for i, c := range s.told {
		urls[i] = c.URL + " " + c.Reason
	}
	return urls
}

// takeCancelable answers 202 with a cancel URL.
func takeCancelable(_ context.Context, a sink.Action) (sink.Outcome, error) {
	return sink.Outcome{Code: 202, Later: a.Later != nil, CancelURL: "/cancel/" + a.Event.ID}, nil
}

// startCancel is startLongWork with a destination that can be told to cancel, and actions called run that say so.
func startCancel(t *testing.T, policy LongPolicy, change func(*Config), f func(t *testing.T, r *longRig, told *cancelable)) {
	t.Helper()
	told := &cancelable{}
	startLongWork(t, policy, func(c *Config) {
		c.CancelOnNewer = func(action string) bool { return action == "run" }
		d := c.Destinations[destName]
		if told.script == nil {
			told.script = d.Sink.(*script)
		}
		d.Sink = told
		c.Destinations[destName] = d
		if change != nil {
			change(c)
		}
	}, func(t *testing.T, r *longRig) {
		r.sink.do = takeCancelable
		f(t, r, told)
	})
}

func soon() {
	time.Sleep(time.Second)
	synctest.Wait()
}

// What is at work is told once that its entity has a newer version, and not before. What it reports then is recorded as newer: what is not done
// is superseded, parks nothing and is not tried again. The lane goes on.
func TestNewerCancels(t *testing.T) {
	for said, want := range map[ledger.Status]ledger.Status{
		ledger.Done: ledger.Done, ledger.Failed: ledger.Superseded, ledger.Dead: ledger.Superseded,
	} {
		t.Run(string(said), func(t *testing.T) {
			startCancel(t, halfHour, nil, func(t *testing.T, r *longRig, told *cancelable) {
				r.Add(r.claim, []Item{r.state("a", 1), r.state("b", 1)})
				soon()
				r.Add(r.claim, []Item{r.state("a", 1), r.state("a", 1, lately), r.state("a", 7, clock("comment")), r.state("c", 2)})
				soon()
				same(t, "nothing is newer yet", len(told.urls()), 0)
				same(t, "nothing is newer yet", r.mem.action(r.claim, 1).Newer, false)
				r.Add(r.claim, []Item{r.state("a", 2)})
				r.Add(r.claim, []Item{r.state("a", 3)})
				soon()
				same(t, "told", told.urls(), []string{"/cancel/a#1 newer"})
				same(t, "by the action's id", told.told[0].ID, r.mem.action(r.claim, 1).ID)
				now := r.mem.action(r.claim, 1)
				same(t, "noted", []any{now.Status, now.Newer, now.CancelURL}, []any{ledger.Processing, true, ""})
				same(t, "the others", []bool{r.mem.action(r.claim, 2).Newer, r.mem.action(r.claim, 6).Newer}, []bool{false, false})
				r.Add(r.claim, []Item{r.state("a", 4)})
				soon()
				r.mem.report(1, 1, said)
				soon()
				last := r.mem.resultsOf(1)[1]
				same(t, "recorded", []any{last.Status, last.Class, last.Attempt, last.Reported}, []any{want, "newer", 1, true})
				same(t, "what came of the report", r.mem.outcome(1, 1), "applied")
				same(t, "the lane goes on", r.status(3), ledger.Processing)
				same(t, "told for each head behind which something is newer", told.urls(), []string{"/cancel/a#1 newer", "/cancel/a#3 newer"})
				time.Sleep(10 * time.Minute)
				same(t, "not tried again", slices.Contains(r.sink.ids()[3:], "a#1"), false)
			})
		})
	}
}

// Without on_newer: cancel nobody is told, and a result is what it always was.
func TestNewerContinues(t *testing.T) {
	startCancel(t, halfHour, func(c *Config) { c.CancelOnNewer = func(string) bool { return false } }, func(t *testing.T, r *longRig, told *cancelable) {
		r.Add(r.claim, []Item{r.state("a", 1), r.state("a", 2)})
		soon()
		same(t, "told", len(told.urls()), 0)
		r.mem.report(1, 1, ledger.Dead)
		soon()
		last := r.mem.resultsOf(1)[1]
		same(t, "recorded", []any{last.Status, last.Class}, []any{ledger.Dead, "rejected"})
		same(t, "the lane is parked", r.status(2), ledger.Pending)
	})
}

// The newer version is there before the 202, more of it than a window holds, or not even loaded.
func TestNewerBeforeTheAnswer(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"in memory": nil, "behind the lane's window": func(c *Config) { c.LaneWindow = 1 }, "behind the partition's": func(c *Config) { c.MaxOpen, c.LaneWindow = 1, 1 },
	} {
		t.Run(name, func(t *testing.T) {
			startCancel(t, halfHour, change, func(t *testing.T, r *longRig, told *cancelable) {
				r.sink.do = func(ctx context.Context, a sink.Action) (sink.Outcome, error) {
					time.Sleep(time.Second)
					return takeCancelable(ctx, a)
				}
				r.Add(r.claim, []Item{r.state("a", 1)})
				synctest.Wait()
				r.Add(r.claim, []Item{r.state("a", 2)})
				synctest.Wait()
				same(t, "while the call is under way", len(told.urls()), 0)
				time.Sleep(2 * time.Second)
				synctest.Wait()
				same(t, "told", told.urls(), []string{"/cancel/a#1 newer"})
			})
		})
	}
}

// A call that fails is made again, with back-off, a few times at most; one that is refused for good is not. The result is waited for all the same.
func TestCancelCallFails(t *testing.T) {
	for name, tt := range map[string]struct {
		answer func(n int) error
		calls  int
		url    string // that is left for the next owner
	}{
		"for a while": {func(n int) error {
			if n < 4 {
				return &sink.AttemptError{Class: sink.ClassNetwork, Err: errors.New("scripted")}
			}
			return nil
		}, 4, ""},
		"always":   {func(int) error { return &sink.AttemptError{Class: sink.ClassTimeout, Err: errors.New("scripted")} }, cancelTries, "/cancel/a#1"},
		"for good": {func(int) error { return &sink.AttemptError{Class: sink.ClassForbidden, Err: errors.New("scripted")} }, 1, "/cancel/a#1"},
		"a panic":  {func(int) error { panic("scripted") }, 1, "/cancel/a#1"},
	} {
		t.Run(name, func(t *testing.T) {
			startCancel(t, halfHour, nil, func(t *testing.T, r *longRig, told *cancelable) {
				told.answer = tt.answer
				r.Add(r.claim, []Item{r.state("a", 1), r.state("a", 2)})
				time.Sleep(5 * time.Minute)
				synctest.Wait()
				same(t, "calls", len(told.urls()), tt.calls)
				for i := 2; i < len(told.at); i++ {
					if told.at[i].Sub(told.at[i-1]) <= told.at[i-1].Sub(told.at[i-2]) {
						t.Errorf("no back-off: %v", told.at)
					}
				}
				now := r.mem.action(r.claim, 1)
				same(t, "noted", []any{now.Newer, now.CancelURL}, []any{true, tt.url})
				same(t, "waits for the result", r.status(1), ledger.Processing)
				r.mem.report(1, 1, ledger.Dead)
				soon()
				same(t, "after it", []ledger.Status{r.status(1), r.status(2)}, []ledger.Status{ledger.Superseded, ledger.Processing})
			})
		})
	}
}

// An owner that was killed before its call was noted has the next one tell again; one that noted it has not. A result that came meanwhile counts as
// one of what was cancelled.
func TestCancelOverARestart(t *testing.T) {
	for _, noted := range []bool{false, true} {
		t.Run(fmt.Sprintf("noted %t", noted), func(t *testing.T) {
			startCancel(t, halfHour, nil, func(t *testing.T, r *longRig, told *cancelable) {
				if !noted {
					told.answer = func(int) error {
						return &sink.AttemptError{Class: sink.ClassRejected, Err: errors.New("it is not known whether it was heard")}
					}
				}
				r.Add(r.claim, []Item{r.state("a", 1), r.state("a", 2), r.state("b", 1)})
				soon()
				same(t, "told", told.urls(), []string{"/cancel/a#1 newer"})
				told.answer = nil
				r.restart(t, true)
				soon()
				want := []string{"/cancel/a#1 newer"}
				if !noted {
					want = append(want, want[0])
				}
				same(t, "told over the restart", told.urls(), want)
				r.restart(t, true)
				soon()
				same(t, "told over one more", told.urls(), want)
				r.stop()
				r.mem.report(1, 1, ledger.Dead)
				r.restart(t, true)
				time.Sleep(10 * time.Second)
				synctest.Wait()
				same(t, "after it", []ledger.Status{r.status(1), r.status(2)}, []ledger.Status{ledger.Superseded, ledger.Processing})
			})
		})
	}
}

// What came behind while nobody owned the partition is seen by the next owner, and so is what the ledger could not say at first.
func TestNewerIsFoundByTheNextOwner(t *testing.T) {
	startCancel(t, halfHour, nil, func(t *testing.T, r *longRig, told *cancelable) {
		r.Add(r.claim, []Item{r.state("a", 1)})
		soon()
		r.stop()
		r.state("a", 2)
		r.restart(t, true)
		soon()
		same(t, "told", told.urls(), []string{"/cancel/a#1 newer"})
		r.Add(r.claim, []Item{r.state("b", 1)})
		soon()
		fail := func(err error) {
			r.mem.mu.Lock()
			r.mem.failLong = err
			r.mem.mu.Unlock()
		}
		fail(errors.New("the ledger is away"))
		r.Add(r.claim, []Item{r.state("b", 2)})
		time.Sleep(time.Minute)
		synctest.Wait()
		same(t, "while it is away", len(told.urls()), 1)
		fail(nil)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		same(t, "once it is back", told.urls()[1:], []string{"/cancel/b#3 newer"})
	})
}

// One that says nothing is ended by its deadline as ever, for nobody knows what it did, and told again once it has taken the next attempt.
func TestSilenceAfterCancel(t *testing.T) {
	startCancel(t, halfHour, nil, func(t *testing.T, r *longRig, told *cancelable) {
		r.Add(r.claim, []Item{r.state("a", 1), r.state("a", 2)})
		time.Sleep(30*time.Minute + 2*time.Second)
		synctest.Wait()
		now := r.mem.action(r.claim, 1)
		same(t, "timed out", []any{now.Status, now.Newer, now.CancelURL}, []any{ledger.Failed, false, ""})
		time.Sleep(time.Minute)
		synctest.Wait()
		same(t, "tried again, and told", []any{r.status(1), told.urls()}, []any{ledger.Processing, []string{"/cancel/a#1 newer", "/cancel/a#1 newer"}})
	})
}

// One that was late when it began, or that an operator wants run all the same, is left at work; so is one of a destination without a cancel URL,
// which its heartbeats tell.
func TestNotCancelled(t *testing.T) {
	startCancel(t, halfHour, func(c *Config) { c.MaxInFlight = 16 }, func(t *testing.T, r *longRig, told *cancelable) {
		forced := func(a *ledger.Action) { a.Replay = &ledger.ReplayRequest{At: time.Now(), Force: true} }
		r.Add(r.claim, []Item{r.state("a", 1, lately), r.state("a", 2), r.state("b", 1, forced), r.state("b", 2), r.state("c", 1, withoutVersion), r.state("c", 2, withoutVersion)})
		soon()
		r.Add(r.claim, []Item{r.state("e", 1, again), r.state("e", 2, again), r.state("f", 1, redriven), r.state("f", 2)})
		soon()
		for _, seq := range []int64{1, 3, 5, 7, 9} {
			same(t, fmt.Sprint("noted of ", seq), []any{r.status(seq), r.mem.action(r.claim, seq).Newer}, []any{ledger.Processing, false})
		}
		r.sink.become(take)
		r.Add(r.claim, []Item{r.state("d", 1), r.state("d", 2)})
		soon()
		same(t, "without a URL", r.mem.action(r.claim, 11).Newer, true)
		same(t, "told", len(told.urls()), 0)
	})
}

// A claim that has lost its fence notes nothing, and says so.
func TestCancelOfAFencedClaim(t *testing.T) {
	var lost []*ledger.Claim
	startCancel(t, halfHour, func(c *Config) { c.OnFenced = func(c *ledger.Claim) { lost = append(lost, c) } }, func(t *testing.T, r *longRig, told *cancelable) {
		r.Add(r.claim, []Item{r.state("a", 1)})
		soon()
		r.mem.mu.Lock()
		r.mem.fenced[r.claim] = true
		r.mem.mu.Unlock()
		r.Add(r.claim, []Item{r.state("a", 2)})
		soon()
		same(t, "told", []any{len(told.urls()), r.mem.action(r.claim, 1).Newer, len(lost)}, []any{0, false, 1})
		r.spoilt = true
	})
}

// A target that another has taken the place of is in use until the call of a cancel URL that it makes has ended.
func TestReplaceWhileCancelling(t *testing.T) {
	startCancel(t, halfHour, nil, func(t *testing.T, r *longRig, told *cancelable) {
		told.answer = func(int) error { time.Sleep(2 * time.Second); return nil }
		r.Add(r.claim, []Item{r.state("a", 1), r.state("a", 2)})
		synctest.Wait()
		unused, err := r.Replace(destName, DestinationConfig{Sink: &script{do: take}, Timeout: time.Second, Long: halfHour})
		if err != nil {
			t.Fatal(err)
		}
		select {
		case <-unused:
			t.Error("unused while a call is under way")
		default:
		}
		time.Sleep(3 * time.Second)
		synctest.Wait()
		select {
		case <-unused:
		default:
			t.Error("still in use")
		}
		same(t, "told", told.urls(), []string{"/cancel/a#1 newer"})
	})
}
