package console

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/forebay-io/forebay/cmd/internal/access"
	"github.com/forebay-io/forebay/cmd/internal/api"
	"golang.org/x/net/html"
)

// buttons are what the forms of a page do.
func (s *screen) buttons() (all []string) {
	for _, n := range s.all("button") {
		all = append(all, text(n))
	}
	return all
}

// Who looks sees that something waits, what is sent, and answers it once.
func TestApprovalPages(t *testing.T) {
	t.Parallel()
	f := newFake()
	f.attention.Counts = append(f.attention.Counts, api.AttentionCount{Kind: api.KindApproval, Count: 2})
	f.attention.Items = append(f.attention.Items, api.AttentionItem{Kind: api.KindApproval, ID: "7", Team: "acme", Subscription: "fulfil", Entity: "o-1", Since: &at, Command: "forebay approvals approve 7 --reason TEXT"})
	h := f.handler(t, nil)
	s := get(t, h, "/console/")
	s.says("p", "2 actions wait for an approval")
	if to := s.link("2 actions wait for an approval"); to != "/console/approvals" {
		t.Errorf("the overview leads to %s", to)
	}
	get(t, h, "/console/attention").says("tr", "acme.fulfil", "o-1", "forebay approvals approve 7")
	s = get(t, h, "/console/approvals")
	s.says("tr", "run of acme.fulfil", "o-1", "acme/agent", "waiting", "approver, operator", "rule ask of policy: changes production")
	if to := s.link("7"); to != approvalURL {
		t.Errorf("the list leads to %s", to)
	}
	f.question.Asks, f.question.TellError, f.question.GivenUp = "pagers", "it answered 404", true
	get(t, h, "/console/approvals").says("td", "given up")
	s = get(t, h, approvalURL)
	s.says("dd", "pagers given up: it answered 404")
	s.says("p", "pagers refused the question: "+api.NotTold)
	f.question.Removed = "the file has no action run of acme.fulfil any more"
	get(t, h, "/console/approvals").says("td", f.question.Removed)
	get(t, h, approvalURL).says("p", f.question.Removed)
	get(t, h, "/console/approvals?state=denied").says("p", "There are none.")
	s = get(t, h, approvalURL)
	s.says("pre", `{"order": 1}`)
	if got := s.buttons(); !slices.Equal(got, []string{"Approve 7", "Deny 7"}) {
		t.Errorf("it can be answered by %q", got)
	}

	if s := post(t, h, approvalURL+"/approve", url.Values{"by": {"jo"}}); s.status != http.StatusBadRequest || len(f.said) > 0 {
		t.Errorf("without a reason: %d %q", s.status, f.said)
	}
	s = post(t, h, approvalURL+"/deny", url.Values{"by": {"jo"}, "reason": {"not today"}})
	if s.status != http.StatusSeeOther || s.header.Get("Location") != approvalURL || !slices.Equal(f.said, []string{"denied by jo: not today"}) {
		t.Errorf("%d %v %q", s.status, s.header, f.said)
	}
	s = get(t, h, approvalURL)
	s.says("dd", "denied")
	s.says("section", "What is sent", "kept no longer than the question is open")
	if slices.ContainsFunc(s.all("form"), func(n *html.Node) bool { return attr(n, "method") == "post" }) {
		t.Error("what was answered can be answered")
	}
	s = post(t, h, approvalURL+"/approve", url.Values{"by": {"mo"}, "reason": {"but yes"}})
	if s.status != http.StatusConflict || len(f.said) != 1 {
		t.Errorf("answered twice: %d %q", s.status, f.said)
	}
	s.says("p", "jo has answered it already: denied")

	f.question.State, f.question.AnsweredBy, f.question.AnsweredAt = "void", "jo", &at
	f.question.Reason = "its entity has a newer version by now; it was approved: looked"
	get(t, h, "/console/approvals?state=void").says("td", "void", f.question.Reason)
	s = get(t, h, approvalURL)
	s.says("dt", "Void")
	s.says("dd", f.question.Reason+", by jo")
	if strings.Contains(text(s.root), "Answered") {
		t.Error("what is void reads as answered so")
	}
}

// The pages behind the first one are of the same state, which may be any.
func TestPagesOfApprovalsOfAnyState(t *testing.T) {
	t.Parallel()
	f := newFake()
	f.question.State = "denied"
	h := f.handler(t, nil)
	for _, state := range []string{"any", "", "denied"} {
		s := get(t, h, "/console/approvals?state="+state)
		s.says("td", "denied")
		s = get(t, h, s.link("Next page"))
		s.says("td", "denied")
		get(t, h, s.link("Newest")).says("td", "denied")
	}
	get(t, h, "/console/approvals").says("p", "Nothing waits for a person's word.")
}

// Only those whose role is asked see the forms, and can send them; what is sent is seen by those who may see what events carry.
func TestApprovalPageOfARole(t *testing.T) {
	t.Parallel()
	g := guardFake(t, nil)
	for _, c := range []struct {
		role      string
		sees, may bool
	}{{"admin", true, true}, {"operator", false, true}, {"approver", true, true}, {"viewer", true, false}, {"responder", true, false}} {
		g.question.State, g.said = "waiting", nil
		g.tokens["t"] = &access.Who{Name: "t", Role: c.role, Teams: []string{"acme"}, Sees: c.sees}
		v := g.as("t")
		s := v.get(approvalURL)
		if got := slices.Contains(s.buttons(), "Approve 7"); got != c.may {
			t.Errorf("%s may answer: %t, want %t", c.role, got, c.may)
		}
		if got := strings.Contains(text(s.root), `{"order": 1}`); got != c.sees {
			t.Errorf("%s sees what is sent: %t, want %t", c.role, got, c.sees)
		}
		form := url.Values{"reason": {"looked"}, "by": {"mallory"}}
		if s := v.post(approvalURL+"/approve", form); s.status == http.StatusSeeOther || len(g.said) > 0 {
			t.Errorf("%s, without the session's field: %d %q", c.role, s.status, g.said)
		}
		form.Set(formField, v.field("/console/health"))
		if s := v.post(approvalURL+"/approve", form); (s.status == http.StatusSeeOther) != c.may || slices.Equal(g.said, []string{"approved by t: looked"}) != c.may {
			t.Errorf("%s answers: %d %q", c.role, s.status, g.said)
		}
	}
}
