package ledger

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
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

func (f *fixture) deadlines(c *Claim) map[int32]time.Duration {
	f.t.Helper()
	d, err := f.n.NextDeadline(f.t.Context(), []*Claim{c})
	if err != nil {
		f.t.Fatal(err)
	}
	return d
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

// TestAWindowIsAskedForAsLongAsDedupeRemembers: a parked dead letter keeps a window for long, and no batch asks it once no repetition of what is in
// it may come. What is read again is found, as old as its window may be.
func TestAWindowIsAskedForAsLongAsDedupeRemembers(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.claim(0)
	f.apply(c, seq(0, "e", 1))
	f.die(c, 1, "e-1", 1)
	f.turnWindow()
	f.ageWindows(200 * time.Hour)
	f.turnWindow()
	if err := f.n.loadWindows(t.Context()); err != nil {
		t.Fatal(err)
	}
	win := f.n.windows.Load()
	oldest, closed := win.live[0], win.closed[0]
	over := closed.Add(f.n.spec.Window + seenSkew)
	for appended, asked := range map[time.Time][]int32{
		closed: win.live[:2], over.Add(-1): win.live[:2], over: win.live[1:2], win.closed[1].Add(f.n.spec.Window + seenSkew): nil} {
		if got := win.seenBefore(appended, f.n.spec.Window); !slices.Equal(got, asked) {
			t.Errorf("appended %s after the oldest was closed: %v of %v are asked", appended.Sub(closed), got, win.live)
		}
	}
	if got := win.seenBefore(time.Now().Add(time.Hour*1e6), 0); !slices.Equal(got, win.live[:2]) {
		t.Errorf("dedupe never forgets, and %v of %v are asked", got, win.live)
	}
	again := func(offset int64, appended time.Time) Record {
		r := seq(offset, "e", 1)
		r.AppendTime = appended
		return r
	}
	late := seq(2, "other", 1)
	late.AppendTime = time.Now()
	if got := decisions(f.apply(c, again(1, over.Add(-time.Minute)), late)); !slices.Equal(got, []string{"0:duplicate/seen", "1:applied/first"}) {
		t.Error("remembered, beside one that came later:", got)
	}
	tx, err := f.connect().Begin(t.Context())
	if err == nil {
		_, err = tx.Exec(t.Context(), OfWindow(oldest, `LOCK TABLE events_w{w} IN ACCESS EXCLUSIVE MODE`)) // whoever asks it waits
	}
	if err != nil {
		t.Fatal(err)
	}
	late = seq(3, "other", 2)
	late.AppendTime = time.Now()
	if got := decisions(f.apply(c, late)); !slices.Equal(got, []string{"0:applied/next"}) {
		t.Error("a batch of today:", got)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	c = f.moved(c, 0)
	if got := decisions(f.apply(c, seq(0, "e", 1))); !slices.Equal(got, []string{"0:duplicate/seen"}) {
		t.Error("read again:", got)
	}
}
