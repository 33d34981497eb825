package ledger

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger/internal/pauses"
)

// TestPausesOfDestinations: a pause stands until it is resumed, for everybody who opens the ledger, and only once.
func TestPausesOfDestinations(t *testing.T) {
	t.Parallel()
	cfg := schemaFor(t)
	open := func() *Ledger {
		l, err := Open(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(l.Close)
		return l
	}
	one, other := open(), open()
	states := func(l *Ledger) map[string]DestinationState {
		t.Helper()
		got, err := l.Destinations(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	if got := states(one); len(got) != 0 {
		t.Errorf("at first: %+v", got)
	}
	since := time.Now().Add(-3 * time.Hour).Round(time.Microsecond)
	for _, at := range []time.Time{since, since.Add(time.Hour)} {
		if err := one.FailDestination(t.Context(), "acme/agent", at, time.Time{}); err != nil {
			t.Fatal(err)
		}
	}
	first, err := one.PauseDestination(t.Context(), "acme/agent", Pause{By: "forebay", Class: "timeout", Reason: "100 failures\x00 in a row"})
	if err != nil || first.By != "forebay" || first.Reason != "100 failures\ufffd in a row" || time.Since(first.At).Abs() > time.Minute {
		t.Fatalf("%+v %v", first, err)
	}
	again, err := other.PauseDestination(t.Context(), "acme/agent", Pause{By: "ann", Reason: "they move"})
	if err != nil || !cmp.Equal(again, first) {
		t.Errorf("paused twice: %+v %v", again, err)
	}
	if _, err := other.PauseDestination(t.Context(), "acme/mail", Pause{By: "ann", Reason: "they move"}); err != nil {
		t.Fatal(err)
	}
	got := states(other)
	if s := got["acme/agent"]; len(got) != 2 || s.Failing.Sub(since).Abs() > time.Minute || s.Paused == nil || !cmp.Equal(*s.Paused, first) || time.Since(s.PausedFrom).Abs() > time.Minute {
		t.Errorf("read elsewhere: %+v", got)
	}
	if s := got["acme/mail"]; !s.Failing.IsZero() || s.Paused == nil || s.Paused.By != "ann" || s.Paused.Class != "" {
		t.Errorf("read elsewhere: %+v", s)
	}
	ended, err := other.ResumeDestination(t.Context(), "acme/agent", "bob", "they are back")
	if err != nil || !cmp.Equal(ended, first) {
		t.Errorf("resume: %+v %v", ended, err)
	}
	resumed := states(one)
	if s := resumed["acme/agent"]; len(resumed) != 2 || resumed["acme/mail"].Paused == nil || time.Since(s.Resumed).Abs() > time.Minute || s != (DestinationState{Resumed: s.Resumed}) {
		t.Errorf("after the resume, also its failures are gone: %+v", resumed)
	}
	if _, err := one.ResumeDestination(t.Context(), "acme/agent", "bob", "they are back"); schemas.KindOf(err) != schemas.Conflict || !strings.Contains(err.Error(), "not paused") {
		t.Errorf("resumed twice: %v", err)
	}
	if err := other.EndHold(t.Context(), "acme/agent", "bob", "it was a mistake"); err != nil || !states(one)["acme/agent"].Resumed.After(resumed["acme/agent"].Resumed) {
		t.Errorf("the end of a hold: %v, %+v", err, states(one))
	}
	if p, err := one.PauseDestination(t.Context(), "acme/agent", Pause{By: "ann", Reason: "once more"}); err != nil || p.By != "ann" {
		t.Errorf("paused again: %+v %v", p, err)
	}
	for _, who := range [][2]string{{"", "why"}, {"ann", ""}} {
		_, err := one.PauseDestination(t.Context(), "acme/x", Pause{By: who[0], Reason: who[1]})
		if schemas.KindOf(err) != schemas.Invalid {
			t.Errorf("pause by %q: %v", who, err)
		}
		if _, err := one.ResumeDestination(t.Context(), "acme/mail", who[0], who[1]); schemas.KindOf(err) != schemas.Invalid {
			t.Errorf("resume by %q: %v", who, err)
		}
	}
}

func TestDestinationsWithoutPostgres(t *testing.T) {
	t.Parallel()
	l, err := Open(t.Context(), schemaFor(t))
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	_, err = l.Destinations(t.Context())
	_, paused := l.PauseDestination(t.Context(), "a/b", Pause{By: "x", Reason: "y"})
	_, resumed := l.ResumeDestination(t.Context(), "a/b", "x", "y")
	for _, err := range []error{err, paused, resumed, l.FailDestination(t.Context(), "a/b", time.Now(), time.Time{}), l.FailDestination(t.Context(), "a/b", time.Time{}, time.Time{}),
		l.EndOutage(t.Context(), "a/b", true)} {
		if schemas.KindOf(err) != schemas.Unavailable {
			t.Error(err)
		}
	}
}

// TestEndedPauses: of pauses that are over is known when they were, of the others nothing.
func TestEndedPauses(t *testing.T) {
	t.Parallel()
	f := setup(t)
	ended := func() map[string][]Span {
		t.Helper()
		got, err := f.l.EndedPauses(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	for range 2 {
		if _, err := f.l.PauseDestination(t.Context(), "acme/agent", Pause{By: "ann", Reason: "they move"}); err != nil {
			t.Fatal(err)
		}
		if len(ended()["acme/agent"]) == 1 {
			break // the second one stands
		}
		if got := ended(); len(got) != 0 {
			t.Errorf("before the first has ended: %+v", got)
		}
		if _, err := f.l.ResumeDestination(t.Context(), "acme/agent", "ann", "they are there"); err != nil {
			t.Fatal(err)
		}
		f.exec(`UPDATE pauses SET paused_at = paused_at - interval '3 days'`)
	}
	got := ended()
	if list := got["acme/agent"]; len(got) != 1 || len(list) != 1 || list[0].To.Sub(list[0].From).Round(time.Minute) != 72*time.Hour || time.Since(list[0].To).Abs() > time.Minute {
		t.Errorf("%+v", got)
	}
	f.exec(`UPDATE pauses SET ended_at = now() - interval '31 days', paused_at = now() - interval '32 days' WHERE ended_at IS NOT NULL`)
	if got := ended(); len(got) != 0 {
		t.Errorf("what no retry reaches back to: %+v", got)
	}
}

// TestOutages: since when a breaker is open outlives processes, and once something gets through, how long that was.
func TestOutages(t *testing.T) {
	t.Parallel()
	f := setup(t)
	state := func() DestinationState {
		t.Helper()
		got, err := f.l.Destinations(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return got["acme/agent"]
	}
	fail := func(since, away time.Time) {
		t.Helper()
		if err := f.l.FailDestination(t.Context(), "acme/agent", since, away); err != nil {
			t.Fatal(err)
		}
	}
	since := time.Now().Add(-25 * time.Hour).Round(time.Microsecond)
	away := since.Add(time.Minute)
	fail(since, time.Time{})
	if s := state(); s.Failing.Sub(since).Abs() > time.Minute || !s.OpenSince.IsZero() {
		t.Errorf("before the breaker opened: %+v", s)
	}
	fail(since.Add(time.Hour), away)
	fail(since, away.Add(time.Hour))
	if s := state(); s.Failing.Sub(since).Abs() > time.Minute || s.OpenSince.Sub(away).Abs() > time.Minute {
		t.Errorf("away: %+v", s)
	}
	f.exec(`INSERT INTO outages VALUES ('acme/old', now() - interval '32 days', now() - interval '31 days')`)
	fail(time.Time{}, time.Time{})
	fail(time.Time{}, time.Time{}) // nothing to end
	ended, err := f.l.EndedPauses(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	spans := ended["acme/agent"]
	if s := state(); !s.Failing.IsZero() || len(ended) != 1 || len(spans) != 1 || spans[0].From.Sub(away).Abs() > time.Minute || time.Since(spans[0].To).Abs() > time.Minute {
		t.Errorf("after it: %+v %+v", s, ended)
	}
	if n := one[int64](f, `SELECT count(*) FROM outages`); n != 1 {
		t.Errorf("%d outages are kept", n)
	}
	fail(since, away)
	if _, err := f.l.PauseDestination(t.Context(), "acme/agent", Pause{By: "ann", Reason: "they move"}); err != nil {
		t.Fatal(err)
	}
	if _, err := f.l.ResumeDestination(t.Context(), "acme/agent", "ann", "they are there"); err != nil {
		t.Fatal(err)
	}
	if n := one[int64](f, `SELECT count(*) FROM outages`); n != 2 {
		t.Errorf("%d outages after a resume", n)
	}
}

// TestEndOutage: a breaker that is open no more leaves an outage only where it was one, and once; since when nothing succeeds stays.
func TestEndOutage(t *testing.T) {
	t.Parallel()
	f := setup(t)
	since := time.Now().Add(-3 * time.Hour)
	for _, outage := range []bool{false, true} {
		if err := f.l.FailDestination(t.Context(), "acme/agent", since, since.Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := f.l.EndOutage(t.Context(), "acme/agent", outage); err != nil {
				t.Fatal(err)
			}
		}
		got, err := f.l.Destinations(t.Context())
		if s := got["acme/agent"]; err != nil || s.Failing.Sub(since).Abs() > time.Minute || !s.OpenSince.IsZero() {
			t.Errorf("outage %v: %+v %v", outage, s, err)
		}
		ended, err := f.l.EndedPauses(t.Context())
		spans := ended["acme/agent"]
		if err != nil || outage != (len(spans) == 1) {
			t.Fatalf("outage %v: kept %+v %v", outage, spans, err)
		}
		if outage && spans[0].To.Sub(spans[0].From).Round(time.Minute) != 2*time.Hour {
			t.Errorf("kept %+v", spans)
		}
	}
}

// TestOutagesOfAnotherClock: an outage is kept as long as it was, and read as it was by our clock, whatever the database's says.
func TestOutagesOfAnotherClock(t *testing.T) {
	t.Parallel()
	const tolerance = time.Minute
	for _, ahead := range []string{"-1 hour", "1 hour"} {
		f := setup(t)
		f.exec(`CREATE FUNCTION now() RETURNS timestamptz STABLE LANGUAGE sql AS $$ SELECT pg_catalog.now() + interval '` + ahead + `' $$`)
		settings := f.cfg.withDefaults().settings(false)
		settings["search_path"] += ", pg_catalog" // ours before that of Postgres
		pool, err := f.l.db.Pool(t.Context(), settings, 1, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		s := pauses.New(pool, nil)
		away := time.Now().Add(-10 * time.Minute)
		since := away.Add(-10 * time.Minute)
		for _, end := range []func() error{
			func() error { return s.EndOutage(t.Context(), "acme/agent", true) },
			func() error { return s.FailDestination(t.Context(), "acme/agent", time.Time{}, time.Time{}) },
		} {
			if err := s.FailDestination(t.Context(), "acme/agent", since, away); err != nil {
				t.Fatal(err)
			}
			got, err := s.Destinations(t.Context())
			if s := got["acme/agent"]; err != nil || s.Failing.Sub(since).Abs() > tolerance || s.OpenSince.Sub(away).Abs() > tolerance {
				t.Errorf("database's clock %s ahead: %+v %v", ahead, s, err)
			}
			if err := end(); err != nil {
				t.Fatal(err)
			}
		}
		ended, err := s.EndedPauses(t.Context())
		spans := ended["acme/agent"]
		if err != nil || len(spans) != 2 {
			t.Fatalf("database's clock %s ahead: %+v %v", ahead, spans, err)
		}
		for _, span := range spans {
			if span.From.Sub(away).Abs() > tolerance || time.Since(span.To).Abs() > tolerance {
				t.Errorf("database's clock %s ahead: %+v", ahead, span)
			}
		}
	}
}
