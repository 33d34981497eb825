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

	"pgregory.net/rapid"

	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/sink"
)

// handOver gives the claim back, cleanly, and begins the next owner's.
func (r *rig) handOver(t *testing.T, change func(*Config)) {
	t.Helper()
	if err := r.Close(t.Context(), r.claim); err != nil {
		t.Fatal(err)
	}
	r.stop()
	r.claimed(true)
	r.relaunch(t, change)
	r.begin(t)
}

// doubted are the events of the calls that were in doubt, in their order.
func (r *rig) doubted() (ids []string) {
	r.sink.mu.Lock()
	defer r.sink.mu.Unlock()
	for _, a := range r.sink.calls {
		if a.Doubt {
			ids = append(ids, fmt.Sprintf("%s/%d", a.Event.ID, a.Attempt))
		}
	}
	return ids
}

// What an owner may have attempted is in doubt for whoever attempts it, however many have had and released the claim since.
func TestDoubtOutlivesCleanClaims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var alive atomic.Bool
		change := func(c *Config) { c.Alive = alive.Load }
		r := setup(t, change)
		defer func() { r.stop() }()
		r.make("a", nil)
		r.make("a", nil)
		r.make("b", func(a *ledger.Action) { a.Attempts, a.Status, a.FirstAt = 1, ledger.Failed, time.Now() })
		r.unclean()
		killed := time.Now()
		r.begin(t)
		r.add("a", "c")
		for range 3 {
			time.Sleep(time.Hour)
			r.handOver(t, change)
			same(t, "a clean claim", r.claim.Unclean, false)
		}
		alive.Store(true)
		time.Sleep(time.Minute)
		same(t, "calls", len(r.sink.ids()), 5)
		same(t, "only the head of then, of which no attempt is recorded", r.doubted(), []string{"a#1/1"})
		for _, a := range r.sink.calls {
			end := time.Time{}
			if a.Doubt {
				end = killed.Add(5 * time.Second)
			}
			same(t, "no attempt later", a.DoubtEnd, end)
		}
		r.handOver(t, change)
		same(t, "nothing is in doubt any more", r.claim.DoubtTo, int64(0))
	})
}

// The attempts of the next owner, recorded, say nothing of one of the owner before them: it may be the earlier one.
func TestDoubtOutlivesRecordedAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		change := func(c *Config) {
			c.Rand = func() float64 { return 1 }
			d := c.Destinations[destName]
			d.Retry = sink.RetryPolicy{Attempts: 10, Within: 48 * time.Hour, Min: time.Hour, Max: time.Hour}
			c.Destinations[destName] = d
		}
		r := setup(t, change)
		defer func() { r.stop() }()
		taken := time.Now()
		r.make("a", nil)
		r.make("a", nil)
		for _, e := range r.log.events {
			e.RecordedTime = taken
		}
		time.Sleep(time.Hour)
		r.unclean()
		killed := time.Now()
		var up atomic.Bool
		r.sink.do = func(ctx context.Context, a sink.Action) (sink.Outcome, error) {
			if !up.Load() {
				return failWith(sink.ClassBusy)(ctx, a)
			}
			return sink.Outcome{Code: 200}, nil
		}
		r.begin(t)
		time.Sleep(10 * time.Minute)
		same(t, "recorded", r.mem.action(r.claim, 1).Attempts, 1)
		r.handOver(t, change)
		same(t, "nothing is in doubt without an attempt", r.claim.DoubtTo, int64(0))
		up.Store(true)
		time.Sleep(2 * time.Hour)
		same(t, "in doubt", r.doubted(), []string{"a#1/1", "a#1/2"})
		before := sink.Span{From: taken, To: killed.Add(5 * time.Second)}
		same(t, "before the first", r.sink.calls[0].Earlier(), []sink.Span{before})
		same(t, "before the second", r.sink.calls[1].Earlier(), []sink.Span{before, {From: r.sink.at[0]}})
		same(t, "calls", r.sink.ids(), []string{"a#1", "a#1", "a#2"})
	})
}

// Of a backlog only the heads are in doubt, whatever of it is in memory; it goes with the heads.
func TestDoubtIsAboutHeads(t *testing.T) {
	for size, change := range map[string]func(*Config){"in memory": nil, "left to the ledger": func(c *Config) { c.MaxOpen, c.LaneWindow = 4, 2 }} {
		t.Run(size, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := setup(t, change)
				defer func() { r.stop() }()
				var heads []string
				for round := range 5 {
					for i := range 20 {
						name := fmt.Sprint("e", i)
						if id := r.make(name, nil).Event.ID; round == 0 {
							heads = append(heads, id+"/1")
						}
					}
				}
				r.unclean()
				r.begin(t)
				r.add("e0", "e1", "new")
				time.Sleep(time.Hour)
				same(t, "done", r.mem.count(r.claim, ledger.Done), 103)
				got := r.doubted()
				slices.Sort(got)
				slices.Sort(heads)
				same(t, "in doubt", got, heads)
				r.handOver(t, change)
				same(t, "it is gone", r.claim.DoubtTo, int64(0))
			})
		})
	}
}

// What stands dead, or waits for a retry, keeps no doubt; what has not been attempted, or not been read, does.
func TestDoubtThatStays(t *testing.T) {
	retry := func(c *Config) {
		c.MaxOpen, c.LaneWindow = 4, 2
		d := c.Destinations[destName]
		d.Retry = sink.RetryPolicy{Attempts: 3, Min: 10 * time.Hour, Max: 10 * time.Hour, Within: 100 * time.Hour}
		c.Destinations[destName] = d
	}
	for name, tt := range map[string]struct {
		do    func(context.Context, sink.Action) (sink.Outcome, error)
		away  bool
		heads int
		stays bool
	}{
		"dead":          {failWith(sink.ClassRejected), false, 20, false},
		"failed":        {failWith(sink.ClassBusy), false, 20, false},
		"not attempted": {nil, true, 1, true},
		"not read":      {nil, true, 20, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				change := func(c *Config) { retry(c); c.Alive = func() bool { return !tt.away } }
				r := setup(t, change)
				defer func() { r.stop() }()
				for i := range tt.heads {
					r.make(fmt.Sprint("e", i), nil)
					r.make(fmt.Sprint("e", i), nil)
				}
				r.unclean()
				to := r.claim.DoubtTo
				r.begin(t)
				time.Sleep(time.Hour)
				r.handOver(t, change)
				if !tt.stays {
					to = 0
				}
				same(t, "in doubt below", r.claim.DoubtTo, to)
			})
		})
	}
}

// An action that an operator runs again is in doubt only where its row says so. What it was put in front of may have been busy.
func TestDoubtOfWhatRunsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := setup(t, nil)
		defer func() { r.stop() }()
		again := func(doubt, twice bool) func(*ledger.Action) {
			return func(a *ledger.Action) {
				a.Status, a.Attempts, a.FirstAt = ledger.Failed, 2, time.Now()
				if doubt {
					a.DoubtEnd = time.Now()
				}
				a.Spent, a.Replay = 2, &ledger.ReplayRequest{At: time.Now(), Force: true, Twice: twice}
			}
		}
		r.make("a", again(false, false))
		r.make("a", again(true, false))
		r.make("a", again(false, true))
		r.make("a", nil)
		r.make("a", nil)
		r.make("b", again(false, true))
		r.unclean()
		r.begin(t)
		time.Sleep(time.Hour)
		same(t, "in doubt", r.doubted(), []string{"a#2/3", "a#4/1"})
		var twice []string
		for _, a := range r.sink.calls {
			if a.Twice {
				twice = append(twice, a.Event.ID)
			}
		}
		slices.Sort(twice)
		same(t, "that it may be done twice is known of", twice, []string{"a#3", "b#6"})
	})
}

// What may have been busy when another was put in front of it stays in doubt while its lane stands at that one.
func TestDoubtBehindOneThatStands(t *testing.T) {
	for size, change := range map[string]func(*Config){"in memory": nil, "left to the ledger": func(c *Config) { c.MaxOpen, c.LaneWindow = 1, 1 }} {
		t.Run(size, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := setup(t, change)
				defer func() { r.stop() }()
				r.make("a", func(a *ledger.Action) {
					a.Status, a.Attempts, a.Spent, a.FirstAt, a.Replay = ledger.Failed, 1, 1, time.Now(), &ledger.ReplayRequest{At: time.Now()}
				})
				r.make("a", nil)
				r.make("a", nil)
				r.unclean()
				to := r.claim.DoubtTo
				r.sink.do = func(ctx context.Context, a sink.Action) (sink.Outcome, error) {
					if a.Event.ID == "a#1" {
						return failWith(sink.ClassRejected)(ctx, a)
					}
					return sink.Outcome{Code: 200}, nil
				}
				r.begin(t)
				time.Sleep(time.Hour)
				r.handOver(t, change)
				same(t, "the lane stands, and the doubt stays", []any{r.mem.status(r.claim, 1), r.claim.DoubtTo}, []any{ledger.Dead, to})
				r.mem.mu.Lock()
				r.mem.rows[1][1].OnDead = ledger.Continue // as if it was given up
				r.mem.mu.Unlock()
				r.handOver(t, change)
				time.Sleep(time.Hour)
				same(t, "in doubt", r.doubted(), []string{"a#2/1"})
				r.handOver(t, change)
				same(t, "it is gone", r.claim.DoubtTo, int64(0))
			})
		})
	}
}

// round is what one owner meets.
type round struct {
	events []int         // entities that get an action
	away   bool          // the process makes no attempts
	lasts  time.Duration // until the claim ends
	killed bool
}

// TestDoubtModel holds what an attempt says of those before it against the calls that were made: whoever looks through
// the spans finds every one of them, over any number of owners that are killed or release their claim.
func TestDoubtModel(t *testing.T) {
	one := rapid.Custom(func(t *rapid.T) round {
		return round{
			rapid.SliceOfN(rapid.IntRange(0, 3), 0, 6).Draw(t, "events"), rapid.Bool().Draw(t, "away"),
			rapid.SampledFrom([]time.Duration{time.Millisecond, time.Second, 6 * time.Second, time.Minute}).Draw(t, "lasts"), rapid.Bool().Draw(t, "killed"),
		}
	})
	rapid.Check(t, func(rt *rapid.T) {
		rounds := rapid.SliceOfN(one, 1, 8).Draw(rt, "rounds")
		ends := rapid.SliceOfN(rapid.SampledFrom([]sink.Class{sink.ClassOK, sink.ClassBusy, sink.ClassNetwork}), 0, 10).Draw(rt, "ends")
		ends = append(ends, sink.ClassOK)
		window, latest := rapid.IntRange(1, 4).Draw(rt, "window"), rapid.Bool().Draw(rt, "latest")
		commits := rapid.SliceOfN(rapid.SampledFrom([]time.Duration{0, 10 * time.Second, time.Minute}), 1, 4).Draw(rt, "commits")
		var err error
		synctest.Test(t, func(t *testing.T) { err = runRounds(t, rounds, ends, commits, window, latest) })
		if err != nil {
			rt.Fatal(err)
		}
	})
}

// Lanes that are not in memory when their claim is released keep their doubt. It depends on chance which ones are not.
func TestDoubtOfSpilledLanes(t *testing.T) {
	rounds := []round{{events: []int{0, 0, 1, 2}, lasts: time.Minute, killed: true}, {events: []int{3}, lasts: time.Minute}, {events: []int{3, 1, 3}, away: true, lasts: 6 * time.Second}}
	for range 10 {
		synctest.Test(t, func(t *testing.T) {
			if err := runRounds(t, rounds, []sink.Class{sink.ClassOK, sink.ClassNetwork, sink.ClassOK}, []time.Duration{time.Minute, 0, 0}, 1, false); err != nil {
				t.Error(err)
			}
		})
	}
}

func runRounds(t *testing.T, rounds []round, ends []sink.Class, commits []time.Duration, window int, latest bool) error {
	var away atomic.Bool
	change := func(c *Config) {
		c.Alive, c.LaneWindow, c.MaxOpen, c.Latest = func() bool { return !away.Load() }, window, window, latest
		d := c.Destinations[destName]
		d.Retry = sink.RetryPolicy{Attempts: 1000, Within: 1000 * time.Hour, Min: time.Second, Max: time.Minute}
		c.Destinations[destName] = d
	}
	away.Store(rounds[0].away)
	r := setup(t, change)
	defer func() { r.stop() }()
	calls := 0
	r.sink.do = func(ctx context.Context, a sink.Action) (sink.Outcome, error) {
		r.sink.mu.Lock()
		class := ends[calls%len(ends)]
		calls++
		r.sink.mu.Unlock()
		select {
		case <-time.After(500 * time.Millisecond):
		case <-ctx.Done():
			class = sink.ClassNetwork
		}
		if class == sink.ClassOK {
			return sink.Outcome{Code: 200}, nil
		}
		return sink.Outcome{}, &sink.AttemptError{Class: class, Err: errors.New("drawn")}
	}
	records := 0
	r.mem.before = func(ctx context.Context, _ []ledger.Result) error {
		records++
		select {
		case <-time.After(commits[records%len(commits)]):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	r.begin(t)
	ended := func() int { return r.mem.count(r.claim, ledger.Done) + r.mem.count(r.claim, ledger.Superseded) }
	for _, next := range append(rounds, round{lasts: time.Minute}) {
		away.Store(next.away)
		for _, e := range next.events {
			item := r.state(fmt.Sprint("e", e), r.seq+1)
			item.Event.RecordedTime = time.Now()
			r.Add(r.claim, []Item{item})
		}
		time.Sleep(next.lasts)
		released := false
		if next.killed {
			r.Drop(r.claim)
		} else {
			ctx, cancel := context.WithTimeout(context.Background(), 30*time.Millisecond)
			released = r.Close(ctx, r.claim) == nil
			cancel()
		}
		r.stop()
		r.claimed(released)
		r.relaunch(t, change)
		r.begin(t)
	}
	for minute := 0; minute < 600 && ended() < int(r.seq); minute++ {
		time.Sleep(time.Minute)
	}
	if n := ended(); n != int(r.seq) {
		return fmt.Errorf("%d of %d have come to their end", n, r.seq)
	}
	for i, a := range r.sink.calls {
		for j, earlier := range r.sink.calls[:i] {
			at := r.sink.at[j]
			within := func(s sink.Span) bool { return !s.From.After(at) && (s.To.IsZero() || !s.To.Before(at)) }
			if earlier.ID == a.ID && !slices.ContainsFunc(a.Earlier(), within) {
				return fmt.Errorf("%s/%d (doubt %v) knows of attempts within %v: there was one at %v", a.Event.ID, a.Attempt, a.Doubt, a.Earlier(), at)
			}
		}
	}
	return nil
}
