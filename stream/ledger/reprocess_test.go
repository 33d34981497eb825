package ledger

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
)

// againID is the id of an event's action run in a replay.
func againID(replay int64, event string) schemas.ActionID {
	return schemas.NewActionID("acme.triage", int32(replay), "/acme/github", event, "run")
}

// keysOf are the ids of actions, and the keys of their events in the log.
func keysOf(actions []Action) (list []string) {
	for _, a := range actions {
		list = append(list, string(a.ID)+" "+a.Pointer.Key.String())
	}
	return list
}

// What ran runs again once per replay, behind all of its entity, under ids of the replay's own that every claim gives; the version lines stay
// where they are, through a claim, and what comes live goes on.
func TestReplayRunsAgainWhatRan(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.claim(0)
	ran := []Record{seq(0, "e", 1), delta(seq(1, "e", 2)), seq(2, "e", 3), seq(3, "other", 1)}
	f.apply(c, ran...)
	id := f.replayingAs(ReplayReprocess)
	step := ReplaySlice{Replay: id, From: 0, Next: 20, Records: append(ran, record(9, "e-3", "e", ran[2].Version)), Reprocess: true}
	a := f.replay(c, step)
	if d := cmp.Diff([]string{"0:stale/older", "1:late/again", "2:applied/again", "3:applied/again", "4:duplicate/seen"}, decisions(a)); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"5:e-2:run", "6:e-3:run", "7:other-1:run"}, lanes(a.Actions)); d != "" || !a.Actions[0].Late || a.Actions[1].Late {
		t.Error(d)
	}
	var want []string
	for _, event := range []string{"e-2", "e-3", "other-1"} {
		want = append(want, fmt.Sprintf("%s %s", againID(id, event), schemas.NewEventKey("/acme/github", event)))
	}
	if d := cmp.Diff(want, keysOf(a.Actions)); d != "" {
		t.Error(d)
	}
	if got := f.part(id); got != "20 done 1 applied 2 late 1 stale 1 waits 0 rejected 0" {
		t.Error(got)
	}

	zombie := c
	c = f.claim(0)
	if d := cmp.Diff(want, keysOf(f.openActions(c)[4:])); d != "" {
		t.Errorf("another claim reads them otherwise: %s", d)
	}
	if a := f.replay(zombie, ReplaySlice{Replay: id, From: 20, Next: 21, Records: []Record{seq(20, "e", 9)}, Reprocess: true}); !a.Fenced {
		t.Errorf("a zombie replays: %+v", a)
	}
	a = f.replay(c, step)
	if gap, ok := errors.AsType[*ContinuityError](a.Refused); !ok || gap.Stored != 20 {
		t.Errorf("the step was made again: %+v", a)
	}
	c = f.claim(0)
	a = f.replay(c, ReplaySlice{Replay: id, From: 20, Next: 40, Records: []Record{record(21, "e-3", "e", ran[2].Version)}, Reprocess: true})
	if d := cmp.Diff([]string{"0:duplicate/seen"}, decisions(a)); d != "" {
		t.Error(d)
	}
	live := f.apply(c, seq(4, "e", 1), seq(5, "e", 4), seq(6, "other", 2))
	if d := cmp.Diff([]string{"0:duplicate/seen", "1:applied/next", "2:applied/next"}, decisions(live)); d != "" {
		t.Error(d)
	}
	if got := one[string](f, `SELECT string_agg(entity || ' ' || value, ', ' ORDER BY entity) FROM version_lines`); got != "e 3, other 1" && got != "e 4, other 2" {
		t.Errorf("version lines: %s", got)
	}
}

// Each replay runs an event again; the older snapshot as well, where it is asked for, and a database that restarts in between knows both.
func TestEachReplayIsAGenerationOfItsOwn(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.claim(0)
	ran := []Record{seq(0, "e", 1), seq(1, "e", 2)}
	f.apply(c, ran...)
	first := f.replayingAs(ReplayReprocess)
	f.replay(c, ReplaySlice{Replay: first, From: 0, Next: 40, Records: ran, Reprocess: true})
	second := f.replayingAs(ReplayReprocess)
	a := f.replay(c, ReplaySlice{Replay: second, From: 0, Next: 40, Records: ran, Reprocess: true, EvenStale: true})
	if d := cmp.Diff([]string{"0:late/again", "1:applied/again"}, decisions(a)); d != "" {
		t.Error(d)
	}
	ids := map[schemas.ActionID]bool{}
	for _, a := range f.openActions(f.claim(0)) {
		ids[a.ID] = true
	}
	for _, want := range []schemas.ActionID{actionID("e-1"), actionID("e-2"), againID(first, "e-2"), againID(second, "e-1"), againID(second, "e-2")} {
		if !ids[want] {
			t.Errorf("%s is not open", want)
		}
	}
	if len(ids) != 5 {
		t.Errorf("%d actions", len(ids))
	}
	if known, err := f.n.Known(t.Context(), c.ID, ran, false); err != nil || known[0] != (Known{Decision: "applied", Done: true}) {
		t.Error(known, err)
	}
}

// A step that the database refuses is cut in two like any batch, and all of it stays of the replay: nothing is written of what is left out.
func TestReprocessIsCutInTwo(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.claim(0)
	var ran []Record
	for i := range int64(9) {
		ran = append(ran, seq(i, fmt.Sprintf("e%d", i), 1))
	}
	f.apply(c, ran...)
	id := f.replayingAs(ReplayReprocess)
	ran[5].Type = "a\x00b"
	a := f.replay(c, ReplaySlice{Replay: id, From: 0, Next: 20, Records: ran, Reprocess: true})
	if len(a.Actions) != 8 || a.Refused != nil || a.Actions[7].ID != againID(id, "e8-1") {
		t.Errorf("%+v", a)
	}
	if got := one[string](f, `SELECT (SELECT count(*) FROM events WHERE replay IS NULL) || ' ' || (SELECT count(*) FROM events WHERE replay = $1) || ' ' || (SELECT count(*) FROM rejected_records)`, id); got != "9 8 0" {
		t.Error(got)
	}
	if got := f.part(id); got != "20 done 0 applied 8 late 0 stale 0 waits 0 rejected 1" {
		t.Error(got)
	}
}

// The payload of what runs again is found where the event is, and what dies of it is the replay's.
func TestDeadLettersOfWhatRunsAgain(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.claim(0)
	ran := []Record{seq(0, "e", 1), seq(1, "f", 1)}
	f.apply(c, ran...)
	id := f.replayingAs(ReplayReprocess)
	f.replay(c, ReplaySlice{Replay: id, From: 0, Next: 2, Records: ran, Reprocess: true})
	for _, laneSeq := range []int64{1, 2, 3} {
		f.record(Result{Claim: c, LaneSeq: laneSeq, Status: Done, Attempt: 1, Code: 200})
	}
	f.record(Result{Claim: c, LaneSeq: 4, ID: againID(id, "f-1"), Status: Dead, Attempt: 1, Code: 400, Class: "rejected", Error: "no"})
	dead, err := f.n.Unexported(t.Context(), []*Claim{c}, 10)
	if err != nil || len(dead) != 1 || dead[0].ID != againID(id, "f-1") || int64(dead[0].Generation) != id || dead[0].Pointer.Key != ran[1].Key || dead[0].Pointer.Offset != 1 {
		t.Errorf("%+v %v", dead, err)
	}
	page, err := f.n.WithoutCopy(t.Context(), c, 0, 100, 10)
	if err != nil || len(page.Actions) != 1 || page.Actions[0].LaneSeq != 4 || page.Actions[0].Pointer.Key != ran[1].Key {
		t.Errorf("%+v %v", page, err)
	}
	parts, err := f.n.ReplayParts(t.Context(), []*Claim{c})
	if err != nil || len(parts) != 1 || parts[0].Errors != 1 || parts[0].Mode != ReplayReprocess {
		t.Errorf("%+v %v", parts, err)
	}
}

// What is known of an event has the status of its newest run that is open, be it a run again: else a reprocess would run its actions twice.
func TestKnownHasTheStatusOfRunsAgain(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.claim(0)
	ran := []Record{seq(0, "e", 1), seq(1, "f", 1)}
	f.apply(c, ran...)
	statuses := func(want ...string) {
		t.Helper()
		known, err := f.n.Known(t.Context(), c.ID, ran, true)
		if err != nil || known[0].Status != want[0] || known[1].Status != want[1] || !known[0].Done || known[0].First != 0 || known[1].First != 1 {
			t.Errorf("%+v %v, want %v", known, err, want)
		}
	}
	for _, laneSeq := range []int64{1, 2} {
		f.record(Result{Claim: c, LaneSeq: laneSeq, Status: Done, Attempt: 1, Code: 200})
	}
	statuses("done", "done")
	var ids []int64
	for n := range int64(2) {
		ids = append(ids, f.replayingAs(ReplayReprocess))
		f.replay(c, ReplaySlice{Replay: ids[n], From: 0, Next: 40, Records: ran, Reprocess: true})
		statuses("received", "received")
		if known, err := f.n.Known(t.Context(), c.ID, []Record{seq(900, "e", 1)}, true); err != nil || known[0].Status != "received" {
			t.Errorf("delivered again, far behind what the replay passed: %+v %v", known, err)
		}
		f.record(Result{Claim: c, LaneSeq: 3 + 2*n, ID: againID(ids[n], "e-1"), Status: Dead, Attempt: 1, Code: 400, Class: "rejected", Error: "no"})
		f.record(Result{Claim: c, LaneSeq: 4 + 2*n, ID: againID(ids[n], "f-1"), Status: Done, Attempt: 1, Code: 200})
		statuses("dead_letter", "done")
		if n == 0 {
			f.exec(`UPDATE actions SET status = 'discarded', open = false WHERE status = 'dead_letter'`)
			statuses("done", "done")
		}
	}
	if known, err := f.n.Known(t.Context(), c.ID, nil, true); err != nil || len(known) > 0 {
		t.Error(known, err)
	}
}

// An outcome that nobody knows is one of a replay's errors; an unsafe call that is under way is none until its owner is gone.
func TestUnknownOutcomesAreErrorsOfAReplay(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.claim(0)
	ran := []Record{seq(0, "e", 1), seq(1, "f", 1)}
	f.apply(c, ran...)
	id := f.replayingAs(ReplayReprocess)
	f.replay(c, ReplaySlice{Replay: id, From: 0, Next: 2, Records: ran, Reprocess: true})
	errs := func() int {
		t.Helper()
		parts, err := f.n.ReplayParts(t.Context(), []*Claim{c})
		if err != nil || len(parts) != 1 {
			t.Fatalf("%+v %v", parts, err)
		}
		return parts[0].Errors
	}
	f.record(Result{Claim: c, LaneSeq: 1, Status: Unknown, Attempt: 1, Class: "timeout"}) // of the first time
	f.record(Result{Claim: c, LaneSeq: 3, ID: againID(id, "e-1"), Status: Unknown, Attempt: 1, Class: "timeout"})
	f.record(Result{Claim: c, LaneSeq: 4, ID: againID(id, "f-1"), Status: Unknown, Attempt: 1}) // the mark before a call
	if n := errs(); n != 1 {
		t.Errorf("%d errors, want the timeout", n)
	}
	c = f.claim(0)
	if n := errs(); n != 2 {
		t.Errorf("%d errors once the owner of the call is gone, want 2", n)
	}
}

// What runs again brings nothing that waits: the live waits in its range end when they are due.
func TestWaitsEndWhileAReplayRunsAgain(t *testing.T) {
	t.Parallel()
	f := setup(t, func(s *Spec) { s.Policy.Then, s.Policy.GapWait = gate.ThenPark, time.Minute })
	c := f.claim(0)
	f.apply(c, seq(0, "e", 1), seq(1, "e", 3))
	f.replayingAs(ReplayReprocess)
	f.overdue()
	if d := f.deadlines(c); d[c.ID] > 0 || len(d) != 1 {
		t.Fatalf("the live wait is not overdue: %v", d)
	}
	f.expire(c)
	if got := one[string](f, `SELECT decision FROM buffer`); got != "parked" {
		t.Error(got)
	}
}
