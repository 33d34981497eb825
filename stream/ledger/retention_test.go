package ledger

import (
	"testing"
	"time"

	"github.com/forebay-io/forebay/stream/gate"
)

// Each subscription keeps what has ended for as long as it says; one that says nothing, as the sweep is told.
func TestRetentionIsTheSubscriptions(t *testing.T) {
	t.Parallel()
	f := setup(t, func(s *Spec) { s.Window, s.Done, s.Dead = time.Hour, 48*time.Hour, 96*time.Hour })
	f.n = f.namespace(func(s *Spec) { // registered again: the newest word counts
		s.Window, s.Done, s.Dead, s.Actions[0].OnDead = time.Hour, 72*time.Hour, 120*time.Hour, Continue
	})
	c := f.claim(0)
	f.apply(c, seq(0, "e", 1), seq(1, "e", 2))
	record := func(status Status, lane int64) {
		t.Helper()
		if _, err := f.n.Record(t.Context(), []Result{{Claim: c, LaneSeq: lane, Status: status, Attempt: 1}}); err != nil {
			t.Fatal(err)
		}
	}
	record(Done, 1)
	record(Dead, 2)
	f.turnWindow()
	if err := f.n.CaughtUp(t.Context(), time.Now(), []*Claim{c}); err != nil {
		t.Fatal(err)
	}
	age := func(by time.Duration) {
		t.Helper()
		f.ageWindows(by)
		if _, err := f.l.hot.Exec(t.Context(), `UPDATE actions SET finished_at = finished_at - $1::interval`, by); err != nil {
			t.Fatal(err)
		}
	}
	dropped := func() bool {
		t.Helper()
		s, err := f.l.Sweep(t.Context(), SweepConfig{Horizon: time.Minute, Done: time.Minute, Dead: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		return len(s.Dropped) > 0
	}
	for _, step := range []struct {
		age  time.Duration
		want bool
		why  string
	}{
		{71 * time.Hour, false, "done is kept for 72h"}, {2 * time.Hour, false, "dead is kept for 120h"}, {46 * time.Hour, false, "119h"}, {2 * time.Hour, true, "121h"},
	} {
		age(step.age)
		if got := dropped(); got != step.want {
			t.Fatalf("%s: dropped %v", step.why, got)
		}
	}
	f.n = f.namespace(func(s *Spec) { s.Window, s.Actions[0].OnDead = time.Hour, Continue })
	if one[bool](f, `SELECT keep_done IS NOT NULL OR keep_dead IS NOT NULL FROM subscriptions`) {
		t.Error("what is not said any more still counts")
	}
}

// What was asked of owners goes when it has ended for as long as dead letters are kept; what is open stays.
func TestSweepForgetsWhatWasAskedLongAgo(t *testing.T) {
	t.Parallel()
	f := setup(t, func(s *Spec) { s.Policy.Equal, s.Dead = gate.EqualHold, 240*time.Hour })
	c := f.claim(0)
	f.apply(c, seq(0, "e", 1), record(1, "twin", "e", seq(0, "e", 1).Version))
	if _, err := f.ask("twin", Release); err != nil {
		t.Fatal(err)
	}
	f.applyCommands(c)
	exec := func(sql string, args ...any) {
		t.Helper()
		if _, err := f.l.hot.Exec(t.Context(), sql, args...); err != nil {
			t.Fatal(err)
		}
	}
	exec(`INSERT INTO backfills (fence, entity, clock, kind, from_value, to_value, reason, source, asked_at, ended_at, failure)
		VALUES ($1, 'e', '', 'sequence', 1, 2, 'gap', '/acme/github', now(), now(), ''), ($1, 'f', '', 'sequence', 1, 2, 'gap', '/acme/github', now(), NULL, NULL)`, c.ID)
	left := func(want int, why string) {
		t.Helper()
		if _, err := f.l.Sweep(t.Context(), SweepConfig{}); err != nil {
			t.Fatal(err)
		}
		if got := one[int](f, `SELECT (SELECT count(*) FROM commands) + (SELECT count(*) FROM backfills)`); got != want {
			t.Errorf("%s: %d rows, want %d", why, got, want)
		}
	}
	for _, age := range []string{"239 hours", "2 hours"} {
		left(3, "kept for 240 hours")
		exec(`UPDATE commands SET asked_at = asked_at - $1::interval, ended_at = ended_at - $1::interval`, age)
		exec(`UPDATE backfills SET asked_at = asked_at - $1::interval, ended_at = ended_at - $1::interval`, age)
	}
	left(1, "after 241 hours only the open question is left")
}

// The caps count the bytes that the buffer keeps, and a new claim knows them.
func TestCapsOfBytesOutliveTheClaim(t *testing.T) {
	t.Parallel()
	sized := func(offset int64, entity string, value int64) Record {
		r := seq(offset, entity, value)
		r.Size = int64(len(r.Packed()))
		return r
	}
	each := sized(0, "e", 5).Size
	f := setup(t, func(s *Spec) { s.Policy.MaxBytes, s.Policy.MaxBytesPerEntity = 8*3*each, 2*each })
	c := f.claim(0)
	f.apply(c, sized(0, "e", 1), sized(1, "f", 1), sized(2, "e", 5), sized(3, "f", 5))
	for range 2 { // once known, once read again
		if c.bytes != 2*each || c.buffered != 2 {
			t.Fatalf("%d bytes of %d events wait, want %d", c.bytes, c.buffered, 2*each)
		}
		c = f.claim(0)
	}
	if got := decisions(f.apply(c, sized(4, "f", 2), sized(5, "e", 6))); got[1] != "1:buffered/gap" {
		t.Error(got)
	}
	got := decisions(f.apply(c, sized(6, "e", 7)))
	if want := "0:parked/overflow"; got[len(got)-1] != want { // the entity's cap
		t.Errorf("%v, want %s", got, want)
	}
	if c = f.claim(0); c.bytes != each || c.buffered != 1 {
		t.Errorf("parked events take no room: %d bytes of %d", c.bytes, c.buffered)
	}
	// What leaves the buffer gives its room back, also where its size was read from the row.
	f.apply(c, sized(7, "f", 3), sized(8, "f", 4))
	if c.bytes != 0 || c.buffered != 0 {
		t.Errorf("%d bytes of %d events are left", c.bytes, c.buffered)
	}
}
