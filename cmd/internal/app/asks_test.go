package app

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/alerts"
	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/cmd/internal/rig"
	"github.com/forebay-io/forebay/stream/ledger"
)

// told is a question as a destination got it.
type told struct {
	key, attempt, kind string
	alerts.Question
}

// askedServer is a destination that is told of questions, of which the first n calls are answered with the status, and of their ends.
type askedServer struct {
	*httptest.Server
	mu          sync.Mutex
	calls, ends []told
}

func newAsked(t *testing.T, n, status int) *askedServer {
	s := &askedServer{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		one := told{key: r.Header.Get("Idempotency-Key"), attempt: r.Header.Get("Forebay-Attempt"), kind: r.Header.Get("Ce-Type")}
		if err := json.Unmarshal(body, &one.Question); err != nil {
			t.Errorf("%s: %v", body, err)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if one.State != string(ledger.ApprovalWaiting) {
			s.ends = append(s.ends, one)
		} else if s.calls = append(s.calls, one); len(s.calls) <= n {
			w.WriteHeader(status)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *askedServer) all() []told {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.calls)
}

// approvalOf waits until the approval of an event is so.
func (p *process) approvalOf(id, what string, is func(a *api.ApprovalItem) bool) (a *api.ApprovalItem) {
	p.t.Helper()
	if !rig.Until(time.Minute, func() (ok bool) {
		found, err := p.api.Approval(p.t.Context(), id)
		if a = found; err != nil {
			p.t.Fatal(err)
		}
		return is(a)
	}) {
		p.t.Fatalf("not %s: %+v", what, a)
	}
	return a
}

// TestQuestionsAreTold: a destination is told of each question once, with all that is needed for an answer, again under the same key where it did not
// take it or the process that told it was killed; while it is paused it is told nothing. Where it refuses for good, attention says so. Whatever becomes
// of it, the approval can be given, and other lanes do not wait.
func TestQuestionsAreTold(t *testing.T) {
	t.Parallel()
	to, pagers, lost := newAgent(t), newAsked(t, 1, http.StatusServiceUnavailable), newAsked(t, 1000, http.StatusNotFound)
	place := newLedger(t)
	r := deploy(t, to.URL, place, true)
	r.text = strings.Replace(r.text, "    destinations:\n", `    destinations:
      pagers: {type: http, url: "`+pagers.URL+`", allow_networks: [127.0.0.0/8], rate: {limit: 1000, per: 1s}}
      lost: {type: http, url: "`+lost.URL+`", allow_networks: [127.0.0.0/8]}
`, 1)
	r.text = strings.Replace(r.text, "teams:\n  acme:\n", `policy: [{name: top, if: "body.order.startsWith('top')", then: approve, reason: "a top's", ask: everybody}]
destinations: {everybody: {type: http, url: "`+pagers.URL+`", teams: [acme], allow_networks: [127.0.0.0/8]}}
teams:
  acme:
    policy: [{name: rule, if: "event.source.endsWith('orders') && body.order.startsWith('rule')", then: approve, ask: pagers}]
`, 1)
	r.text = strings.Replace(r.text, "actions: [{name: run, to: agent}]}\n      fulfil: {sources: [orders], begin: all, gap: {wait: 20s, then: park}, actions: [{name: run, to: agent}]}",
		`actions: [{name: run, to: agent}]}
      fulfil: {sources: [orders], begin: all, match: "body.order.startsWith('a')", actions: [{name: run, to: agent, approval: {expires: 2h, ask: pagers}}]}
      refused: {sources: [orders], begin: all, match: "body.order.startsWith('b')", actions: [{name: run, to: agent, approval: {ask: lost}}]}
      ruled: {sources: [orders], begin: all, match: "body.order in ['rule', 'top']", actions: [{name: run, to: agent}]}`, 1)
	p := r.run(config.RoleIntake, config.RoleStream)

	p.accepted("orders", "orders-secret", order("a-1", 1))
	first := p.asked("a-1-1")
	if first.Asks != "pagers" {
		t.Errorf("%+v", first)
	}
	p.approvalOf(first.ID, "told", func(a *api.ApprovalItem) bool { return a.ToldAt != nil && a.TellError == "" })
	calls := pagers.all()
	if len(calls) != 2 || calls[0].key == "" || calls[0].key != calls[1].key || calls[0].attempt != "1" || calls[1].attempt != "2" ||
		calls[0].kind != "forebay.approval.asked" {
		t.Fatalf("told %+v", calls)
	}
	q, console := calls[1].Question, "http://"+p.app.Addr("operator").String()+"/console/approvals/"+first.ID
	if q.Approval != first.ID || q.Action != "run" || q.Subscription != "fulfil" || q.Entity != "a-1" || q.Version != first.Version ||
		q.Why != "approval of action run" ||
		!strings.Contains(q.Sends, `"a-1"`) || !q.ExpiresAt.Equal(first.ExpiresAt) || q.URL != console || q.Command != "forebay approvals approve "+first.ID {
		t.Errorf("told %+v", q)
	}
	for _, want := range []string{q.Summary, "a-1", q.Why, q.URL, q.Command, `> {`, q.ExpiresAt.Format(time.RFC3339), "approver"} {
		if !strings.Contains(q.Text, want) {
			t.Errorf("%q is not in the text:\n%s", want, q.Text)
		}
	}
	if resp, err := http.Get(q.URL); err != nil || resp.StatusCode != http.StatusOK {
		t.Errorf("the link leads to %+v %v", resp, err)
	} else {
		resp.Body.Close()
	}

	if _, err := p.api.Pause(t.Context(), "acme", "pagers", api.PauseRequest{Reason: "quiet", By: "jo"}); err != nil {
		t.Fatal(err)
	}
	p.accepted("orders", "orders-secret", order("a-2", 1))
	second := p.asked("a-2-1")
	p.approvalOf(second.ID, "waiting for its destination", func(a *api.ApprovalItem) bool {
		return strings.Contains(a.TellError, "takes no calls now") && !a.GivenUp
	})
	p.accepted("orders", "orders-secret", order("b-1", 1))
	third := p.asked("b-1-1")
	p.approvalOf(third.ID, "given up", func(a *api.ApprovalItem) bool { return strings.Contains(a.TellError, "404") && a.GivenUp })
	if waits, err := p.api.Attention(t.Context(), api.AttentionFilter{Kind: api.KindApproval}); err != nil || !slices.ContainsFunc(waits.Items,
		func(i api.AttentionItem) bool {
			return i.ID == third.ID && i.Reason == "not_told" && strings.HasPrefix(i.Detail, api.NotTold) &&
				strings.Contains(i.Detail, "lost was not told: ") && strings.Contains(i.Detail, "404")
		}) {
		t.Errorf("attention: %+v %v", waits, err)
	}
	for _, id := range []string{first.ID, third.ID} {
		if _, err := p.api.AnswerApproval(t.Context(), id, api.VerbApprove, api.ApprovalRequest{Reason: "looked", By: "jo"}); err != nil {
			t.Fatal(err)
		}
	}
	p.item("fulfil", "orders", "a-1-1", "applied", "done")
	p.item("refused", "orders", "b-1-1", "applied", "done")
	if n := len(pagers.all()); n != 2 {
		t.Errorf("told %d times while it is paused", n)
	}
	p.clean()

	// A process takes the second question and is killed before it has kept what came of it.
	l, err := ledger.Open(t.Context(), place.config())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if !rig.Until(time.Minute, func() bool {
		due, err := l.TakeUntold(t.Context(), 100*time.Millisecond, 10)
		if err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(due, func(a ledger.Approval) bool { return a.EventID == "a-2-1" && a.TellTries == 1 }) // beside others' ends
	}) {
		t.Fatal("the second question is not to be told")
	}
	p = r.run(config.RoleIntake, config.RoleStream)
	if _, err := p.api.Resume(t.Context(), "acme", "pagers", api.PauseRequest{Reason: "loud", By: "jo"}); err != nil {
		t.Fatal(err)
	}
	p.approvalOf(second.ID, "told", func(a *api.ApprovalItem) bool { return a.ToldAt != nil })
	if calls = pagers.all(); len(calls) != 3 || calls[2].Approval != second.ID || calls[2].key == calls[0].key || calls[2].attempt != "2" {
		t.Errorf("told %+v", calls)
	}
	// Rules ask as actions do, those at the top, too; the first that asks says whom.
	for name, asks := range map[string]string{"rule": "pagers", "top": "everybody"} {
		p.accepted("orders", "orders-secret", order(name, 1))
		a := p.asked(name + "-1")
		if a.Asks != asks || !strings.HasPrefix(a.Why, "rule "+name+" of policy") {
			t.Errorf("%+v", a)
		}
		p.approvalOf(a.ID, "told", func(a *api.ApprovalItem) bool { return a.ToldAt != nil })
		calls = pagers.all()
		if q := calls[len(calls)-1]; q.Approval != a.ID || q.Why != a.Why || !strings.HasSuffix(q.URL, "/console/approvals/"+a.ID) {
			t.Errorf("told %+v", q)
		}
		if _, err := p.api.AnswerApproval(t.Context(), a.ID, api.VerbApprove, api.ApprovalRequest{Reason: "looked", By: "jo"}); err != nil {
			t.Fatal(err)
		}
		p.item("ruled", "orders", name+"-1", "applied", "done")
	}
	if n := len(pagers.all()); n != 5 {
		t.Errorf("told %d times, want 5", n)
	}
	if n := len(lost.all()); n != 1 || len(lost.ends) > 0 {
		t.Errorf("what refuses for good was told %d times, and of %d ends", n, len(lost.ends))
	}
	// The first was answered while its destination was paused.
	ends := func(id string) (list []told) {
		pagers.mu.Lock()
		defer pagers.mu.Unlock()
		for _, e := range pagers.ends {
			if e.Approval == id {
				list = append(list, e)
			}
		}
		return list
	}
	ended := func() int {
		pagers.mu.Lock()
		defer pagers.mu.Unlock()
		return len(pagers.ends)
	}
	if !rig.Until(time.Minute, func() bool { return len(ends(first.ID)) == 1 && ended() == 3 }) {
		t.Fatalf("told of the ends %+v", pagers.ends)
	}
	end := ends(first.ID)[0]
	if end.kind != "forebay.approval.ended" || end.key == "" || end.key == calls[0].key || end.State != "approved" || end.By != "jo" || end.Reason != "looked" ||
		end.Entity != "a-1" || end.ActionID != q.ActionID || !strings.Contains(end.Text, "approved by jo") || strings.Contains(end.Text, end.Command) {
		t.Errorf("the end was told as %+v", end)
	}
	p.clean()
}
