package ledger

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
	"github.com/google/go-cmp/cmp"
)

// A line goes when no event has moved it for long enough, to the window; the others, parked ones and what waits stay.
func TestForgetsLinesThatNothingMoves(t *testing.T) {
	t.Parallel()
	f := setup(t, func(s *Spec) { s.Forget = 100 * time.Hour })
	c := f.claim(0)
	f.apply(c, seq(0, "old", 5), seq(1, "moving", 1), seq(2, "gap", 1), seq(3, "gap", 3))
	forget := func(want bool) {
		t.Helper()
		if more, err := f.n.Forget(t.Context(), c); err != nil || more != want {
			t.Fatal(more, err)
		}
	}
	lines := func() string {
		return one[string](f, `SELECT string_agg(entity, ' ' ORDER BY entity) FROM version_lines`)
	}
	forget(false)
	f.turnWindow()
	if err := f.n.loadWindows(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.apply(c, seq(4, "moving", 2))
	forget(false)
	if got := lines(); got != "gap moving old" {
		t.Errorf("forgotten before its time: %s", got)
	}
	f.ageWindows(101 * time.Hour)
	c = f.claim(0)
	forget(false)
	if got := lines(); got != "gap moving" {
		t.Error(got)
	}
	if d := cmp.Diff([]string{"0:applied/first", "1:stale/older"}, decisions(f.apply(c, seq(5, "old", 3), seq(6, "moving", 1).underAnotherID()))); d != "" {
		t.Error(d)
	}
}

// Forget is what the owner does, in its three steps.
func (n *Namespace) Forget(ctx context.Context, c *Claim) (more bool, err error) {
	due, err := n.Tidy(ctx, c)
	if err != nil || !due {
		return false, err
	}
	old, err := n.OldLines(ctx, c)
	if err != nil {
		return false, err
	}
	return old.More, n.ForgetLines(ctx, c, old)
}

// forgetAll forgets until there is no more, and none is due.
func (f *fixture) forgetAll(c *Claim) {
	f.t.Helper()
	for more := true; more; {
		var err error
		if more, err = f.n.Forget(f.t.Context(), c); err != nil {
			f.t.Fatal(err)
		}
	}
	if due, err := f.n.Tidy(f.t.Context(), c); err != nil || due {
		f.t.Fatal(due, err)
	}
}

// underAnotherID is the same event under another id.
func (r Record) underAnotherID() Record {
	id := fmt.Sprintf("%s-%d", r.ID, r.Offset)
	r.ID, r.Key, r.Hash = id, schemas.NewEventKey(r.Source, id), schemas.HashBody([]byte(id))
	return r
}

// The connection breaks while the COMMIT of what is forgotten is on its way, and whoever forgets goes on or is told to end. What the
// owner had cached of the line is gone where its row is: an owner that remembered more than there is would advance it in its
// cache alone.
func TestConnectionCutAtCommitOfForget(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		before, ends bool
		rows         int // that are left
		want         string
	}{
		"goes on, it was not written":   {before: true, want: "0:applied/first"},
		"goes on, it was written":       {want: "0:applied/first"},
		"has ended, it was not written": {before: true, ends: true, rows: 1, want: "0:stale/older"},
		"has ended, and it was written": {ends: true, want: "0:applied/first"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			keep := func(s *Spec) { s.Forget = 100 * time.Hour }
			p, f := throughProxy(t, setup(t, keep), keep)
			c := f.claim(0)
			f.apply(c, seq(0, "old", 5))
			f.turnWindow()
			f.ageWindows(101 * time.Hour)
			if err := f.n.loadWindows(t.Context()); err != nil {
				t.Fatal(err)
			}
			if due, err := f.n.Tidy(t.Context(), c); err != nil || !due {
				t.Fatal(due, err)
			}
			old, err := f.n.OldLines(t.Context(), c)
			if err != nil || len(old.Keys) != 1 {
				t.Fatal(old, err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			p.Cut.Store(&cut{Commit: true, Before: tt.before, Then: func() {
				if tt.ends {
					cancel()
				}
			}})
			if err := f.n.ForgetLines(ctx, c, old); (err != nil) != tt.ends || p.Cuts.Load() != 1 {
				t.Fatalf("%d cuts: %v", p.Cuts.Load(), err)
			}
			if n := one[int](f, `SELECT count(*) FROM version_lines`); n != tt.rows {
				t.Fatalf("%d rows are left", n)
			}
			if d := cmp.Diff([]string{tt.want}, decisions(f.apply(c, seq(1, "old", 3)))); d != "" {
				t.Error(d)
			}
			f.apply(c, seq(2, "old", 4))
			if a := f.apply(f.claim(0), seq(3, "old", 2)); a.Outcomes[0].Decision != gate.Stale {
				t.Errorf("the next owner: %v", decisions(a))
			}
		})
	}
}

// Many go in steps, and what the owner had cached of them is gone too.
func TestForgetsManyInSteps(t *testing.T) {
	t.Parallel()
	f := setup(t, func(s *Spec) { s.Forget = time.Hour })
	c := f.claim(0)
	for i := range int64(3) {
		var records []Record
		for j := range int64(500) {
			records = append(records, seq(500*i+j, fmt.Sprintf("e%d", 500*i+j), 7))
		}
		f.apply(c, records...)
	}
	f.turnWindow()
	f.ageWindows(2 * time.Hour)
	if err := f.n.loadWindows(t.Context()); err != nil {
		t.Fatal(err)
	}
	if more, err := f.n.Forget(t.Context(), c); err != nil || !more {
		t.Fatal(more, err)
	}
	if n := one[int](f, `SELECT count(*) FROM version_lines`); n < 400 || n == 1500 {
		t.Errorf("%d left after one step", n)
	}
	f.forgetAll(c)
	if n := one[int](f, `SELECT count(*) FROM version_lines`); n != 0 {
		t.Errorf("%d left", n)
	}
	if d := cmp.Diff([]string{"0:applied/first"}, decisions(f.apply(c, seq(1500, "e3", 2)))); d != "" {
		t.Error(d)
	}
	if n := one[int](f, `SELECT count(*) FROM version_lines`); n != 1 {
		t.Errorf("%d lines after the next event", n)
	}
}

// Each step goes on where the one before ended, also after one that failed: lines that stay are looked at once. What gets old where the search
// has been goes with the search of the next window.
func TestForgetGoesOnWhereItEnded(t *testing.T) {
	t.Parallel()
	f := setup(t, func(s *Spec) { s.Forget = 100 * time.Hour })
	f.n.forgetPage = 100
	c := f.claim(0)
	window := f.n.windows.Load().current
	f.apply(c, seq(0, "old", 1))
	f.turnWindow()
	f.ageWindows(101 * time.Hour)
	if err := f.n.loadWindows(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.apply(c, seq(1, "living", 1)) // the search comes to it and its like first
	if _, err := f.n.Tidy(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	f.exec(`INSERT INTO version_lines (fence, epoch, value, as_of, sub, seen_in, filtered, event_key, kind, entity, clock)
		SELECT fence, epoch, value, as_of, sub, seen_in, filtered, event_key, kind, entity || n, clock FROM version_lines, generate_series(1, 2999) n`)
	left := func() (living, old int) {
		return one[int](f, `SELECT count(*) FROM version_lines WHERE entity LIKE 'living%'`), one[int](f, `SELECT count(*) FROM version_lines WHERE entity LIKE 'old%'`)
	}
	for _, old := left(); old == 3000; _, old = left() {
		if more, err := f.n.Forget(t.Context(), c); err != nil || !more {
			t.Fatal(more, err)
		}
	}
	f.exec(`UPDATE version_lines SET seen_in = $1`, window)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := f.n.OldLines(ended, c); err == nil {
		t.Fatal("found, although its time has ended")
	}
	f.forgetAll(c)
	if living, old := left(); living != 3000 || old != 0 {
		t.Errorf("%d are left that lived when the search came to them, and %d behind it", living, old)
	}
	f.turnWindow()
	if err := f.n.loadWindows(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.forgetAll(c)
	if living, _ := left(); living != 0 {
		t.Errorf("%d are left of the next window's search", living)
	}
}
