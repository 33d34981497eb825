package ledger

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// trips applies a batch through a proxy and returns in how many round trips.
func (f *fixture) trips(p *proxy, c *Claim, records ...Record) (trips int64, a Applied) {
	f.t.Helper()
	before := p.Trips.Load()
	a = f.apply(c, records...)
	return p.Trips.Load() - before, a
}

// A batch of lines that are cached goes in one round trip. What is not cached is read first, a repeat that is remembered too.
func TestKnownBatchGoesInOneRoundTrip(t *testing.T) {
	t.Parallel()
	p, f := throughProxy(t, setup(t))
	c := f.claim(0)
	for i, value := range []int64{1, 2, 2, 4, 3, 5, 7, 6} { // the statements are prepared
		f.apply(c, seq(int64(i), "e", value))
	}
	for i, step := range []struct {
		record Record
		trips  int64
		want   string
	}{
		{seq(8, "e", 8), 1, "applied/next"},
		{seq(9, "x", 1), 2, "applied/first"},
		{seq(10, "x", 2), 1, "applied/next"},
		{seq(11, "x", 2), 2, "duplicate/seen"},
		{seq(12, "x", 3), 2, "applied/next"}, // behind a repeat nothing is taken for granted
		{seq(13, "x", 4), 1, "applied/next"},
		{seq(14, "x", 6), 1, "buffered/gap"},
		{seq(15, "x", 5), 2, "applied/next"}, // what it lets go is read
		{seq(16, "x", 7), 1, "applied/next"},
	} {
		trips, a := f.trips(p, c, step.record)
		if got := decisions(a)[0]; got != "0:"+step.want || trips != step.trips {
			t.Errorf("step %d: %s in %d round trips, want %s in %d", i, got, trips, step.want, step.trips)
		}
	}
	if got := one[string](f, `SELECT count(*) || ' ' || sum(actions) || ' ' || (SELECT next_offset FROM progress) FROM events`); got != "15 15 17" {
		t.Error(got)
	}
}

// Second keys come again under new events: they are read first.
func TestSecondKeysAreNotTakenForGranted(t *testing.T) {
	t.Parallel()
	p, f := throughProxy(t, setup(t), func(s *Spec) { s.Policy.Also = time.Minute })
	c := f.claim(0)
	for value := range int64(3) {
		f.apply(c, seq(value, "e", value+1))
	}
	if trips, _ := f.trips(p, c, seq(3, "e", 4)); trips != 2 || !c.asKnown {
		t.Errorf("%d round trips", trips)
	}
}

// Whatever has changed meanwhile, a batch that took it for granted ends as one that has read it.
func TestBatchIsNotAsKnown(t *testing.T) {
	t.Parallel()
	forget := func(f *fixture, askAllFor int) { f.n.recent = newRecentKeys(8, askAllFor) }
	turn := func(f *fixture) *windowSet {
		f.turnWindow()
		set, err := f.n.windows.read(f.t.Context(), f.l.hot)
		if err != nil || len(set.live) != 2 {
			f.t.Fatal(set, err)
		}
		return set
	}
	for name, c := range map[string]struct {
		change func(*fixture)
		record Record
		want   string
	}{
		"a repeat that nobody remembers, asked for":     {func(f *fixture) { forget(f, 100) }, seq(3, "e", 1), "0:duplicate/seen"},
		"a repeat that nobody remembers, not asked for": {func(f *fixture) { forget(f, 0) }, seq(3, "e", 1), "0:duplicate/seen"},
		"a repeat in a closed window": {func(f *fixture) {
			turn(f)
			forget(f, 0)
		}, seq(3, "e", 1), "0:duplicate/seen"},
		"a repeat in a closed window that it does not know of": {func(f *fixture) {
			current := turn(f).current
			f.n.windows.set.Store(newWindowSet(current, []int32{current}))
			forget(f, 0)
		}, seq(3, "e", 1), "0:duplicate/seen"},
		"another window":        {func(f *fixture) { f.turnWindow() }, seq(3, "e", 3), "0:applied/next"},
		"another owner":         {func(f *fixture) { f.claim(0) }, seq(3, "e", 3), "fenced"},
		"a fence that is taken": {func(f *fixture) { f.exec(`UPDATE fences SET epoch = epoch + 1`) }, seq(3, "e", 3), "fenced"},
		"another position":      {func(f *fixture) { f.exec(`UPDATE progress SET next_offset = 2`) }, seq(3, "e", 3), "refused"},
		"a position behind":     {func(f *fixture) { f.exec(`UPDATE progress SET high_offset = 9`) }, seq(3, "e", 3), "0:applied/next"},
		"another's transaction": {func(f *fixture) { f.exec(`UPDATE progress SET revision = revision + 1`) }, seq(3, "e", 3), "refused"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := setup(t)
			claim := f.claim(0)
			f.apply(claim, seq(0, "e", 1))
			f.apply(claim, seq(1, "e", 2), seq(2, "x", 1))
			if !claim.asKnown {
				t.Fatal("nothing is taken for granted")
			}
			c.change(f)
			a := f.apply(claim, c.record)
			got := "fenced"
			if e := (*ContinuityError)(nil); errors.As(a.Refused, &e) {
				got = "refused"
			} else if !a.Fenced {
				got = decisions(a)[0]
			}
			if d := cmp.Diff(c.want, got); d != "" || claim.asKnown && name != "another window" {
				t.Errorf("taken for granted: %v; %s", claim.asKnown, d)
			}
			if n := one[int](f, `SELECT count(*) - count(DISTINCT event_key) FROM events`); n != 0 {
				t.Errorf("%d events have a second row", n)
			}
			current := one[int32](f, `SELECT id FROM windows WHERE state = 'current'`)
			n := one[int](f, `SELECT count(*) FROM events WHERE window_id = $1 AND log_offset = 3`, current)
			if (n == 1) != (got == "0:applied/next") {
				t.Errorf("%d rows in the current window", n)
			}
		})
	}
}

// A repeat that was found where all keys were asked for is a late one, so that all are asked for from then on.
func TestRepeatOfAKnownBatchIsLate(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.claim(0)
	f.apply(c, seq(0, "e", 1))
	f.apply(c, seq(1, "e", 2), seq(2, "x", 1))
	f.n.recent = newRecentKeys(8, 100)
	f.n.recent.batchCommitted(99, false)
	f.apply(c, seq(3, "e", 1))
	if left := f.n.recent.askAllLeft; left != 100 {
		t.Errorf("for %d events all keys are asked for", left)
	}
}
