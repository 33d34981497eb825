package inbox

import (
	"fmt"
	"slices"
	"testing"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/inbox/reports"
	"github.com/forebay-io/forebay/stream/ledger"
)

// again has a replay run records again, and returns its number.
func (f *fixture) again(c *ledger.Claim, reason string, records ...ledger.Record) int64 {
	f.t.Helper()
	r := f.plan(c)
	f.exec(`UPDATE replays SET mode = 'reprocess' WHERE id = $1`, r.ID)
	if err := f.StartReplay(f.t.Context(), r, "jo", reason, 0); err != nil {
		f.t.Fatal(err)
	}
	a, err := f.n.ApplyReplay(f.t.Context(), c, ledger.ReplaySlice{Replay: r.ID, From: 0, Next: 40, Records: records, Reprocess: true})
	if err != nil || a.Refused != nil || len(a.Actions) != len(records) {
		f.t.Fatal(a, err)
	}
	return r.ID
}

// An event that replays ran again is one event, with the actions of all its generations, who asked for them and why; what died is found and
// asked for by its own id.
func TestItemOfWhatRanAgain(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.claim(0)
	ran := []ledger.Record{seq(0, "e", 1), seq(1, "f", 1)}
	f.apply(c, ran...)
	first := f.again(c, "the agent had a bug", ran...)
	second := f.again(c, "it had another", ran[1:]...)
	of := func(replay int64) schemas.ActionID {
		return schemas.NewActionID("acme.triage", int32(replay), "/acme/github", "f-1", "run")
	}
	for _, laneSeq := range []int64{1, 2, 3} {
		f.record(ledger.Result{Claim: c, LaneSeq: laneSeq, Status: ledger.Done, Attempt: 1, Code: 200})
	}
	f.record(ledger.Result{Claim: c, LaneSeq: 4, ID: of(first), Status: ledger.Dead, Attempt: 1, Class: "rejected", Packed: []byte("packed f-1")})
	item, err := f.Item(t.Context(), "acme", "triage", "/acme/github", "f-1")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, a := range item.Actions {
		got = append(got, fmt.Sprintf("%d:%d:%s:%s", a.Replay, a.LaneSeq, a.ID, a.Status))
	}
	want := []string{"0:2:" + string(actionID("f-1")) + ":done", fmt.Sprintf("%d:4:%s:dead_letter", first, of(first)), fmt.Sprintf("%d:5:%s:pending", second, of(second))}
	if !slices.Equal(got, want) || item.Generation != 0 || item.Status != "done" || item.Pointer.Key != ran[1].Key {
		t.Errorf("%+v, actions %q, want %q", item, got, want)
	}
	if _, err := f.AskAction(t.Context(), of(first), ledger.Discard, ledger.CommandDetail{}, "ann", "it is the wrong one"); err != nil {
		t.Error(err)
	}
	s, err := f.Story(t.Context(), &item)
	if err != nil || len(s.Reprocesses) != 2 || s.Reprocesses[0].By != "jo" || s.Reprocesses[0].Reason != "the agent had a bug" || int64(s.Reprocesses[1].Replay) != second ||
		len(s.Commands) != 1 || s.Commands[0].By != "ann" || s.Commands[0].Other {
		t.Errorf("%+v %v", s, err)
	}
	last, err := f.Item(t.Context(), "acme", "triage", "/acme/github", "e-1")
	if err != nil || len(last.Actions) != 2 {
		t.Errorf("%+v %v", last, err)
	}

	page, err := f.List(t.Context(), Query{Entity: "f"})
	if err != nil || len(page.Items) != 3 || int64(page.Items[0].Generation) != second || page.Items[0].Status != "parked" || int64(page.Items[1].Generation) != first ||
		page.Items[1].Status != "dead_letter" || page.Items[2].Generation != 0 || page.Items[0].Pointer.Key != ran[1].Key {
		t.Errorf("%+v %v", page, err)
	}
	dead, err := f.FindDeadLetter(t.Context(), of(first))
	if err != nil || int64(dead.Generation) != first || dead.EventID != "f-1" {
		t.Errorf("%+v %v", dead, err)
	}
	if ids, err := f.ActionIDs(t.Context(), nil, string(of(first))[:20]); err != nil || !slices.Equal(ids, []schemas.ActionID{of(first)}) {
		t.Error(ids, err)
	}
	if state, err := reports.New(f.l).ActionState(t.Context(), ledger.AttemptRef{Fence: c.ID, LaneSeq: 5, Attempt: 1, Epoch: c.Epoch}); err != nil || state.ID != of(second) {
		t.Errorf("%+v %v", state, err)
	}
	f.record(ledger.Result{Claim: c, LaneSeq: 5, ID: of(second), Status: ledger.Dead, Attempt: 1, Class: "rejected"})
	f.exec(`UPDATE actions SET action_id = NULL WHERE lane_seq = 5`)
	if ref, err := f.FindAction(t.Context(), of(second)); err != nil || ref.LaneSeq != 5 {
		t.Errorf("%+v %v", ref, err)
	}

	// Dedupe has forgotten the event: what the replays made of it is told.
	f.exec(`DELETE FROM events WHERE replay IS NULL`)
	item, err = f.Item(t.Context(), "acme", "triage", "/acme/github", "f-1")
	if err != nil || int64(item.Generation) != first || len(item.Actions) != 2 {
		t.Errorf("%+v %v", item, err)
	}

	// The subscription came from another ledger, and its replays have other numbers here.
	f.exec(`UPDATE events SET replay = replay + 1000`)
	f.exec(`UPDATE replays SET was = id + 1000`)
	item, err = f.Item(t.Context(), "acme", "triage", "/acme/github", "f-1")
	if err != nil {
		t.Fatal(err)
	}
	if s, err := f.Story(t.Context(), &item); err != nil || len(s.Reprocesses) != 2 || s.Reprocesses[0].By != "jo" {
		t.Errorf("%+v %v", s, err)
	}
	if names, err := f.RanAgain(t.Context(), of(second+1000)); err != nil || !slices.Equal(names, []string{"jo"}) {
		t.Error(names, err)
	}
}
