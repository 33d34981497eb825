package ledger

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestApplyWritesDecisionsActionsAndProgress(t *testing.T) {
	t.Parallel()
	f := setup(t, func(s *Spec) {
		s.Actions = append(s.Actions, ActionSpec{Name: "tell", Destination: "acme/slack", OnDead: Continue})
	})
	c := f.claim(0)
	got := f.apply(c, seq(0, "e1", 1), seq(1, "e2", 1), seq(2, "e1", 1), seq(3, "e1", 2))
	if d := cmp.Diff([]string{"0:applied/first", "1:applied/first", "2:duplicate/seen", "3:applied/next"}, decisions(got)); d != "" {
		t.Error(d)
	}
	want := []string{"1:e1-1:run", "2:e1-1:tell", "3:e2-1:run", "4:e2-1:tell", "5:e1-2:run", "6:e1-2:tell"}
	if d := cmp.Diff(want, lanes(got.Actions)); d != "" {
		t.Error(d)
	}
	open, more, err := f.n.Open(t.Context(), c, 0, 100)
	if err != nil || more {
		t.Fatal(more, err)
	}
	for i := range got.Actions {
		got.Actions[i].Record = -1
	}
	if d := cmp.Diff(got.Actions, open); d != "" {
		t.Error(d)
	}
	if n := one[int](f, `SELECT duplicates FROM events WHERE event_id = 'e1-1'`); n != 1 {
		t.Errorf("duplicates %d", n)
	}
	if next := one[int64](f, `SELECT next_offset FROM progress`); next != 4 || c.Next.Offset != 4 {
		t.Errorf("next offset %d, claim's %d", next, c.Next.Offset)
	}
}

func TestReleasedEventRunsInLaneOrderWithItsPayload(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.claim(0)
	a := f.apply(c, seq(0, "e", 1), seq(1, "e", 3), seq(2, "e", 4), seq(3, "other", 1))
	if d := cmp.Diff([]string{"1:e-1:run", "2:other-1:run"}, lanes(a.Actions)); d != "" || !a.Waiting {
		t.Error(a.Waiting, d)
	}
	c = f.claim(0) // a new owner, with nothing cached
	a = f.apply(c, seq(4, "e", 2))
	if d := cmp.Diff([]string{"3:e-2:run", "4:e-3:run", "5:e-4:run"}, lanes(a.Actions)); d != "" || a.Waiting {
		t.Error(a.Waiting, d)
	}
	if got := string(a.Actions[1].Packed); got != "packed e-3" || a.Actions[1].Record != -1 || a.Actions[1].Pointer.Offset != 1 {
		t.Errorf("released action %+v with payload %q", a.Actions[1], got)
	}
	if n := one[int](f, `SELECT count(*) FROM buffer`); n != 0 {
		t.Errorf("%d rows left in the buffer", n)
	}
	if got := one[string](f, `SELECT decision || '/' || reason || '/' || lane_seq FROM events WHERE event_id = 'e-3'`); got != "applied/released/4" {
		t.Error(got)
	}
	open, _, err := f.n.Open(t.Context(), c, 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"1:e-1:run", "2:other-1:run", "3:e-2:run", "4:e-3:run", "5:e-4:run"}, lanes(open)); d != "" {
		t.Error(d)
	}
	if string(open[3].Packed) != "packed e-3" {
		t.Errorf("payload after a claim: %q", open[3].Packed)
	}
}
