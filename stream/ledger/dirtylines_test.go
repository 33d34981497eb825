package ledger

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// written are the lines as their rows have them.
func (f *fixture) written() string {
	f.t.Helper()
	return one[string](f, `SELECT coalesce(string_agg(entity || value, ' ' ORDER BY entity), '') FROM version_lines`)
}

// A line that simply moves on is written when it is a lag behind; the owner knows it all the same, and so does the next.
func TestLinesAreWrittenLater(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.n.maxLag = 5
	c := f.claim(0)
	f.apply(c, seq(0, "a", 1), seq(1, "b", 1))
	f.apply(c, seq(2, "a", 2))
	if got := f.written(); got != "a1 b1" {
		t.Errorf("written at once: %s", got)
	}
	f.apply(c, seq(3, "a", 3), seq(4, "b", 2))
	if d := cmp.Diff([]string{"0:stale/older", "1:applied/next"}, decisions(f.apply(c, seq(5, "a", 2).underAnotherID(), seq(6, "b", 3)))); d != "" {
		t.Error(d)
	}
	f.apply(c, seq(7, "b", 4))
	if got := f.written(); got != "a3 b1" {
		t.Errorf("a is a lag behind, b is not: %s", got)
	}
	if got := one[int64](f, `SELECT dirty_lines_from FROM progress`); got != 4 {
		t.Errorf("events from %d on are not in the rows", got)
	}
	next := f.claim(0) // unclean
	if got := f.written(); got != "a3 b4" {
		t.Errorf("after a claim: %s", got)
	}
	if d := cmp.Diff([]string{"0:applied/next", "1:stale/older"}, decisions(f.apply(next, seq(8, "a", 4), seq(9, "b", 3).underAnotherID()))); d != "" {
		t.Error(d)
	}
}

// What changes more of a line than its place is written at once, and is not undone by the events before it.
func TestLinesThatTurnAreWrittenAtOnce(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.claim(0)
	f.apply(c, seq(0, "a", 1), seq(1, "b", 1))
	f.apply(c, seq(2, "a", 2), seq(3, "b", 2))
	filtered := seq(4, "a", 3)
	filtered.Filtered = true
	f.apply(c, filtered, seq(5, "b", 9)) // b waits for what is between
	if got := f.written(); got != "a3 b2" {
		t.Errorf("%s", got)
	}
	f.apply(c, seq(6, "a", 4))
	f.claim(0)
	if got := f.written(); got != "a4 b2" {
		t.Errorf("after a claim: %s", got)
	}
}

// A batch that is not committed leaves the owner's lines as they were, also those that only it knows.
func TestLinesBehindSurviveAFailedBatch(t *testing.T) {
	t.Parallel()
	f := setup(t)
	p, g := throughProxy(t, f)
	c := g.claim(0)
	g.apply(c, seq(0, "a", 1))
	g.apply(c, seq(1, "a", 2))
	bad := seq(3, "x", 1)
	bad.Type = poison
	g.apply(c, seq(2, "a", 3), bad, seq(4, "a", 4)) // bisected
	if d := cmp.Diff([]string{"0:stale/older", "1:applied/next"}, decisions(g.apply(c, seq(5, "a", 3).underAnotherID(), seq(6, "a", 5)))); d != "" {
		t.Error(d)
	}
	cuts := p.Cuts.Load()
	p.Cut.Store(&cut{Needle: []byte(linesAdvance.Name)})
	g.n.maxLag = 1 // the next batch writes a
	g.apply(c, seq(7, "b", 1))
	if p.Cuts.Load() == cuts {
		t.Fatal("nothing was cut")
	}
	if got := f.written(); got != "a5 b1" {
		t.Errorf("rows %s", got)
	}
	if d := cmp.Diff([]string{"0:stale/older"}, decisions(g.apply(c, seq(8, "a", 4).underAnotherID()))); d != "" {
		t.Error(d)
	}
}

// A line that is left for later is not evicted by the next line of its own batch: no row says what it has come to.
func TestLineLeftForLaterStaysInTheCacheOfItsBatch(t *testing.T) {
	t.Parallel()
	f := setup(t, func(s *Spec) { s.CacheLines = 1 })
	c := f.claim(0)
	f.apply(c, seq(0, "a", 1), seq(1, "b", 1))
	f.apply(c, seq(2, "a", 2), seq(3, "b", 2))
	if d := cmp.Diff([]string{"0:applied/next", "1:applied/next"}, decisions(f.apply(c, seq(4, "a", 3), seq(5, "b", 3)))); d != "" {
		t.Error(d)
	}
	next := f.claim(0)
	if d := cmp.Diff([]string{"0:applied/next", "1:applied/next"}, decisions(f.apply(next, seq(6, "a", 4), seq(7, "b", 4)))); d != "" {
		t.Error(d)
	}
}

// A small cache keeps every line whose row is behind, and writes them before they are too many.
func TestLinesBehindStayInTheCache(t *testing.T) {
	t.Parallel()
	f := setup(t, func(s *Spec) { s.CacheLines = 4 })
	c := f.claim(0)
	offset := int64(0)
	for round := range int64(4) {
		for i := range 20 {
			f.apply(c, seq(offset, fmt.Sprintf("e%02d", i), round+1))
			offset++
		}
	}
	if n := c.dirty.n; n == 0 || n > 4 {
		t.Errorf("%d lines behind", n)
	}
	for i := range 20 {
		if d := cmp.Diff([]string{"0:stale/older"}, decisions(f.apply(c, seq(offset, fmt.Sprintf("e%02d", i), 3).underAnotherID()))); d != "" {
			t.Error(i, d)
		}
		offset++
	}
}

// A window whose events tell of lines what no row does is kept; tidying ends that, also where nothing comes any more.
func TestWindowIsKeptForLinesBehind(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.claim(0)
	f.apply(c, seq(0, "a", 1))
	a := f.apply(c, seq(1, "a", 2))
	f.record(Result{Claim: c, LaneSeq: 1, Status: Done, Attempt: 1}, Result{Claim: c, LaneSeq: a.Actions[0].LaneSeq, Status: Done, Attempt: 1})
	f.turnWindow()
	f.ageWindows(1000 * time.Hour)
	if err := f.n.CaughtUp(t.Context(), time.Now(), []*Claim{c}); err != nil {
		t.Fatal(err)
	}
	sweep := func() int {
		t.Helper()
		swept, err := f.l.Sweep(t.Context(), SweepConfig{})
		if err != nil {
			t.Fatal(err)
		}
		return len(swept.Dropped)
	}
	if n := sweep(); n != 0 {
		t.Fatalf("%d windows dropped, with the line's place", n)
	}
	if _, err := f.n.Forget(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if n := sweep(); n != 1 || f.written() != "a2" {
		t.Errorf("%d windows dropped, rows %s", n, f.written())
	}
	if d := cmp.Diff([]string{"0:applied/next"}, decisions(f.apply(f.claim(0), seq(2, "a", 3)))); d != "" {
		t.Error(d)
	}
}

// A line that moved lately is not forgotten although its row is old.
func TestForgetSparesLinesBehind(t *testing.T) {
	t.Parallel()
	f := setup(t, func(s *Spec) { s.Forget = 100 * time.Hour })
	c := f.claim(0)
	f.apply(c, seq(0, "old", 1), seq(1, "moving", 1))
	f.turnWindow()
	if err := f.n.loadWindows(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.apply(c, seq(2, "moving", 2))
	f.ageWindows(101 * time.Hour)
	if _, err := f.n.Forget(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if got := f.written(); got != "moving2" {
		t.Error(got)
	}
}

// What moved between two steps of forgetting stays, too.
func TestForgetSparesLinesBehindBetweenItsSteps(t *testing.T) {
	t.Parallel()
	f := setup(t, func(s *Spec) { s.Forget = 100 * time.Hour })
	c := f.claim(0)
	var records []Record
	for i := range int64(forgetLines + 10) {
		records = append(records, seq(i, fmt.Sprintf("e%04d", i), 1))
	}
	f.apply(c, records[:500]...)
	f.apply(c, records[500:1000]...)
	f.apply(c, records[1000:]...)
	f.turnWindow()
	if err := f.n.loadWindows(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.ageWindows(101 * time.Hour)
	f.apply(c, seq(forgetLines+10, "e0000", 2)) // is brought up by the first step
	if more, err := f.n.Forget(t.Context(), c); err != nil || !more {
		t.Fatal(more, err)
	}
	left := one[string](f, `SELECT max(entity) FROM version_lines`)
	f.apply(c, seq(forgetLines+11, left, 2))
	if more, err := f.n.Forget(t.Context(), c); err != nil || more {
		t.Fatal(more, err)
	}
	if got := f.written(); got != "e00002 "+left+"2" {
		t.Errorf("left: %s, moved: %s", got, left)
	}
}

// What has moved since it was found stays: its row still looks as old as it did, since only the owner knows of the move.
func TestForgetSparesLinesThatMovedSinceTheyWereFound(t *testing.T) {
	t.Parallel()
	f := setup(t, func(s *Spec) { s.Forget = 100 * time.Hour })
	c := f.claim(0)
	f.apply(c, seq(0, "moving", 1), seq(1, "old", 1))
	f.turnWindow()
	if err := f.n.loadWindows(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.ageWindows(101 * time.Hour)
	if due, err := f.n.Tidy(t.Context(), c); err != nil || !due {
		t.Fatal(due, err)
	}
	old, err := f.n.OldLines(t.Context(), c)
	if err != nil || len(old.Keys) != 2 {
		t.Fatal(old, err)
	}
	f.apply(c, seq(2, "moving", 2))
	if got := f.written(); got != "moving1 old1" {
		t.Fatalf("the row is not behind: %s", got)
	}
	if err := f.n.ForgetLines(t.Context(), c, old); err != nil {
		t.Fatal(err)
	}
	if got := f.written(); got != "moving1" {
		t.Errorf("left: %s", got)
	}
	if d := cmp.Diff([]string{"0:stale/older", "1:applied/next"}, decisions(f.apply(f.claim(0), seq(3, "moving", 1).underAnotherID(), seq(4, "moving", 3)))); d != "" {
		t.Error(d)
	}
}
