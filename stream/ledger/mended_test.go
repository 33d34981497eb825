package ledger

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// open are the claim's open actions, as "2:e-3:run".
func (f *fixture) open(c *Claim) []string {
	f.t.Helper()
	actions, _, err := f.n.Open(f.t.Context(), c, 0, 100)
	if err != nil {
		f.t.Fatal(err)
	}
	return lanes(actions)
}

// The filler comes in the same batch: the event's row says what became of it, and points to its action. The row that
// leaves the buffer is in an older window.
func TestMendedFilterIsReleasedInOneBatch(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.claim(0)
	waits := seq(1, "e", 3)
	waits.Filtered = true
	f.apply(c, seq(0, "e", 1), waits)
	f.turnWindow()
	c = f.seek(2, 1)
	a := f.apply(c, seq(1, "e", 3), seq(2, "e", 2))
	if d := cmp.Diff([]string{"-1:filtered/type", "0:buffered/gap", "1:applied/next", "-1:applied/released"}, decisions(a)); d != "" {
		t.Error(d)
	}
	if got := a.Actions[1]; got.Record != 0 || got.Packed != nil || got.Pointer.Offset != 1 {
		t.Errorf("%+v", got)
	}
	if got := one[string](f, `SELECT decision || ' ' || lane_seq FROM events WHERE event_id = 'e-3'`); got != "applied 3" {
		t.Error(got)
	}
	if d := cmp.Diff([]string{"1:e-1:run", "2:e-2:run", "3:e-3:run"}, f.open(c)); d != "" {
		t.Error(d)
	}
	if got := one[int](f, `SELECT count(*) FROM buffer`); got != 0 || c.waiting != 0 {
		t.Errorf("%d rows, %d wait", got, c.waiting)
	}
}
