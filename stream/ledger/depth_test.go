package ledger

import (
	"fmt"
	"testing"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
	"github.com/google/go-cmp/cmp"
)

// word is a record whose version is a text.
func word(offset int64, entity, w string) Record {
	return record(offset, entity+"-"+w, entity, schemas.Version{Kind: schemas.Monotonic, Text: w})
}

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

// A version that is a text orders its line, before and after a reload, and stands in the inbox and with its action.
func TestWordsOrderTheirLine(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.claim(0)
	f.apply(c, word(0, "e", "01HA"), word(1, "e", "01HC"))
	for offset := range int64(2) {
		a := f.apply(c, word(2+offset, "e", "01HB"))
		want := []string{"0:stale/older", "0:duplicate/seen"}[offset]
		if d := cmp.Diff([]string{want}, decisions(a)); d != "" {
			t.Error(d)
		}
		c = f.claim(0) // nothing cached
	}
	open, _, err := f.n.Open(t.Context(), c, 0, 10)
	if err != nil || len(open) != 2 || open[1].Version.Text != "01HC" {
		t.Fatal(open, err)
	}
	items, err := f.list("", gate.Stale)
	if want := (schemas.Version{Kind: schemas.Monotonic, Text: "01HB"}).Sortable(); err != nil || len(items) != 1 || items[0].Version != want {
		t.Errorf("%+v %v", items, err)
	}
	if a := f.apply(c, word(4, "e", "01HD")); a.Outcomes[0].Reason != gate.ReasonNext {
		t.Error(decisions(a))
	}
}

// What is held for an operator is kept with its bytes and runs nothing; its line goes on, and its redelivery is a duplicate.
func TestHeldIsSetAsideAlone(t *testing.T) {
	t.Parallel()
	f := setup(t, func(s *Spec) {
		s.Policy.Equal = gate.EqualHold
		s.Policy.Stale = gate.OnStale{Snapshot: gate.StaleHold}
	})
	c := f.claim(0)
	twin := record(2, "twin", "e", schemas.Version{Kind: schemas.Sequence, Value: 2})
	a := f.apply(c, seq(0, "e", 1), seq(1, "e", 2), twin, seq(3, "e", 3), seq(4, "f", 5))
	if d := cmp.Diff([]string{"0:applied/first", "1:applied/next", "2:parked/equal_held", "3:applied/next", "4:applied/first"}, decisions(a)); d != "" {
		t.Error(d)
	}
	c = f.claim(0)
	old := seq(5, "f", 4)
	a = f.apply(c, old, seq(6, "e", 4))
	if d := cmp.Diff([]string{"0:parked/older_held", "1:applied/next"}, decisions(a)); d != "" || a.Waiting {
		t.Error(a.Waiting, d)
	}
	if got := one[string](f, `SELECT string_agg(concat_ws(' ', decision, convert_from(packed, 'UTF8'), deadline IS NULL), ', ' ORDER BY log_offset) FROM buffer`); got != "held packed twin t, held packed f-4 t" {
		t.Error(got)
	}
	old.Offset, twin.Offset = 7, 8
	if d := cmp.Diff([]string{"0:duplicate/seen", "1:duplicate/seen"}, decisions(f.apply(c, old, twin))); d != "" {
		t.Error(d)
	}
	item, err := f.item("twin")
	if err != nil || item.Status != "parked" || item.Reason != gate.ReasonEqualHeld || len(item.Actions) != 0 {
		t.Errorf("%+v %v", item, err)
	}
	if packed, _, err := f.bytes(item); err != nil || string(packed) != "packed twin" {
		t.Errorf("%q %v", packed, err)
	}
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

// What stood behind a gap that ends in dead letters has rows that are dead from the start and hold up nothing, whatever
// on_dead says, and the line goes on.
func TestGapEndsInDeadLetters(t *testing.T) {
	t.Parallel()
	f := setup(t, func(s *Spec) { s.Policy.Then = gate.ThenDeadLetter })
	c := f.claim(0)
	f.apply(c, seq(0, "e", 1), seq(1, "e", 3), seq(2, "e", 4))
	a := f.expire(c)
	if d := cmp.Diff([]string{"-1:applied/gap_dead", "-1:applied/gap_dead"}, decisions(a)); d != "" || len(a.Actions) != 0 {
		t.Error(len(a.Actions), d)
	}
	if got := one[string](f, `SELECT string_agg(concat_ws(' ', lane_seq, status, class, convert_from(packed, 'UTF8')), ', ' ORDER BY lane_seq) FROM actions`); got != "2 dead_letter gap packed e-3, 3 dead_letter gap packed e-4" {
		t.Error(got)
	}
	if a = f.apply(c, seq(3, "e", 5)); len(a.Actions) != 1 {
		t.Error(decisions(a))
	}
	c = f.claim(0)
	if d := cmp.Diff([]string{"1:e-1:run", "4:e-5:run"}, f.open(c)); d != "" {
		t.Error(d)
	}
	items, err := f.list("dead_letter", "")
	if err != nil || len(items) != 2 {
		t.Errorf("%+v %v", items, err)
	}
	if item, err := f.item("e-5"); err != nil || item.Status != "received" {
		t.Errorf("stands behind a dead letter of a gap: %+v %v", item, err)
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
	f.record(Result{Claim: c, LaneSeq: 1, Status: Done, Attempt: 1}, Result{Claim: c, LaneSeq: 3, Status: Done, Attempt: 1})
	if c.low() != 4 {
		t.Errorf("low %d", c.low())
	}
}

func backfills(s *Spec) {
	s.Policy.Then, s.Policy.Otherwise, s.Policy.BackfillWait = gate.ThenBackfill, gate.ThenPark, time.Hour
}

// A gap asks once its wait is over, durably; the answer fills it; a failure lets what otherwise follows follow.
func TestGapAsksForABackfill(t *testing.T) {
	t.Parallel()
	f := setup(t, backfills)
	c := f.claim(0)
	f.apply(c, seq(0, "e", 1), seq(1, "e", 4), seq(2, "g", 1), seq(3, "g", 3))
	a := f.expire(c)
	if len(a.Outcomes) != 0 || !a.BackfillRequested || !a.Waiting {
		t.Fatalf("%+v", a)
	}
	c = f.claim(0) // the next owner knows
	asked, err := f.n.Backfills(t.Context(), []*Claim{c}, 0, 10)
	if err != nil || len(asked) != 2 {
		t.Fatal(asked, err)
	}
	for i := range asked {
		if b := asked[i]; b.Left < 59*time.Minute || b.Left > time.Hour {
			t.Errorf("%s left", b.Left)
		}
		asked[i].ID, asked[i].Left = 0, 0
	}
	want := []Backfill{
		{Claim: c.ID, Source: "/acme/github", VersionLine: gate.VersionLineKey{Entity: "e"}, Kind: schemas.Sequence, From: 2, To: 3, Reason: gate.ReasonGap},
		{Claim: c.ID, Source: "/acme/github", VersionLine: gate.VersionLineKey{Entity: "g"}, Kind: schemas.Sequence, From: 2, To: 2, Reason: gate.ReasonGap},
	}
	if d := cmp.Diff(want, asked); d != "" {
		t.Error(d)
	}
	if d := f.deadlines(c)[c.ID]; d < 59*time.Minute {
		t.Errorf("the answer is waited for for %s", d)
	}
	synthetic := seq(4, "e", 3)
	synthetic.Backfill = true
	a = f.apply(c, synthetic)
	if d := cmp.Diff([]string{"0:applied/backfilled", "-1:applied/released"}, decisions(a)); d != "" {
		t.Error(d)
	}
	asked, _ = f.n.Backfills(t.Context(), []*Claim{c}, 0, 10)
	if fenced, err := f.n.EndBackfill(t.Context(), c, asked[0].ID, BackfillEnd{Produced: 1}); err != nil || fenced {
		t.Fatal(fenced, err)
	}
	for range 2 { // again changes nothing
		if fenced, err := f.n.EndBackfill(t.Context(), c, asked[1].ID, BackfillEnd{Failure: "not_found", Detail: "404", Code: 404}); err != nil || fenced {
			t.Fatal(fenced, err)
		}
	}
	if asked, _ = f.n.Backfills(t.Context(), []*Claim{c}, 0, 10); len(asked) != 0 {
		t.Error(asked)
	}
	if d := f.deadlines(c)[c.ID]; d > 0 {
		t.Errorf("what nobody answers is waited for for %s", d)
	}
	if a, err = f.n.Expire(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"-1:parked/gap_expired"}, decisions(a)); d != "" {
		t.Error(d)
	}
	zombie := c
	f.claim(0)
	if fenced, err := f.n.EndBackfill(t.Context(), zombie, asked2(f), BackfillEnd{}); err != nil || !fenced {
		t.Error("a zombie ended a backfill", err)
	}
}

func asked2(f *fixture) int64 { return one[int64](f, `SELECT max(id) FROM backfills`) }

// Start: backfill asks for the truth when the first event comes, of any kind, and begins with the answer.
func TestStartAsksForABackfill(t *testing.T) {
	t.Parallel()
	f := setup(t, backfills, func(s *Spec) { s.Policy.Start, s.Policy.Equal = gate.StartBackfill, gate.EqualFirst })
	c := f.claim(0)
	at := func(offset int64, id string, value int64) Record {
		return record(offset, id, "e", schemas.Version{Kind: schemas.Monotonic, Value: value})
	}
	a := f.apply(c, at(0, "b", 20), at(1, "a", 10))
	if d := cmp.Diff([]string{"0:buffered/start_backfill", "1:buffered/start_backfill"}, decisions(a)); d != "" || !a.BackfillRequested {
		t.Error(d)
	}
	asked, err := f.n.Backfills(t.Context(), []*Claim{c}, 0, 10)
	if err != nil || len(asked) != 1 || asked[0].From != 0 || asked[0].To != 0 || asked[0].Kind != schemas.Monotonic {
		t.Fatal(asked, err)
	}
	c = f.claim(0)
	truth := at(2, "truth", 10)
	truth.Backfill = true
	a = f.apply(c, truth)
	if d := cmp.Diff([]string{"0:applied/backfilled", "-1:stale/equal_first", "-1:applied/released"}, decisions(a)); d != "" {
		t.Error(d)
	}
	if n := one[int](f, `SELECT count(*) FROM buffer`); n != 0 {
		t.Errorf("%d still wait", n)
	}
}

// A line that is asked about again has one open question, the newest.
func TestBackfillIsRequestedAgain(t *testing.T) {
	t.Parallel()
	f := setup(t, backfills)
	c := f.claim(0)
	f.apply(c, seq(0, "e", 1), seq(1, "e", 3), seq(2, "e", 7))
	f.expire(c)
	f.apply(c, seq(3, "e", 2)) // fills the first gap; the next one waits again
	f.expire(c)
	asked, err := f.n.Backfills(t.Context(), []*Claim{c}, 0, 10)
	if err != nil || len(asked) != 1 || asked[0].From != 4 || asked[0].To != 6 {
		t.Error(asked, err)
	}
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

// However many gaps an event stands behind, and answers it waits for, it waits no longer than the longest wait in all.
func TestWaitIsBoundedByAge(t *testing.T) {
	t.Parallel()
	f := setup(t, backfills, func(s *Spec) { s.MaxAge = 150 * time.Minute })
	c := f.claim(0)
	f.apply(c, seq(0, "e", 1), seq(1, "e", 3), seq(2, "e", 6))
	f.seenAgo(time.Hour, "e-3", "e-6")
	if a, err := f.n.Expire(t.Context(), c); err != nil || !a.BackfillRequested {
		t.Fatal(decisions(a), err)
	}
	if d := f.deadlines(c)[c.ID]; d < 59*time.Minute || d > time.Hour {
		t.Errorf("the answer is waited for for %s", d)
	}
	f.seenAgo(time.Hour, "e-3", "e-6")
	f.apply(c, seq(3, "e", 2)) // what is left waits again
	if d := f.deadlines(c)[c.ID]; d < 29*time.Minute || d > 30*time.Minute {
		t.Errorf("waits for %s more", d)
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
