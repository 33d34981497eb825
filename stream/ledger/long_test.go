package ledger

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/forebay-io/forebay/schemas"
)

// accepted is a claim with actions 1 and 2, of two entities; the first is processing.
func accepted(t *testing.T, silence time.Duration) (*fixture, *Claim) {
	t.Helper()
	f := setup(t)
	c := f.claim(0)
	f.apply(c, seq(0, "a", 1), seq(1, "b", 1))
	f.record(Result{Claim: c, LaneSeq: 1, Status: Processing, Attempt: 1, Code: 202, Left: time.Hour, Silence: silence})
	return f, c
}

func (f *fixture) resultReported(r Report) string {
	f.t.Helper()
	state, err := TestInbox.Report(f.t.Context(), f.l, r)
	if err != nil {
		f.t.Fatal(err)
	}
	return state
}

func (f *fixture) reports(c *Claim) []OpenReport {
	f.t.Helper()
	list, err := f.n.Reports(f.t.Context(), []*Claim{c})
	if err != nil {
		f.t.Fatal(err)
	}
	return list
}

func (f *fixture) action(r AttemptRef) seenState {
	f.t.Helper()
	s, err := TestInbox.ActionState(f.t.Context(), f.l, r)
	if err != nil {
		f.t.Fatal(err)
	}
	return seenAs[seenState](f.t, s)
}

func ref(c *Claim, laneSeq int64, attempt int) AttemptRef {
	return AttemptRef{c.ID, laneSeq, attempt, c.Epoch}
}

// What is processing is open, with what is left of its time by the database's clock, for the next owner too; a heartbeat gives
// its silence again.
func TestProcessingIsReadBackWithItsTimes(t *testing.T) {
	t.Parallel()
	f, made := accepted(t, time.Minute)
	c := f.claim(0)
	read := func() Action {
		open, _, err := f.n.Open(t.Context(), c, 0, 10)
		if err != nil || len(open) != 2 {
			t.Fatal(open, err)
		}
		return open[0]
	}
	near := func(what string, got, want time.Duration) {
		t.Helper()
		if got > want || got < want-20*time.Second {
			t.Errorf("%s is %s, want %s", what, got, want)
		}
	}
	a := read()
	if a.Status != Processing || a.Attempts != 1 || a.Silence != time.Minute || a.FirstAt.IsZero() {
		t.Errorf("%+v", a)
	}
	near("the deadline", a.Left, time.Hour)
	near("the silence left", a.SilenceLeft, time.Minute)
	one[int](f, `WITH u AS (UPDATE actions SET beat_at = beat_at - interval '50 s', result_by = result_by - interval '1 hour' RETURNING 1)
		SELECT count(*) FROM u`)
	a = read()
	near("the silence left", a.SilenceLeft, 10*time.Second)
	near("the deadline", a.Left, 0)
	for _, tt := range []struct {
		ref  AttemptRef
		want bool
	}{{ref(made, 1, 1), true}, {ref(c, 1, 1), false}, {ref(c, 1, 2), false}, {ref(c, 2, 1), false}, {ref(c, 7, 1), false}} {
		if alive, err := TestInbox.Beat(t.Context(), f.l, tt.ref); err != nil || alive != tt.want {
			t.Errorf("%+v: %v %v", tt.ref, alive, err)
		}
	}
	left, err := f.n.SilenceLeft(t.Context(), c, []int64{1, 2})
	if err != nil || len(left) != 1 {
		t.Error(left, err)
	}
	near("the silence after the heartbeat", left[1], time.Minute)
	if item, err := f.item("a-1"); err != nil || item.Status != "processing" || item.NextActionAt == nil || item.Actions[0].NextAt == nil {
		t.Errorf("%+v %v", item, err)
	}
	if s := f.action(ref(c, 1, 1)); s.ResultBy == nil || s.BeatAt == nil || s.Silence != time.Minute {
		t.Errorf("%+v", s)
	}
	f.record(Result{Claim: c, LaneSeq: 1, Status: Failed, Attempt: 1, Class: "timeout", NextIn: time.Minute})
	if a = read(); a.Status != Failed || a.Left != 0 || a.Silence != 0 {
		t.Errorf("after it failed: %+v", a)
	}
	if got := one[string](f, `SELECT string_agg(attempt || status || class, ',') FROM attempts`); got != "1failedtimeout" {
		t.Errorf("attempts: %s", got)
	}
}

func TestReportIsKeptOnceAndAppliedWithItsEnd(t *testing.T) {
	t.Parallel()
	f, c := accepted(t, 0)
	r := Report{AttemptRef: ref(c, 1, 1), Status: Done, Code: 200, Response: []byte("found it")}
	other := r
	other.Response = []byte("found something else")
	for i, tt := range []struct {
		r    Report
		want string
	}{{r, "recorded"}, {r, "repeated"}, {other, "differs"}} {
		if got := f.resultReported(tt.r); got != tt.want {
			t.Errorf("%d: %s, want %s", i, got, tt.want)
		}
	}
	list := f.reports(c)
	if len(list) != 1 || list[0].Claim != c || list[0].Entity != "a" || list[0].Past || string(list[0].Response) != "found it" {
		t.Fatalf("%+v", list)
	}
	if s := f.action(r.AttemptRef); s.Status != Processing || s.Reported != Done || s.Outcome != "" {
		t.Errorf("%+v", s)
	}
	f.record(Result{Claim: c, LaneSeq: 1, Status: Done, Attempt: 1, Code: 200, Response: r.Response, Reported: true})
	if list := f.reports(c); len(list) != 0 {
		t.Errorf("still to be applied: %+v", list)
	}
	s := f.action(r.AttemptRef)
	want := seenState{ID: schemas.NewActionID("acme.triage", 0, "/acme/github", "a-1", "run"), Subscription: "acme.triage", Name: "run",
		Destination: "acme/coder", Source: "/acme/github", EventID: "a-1", Status: Done, Attempts: 1, Reported: Done, Outcome: "applied"}
	if d := cmp.Diff(want, s); d != "" {
		t.Error(d)
	}
	if got := f.resultReported(r); got != "repeated" {
		t.Errorf("the same after it was applied: %s", got)
	}
	if got := one[string](f, `SELECT concat_ws(' ', status, code, convert_from(response, 'UTF8'), result_by IS NULL) FROM actions WHERE lane_seq = 1`); got != "done 200 found it t" {
		t.Error(got)
	}
}

// A report counts as long as its action has not ended and no later attempt is recorded; else it is kept as late.
func TestLateReports(t *testing.T) {
	t.Parallel()
	f, c := accepted(t, 0)
	f.record(Result{Claim: c, LaneSeq: 1, Status: Failed, Attempt: 1, Class: "timeout", NextIn: time.Minute})
	if got := f.resultReported(Report{AttemptRef: ref(c, 1, 1), Status: Done}); got != "recorded" {
		t.Errorf("not attempted again: %s", got)
	}
	f.record(Result{Claim: c, LaneSeq: 1, Status: Processing, Attempt: 2, Left: time.Hour})
	list := f.reports(c)
	if len(list) != 1 || !list[0].Past {
		t.Fatalf("attempted again: %+v", list)
	}
	if late, err := f.n.EndReport(t.Context(), list[0]); err != nil || !late {
		t.Fatal(err)
	}
	if s := f.action(ref(c, 1, 1)); s.Outcome != "late" || len(f.reports(c)) != 0 {
		t.Errorf("%+v", s)
	}
	f.record(Result{Claim: c, LaneSeq: 1, Status: Dead, Attempt: 2, Class: "timeout"})
	for range 2 {
		if got := f.resultReported(Report{AttemptRef: ref(c, 1, 2), Status: Done}); got != "late" {
			t.Errorf("dead: %s", got)
		}
	}
	// One that simply succeeded has no row.
	f.record(Result{Claim: c, LaneSeq: 2, Status: Done, Attempt: 1})
	if got := f.resultReported(Report{AttemptRef: ref(c, 2, 1), Status: Failed}); got != "late" {
		t.Errorf("done: %s", got)
	}
	if s := f.action(ref(c, 2, 1)); s.Status != Done || s.Attempts != 1 || s.EventID != "b-1" {
		t.Errorf("%+v", s)
	}
	if n := one[int](f, `SELECT count(*) FROM results WHERE outcome = 'late'`); n != 3 {
		t.Errorf("%d are kept", n)
	}
	// What has a cost is for the owner, who counts it and ends it.
	f.apply(c, seq(2, "costs", 1))
	id := schemas.NewActionID("acme.triage", 0, "/acme/github", "costs-1", "run")
	f.record(Result{Claim: c, LaneSeq: 3, ID: id, Status: Processing, Attempt: 1, Left: time.Hour})
	f.record(Result{Claim: c, LaneSeq: 3, ID: id, Status: Dead, Attempt: 1, Class: "timeout"})
	for range 2 {
		if got := f.resultReported(Report{AttemptRef: ref(c, 3, 1), Status: Done, Cost: 7}); got != "late" {
			t.Errorf("dead, with a cost: %s", got)
		}
	}
	list = f.reports(c)
	if len(list) != 1 || !list[0].Past || list[0].Cost != 7 || list[0].ID != id || list[0].Name != "run" || list[0].Destination != "acme/coder" ||
		list[0].Source != "/acme/github" || list[0].EventID != "costs-1" || list[0].Entity != "costs" {
		t.Fatalf("with a cost: %+v", list)
	}
	if late, err := f.n.EndReport(t.Context(), list[0]); err != nil || !late || len(f.reports(c)) != 0 {
		t.Fatal(err)
	}
	if got := f.resultReported(Report{AttemptRef: ref(c, 3, 1), Status: Done, Cost: 7}); got != "late" {
		t.Errorf("the same once more: %s", got)
	}
	// The owner may read a report, and end it, before the one who took it looks whether it is late: it is told so all the same.
	f.exec(`CREATE FUNCTION ends() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		UPDATE results SET ended_at = now(), outcome = 'late' WHERE id = NEW.id; RETURN NULL; END $$`)
	f.exec(`CREATE TRIGGER ends AFTER INSERT ON results FOR EACH ROW EXECUTE FUNCTION ends()`)
	if got := f.resultReported(Report{AttemptRef: ref(c, 1, 3), Status: Done}); got != "late" {
		t.Errorf("ended meanwhile: %s", got)
	}
}

// A report that is read as late while a replay is in flight is not ended before the replay is: it counts then.
func TestEndOfALateReportWaitsForAReplay(t *testing.T) {
	t.Parallel()
	f, c := accepted(t, 0)
	f.record(Result{Claim: c, LaneSeq: 1, Status: Dead, Attempt: 1, Class: "timeout"})
	f.resultReported(Report{AttemptRef: ref(c, 1, 1), Status: Done, Cost: 7})
	list := f.reports(c)
	replay, err := f.connect().Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = replay.Rollback(t.Context()) }()
	if _, err := replay.Exec(t.Context(), `UPDATE actions SET status = 'failed', open = true, next_at = now(), finished_at = NULL WHERE lane_seq = 1`); err != nil {
		t.Fatal(err)
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		if late, err := f.n.EndReport(t.Context(), list[0]); late || err != nil {
			t.Error(late, err)
		}
	}()
	f.waitForLock(`SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND $1 = ANY (pg_blocking_pids(pid))`, int32(replay.Conn().PgConn().PID()), over)
	if err := replay.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-over
	if list = f.reports(c); len(list) != 1 || list[0].Past || list[0].Cost != 7 {
		t.Errorf("%+v", list)
	}
}

// The owner is killed before it has recorded its call, and the next one makes the call again: both attempts have the number 1. What is
// said of the first is not said of the second, and does not take its place.
func TestReportOfALostAttempt(t *testing.T) {
	t.Parallel()
	f := setup(t)
	killed := f.claim(0)
	f.apply(killed, seq(0, "a", 1), seq(1, "b", 1), seq(2, "c", 1))
	c := f.claim(0)
	f.record(Result{Claim: c, LaneSeq: 1, Status: Processing, Attempt: 1, Left: time.Hour, Silence: time.Minute},
		Result{Claim: c, LaneSeq: 2, Status: Processing, Attempt: 1, Left: time.Hour},
		Result{Claim: c, LaneSeq: 3, Status: Failed, Attempt: 1, Class: "busy", NextIn: time.Hour})
	if alive, err := TestInbox.Beat(t.Context(), f.l, ref(killed, 1, 1)); alive || err != nil {
		t.Errorf("a heartbeat of the lost attempt: %v %v", alive, err)
	}
	for lane, tt := range []struct {
		said Status
		want string
	}{{Dead, "late"}, {Done, "late"}, {Done, "recorded"}} {
		if got := f.resultReported(Report{AttemptRef: ref(killed, int64(lane+1), 1), Status: tt.said}); got != tt.want {
			t.Errorf("action %d, %s of the lost attempt: %s, want %s", lane+1, tt.said, got, tt.want)
		}
	}
	next := f.claim(0) // what is recorded is taken up
	if alive, err := TestInbox.Beat(t.Context(), f.l, ref(c, 1, 1)); !alive || err != nil {
		t.Errorf("a heartbeat: %v %v", alive, err)
	}
	if got := f.resultReported(Report{AttemptRef: ref(c, 1, 1), Status: Failed}); got != "recorded" {
		t.Errorf("failed: %s", got)
	}
	list := f.reports(next)
	if len(list) != 2 || list[0].AttemptRef != ref(killed, 3, 1) || list[0].Past || list[1].AttemptRef != ref(c, 1, 1) || list[1].Past {
		t.Fatalf("%+v", list)
	}
	for _, r := range list {
		f.record(Result{Claim: next, LaneSeq: r.LaneSeq, Status: Done, Attempt: 1, Epoch: r.Epoch, Reported: true})
	}
	if s := f.action(ref(killed, 1, 1)); s.Reported != Dead || s.Outcome != "late" {
		t.Errorf("%+v", s)
	}
	if s := f.action(ref(c, 1, 1)); s.Status != Done || s.Reported != Failed || s.Outcome != "applied" {
		t.Errorf("%+v", s)
	}
	if got := one[string](f, `SELECT string_agg(attempt_epoch::text, ' ' ORDER BY lane_seq) FROM actions`); got != "2 2 2" {
		t.Errorf("epochs of the attempts: %s", got)
	}
}

// However much was said while nobody listened: all of it is read before anything runs.
func TestReportsAreReadToTheEnd(t *testing.T) {
	t.Parallel()
	f, c := accepted(t, 0)
	const said = 2*reportPage + 300
	one[int](f, `WITH i AS (INSERT INTO results (fence, lane_seq, attempt, epoch, status, digest)
		SELECT $1, i, 1, 1, 'done', gen_random_uuid() FROM generate_series(1, $2::int) i RETURNING 1) SELECT count(*) FROM i`, c.ID, said)
	list := f.reports(c)
	if len(list) != said {
		t.Fatalf("%d of %d", len(list), said)
	}
	for i, r := range list {
		if r.LaneSeq != int64(i+1) {
			t.Fatalf("%d: %+v", i, r)
		}
	}
}

func TestReportRefusesNonsense(t *testing.T) {
	t.Parallel()
	f, c := accepted(t, 0)
	for name, r := range map[string]Report{
		"status": {AttemptRef: ref(c, 1, 1), Status: Processing}, "attempt": {AttemptRef: ref(c, 1, 0), Status: Done},
		"lane_seq": {AttemptRef: ref(c, 0, 1), Status: Done}, "wait": {AttemptRef: ref(c, 1, 1), Status: Failed, Wait: -1},
		"code": {AttemptRef: ref(c, 1, 1), Status: Done, Code: 1000},
	} {
		if _, err := TestInbox.Report(t.Context(), f.l, r); schemas.KindOf(err) != schemas.Invalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	for attempt, status := range []Status{Done, Failed, Dead} {
		if got := f.resultReported(Report{AttemptRef: ref(c, 2, attempt+1), Status: status, Error: "with a \x00", Wait: time.Second}); got != "recorded" {
			t.Errorf("%s: %s", status, got)
		}
	}
	if _, err := TestInbox.ActionState(t.Context(), f.l, ref(c, 99, 1)); schemas.KindOf(err) == schemas.Unavailable || err == nil {
		t.Errorf("an action that never was: %v", err)
	}
}
