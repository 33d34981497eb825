package alerts

import (
	"strings"
	"testing"
	"time"

	"github.com/forebay-io/forebay/stream/ledger"
)

// TestQuestionText: what an event says is never a line of ours, nor hidden in one, and a long text is cut with a mark.
func TestQuestionText(t *testing.T) {
	t.Parallel()
	a := ledger.Approval{ID: 7, State: ledger.ApprovalWaiting, Team: "acme", Subscription: "triage", Action: "run", ActionID: "act_1", Destination: "acme/deploy",
		Type: "t\nApproved by the boss", EventID: "e\u202e1",
		Entity: "e\r\nhttps://evil.example/", Why: "rule ask", Sends: "one\nforebay approvals approve 8 --reason \u200bTEXT\n" + strings.Repeat("é", 3000),
		Roles: []string{"approver"}, FourEyes: true,
		ExpiresAt: time.Unix(1_800_000_000, 0)}
	q := NewQuestion(&a, "https://ops.example/console")
	lines := strings.Split(q.Text, "\n")
	want := []string{
		"Approval 7: action run of acme.triage to acme/deploy waits for somebody's word, for entity e https://evil.example/", "Why: rule ask",
		"Event: t Approved by the boss e1, version ", "Until 2027-01-15T08:00:00Z, by two of approver:", "https://ops.example/console/approvals/7",
		"forebay approvals approve 7 --reason TEXT",
		"What is to be sent:", "> one", "> forebay approvals approve 8 --reason TEXT",
	}
	for i, line := range want {
		if lines[i] != line {
			t.Errorf("line %d: %q, want %q", i, lines[i], line)
		}
	}
	if last := lines[len(lines)-1]; len(lines) != len(want)+2 || last != "> … (cut)" || q.Summary != lines[0] || q.Sends != a.Sends {
		t.Errorf("%d lines, the last %q", len(lines), last)
	}
	one, err := q.Do("acme/pagers", "http")
	if err != nil {
		t.Fatal(err)
	}
	again, _ := NewQuestion(&a, "https://other.example/console").Do("acme/pagers", "http")
	a.State = ledger.ApprovalDenied
	end, _ := NewQuestion(&a, "https://ops.example/console").Do("acme/pagers", "pagerduty")
	http, _ := NewQuestion(&a, "https://ops.example/console").Do("acme/pagers", "http")
	a.State = ledger.ApprovalWaiting
	a.ID++
	next, _ := NewQuestion(&a, "https://ops.example/console").Do("acme/pagers", "http")
	if end.ID == one.ID || end.Amends != one.ID || end.Event.ID != one.Event.ID || end.Event.Type != one.Event.Type || end.Event.Entity != one.Event.Entity {
		t.Errorf("the end is %s of %+v", end.ID, end.Event)
	}
	if http.ID != end.ID || http.Event.ID == one.Event.ID || http.Event.Type != "forebay.approval.ended" || http.Event.Entity != one.Event.Entity {
		t.Errorf("the end is told by http as %s of %+v", http.ID, http.Event)
	}
	if one.ID != again.ID || one.ID == next.ID || one.Event.ID == next.Event.ID {
		t.Errorf("keys: %s %s %s", one.ID, again.ID, next.ID)
	}
}

// TestEndedQuestionText: how a question has ended and by whom, nothing that asks for an answer, and a reason is one line.
func TestEndedQuestionText(t *testing.T) {
	t.Parallel()
	for state, want := range map[ledger.ApprovalState]string{
		ledger.ApprovalApproved: "was approved by jo: looked forebay approvals approve 8", ledger.ApprovalUsed: "was approved by jo: looked forebay approvals approve 8",
		ledger.ApprovalDenied: "was denied by jo: looked forebay approvals approve 8", ledger.ApprovalExpired: "has expired: nobody answered in time",
		ledger.ApprovalVoid: "needs no answer any more: looked forebay approvals approve 8",
	} {
		q := NewQuestion(&ledger.Approval{ID: 7, State: state, Team: "acme", Subscription: "triage", Action: "run", Destination: "acme/deploy", Type: "t", EventID: "e1",
			Entity: "e", Version: "3", Why: "rule ask", AnsweredBy: "jo", Reason: "looked\nforebay approvals approve 8"}, "https://ops.example/console")
		if q.Text != "Approval 7: action run of acme.triage to acme/deploy, for entity e, "+want+"\nWhy it was asked: rule ask\nEvent: t e1, version 3" || q.By != "jo" {
			t.Errorf("%s: %+v", state, q)
		}
	}
}
