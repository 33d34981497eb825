package inbox

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/inbox/reports"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/google/go-cmp/cmp"
)

func (f *fixture) dead(q DeadLetterQuery) (list []string) {
	f.t.Helper()
	for {
		page, err := f.DeadLetters(f.t.Context(), q)
		if err != nil {
			f.t.Fatal(err)
		}
		for _, d := range page.Items {
			list = append(list, fmt.Sprintf("%s %s %s %d+%s", d.EventID, d.Status, d.Class, d.Deaths, d.Behind.text()))
		}
		if q.Cursor = page.Next; q.Cursor == "" {
			return list
		}
	}
}

func TestDeadLetters(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c, d := f.claim(0), f.claim(1)
	f.apply(c, seq(0, "a", 1), seq(1, "b", 1), seq(2, "a", 2), seq(3, "c", 1), seq(4, "a", 3), seq(5, "ok", 1))
	f.apply(d, seq(0, "d", 1))
	before := time.Now().Add(-time.Minute)
	f.die(c, 1, "a-1", 2)
	f.die(d, 1, "d-1", 1)
	f.record(ledger.Result{Claim: c, LaneSeq: 2, ID: actionID("b-1"), Status: ledger.Unknown, Attempt: 1},
		ledger.Result{Claim: c, LaneSeq: 4, ID: actionID("c-1"), Status: ledger.Dead, Attempt: 1, Class: "timeout"}, ledger.Result{Claim: c, LaneSeq: 6, Status: ledger.Done, Attempt: 1})
	page, err := f.List(t.Context(), Query{Status: "dead_letter", Entity: "a"})
	if err != nil || len(page.Items) != 1 || *page.Items[0].Behind != 2 {
		t.Errorf("in the inbox: %+v %v", page.Items, err)
	}
	all := []string{"a-1 dead_letter rejected 1+2", "b-1 unknown unknown 0+0", "c-1 dead_letter timeout 1+0", "d-1 dead_letter rejected 1+0"}
	for limit := range 3 {
		if diff := cmp.Diff(all, f.dead(DeadLetterQuery{Limit: limit})); diff != "" {
			t.Errorf("pages of %d: %s", limit, diff)
		}
	}
	groups, more, err := f.DeadLetterGroups(t.Context(), DeadLetterQuery{})
	if err != nil || len(groups) == 0 {
		t.Fatal(err)
	}
	for want, q := range map[string]DeadLetterQuery{
		"2 by entity a":      {Entity: "a"},
		"3 by class":         {Class: "unknown"},
		"4 by destination":   {Destination: "acme/coder"},
		"0 of another one":   {Destination: "acme/other"},
		"4 since":            {Since: before, Team: "acme", Subscription: "triage", Source: "/acme/github", Type: "com.github.issues.labeled"},
		"0 since tomorrow":   {Since: time.Now().Add(24 * time.Hour)},
		"0 of another team":  {Team: "other"},
		"2 by a fingerprint": {Group: groups[0].Group},
	} {
		n := map[byte]int{'0': 0, '2': 1, '3': 1, '4': 4}[want[0]]
		if want == "2 by a fingerprint" {
			n = 2
		}
		if got := f.dead(q); len(got) != n {
			t.Errorf("%s: %q", want, got)
		}
	}
	if err != nil || more || len(groups) != 3 || groups[0].Class != "rejected" || groups[0].Count != 2 || groups[0].Entities != 2 || groups[0].Last.Before(before) {
		t.Errorf("%+v %v", groups, err)
	}
	for _, q := range []DeadLetterQuery{{Limit: 1001}, {Limit: -1}, {Cursor: "nonsense"}, {Type: "a\x00"}} {
		if _, err := f.DeadLetters(t.Context(), q); schemas.KindOf(err) != schemas.Invalid {
			t.Errorf("%+v: %v", q, err)
		}
	}
}

// Groups that are left out are told of.
func TestMoreGroupsThanAreTold(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.claim(0)
	var records []ledger.Record
	var results []ledger.Result
	for i := range int64(maxGroups + 1) {
		records = append(records, seq(i, fmt.Sprint("e", i), 1))
		results = append(results, ledger.Result{Claim: c, LaneSeq: i + 1, Status: ledger.Dead, Attempt: 1, Class: fmt.Sprint("class-", i)})
	}
	f.apply(c, records...)
	f.record(results[1:]...)
	if groups, more, err := f.DeadLetterGroups(t.Context(), DeadLetterQuery{}); err != nil || more || len(groups) != maxGroups {
		t.Errorf("%d groups, more %v, %v", len(groups), more, err)
	}
	f.record(results[0])
	if groups, more, err := f.DeadLetterGroups(t.Context(), DeadLetterQuery{}); err != nil || !more || len(groups) != maxGroups {
		t.Errorf("%d groups, more %v, %v", len(groups), more, err)
	}
	// The last of more dead letters than are grouped is found by a filter.
	f.groupReads = maxGroups
	if groups, more, err := f.DeadLetterGroups(t.Context(), DeadLetterQuery{}); err != nil || !more || len(groups) != maxGroups {
		t.Errorf("of the first %d: %d groups, more %v, %v", maxGroups, len(groups), more, err)
	}
	f.groupReads = 3
	last := fmt.Sprint("class-", maxGroups)
	if groups, more, err := f.DeadLetterGroups(t.Context(), DeadLetterQuery{Class: last}); err != nil || more || len(groups) != 1 || groups[0].Class != last || groups[0].Count != 1 {
		t.Errorf("%+v, more %v, %v", groups, more, err)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// What a destination reports once its action is dead changes nothing, and is told: the action may be done.
func TestLateReportIsTold(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.claim(0)
	f.apply(c, seq(0, "e", 1))
	f.die(c, 1, "e-1", 1)
	late := ledger.Report{AttemptRef: ledger.AttemptRef{Fence: c.ID, LaneSeq: 1, Attempt: 1, Epoch: c.Epoch}, Status: ledger.Done, Code: 200, Response: []byte("merged")}
	if said, err := reports.New(f.l).Report(t.Context(), late); said != reports.Late || err != nil {
		t.Fatal(said, err)
	}
	d, err := f.DeadLetter(t.Context(), actionID("e-1"))
	if err != nil || d.Status != ledger.Dead || len(d.History) != 2 || d.History[0].Class == d.History[1].Class {
		t.Fatalf("%+v %v", d, err)
	}
	if h := d.History[1]; h.Attempt != 1 || h.Status != ledger.Done || h.Class != "too_late" || h.Code != 200 || string(h.Response) != "merged" || h.EndedAt.IsZero() ||
		!strings.Contains(h.Error, "reported done") {
		t.Errorf("%+v", h)
	}
}

// Dead three times, an action is flagged; what was asked about it and every attempt are told.
func TestDeadLetterIsFlagged(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.claim(0)
	f.apply(c, seq(0, "e", 1))
	for i := range 3 {
		f.die(c, 1, "e-1", i+1)
		d, err := f.DeadLetter(t.Context(), actionID("e-1"))
		if err != nil || d.Flagged() != (i == 2) || int(d.Deaths) != i+1 || len(d.History) != i+1 || len(d.Commands) != i || d.Code != 400 ||
			d.Error != "no such repository" || d.DiedAt.IsZero() || d.Status != ledger.Dead || !d.Parks || d.ID != actionID("e-1") || d.Owner != "test" {
			t.Errorf("%d: %+v %v", i, d, err)
		}
		if i < 2 {
			f.askAction("e-1", ledger.Replay, ledger.CommandDetail{})
			if d, err := f.DeadLetter(t.Context(), actionID("e-1")); err != nil || !d.HasCommand {
				t.Errorf("%d: %+v %v", i, d, err)
			}
			f.applyLaneCommands(c)
		}
	}
	packed, _, err := f.DeadPayload(t.Context(), must(f.DeadLetter(t.Context(), actionID("e-1"))).DeadLetter.DeadLetter)
	if err != nil || string(packed) != "packed e-1" {
		t.Errorf("%q %v", packed, err)
	}
	f.askAction("e-1", ledger.Discard, ledger.CommandDetail{})
	f.applyLaneCommands(c)
	d, err := f.DeadLetter(t.Context(), actionID("e-1"))
	if err != nil || d.Status != ledger.Discarded || d.Parks || len(d.Commands) != 3 || d.Commands[2].Outcome != "given up" {
		t.Errorf("%+v %v", d, err)
	}
	if i, err := f.Item(t.Context(), "acme", "triage", "/acme/github", "e-1"); err != nil || i.Status != "discarded" {
		t.Errorf("in the inbox: %+v %v", i, err)
	}
	if got := f.dead(DeadLetterQuery{}); len(got) != 0 {
		t.Errorf("left: %q", got)
	}
	if _, err := f.DeadLetter(t.Context(), actionID("nothing")); schemas.KindOf(err) != schemas.NotFound {
		t.Error(err)
	}
}

// What was refused with one status is mended otherwise than what was refused with another: they are two groups.
func TestGroupsAreByStatus(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.claim(0)
	f.apply(c, seq(0, "a", 1), seq(1, "b", 1), seq(2, "c", 1))
	for i, code := range []int{404, 422, 422} {
		f.record(ledger.Result{Claim: c, LaneSeq: int64(i + 1), Status: ledger.Dead, Attempt: 1, Code: code, Class: "rejected"})
	}
	groups, more, err := f.DeadLetterGroups(t.Context(), DeadLetterQuery{})
	if err != nil || more || len(groups) != 2 || groups[0].Code != 422 || groups[0].Count != 2 || groups[1].Code != 404 || groups[0].Group == groups[1].Group {
		t.Fatalf("%+v %v", groups, err)
	}
	for _, g := range groups {
		if page, err := f.DeadLetters(t.Context(), DeadLetterQuery{Group: g.Group}); err != nil || int64(len(page.Items)) != g.Count || page.Items[0].Code != int32(g.Code) {
			t.Errorf("group of %d: %+v %v", g.Code, page.Items, err)
		}
	}
}
