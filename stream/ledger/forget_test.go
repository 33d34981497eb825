package ledger

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/forebay-io/forebay/schemas"
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
	lines := func() string { return one[string](f, `SELECT string_agg(entity, ' ' ORDER BY entity) FROM lines`) }
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
	if d := cmp.Diff([]string{"0:applied/first", "1:stale/older"}, decisions(f.apply(c, seq(5, "old", 3), seq(6, "moving", 1).again()))); d != "" {
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

// again is the same event under another id.
func (r Record) again() Record {
	id := fmt.Sprintf("%s-%d", r.ID, r.Offset)
	r.ID, r.Key, r.Hash = id, schemas.NewEventKey(r.Source, id), schemas.HashBody([]byte(id))
	return r
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
	for i, want := range []bool{true, false, false} {
		if more, err := f.n.Forget(t.Context(), c); err != nil || more != want {
			t.Fatal(i, more, err)
		}
	}
	if n := one[int](f, `SELECT count(*) FROM lines`); n != 0 {
		t.Errorf("%d left", n)
	}
	if d := cmp.Diff([]string{"0:applied/first"}, decisions(f.apply(c, seq(1500, "e3", 2)))); d != "" {
		t.Error(d)
	}
	if n := one[int](f, `SELECT count(*) FROM lines`); n != 1 {
		t.Errorf("%d lines after the next event", n)
	}
}
