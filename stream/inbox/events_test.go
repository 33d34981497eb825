package inbox

import (
	"strings"
	"testing"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/google/go-cmp/cmp"
)

func TestInbox(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.claim(0)
	filtered := seq(7, "f", 1)
	filtered.Filtered = true
	f.apply(c, seq(0, "a", 1), seq(1, "b", 1), seq(2, "c", 1), seq(3, "d", 1), seq(4, "g", 1), seq(5, "g", 3), seq(6, "a", 1), filtered)
	f.apply(c, record(8, "old", "a", schemas.Version{Kind: schemas.Sequence}))
	_, err := f.n.Record(t.Context(), []ledger.Result{
		{Claim: c, LaneSeq: 1, Status: ledger.Done, Attempt: 1, Code: 200},
		{Claim: c, LaneSeq: 2, Status: ledger.Failed, Attempt: 1, Class: "timeout", Error: "no answer", NextIn: time.Minute},
		{Claim: c, LaneSeq: 3, Status: ledger.Dead, Attempt: 1, Class: "rejected", Code: 410, Error: "gone", Response: []byte("no")},
	})
	if err != nil {
		t.Fatal(err)
	}
	list := func(q Query) string {
		t.Helper()
		page, err := f.List(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, i := range page.Items {
			got = append(got, i.EventID+":"+i.Status)
		}
		return strings.Join(got, " ")
	}
	tests := map[string]struct {
		q    Query
		want string
	}{
		"all, newest first":     {Query{}, "old:stale f-1:filtered g-3:buffered g-1:received d-1:received c-1:dead_letter b-1:failed a-1:done"},
		"team":                  {Query{Team: "other"}, ""},
		"team and subscription": {Query{Team: "acme", Subscription: "triage", Status: "done"}, "a-1:done"},
		"source":                {Query{Source: "/acme/github", Status: "failed"}, "b-1:failed"},
		"entity":                {Query{Entity: "g"}, "g-3:buffered g-1:received"},
		"type":                  {Query{Type: "nothing"}, ""},
		"decision":              {Query{Decision: gate.Filtered}, "f-1:filtered"},
		"duplicate":             {Query{Decision: gate.Duplicate}, "a-1:done"},
		"since":                 {Query{Since: time.Now().Add(time.Hour)}, ""},
	}
	for name, tt := range tests {
		if d := cmp.Diff(tt.want, list(tt.q)); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
	var pages []string
	for q := (Query{Limit: 3}); ; {
		page, err := f.List(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range page.Items {
			pages = append(pages, i.EventID)
		}
		if q.Cursor = page.Next; q.Cursor == "" {
			break
		}
	}
	if got := strings.Join(pages, " "); got != "old f-1 g-3 g-1 d-1 c-1 b-1 a-1" {
		t.Errorf("in pages: %s", got)
	}
	for prefix, want := range map[string]string{"f": "f-1", "g-": "g-1 g-3", "": "a-1 b-1 c-1 d-1", "x": ""} { // of which list has all
		ids, err := f.EventIDs(t.Context(), "acme", "triage", "/acme/github", prefix)
		if got := strings.Join(ids, " "); err != nil || got != want {
			t.Errorf("ids that begin with %q: %s, want %s; %v", prefix, got, want, err)
		}
	}
	for name, q := range map[string]Query{"cursor": {Cursor: "?"}, "status": {Status: "lost"}, "decision": {Decision: "x"}, "limit": {Limit: 1001}, "NUL": {Type: "\x00"}} {
		if _, err := f.List(t.Context(), q); schemas.KindOf(err) != schemas.Invalid {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestInboxItemTellsActionsAndAttempts(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.claim(0)
	a := f.apply(c, seq(0, "a", 1), seq(1, "g", 2), seq(2, "g", 4))
	_, err := f.n.Record(t.Context(), []ledger.Result{{Claim: c, LaneSeq: 1, Status: ledger.Failed, Attempt: 1, Class: "timeout", Error: "no answer", Trace: [16]byte{0x0a, 15: 0x9c}, NextIn: time.Minute, Packed: []byte("kept")}})
	if err != nil {
		t.Fatal(err)
	}
	item, err := f.Item(t.Context(), "acme", "triage", "/acme/github", "a-1")
	if err != nil {
		t.Fatal(err)
	}
	if item.Status != "failed" || item.Version != "00000000000000000001" || item.Attempts != 1 || item.NextActionAt == nil || item.LastError != "no answer" ||
		item.Topic != "events.acme.github" || item.Owner != "test" || item.ReceivedAt == nil || len(item.Actions) != 1 {
		t.Errorf("%+v", item)
	}
	if got := item.Actions[0]; got.ID != a.Actions[0].ID || got.Name != "run" || len(got.History) != 1 || got.History[0].Class != "timeout" ||
		got.History[0].TraceID != "0a00000000000000000000000000009c" {
		t.Errorf("%+v", got)
	}
	if packed, p, err := f.Payload(t.Context(), item); err != nil || string(packed) != "kept" || p != a.Actions[0].Pointer {
		t.Error(string(packed), p, err)
	}
	item, err = f.Item(t.Context(), "acme", "triage", "/acme/github", "g-4")
	if err != nil || item.Status != "buffered" || item.NextActionAt == nil || item.Actions != nil {
		t.Errorf("%+v %v", item, err)
	}
	if packed, _, err := f.Payload(t.Context(), item); err != nil || string(packed) != "packed g-4" {
		t.Error(string(packed), err)
	}
	if item, err = f.Item(t.Context(), "acme", "triage", "/acme/github", "g-2"); err != nil {
		t.Fatal(err)
	}
	if packed, p, err := f.Payload(t.Context(), item); err != nil || packed != nil || p.Offset != 1 {
		t.Error(packed, p, err)
	}
	if _, err := f.Item(t.Context(), "acme", "triage", "/acme/github", "nobody\x00"); schemas.KindOf(err) != schemas.NotFound {
		t.Error(err)
	}
	status, err := f.Subscriptions(t.Context(), "acme", "triage")
	if err != nil || len(status) != 1 {
		t.Fatal(status, err)
	}
	if s := status[0]; s.Team != "acme" || s.Subscription != "triage" || s.NextOffset != 3 || s.OpenActions != 1 || s.HeldActions != 1 || s.Buffered != 1 {
		t.Errorf("%+v", s)
	}
}

// TestInboxTellsWhatStandsBehindADeadHead: parked is what waits for an operator, of that entity and no other.
func TestInboxTellsWhatStandsBehindADeadHead(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.claim(0)
	f.apply(c, seq(0, "a", 1), seq(1, "a", 2), seq(2, "b", 1), seq(3, "a", 3))
	status := func(want map[string]string) {
		t.Helper()
		for id, s := range want {
			if item, err := f.Item(t.Context(), "acme", "triage", "/acme/github", id); err != nil || item.Status != s {
				t.Errorf("%s: %q, want %q (%v)", id, item.Status, s, err)
			}
		}
	}
	record := func(r ledger.Result) {
		t.Helper()
		r.Claim, r.LaneSeq, r.Class = c, 1, "rejected"
		if _, err := f.n.Record(t.Context(), []ledger.Result{r}); err != nil {
			t.Fatal(err)
		}
	}
	record(ledger.Result{Status: ledger.Failed, Attempt: 1, NextIn: time.Minute})
	status(map[string]string{"a-1": "failed", "a-2": "received", "b-1": "received"})
	record(ledger.Result{Status: ledger.Dead, Attempt: 2})
	status(map[string]string{"a-1": "dead_letter", "a-2": "parked", "a-3": "parked", "b-1": "received"})
	page, err := f.List(t.Context(), Query{Status: "parked"})
	if err != nil || len(page.Items) != 2 {
		t.Errorf("parked: %+v %v", page.Items, err)
	}
}

// TestInboxCountsEveryDuplicate: also those that come in one batch, beside the event or after it.
func TestInboxCountsEveryDuplicate(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.claim(0)
	again := func(offset int64) ledger.Record { return seq(offset, "a", 1) }
	f.apply(c, again(0), again(1), again(2))
	f.duplicates(t, "beside it", 2)
	f.apply(c, again(3), seq(4, "b", 1), again(5), again(6))
	f.duplicates(t, "after it", 5)
	f.apply(c, again(7))
	f.duplicates(t, "one more", 6)
}

func (f *fixture) duplicates(t *testing.T, when string, want int) {
	t.Helper()
	page, err := f.List(t.Context(), Query{Decision: gate.Duplicate})
	if err != nil || len(page.Items) != 1 || page.Items[0].EventID != "a-1" || page.Items[0].Duplicates != want {
		t.Errorf("%s: %+v %v, want %d duplicates of a-1", when, page.Items, err, want)
	}
}
