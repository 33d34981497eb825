package inbox

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
)

func (b *Behind) text() string {
	switch {
	case b == nil:
		return "-"
	case b.More:
		return fmt.Sprint(b.Events, " or more")
	}
	return fmt.Sprint(b.Events)
}

// What stands behind a head is counted as far as the walk goes: to the end it is exact, else it is said that there may be
// more. What left the gap buffer counts like the rest.
func TestBehindIsCountedAsFarAsTheWalkGoes(t *testing.T) {
	t.Parallel()
	f := setup(t, func(s *ledger.Spec) { s.Policy.Then, s.Policy.Start = gate.ThenSkip, gate.StartFirst })
	c, d := f.claim(0), f.claim(1)
	f.apply(c, seq(0, "a", 1), seq(1, "a", 3), seq(2, "b", 1))
	f.apply(c, seq(3, "a", 2), seq(4, "b", 2), seq(5, "c", 1), seq(6, "b", 3))
	f.apply(d, seq(0, "d", 1), seq(1, "d", 2))
	f.record(ledger.Result{Claim: c, LaneSeq: 1, ID: actionID("a-1"), Status: ledger.Dead, Attempt: 1, Class: "x"},
		ledger.Result{Claim: c, LaneSeq: 2, ID: actionID("b-1"), Status: ledger.Dead, Attempt: 1, Class: "x"},
		ledger.Result{Claim: d, LaneSeq: 1, ID: actionID("d-1"), Status: ledger.Dead, Attempt: 1, Class: "x"})
	for _, tt := range []struct {
		walk int
		want []string
	}{
		{100, []string{"a-1 2", "b-1 2", "d-1 1"}},
		{12, []string{"a-1 2", "b-1 2", "d-1 1"}}, // of each partition 6, where 5 came later
		{6, []string{"a-1 2 or more", "b-1 1 or more", "d-1 1"}},
		{2, []string{"a-1 0 or more", "b-1 0 or more", "d-1 1 or more"}},
	} {
		f.behindReads = tt.walk
		page, err := f.DeadLetters(t.Context(), DeadLetterQuery{})
		var got []string
		for _, i := range page.Items {
			got = append(got, i.EventID+" "+i.Behind.text())
		}
		if diff := cmp.Diff(tt.want, got); diff != "" || err != nil {
			t.Errorf("a walk of %d: %s %v", tt.walk, diff, err)
		}
	}
	page, err := f.DeadLetters(t.Context(), DeadLetterQuery{Uncounted: true})
	if err != nil || len(page.Items) != 3 || slices.ContainsFunc(page.Items, func(d DeadLetter) bool { return !d.Parks || d.Behind != nil }) {
		t.Errorf("without a count: %+v %v", page.Items, err)
	}
}

// A count that takes too long is not known, in a moment, and nobody is kept from asking the rest. What is asked about an
// action needs no count.
func TestBehindThatCannotBeCountedIsNotKnown(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.claim(0)
	f.apply(c, seq(0, "a", 1), seq(1, "a", 2))
	f.die(c, 1, "a-1", 1)
	found, err := f.FindDeadLetter(t.Context(), actionID("a-1"))
	if err != nil || found.Behind != nil || !found.Parks {
		t.Errorf("%+v %v", found, err)
	}
	err = pgx.BeginFunc(t.Context(), f.connect(), func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), `LOCK TABLE events IN ACCESS EXCLUSIVE MODE`); err != nil {
			return err
		}
		var h heads
		h.add(c.ID, 1, "a")
		began := time.Now()
		at, err := f.countBehind(t.Context(), h)
		if took := time.Since(began); err != nil || at[ActionRef{Fence: c.ID, LaneSeq: 1}].text() != "0 or more" || took > 20*time.Second { // what lists are asked for gives up after 25 s
			t.Errorf("%v %v after %s", at, err, took)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := f.dead(DeadLetterQuery{}); !cmp.Equal(got, []string{"a-1 dead_letter rejected 1+1"}) {
		t.Errorf("%q", got)
	}
}
