package ledger

import (
	"strings"
	"testing"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
	"github.com/google/go-cmp/cmp"
)

// overdue makes every deadline pass by the database's clock.
func (f *fixture) overdue() {
	f.t.Helper()
	if _, err := f.l.hot.Exec(f.t.Context(), `UPDATE buffer SET deadline = now() - interval '1 hour' WHERE deadline IS NOT NULL`); err != nil {
		f.t.Fatal(err)
	}
}

// seenAgo moves what waits into the past, by the database's clock: it was first seen so long ago.
func (f *fixture) seenAgo(ago time.Duration, ids ...string) {
	f.t.Helper()
	if _, err := f.l.hot.Exec(f.t.Context(), `UPDATE buffer SET buffered_at = buffered_at - $1::interval, deadline = deadline - $1::interval
		WHERE event_id = ANY ($2)`, ago, ids); err != nil {
		f.t.Fatal(err)
	}
}

// An operator's command about a held event is none about what waits on its line: that keeps its deadline.
func TestWordAboutWhatIsHeldLeavesTheDeadline(t *testing.T) {
	t.Parallel()
	for _, kind := range []CommandKind{Release, Discard} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			f := setup(t, func(s *Spec) { s.Policy.Stale.Snapshot = gate.StaleHold })
			c := f.claim(0)
			f.apply(c, seq(0, "e", 5), seq(1, "e", 4), seq(2, "e", 8))
			f.seenAgo(59*time.Minute, "e-8")
			if _, err := f.ask("e-4", kind); err != nil {
				t.Fatal(err)
			}
			if done, _ := f.applyCommands(c); len(done) != 1 {
				t.Fatal(done)
			}
			if d := f.deadlines(c)[c.ID]; d > time.Minute {
				t.Errorf("what waits does so for another %s", d)
			}
		})
	}
}

func (f *fixture) deadlines(c *Claim) map[int32]time.Duration {
	f.t.Helper()
	d, err := f.n.NextDeadline(f.t.Context(), []*Claim{c})
	if err != nil {
		f.t.Fatal(err)
	}
	return d
}

func TestExpireParksAndTheFillerReleases(t *testing.T) {
	t.Parallel()
	f := setup(t, func(s *Spec) { s.Policy.Then = gate.ThenPark })
	c := f.claim(0)
	f.apply(c, seq(0, "e", 1), seq(1, "e", 3))
	f.overdue()
	a, err := f.n.Expire(t.Context(), c)
	if err != nil || a.Waiting || len(a.Actions) != 0 {
		t.Fatal(decisions(a), err)
	}
	if got := one[string](f, `SELECT decision || '/' || reason FROM events WHERE event_id = 'e-3'`); got != "parked/gap_expired" {
		t.Error(got)
	}
	if d := f.deadlines(c); len(d) != 0 {
		t.Errorf("a parked line has a deadline: %v", d)
	}
	c = f.claim(0)
	if a = f.apply(c, seq(2, "e", 4)); a.Outcomes[0].Decision != gate.Parked {
		t.Error(decisions(a))
	}
	a = f.apply(c, seq(3, "e", 2))
	if d := cmp.Diff([]string{"2:e-2:run", "3:e-3:run", "4:e-4:run"}, lanes(a.Actions)); d != "" {
		t.Error(d)
	}
}

// What is buffered and released in one batch has a row that says applied, and runs with the batch's own bytes.
func TestBufferedAndReleasedInOneBatch(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.claim(0)
	a := f.apply(c, seq(0, "e", 1), seq(1, "e", 3), seq(2, "e", 2))
	if d := cmp.Diff([]string{"1:e-1:run", "2:e-2:run", "3:e-3:run"}, lanes(a.Actions)); d != "" {
		t.Error(d)
	}
	if got := a.Actions[2]; got.Record != 1 || got.Packed != nil || got.Pointer.Offset != 1 {
		t.Errorf("%+v", got)
	}
	if got := one[string](f, `SELECT (SELECT count(*) FROM buffer) || ' ' || (SELECT decision || '/' || lane_seq FROM events WHERE event_id = 'e-3')`); got != "0 applied/3" {
		t.Error(got)
	}
}

// An event that waited is parked and let go in one batch: its row says the last of the two, once.
func TestParkedAndReleasedInOneBatch(t *testing.T) {
	t.Parallel()
	f := setup(t, func(s *Spec) { s.Policy.MaxPerEntity = 1 })
	c := f.claim(0)
	f.apply(c, seq(0, "e", 1), seq(1, "e", 3))
	a := f.apply(c, seq(2, "e", 4), seq(3, "e", 2))
	want := []string{"-1:parked/overflow", "0:parked/overflow", "1:applied/next", "-1:applied/released", "-1:applied/released"}
	if d := cmp.Diff(want, decisions(a)); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"2:e-2:run", "3:e-3:run", "4:e-4:run"}, lanes(a.Actions)); d != "" {
		t.Error(d)
	}
	if got := one[string](f, `SELECT string_agg(concat_ws(' ', event_id, decision, reason, lane_seq, actions), ', ' ORDER BY log_offset) FROM events WHERE log_offset IN (1, 2)`); got !=
		"e-3 applied released 3 1, e-4 applied released 4 1" {
		t.Error(got)
	}
	if d := cmp.Diff([]string{"1:e-1:run", "2:e-2:run", "3:e-3:run", "4:e-4:run"}, f.open(f.claim(0))); d != "" {
		t.Error(d)
	}
	if item, err := f.item("e-3"); err != nil || item.Status != "received" {
		t.Error(item.Status, err)
	}
}

func TestFilteredFillsItsPlaceAndIsDecidedAgainAfterARewind(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.claim(0)
	filtered := func(offset, v int64) Record {
		r := seq(offset, "e", v)
		r.Filtered = true
		return r
	}
	a := f.apply(c, seq(0, "e", 1), filtered(1, 2), seq(2, "e", 3), filtered(3, 5))
	if d := cmp.Diff([]string{"1:e-1:run", "2:e-3:run"}, lanes(a.Actions)); d != "" {
		t.Error(d)
	}
	if got := one[string](f, `SELECT string_agg(event_id || ':' || decision, ' ' ORDER BY log_offset) FROM rejected_records`); got != "e-2:filtered e-5:filtered" {
		t.Error(got)
	}
	c = f.seek(4, 1)
	a = f.apply(c, seq(1, "e", 2), seq(2, "e", 3), seq(3, "e", 5), seq(4, "e", 4))
	if d := cmp.Diff([]string{"0:stale/older", "1:duplicate/seen", "-1:filtered/type", "2:buffered/gap", "3:applied/next", "-1:applied/released"}, decisions(a)); d != "" {
		t.Error(d)
	}
	if got := one[int](f, `SELECT count(*) FROM rejected_records`); got != 0 {
		t.Errorf("%d rows still say filtered", got)
	}
}

func TestConflictKeepsBothHashes(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.claim(0)
	f.apply(c, seq(0, "e", 1))
	other := seq(1, "e", 1)
	other.Hash = schemas.HashBody([]byte("tampered"))
	a := f.apply(c, other)
	if a.Outcomes[0].Decision != gate.Conflict {
		t.Fatal(decisions(a))
	}
	if got := one[string](f, `SELECT first_hash || ' ' || hash || ' ' || convert_from(raw, 'UTF8') FROM rejected_records`); strings.ReplaceAll(got, "-", "") !=
		schemas.HashBody([]byte("e-1")).String()+" "+other.Hash.String()+" packed e1" {
		t.Error(got)
	}
}

func TestDedupeAcrossBatchesPartitionsAndWindows(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c, d := f.claim(0), f.claim(1)
	first := seq(0, "e", 1)
	f.apply(c, first)
	f.turnWindow()
	again := first
	again.Offset = 1
	if a := f.apply(c, again); a.Outcomes[0].Decision != gate.Duplicate {
		t.Error(decisions(a))
	}
	f.turnWindow()
	elsewhere := first
	elsewhere.Offset = 0
	if a := f.apply(d, elsewhere); a.Outcomes[0].Decision != gate.Duplicate {
		t.Error(decisions(a))
	}
	// In one batch, in two partitions: it runs once.
	x, y := seq(2, "x", 1), seq(1, "x", 1)
	out, err := f.n.Apply(t.Context(), []Slice{slice(c, x), slice(d, y)})
	if err != nil || len(out[0].Actions)+len(out[1].Actions) != 1 {
		t.Error(out, err)
	}
	if got := one[string](f, `SELECT string_agg(event_id || ':' || duplicates, ' ' ORDER BY event_id) FROM events`); got != "e-1:2 x-1:1" {
		t.Error(got)
	}
	if got := one[int](f, `SELECT count(DISTINCT tableoid) FROM events`); got != 2 {
		t.Errorf("events in %d windows", got)
	}
}

// turnWindow makes the current window old enough and sweeps.
func (f *fixture) turnWindow() {
	f.t.Helper()
	if _, err := f.l.hot.Exec(f.t.Context(), `UPDATE windows SET opened_at = opened_at - interval '100 days' WHERE state = 'current'`); err != nil {
		f.t.Fatal(err)
	}
	swept, err := f.l.Sweep(f.t.Context(), SweepConfig{})
	if err != nil || len(swept.Opened) != 1 {
		f.t.Fatal(swept, err)
	}
}

// seek claims partition 0 at an operator's position.
func (f *fixture) seek(from, to int64) *Claim {
	f.t.Helper()
	c, err := f.n.Claim(f.t.Context(), ClaimRequest{Partition: partition(0), Partitions: 8, Confirm: startAt(from, to)})
	if err != nil {
		f.t.Fatal(err)
	}
	return c
}
