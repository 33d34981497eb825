package ledger

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/google/go-cmp/cmp"
)

// The end of an attempt that was marked before its call takes the mark's place among the attempts, and no mark takes away what
// is known of those before it.
func TestMarkGivesWayToItsEnd(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.claim(0)
	f.apply(c, seq(0, "a", 1))
	id := schemas.NewActionID("acme.triage", 0, "/acme/github", "a-1", "run")
	mark := func(n int) {
		f.record(Result{Claim: c, LaneSeq: 1, ID: id, Status: Unknown, Attempt: n, Error: "marked"})
	}
	history := func(when string, want ...string) {
		t.Helper()
		var got []string
		said, err := TestInbox.DeadLetter(t.Context(), f.l, id)
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range seenAs[struct{ History []seenAttempt }](t, said).History {
			got = append(got, fmt.Sprintf("%d %s %s %d %gms %s %q %.4s", h.Attempt, h.Status, h.Class, h.Code, h.LatencyMS, h.Error, h.Response, h.TraceID))
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: %s", when, d)
		}
	}
	mark(1)
	history("marked", `1 unknown  0 0ms marked "" `)
	f.record(Result{Claim: c, LaneSeq: 1, ID: id, Status: Failed, Attempt: 1, Marked: true, Class: "throttled", Code: 429, Latency: 20 * time.Millisecond,
		Error: "slower", Response: []byte("please"), Trace: [16]byte{0xab, 0xcd}})
	first := `1 failed throttled 429 20ms slower "please" abcd`
	history("ended", first)
	mark(2)
	history("marked again", first, `2 unknown  0 0ms marked "" `)
	f.record(Result{Claim: c, LaneSeq: 1, ID: id, Status: Unknown, Attempt: 2, Marked: true, Class: "timeout"})
	f.record(Result{Claim: c, LaneSeq: 1, ID: id, Status: Dead, Attempt: 2, Marked: true, Class: "rejected"})
	history("an end stays", first, `2 unknown timeout 0 0ms  "" `)

	f.apply(c, seq(1, "b", 1))
	f.record(Result{Claim: c, LaneSeq: 2, Status: Unknown, Attempt: 1})
	f.record(Result{Claim: c, LaneSeq: 2, Status: Done, Attempt: 1, Marked: true, Code: 7, Trace: [16]byte{1}})
	item, err := f.item("b-1")
	if err != nil || len(item.Actions) != 1 || len(item.Actions[0].History) != 1 {
		t.Fatalf("%+v %v", item.Actions, err)
	}
	if h := item.Actions[0].History[0]; h.Status != "done" || h.Code != 7 || h.TraceID == "" {
		t.Errorf("a first attempt that succeeded: %+v", h)
	}
}

// After a claim the owner reads from the mark up, over windows, however much has been done before.
func TestLaneLowFollowsWhatIsDone(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.claim(0)
	const n = laneLowEvery / 4
	for round := range int64(6) {
		if round == 3 {
			f.turnWindow()
		}
		var records []Record
		for i := range int64(n) {
			records = append(records, seq(round*n+i, "e", round*n+i+1))
		}
		var results []Result
		for _, a := range f.apply(c, records...).Actions {
			switch a.LaneSeq {
			case 2: // stands apart
				results = append(results, Result{Claim: c, LaneSeq: a.LaneSeq, Status: Failed, Attempt: 1})
			case 4*n + 7: // in flight
			default:
				results = append(results, Result{Claim: c, LaneSeq: a.LaneSeq, Status: Done, Attempt: 1})
			}
		}
		if _, err := f.n.Record(t.Context(), results); err != nil {
			t.Fatal(err)
		}
	}
	low := one[int64](f, `SELECT lane_low FROM progress`)
	if low <= n || low > 4*n+7 {
		t.Errorf("lane_low %d", low)
	}
	c = f.claim(0)
	open, _, err := f.n.Open(t.Context(), c, 0, 10)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(lanes(open), " "); got != fmt.Sprintf("2:e-2:run %d:e-%d:run", 4*n+7, 4*n+7) {
		t.Error(got)
	}
	if _, err := f.n.Record(t.Context(), []Result{{Claim: c, LaneSeq: 2, Status: Done, Attempt: 2}, {Claim: c, LaneSeq: 4*n + 7, Status: Done, Attempt: 1}}); err != nil {
		t.Error(err) // rows in two windows, neither of which this claim has written
	}
	if got := one[int](f, `SELECT count(*) FROM `+states+` WHERE status <> 'done'`); got != 0 {
		t.Errorf("%d not done", got)
	}
}

// TestTimesOfActionsAreOurs: when an action was first tried, and when an operator let it run again, is read as how long ago, and
// so is our clock's, whatever the database's says; steps of either change nothing in what follows.
func TestTimesOfActionsAreOurs(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.claim(0)
	f.apply(c, seq(0, "a", 1))
	if _, err := f.n.Record(t.Context(), []Result{{Claim: c, LaneSeq: 1, Status: Failed, Attempt: 1, Class: "timeout"}}); err != nil {
		t.Fatal(err)
	}
	f.exec(`UPDATE actions SET first_at = now() - interval '2 hours', replayed_at = now() - interval '1 hour' WHERE lane_seq = 1`)
	open, _, err := f.n.Open(t.Context(), c, 0, 1)
	if err != nil || len(open) != 1 || open[0].Replay == nil {
		t.Fatal(open, err)
	}
	for at, want := range map[time.Time]time.Duration{open[0].FirstAt: 2 * time.Hour, open[0].Replay.At: time.Hour} {
		if ago := time.Since(at); (ago - want).Abs() > 30*time.Second {
			t.Errorf("%s ago, want %s", ago, want)
		}
		if at == at.Round(0) {
			t.Errorf("%s is not by our clock", at)
		}
	}
}

// When an action was first attempted is when that was, however long its result had to wait for the ledger, and no later: a look
// for what the attempt did goes back to then.
func TestFirstAttemptIsNotWhenItIsRecorded(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.claim(0)
	f.apply(c, seq(0, "new", 1), seq(1, "withrow", 1), seq(2, "young", 1))
	f.copy(c, Copy{LaneSeq: 2, Packed: []byte("kept")})
	failed := func(seq int64, began time.Time) Result {
		return Result{Claim: c, LaneSeq: seq, Status: Failed, Attempt: 1, Class: "timeout", Latency: time.Minute, Began: began}
	}
	w, err := writeOf([]Result{failed(1, time.Now().Add(-time.Hour)), failed(2, time.Now().Add(-time.Hour)), failed(3, time.Time{})})
	if err != nil {
		t.Fatal(err)
	}
	w.decided = w.decided.Add(-2 * time.Hour) // since then it is tried
	if _, err := (recorder{f.n}).record(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	open, _, err := f.n.Open(t.Context(), f.claim(0), 0, 10)
	if err != nil || len(open) != 3 {
		t.Fatal(err, open)
	}
	for i, want := range []time.Duration{3 * time.Hour, 3 * time.Hour, 2*time.Hour + time.Minute} {
		if got := time.Since(open[i].FirstAt); (got - want).Abs() > 30*time.Second {
			t.Errorf("%s: first attempted %v ago, not %v", open[i].EventID, got, want)
		}
	}
}
