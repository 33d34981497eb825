package inbox

import (
	"slices"
	"testing"

	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/ledger"
)

// What a replay is narrowed to by a status is what the inbox lists with it, over several windows and of every decision; and an event of a
// decision has no other statuses than are said to be of that.
func TestReplaysSeeTheStatusesOfTheInbox(t *testing.T) {
	t.Parallel()
	f := crowd(t, random(t))
	f.exec(`UPDATE rejected_records SET redriven_at = now(), redriven_by = 'jo', redriven_reason = 'mended', discarded = log_offset % 2 = 0
		WHERE decision IN ('conflict', 'quarantined') AND log_offset % 3 < 2`)
	c := f.claim(5)
	f.apply(c, seq(0, "parks", 1), seq(1, "parks", 2))
	f.record(ledger.Result{Claim: c, LaneSeq: 1, Status: ledger.Dead, Attempt: 1, Class: "rejected"})
	page, err := f.List(t.Context(), Query{Team: "acme", Subscription: "triage", Limit: 1000})
	if err != nil || page.Next != "" {
		t.Fatal(page.Next, err)
	}
	statuses := map[string]bool{}
	for i := range page.Items {
		item := &page.Items[i]
		r := ledger.Record{Source: item.CESource, ID: item.EventID, Record: gate.Record{Offset: item.Offset, Key: item.key, Hash: item.Pointer.Hash, Filtered: item.Decision == gate.Filtered}}
		if item.EventID == "" {
			r.Broken = gate.ReasonUndecodable
		}
		statuses[item.Status] = true
		if !slices.Contains(StatusesOf(item.Decision), item.Status) {
			t.Errorf("%s is a status of %s", item.Status, item.Decision)
		}
		for asked, want := range map[bool]string{true: item.Status, false: ""} {
			known, err := f.n.Known(t.Context(), item.Fence, []ledger.Record{r}, asked)
			if err != nil || known[0].Status != want || known[0].Decision != item.Decision {
				t.Errorf("offset %d of fence %d: %+v %v; the inbox has %s, %s", item.Offset, item.Fence, known, err, item.Decision, item.Status)
			}
		}
	}
	if len(statuses) < 10 || !statuses["redriven"] || !statuses["dropped"] || !statuses["waiting_approval"] || !statuses["discarded"] || !statuses["parked"] {
		t.Errorf("only %v", statuses)
	}
	never := seq(1<<40, "never", 1)
	if known, err := f.n.Known(t.Context(), page.Items[0].Fence, []ledger.Record{never}, true); err != nil || known[0].Status != "" || known[0].Decision != ledger.Undecided {
		t.Errorf("%+v %v", known, err)
	}
	for _, d := range gate.Decisions() {
		if of := StatusesOf(d); len(of) == 0 || slices.ContainsFunc(of, func(s string) bool { return !slices.Contains(Statuses(), s) }) {
			t.Errorf("%s: %v", d, of)
		}
	}
}

// An event of which several actions have a status is listed once, also where it is looked for among the rows of actions.
func TestEventOfTwoActionsIsListedOnce(t *testing.T) {
	t.Parallel()
	f := setup(t, func(s *ledger.Spec) {
		s.Actions = append(s.Actions, ledger.ActionSpec{Name: "tell", Destination: "acme/coder", OnDead: ledger.Park})
	})
	f.crowded = 1
	c := f.claim(0)
	f.apply(c, seq(0, "a", 1), seq(1, "b", 1), seq(2, "c", 1))
	for n := range int64(4) {
		f.record(ledger.Result{Claim: c, LaneSeq: n + 1, Status: ledger.Skipped, Class: "when", Guarded: true})
	}
	page, err := f.List(t.Context(), Query{Team: "acme", Subscription: "triage", Status: "skipped", Limit: 10})
	if err != nil || len(page.Items) != 2 || page.Items[0].EventID == page.Items[1].EventID {
		t.Errorf("%+v %v", page.Items, err)
	}
}
