package ledger

import (
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
