package inbox

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/forebay-io/forebay/stream/ledger"
)

// stands returns where the subscription stands in partition 0.
func (f *fixture) stands() *Standing {
	f.t.Helper()
	all, err := f.Standings(f.t.Context(), "acme.triage")
	if err != nil || len(all) != 1 {
		f.t.Fatalf("%+v %v", all, err)
	}
	return &all[0]
}

// TestCountOpen: an action that died is open, and goes on no more without an operator; one that failed does.
func TestCountOpen(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.claim(0)
	f.apply(c, seq(0, "a", 1), seq(1, "b", 1), seq(2, "c", 1), seq(3, "d", 1), seq(4, "d", 3))
	f.die(c, 1, "a-1", 1)
	f.record(ledger.Result{Claim: c, LaneSeq: 2, ID: actionID("b-1"), Status: ledger.Failed, Attempt: 1, Code: 500, Class: "unavailable", NextIn: time.Minute})
	f.record(ledger.Result{Claim: c, LaneSeq: 3, ID: actionID("c-1"), Status: ledger.Done, Attempt: 1, Code: 200})
	s := f.stands()
	if err := f.CountOpen(t.Context(), []*Standing{s, {Topic: "never claimed"}}); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(&Counts{Open: 1, Tried: 2, Dead: 1, Waiting: 1}, s.Counts); d != "" {
		t.Error(d)
	}
}

// TestOldestOpen: the first action that is to run and goes on by itself is the oldest, with a row of its own or without.
func TestOldestOpen(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.claim(0)
	is := func(what string, want time.Duration) {
		t.Helper()
		s := f.stands()
		if err := f.OldestOpen(t.Context(), []*Standing{s, {Topic: "never claimed"}}); err != nil || s.Oldest == nil {
			t.Fatalf("%s: %+v %v", what, s, err)
		}
		if got := time.Since(*s.Oldest); s.Oldest.IsZero() != (want < 0) || want >= 0 && (got-want).Abs() > 30*time.Second {
			t.Errorf("%s: since %s ago, want %s", what, got, want)
		}
	}
	is("nothing came", -1)
	f.apply(c, seq(0, "dead", 1), seq(1, "dead", 2), seq(2, "done", 1), seq(3, "plain", 1), seq(4, "failed", 1))
	window := f.currentWindow("acme.triage")
	age := func(id, by string) { // each is older than the next one
		f.exec(ledger.OfWindow(window, `UPDATE events_w{w} SET decided_at = decided_at - $2::interval WHERE event_id = $1`), id, by)
	}
	for id, by := range map[string]string{"dead-1": "6 hours", "dead-2": "5 hours", "done-1": "3 hours", "plain-1": "2 hours", "failed-1": "1 hour"} {
		age(id, by)
	}
	is("the head", 6*time.Hour)
	f.die(c, 1, "dead-1", 1)
	f.record(ledger.Result{Claim: c, LaneSeq: 3, ID: actionID("done-1"), Status: ledger.Done, Attempt: 1, Code: 200})
	f.record(ledger.Result{Claim: c, LaneSeq: 5, ID: actionID("failed-1"), Status: ledger.Failed, Attempt: 1, Code: 500, Class: "unavailable", NextIn: time.Minute})
	is("behind what stands still", 2*time.Hour)
	f.record(ledger.Result{Claim: c, LaneSeq: 4, ID: actionID("plain-1"), Status: ledger.Done, Attempt: 1, Code: 200})
	is("with a row", time.Hour)
	f.record(ledger.Result{Claim: c, LaneSeq: 5, ID: actionID("failed-1"), Status: ledger.Done, Attempt: 2, Code: 200})
	is("nothing is to run", -1)
}

// TestWhatCannotBeCountedIsNotKnown: positions are told all the same.
func TestWhatCannotBeCountedIsNotKnown(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.apply(f.claim(0), seq(0, "a", 1))
	err := pgx.BeginFunc(t.Context(), f.connect(), func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), `LOCK TABLE actions IN ACCESS EXCLUSIVE MODE`); err != nil {
			return err
		}
		s := f.stands()
		if err := f.CountOpen(t.Context(), []*Standing{s}); err != nil || s.Counts != nil || *s.Next != 1 {
			t.Errorf("%+v %v", s, err)
		}
		soon, cancel := context.WithTimeout(t.Context(), 2*time.Second) // less than a count may take
		defer cancel()
		if err := f.CountOpen(soon, []*Standing{s}); err != nil || s.Counts != nil {
			t.Errorf("with little time: %+v %v", s, err)
		}
		if err := f.OldestOpen(t.Context(), []*Standing{s}); err != nil || s.Oldest != nil {
			t.Errorf("%+v %v", s, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
