package ledger

import (
	"fmt"
	"testing"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
	"github.com/google/go-cmp/cmp"
)

// expire ends what is overdue and says what became of it.
func (f *fixture) expire(c *Claim) Applied {
	f.t.Helper()
	f.overdue()
	f.deadlines(c)
	a, err := f.n.Expire(f.t.Context(), c)
	if err != nil {
		f.t.Fatal(err)
	}
	return a
}

// An event that waited in the buffer can be held when its turn comes: its row stays.
func TestHeldOutOfTheBuffer(t *testing.T) {
	t.Parallel()
	f := setup(t, func(s *Spec) { s.Policy.Equal = gate.EqualHold })
	c := f.claim(0)
	f.apply(c, seq(0, "e", 1), seq(1, "e", 3), record(2, "twin", "e", schemas.Version{Kind: schemas.Sequence, Value: 3}))
	a := f.apply(c, seq(3, "e", 2))
	if d := cmp.Diff([]string{"0:applied/next", "-1:applied/released", "-1:parked/equal_held"}, decisions(a)); d != "" {
		t.Error(d)
	}
	if got := one[string](f, `SELECT string_agg(concat_ws(' ', event_id, decision), ', ') FROM buffer`); got != "twin held" {
		t.Error(got)
	}
	c = f.claim(0)
	if c.waiting != 0 || c.buffered != 0 {
		t.Errorf("%d wait, %d with a deadline", c.waiting, c.buffered)
	}
}

// With no wait at all the event that shows the gap is the dead letter: it comes from the batch, not from the buffer.
func TestGapEndsInDeadLettersAtOnce(t *testing.T) {
	t.Parallel()
	f := setup(t, func(s *Spec) { s.Policy.Then, s.Policy.GapWait = gate.ThenDeadLetter, 0 })
	c := f.claim(0)
	a := f.apply(c, seq(0, "e", 1), seq(1, "e", 3), seq(2, "e", 4))
	if d := cmp.Diff([]string{"1:e-1:run", "3:e-4:run"}, lanes(a.Actions)); d != "" {
		t.Error(decisions(a), d)
	}
	if got := one[string](f, `SELECT concat_ws(' ', lane_seq, status, class, convert_from(packed, 'UTF8'), event_window = window_id) FROM actions`); got != "2 dead_letter gap packed e-3 t" {
		t.Error(got)
	}
	f.idsOfDead("e-3")
	f.record(Result{Claim: c, LaneSeq: 1, Status: Done, Attempt: 1}, Result{Claim: c, LaneSeq: 3, Status: Done, Attempt: 1})
	if c.low() != 4 {
		t.Errorf("low %d", c.low())
	}
}

// idsOfDead: the dead letters of these events have their ids in their rows, by which operators find them, although there was no attempt.
func (f *fixture) idsOfDead(events ...string) {
	f.t.Helper()
	for _, event := range events {
		id, _ := schemas.NewActionID("acme.triage", 0, "/acme/github", event, "run").Hash()
		if n := one[int](f, `SELECT count(*) FROM actions WHERE status = 'dead_letter' AND action_id = $1`, id); n != 1 {
			f.t.Errorf("%s: %d rows with its id", event, n)
		}
	}
	if n := one[int](f, `SELECT count(*) FROM actions WHERE action_id IS NOT NULL`); n != len(events) {
		f.t.Errorf("%d rows have an id", n)
	}
}

// What has waited for the gap that is given up is found by its id, too; what runs has none before its attempt.
func TestDeadLettersBehindAGapHaveTheirIDs(t *testing.T) {
	t.Parallel()
	f := setup(t, func(s *Spec) { s.Policy.Then = gate.ThenDeadLetter })
	c := f.claim(0)
	f.apply(c, seq(0, "e", 1), seq(1, "e", 3), seq(2, "e", 4), seq(3, "f", 1), seq(4, "f", 3))
	f.apply(c, seq(5, "f", 2)) // f-3 runs from the buffer
	f.seenAgo(2*time.Hour, "e-3", "e-4")
	if _, err := f.n.Expire(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	f.idsOfDead("e-3", "e-4")
}

func backfills(s *Spec) {
	s.Policy.Then, s.Policy.Otherwise, s.Policy.BackfillWait = gate.ThenBackfill, gate.ThenPark, time.Hour
}

// A line that fills its gap and asks about the next one in one batch waits as long for the second answer as for the first.
func TestBackfillIsRequestedAgainInOneBatch(t *testing.T) {
	t.Parallel()
	f := setup(t, backfills, func(s *Spec) { s.Policy.GapWait = 0 })
	c := f.claim(0)
	f.apply(c, seq(0, "e", 1), seq(1, "e", 3), seq(2, "e", 7)) // asks about 2, and 7 joins the wait
	f.seenAgo(59*time.Minute, "e-3", "e-7")
	if a := f.apply(c, seq(3, "e", 2), seq(4, "e", 8)); !a.BackfillRequested {
		t.Fatal(decisions(a))
	}
	if asked, err := f.n.Backfills(t.Context(), []*Claim{c}, 0, 10); err != nil || len(asked) != 1 || asked[0].From != 4 || asked[0].To != 6 {
		t.Fatal(asked, err)
	}
	if d := f.deadlines(c)[c.ID]; d < 59*time.Minute {
		t.Errorf("the second answer is waited for for %s", d)
	}
}

// Where no age bounds the wait, each answer is waited for in full, however long ago the event came.
func TestWaitOfNoBoundedAge(t *testing.T) {
	t.Parallel()
	f := setup(t, backfills)
	c := f.claim(0)
	f.apply(c, seq(0, "e", 1), seq(1, "e", 3))
	f.seenAgo(1000*24*time.Hour, "e-3")
	if a, err := f.n.Expire(t.Context(), c); err != nil || !a.BackfillRequested {
		t.Fatal(decisions(a), err)
	}
	if d := f.deadlines(c)[c.ID]; d < 59*time.Minute || d > time.Hour {
		t.Errorf("the answer is waited for for %s", d)
	}
}

// What a subscription allows to wait in all is an even share in each of its partitions: together they hold no more.
func TestCapsOfTheSubscriptionAreShared(t *testing.T) {
	t.Parallel()
	const parts = 8 // of the fixture's topic
	for name, test := range map[string]struct {
		cap  func(p *gate.Policy)
		most int
	}{
		"events":                {func(p *gate.Policy) { p.MaxBuffered = 2*parts + parts/2 }, 2 * parts},
		"bytes":                 {func(p *gate.Policy) { p.MaxBytes = parts * 3 * int64(len("packed a0-3")) }, 3 * parts},
		"fewer than partitions": {func(p *gate.Policy) { p.MaxBuffered = 3 }, parts},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := setup(t, func(s *Spec) { test.cap(&s.Policy) })
			for n := range int32(parts) {
				c := f.claim(n)
				var records []Record
				for i := range 5 {
					entity := fmt.Sprintf("%c%d", 'a'+n, i)
					ahead := seq(int64(2*i+1), entity, 3)
					ahead.Size = int64(len(ahead.Packed()))
					records = append(records, seq(int64(2*i), entity, 1), ahead)
				}
				f.apply(c, records...)
			}
			if n := one[int](f, `SELECT count(*) FROM buffer WHERE decision = 'buffered'`); n != test.most {
				t.Errorf("%d wait in all partitions together, want %d", n, test.most)
			}
			if n := one[int](f, `SELECT count(*) FROM events WHERE decision = 'parked' AND reason = 'overflow'`); n != 5*parts-test.most {
				t.Errorf("%d are parked", n)
			}
		})
	}
}

// More may wait on a line than is kept in memory: each batch reads what waits from the buffer, all of it and not a page, so that nothing is
// lost, repeated or out of order, whatever comes between the steps of the release.
func TestMoreWaitsThanIsKept(t *testing.T) {
	t.Parallel()
	f := setup(t, func(s *Spec) {
		s.Policy.Then, s.Policy.GapWait, s.Policy.MaxReleases, s.CacheLines = gate.ThenPark, 0, 7, 1
	})
	const most, later = 60, 20
	c, offset := f.claim(0), int64(0)
	var got []string
	apply := func(records ...Record) {
		t.Helper()
		for i := range records {
			records[i].Offset, offset = offset, offset+1
		}
		a := f.apply(c, records...)
		for _, action := range a.Actions {
			if action.Entity == "e" {
				got = append(got, action.EventID)
			}
		}
		if k := (gate.VersionLineKey{Entity: "e"}); len(c.cache.lines) > 0 && c.cache.lines[k] != nil && len(c.cache.lines[k].waiting) > waitingPerLine {
			t.Fatal("all that waits is kept: this test would check nothing")
		}
	}
	others := int64(0)
	other := func() Record { others++; return seq(0, "other", others) }
	apply(seq(0, "e", 1))
	for v := int64(most); v > 2; v -= 2 { // in no order
		apply(seq(0, "e", v-1), other(), seq(0, "e", v))
	}
	if n := one[int](f, `SELECT count(*) FROM buffer`); n != most-2 {
		t.Fatalf("%d wait", n)
	}
	apply(seq(0, "e", 2), other())
	for v := int64(most + 1); v <= most+later; v++ {
		apply(seq(0, "e", v), other())
		if v%5 == 0 {
			c = f.claim(0)
		}
		f.deadlines(c)
		a, err := f.n.Expire(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		for _, action := range a.Actions {
			got = append(got, action.EventID)
		}
	}
	var want []string
	for v := range most + later {
		want = append(want, fmt.Sprintf("e-%d", v+1))
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if n := one[int](f, `SELECT count(*) FROM buffer`); n != 0 {
		t.Errorf("%d still wait", n)
	}
}
