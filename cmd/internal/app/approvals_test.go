package app

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/cmd/internal/rig"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/ledger/pgtest"
	"github.com/forebay-io/forebay/stream/policy"
)

// asked waits until an approval waits for an event, and returns it.
func (p *process) asked(event string) (found api.ApprovalItem) {
	p.t.Helper()
	if !rig.Until(time.Minute, func() bool {
		page, err := p.api.Approvals(p.t.Context(), "acme", "waiting", 100, "")
		i := slices.IndexFunc(page.Items, func(a api.ApprovalItem) bool { return a.EventID == event })
		if err != nil || i < 0 {
			return false
		}
		found = page.Items[i]
		return true
	}) {
		p.t.Fatalf("nobody is asked about %s", event)
	}
	return found
}

// TestApprovalOfWhatIsSupersededIsVoid: an approval that was given while the destination takes nothing is void once its action is superseded, and says so.
func TestApprovalOfWhatIsSupersededIsVoid(t *testing.T) {
	t.Parallel()
	to := newAgent(t)
	r := deploy(t, to.URL, newLedger(t), true)
	r.text = strings.Replace(r.text, "actions: [{name: run, to: agent}]}\n      fulfil: {sources: [orders], begin: all, gap: {wait: 20s, then: park}, actions: [{name: run, to: agent}]}",
		`actions: [{name: run, to: agent}]}
      fulfil: {sources: [orders], begin: all, backlog: latest, actions: [{name: run, to: agent, approval: {}}]}`, 1)
	r.text = strings.Replace(r.text, "version: {from: /rev, kind: sequence}}", "version: {from: /rev, kind: sequence}, payload: snapshot}", 1)
	p := r.run(config.RoleIntake, config.RoleStream)
	p.accepted("orders", "orders-secret", order("moves", 1))
	first := p.asked("moves-1")
	if _, err := p.api.Pause(t.Context(), "acme", "agent", api.PauseRequest{Reason: "a test", By: "jo"}); err != nil {
		t.Fatal(err)
	}
	if _, err := p.api.AnswerApproval(t.Context(), first.ID, api.VerbApprove, api.ApprovalRequest{Reason: "looked", By: "jo"}); err != nil {
		t.Fatal(err)
	}
	p.accepted("orders", "orders-secret", order("moves", 2))
	p.item("fulfil", "orders", "moves-2", "applied", "received")
	if _, err := p.api.Resume(t.Context(), "acme", "agent", api.PauseRequest{Reason: "a test", By: "jo"}); err != nil {
		t.Fatal(err)
	}
	p.item("fulfil", "orders", "moves-1", "applied", "superseded")
	a := p.approvalOf(first.ID, "void", func(a *api.ApprovalItem) bool { return a.State == api.ApprovalVoid })
	if a.AnsweredBy != "jo" || a.Reason != "its entity has a newer version by now; it was approved: looked" || a.Sends != "" {
		t.Errorf("%+v", a)
	}
	p.asked("moves-2")
	to.mu.Lock()
	defer to.mu.Unlock()
	if len(to.calls) > 0 {
		t.Errorf("called: %+v", to.calls)
	}
	p.clean()
}

// TestApprovalsFromOutside: an action that a rule asks about waits with its lane, across a restart, and runs once it is approved; a denied one ends
// and its entity goes on; one whose entity has moved on is void; what no rule is about does not wait; and a rule that denies ends at once.
func TestApprovalsFromOutside(t *testing.T) {
	t.Parallel()
	to := newAgent(t)
	place := newLedger(t)
	r := deploy(t, to.URL, place, true)
	r.text = strings.Replace(r.text, "teams:\n", `policy:
  - {name: never, if: "body.order == 'never'", then: deny, reason: "not for agents"}
  - {name: ask, if: "body.order.startsWith('ask') && action.to == 'agent'", then: approve, reason: "changes production"}
  - {name: broken, if: "body.order == 'broken' && body.nothing.there", then: allow}
teams:
`, 1)
	p := r.run(config.RoleIntake, config.RoleStream)
	for _, name := range []string{"never", "broken", "free", "ask-yes", "ask-no", "ask-moved"} {
		p.accepted("orders", "orders-secret", order(name, 1))
	}
	p.item("fulfil", "orders", "never-1", "applied", "denied")
	p.item("fulfil", "orders", "broken-1", "applied", "dead_letter")
	p.item("fulfil", "orders", "free-1", "applied", "done")
	for _, name := range []string{"ask-yes-1", "ask-no-1", "ask-moved-1"} {
		p.item("fulfil", "orders", name, "applied", "waiting_approval")
	}
	p.clean()
	db := pgtest.Connect(t, place.url, place.schema)
	for _, sql := range []string{`UPDATE events SET decided_at = decided_at - interval '12 minutes'`, `UPDATE actions SET created_at = created_at - interval '12 minutes'`} {
		if _, err := db.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	p = r.run(config.RoleIntake, config.RoleStream)
	var body string
	if !rig.Until(time.Minute, func() bool {
		_, body = p.readyz()
		return regexp.MustCompile(`3 actions of acme.fulfil wait since 1[2-9]m: they wait for an approval or a budget"`).MatchString(body)
	}) {
		t.Errorf("no destination is to blame: %s", body)
	}

	answer := func(id, verb, reason string) error {
		_, err := p.api.AnswerApproval(t.Context(), id, verb, api.ApprovalRequest{Reason: reason, By: "jo"})
		return err
	}
	yes := p.asked("ask-yes-1")
	if yes.Why != "rule ask of policy: changes production" || yes.Entity == "" || yes.Roles[0] != "approver" || len(yes.Digest) != 64 {
		t.Errorf("asked as %+v", yes)
	}
	if yes.Sends != "" {
		t.Errorf("the list shows what is sent: %q", yes.Sends)
	}
	if one, err := p.api.Approval(t.Context(), yes.ID); err != nil || !strings.Contains(one.Sends, `"ask-yes"`) || !strings.HasPrefix(one.Sends, "the event's body:\n{") {
		t.Errorf("what is sent: %+v %v", one, err)
	}
	waits, err := p.api.Attention(t.Context(), api.AttentionFilter{Kind: api.KindApproval})
	if err != nil || len(waits.Items) != 3 || waits.Counts[0].Count != 3 || waits.Items[0].Since.After(*waits.Items[2].Since) || waits.Items[0].Command == "" {
		t.Errorf("waits for an operator: %+v %v", waits, err)
	}
	if calls := to.wait(t, 1); len(calls) != 1 || calls[0].ID != "free-1" {
		t.Errorf("called before anybody has answered: %+v", calls)
	}
	if err := answer(yes.ID, api.VerbApprove, "looked"); err != nil {
		t.Fatal(err)
	}
	if err := answer(yes.ID, api.VerbDeny, "again"); schemas.KindOf(err) != schemas.Conflict {
		t.Errorf("answered twice: %v", err)
	}
	p.item("fulfil", "orders", "ask-yes-1", "applied", "done")
	p.accepted("orders", "orders-secret", order("ask-yes", 2))
	if err := answer(p.asked("ask-yes-2").ID, api.VerbDeny, "no more"); err != nil {
		t.Fatal(err)
	}
	if err := answer(p.asked("ask-no-1").ID, api.VerbDeny, "too late"); err != nil {
		t.Fatal(err)
	}
	p.item("fulfil", "orders", "ask-yes-2", "applied", "denied")
	p.item("fulfil", "orders", "ask-no-1", "applied", "denied")

	moved := p.asked("ask-moved-1")
	unrecorded := "1000" // of an action without a row: who had it run again cannot be told
	if _, err := db.Exec(t.Context(), `INSERT INTO approvals OVERRIDING SYSTEM VALUE
		SELECT (jsonb_populate_record(p, jsonb_build_object('id', $2::text, 'four_eyes', true, 'action_id', gen_random_uuid()))).* FROM approvals p WHERE id = $1`,
		moved.ID, unrecorded); err != nil {
		t.Fatal(err)
	}
	if err := answer(unrecorded, api.VerbApprove, "mine"); schemas.KindOf(err) != schemas.Conflict {
		t.Errorf("approved before its wait is recorded: %v", err)
	}
	for _, again := range []error{nil, schemas.Errorf(schemas.Conflict, "", "")} {
		if err := answer(unrecorded, api.VerbDeny, "no"); schemas.KindOf(err) != schemas.KindOf(again) {
			t.Errorf("denied: %v", err)
		}
	}
	p.accepted("orders", "orders-secret", order("ask-moved", 2))
	p.item("fulfil", "orders", "ask-moved-2", "applied", "received")
	if err := answer(moved.ID, api.VerbApprove, "too late"); err != nil {
		t.Fatal(err)
	}
	p.item("fulfil", "orders", "ask-moved-1", "applied", "denied")
	if a, err := p.api.Approval(t.Context(), moved.ID); err != nil || a.State != "void" {
		t.Errorf("%+v %v", a, err)
	}
	p.asked("ask-moved-2")
	if calls := to.wait(t, 2); len(calls) != 2 || calls[1].ID != "ask-yes-1" {
		t.Errorf("calls: %+v", calls)
	}
	p.clean()
}

// TestRenamedActionKeepsItsApproval: an action that waits for approval is not run without it because the file calls it by another name, or has it no
// more; and it asks as before once the file has it again.
func TestRenamedActionKeepsItsApproval(t *testing.T) {
	t.Parallel()
	to := newAgent(t)
	place := newLedger(t)
	r := deploy(t, to.URL, place, true)
	r.text = strings.Replace(r.text, "then: park}, actions: [{name: run, to: agent}]", "then: park}, actions: [{name: run, to: agent, approval: {}}]", 1)
	roles := []config.Role{config.RoleIntake, config.RoleStream}
	p := r.run(roles...)
	p.accepted("orders", "orders-secret", order("o", 1))
	asked := p.asked("o-1")
	p.accepted("orders", "orders-secret", order("soon", 1))
	soon := p.asked("soon-1")
	whole := r.text
	r.text = strings.Replace(r.text, "{name: run, to: agent, approval: {}}", "{name: start, to: agent}", 1)
	r.reload(p, roles...)
	called := func() bool {
		to.mu.Lock()
		defer to.mu.Unlock()
		return len(to.calls) > 0
	}
	if !rig.Until(time.Minute, func() bool {
		refused, _ := counted(t, p.app.registry, "forebay_lane_verdicts_total", map[string]string{"status": "error"})
		return refused > 0 || called()
	}) {
		t.Fatal("the action of before is not asked about")
	}
	if called() {
		t.Fatal("an action runs without its approval")
	}
	if a := p.asked("o-1"); a.Removed != "" {
		t.Errorf("another process may have asked by a newer file: %s", a.Removed)
	}
	const says = "the file of this process has no action run of acme.fulfil any more"
	if a, err := p.api.AnswerApproval(t.Context(), soon.ID, api.VerbApprove, api.ApprovalRequest{Reason: "looked", By: "jo"}); err != nil || a.State != "approved" || !strings.HasPrefix(a.Removed, says) || !strings.Contains(a.Removed, "newer file") {
		t.Errorf("answered within the ten minutes: %+v %v", a, err)
	}
	if d, err := p.api.Item(t.Context(), "acme", "fulfil", "orders", "soon-1"); err != nil || !strings.HasPrefix(d.Next, says) {
		t.Errorf("what happens next once it is answered: %+v %v", d, err)
	}
	if d, err := p.api.Item(t.Context(), "acme", "fulfil", "orders", "o-1"); err != nil || d.Next != "it runs once somebody approves it" {
		t.Errorf("what happens next: %+v %v", d, err)
	}
	if _, err := pgtest.Connect(t, place.url, place.schema).Exec(t.Context(), `UPDATE approvals SET asked_at = asked_at - interval '11 minutes'`); err != nil {
		t.Fatal(err)
	}
	if a := p.asked("o-1"); !strings.HasPrefix(a.Removed, says) || strings.Contains(a.Removed, "newer file") {
		t.Errorf("listed as %+v", a)
	}
	if a, err := p.api.AnswerApproval(t.Context(), asked.ID, api.VerbApprove, api.ApprovalRequest{DryRun: true}); err != nil || !strings.HasPrefix(a.Removed, says) {
		t.Errorf("answered as %+v %v", a, err)
	}
	if waits, err := p.api.Attention(t.Context(), api.AttentionFilter{Kind: api.KindApproval}); err != nil || len(waits.Items) != 2 ||
		slices.ContainsFunc(waits.Items, func(i api.AttentionItem) bool {
			return i.Reason != policy.Removed || !strings.HasPrefix(i.Detail, says)
		}) {
		t.Errorf("waits for an operator: %+v %v", waits, err)
	}
	r.text = whole
	r.reload(p, roles...)
	if _, err := p.api.AnswerApproval(t.Context(), asked.ID, api.VerbApprove, api.ApprovalRequest{Reason: "looked", By: "jo"}); err != nil {
		t.Fatal(err)
	}
	if a, err := p.api.Approval(t.Context(), asked.ID); err != nil || a.Removed != "" {
		t.Errorf("once the file has it again: %+v %v", a, err)
	}
	p.item("fulfil", "orders", "o-1", "applied", "done")
	p.item("fulfil", "orders", "soon-1", "applied", "done")
	p.clean()
}

// TestApprovalOfWhatGoesElsewhere: what waits for where the action's `to:` does not lead any more says so, if the parameters that the action has now are
// not for that.
func TestApprovalOfWhatGoesElsewhere(t *testing.T) {
	t.Parallel()
	for params, want := range map[string]string{
		"{body: later}": "",
		"{text: later}": "the file of this process has no action run of acme.fulfil for agent (it goes elsewhere now: params.text means nothing there), so no answer lets it run: have it go there again, or ",
	} {
		to := map[string]string{"{body: later}": "other", "{text: later}": "chat"}[params]
		r := &deployment{t: t, text: fmt.Sprintf(deploymentText, "127.0.0.1:1", "postgres: {url: \"postgres://127.0.0.1:1/none\"}", "http://127.0.0.1:1")}
		r.text = strings.NewReplacer("then: park}, actions: [{name: run, to: agent}]", "then: park}, actions: [{name: run, to: "+to+", params: "+params+"}]",
			"    destinations:\n", "    destinations:\n      other: {type: http, url: \"http://127.0.0.1:1\", allow_networks: [127.0.0.0/8]}\n      chat: {type: slack, token: xoxb-1, params: {channel: C0123456789}}\n").Replace(r.text)
		a := &ledger.Approval{Team: "acme", Subscription: "fulfil", Action: "run", Destination: "acme/agent", State: ledger.ApprovalWaiting, AskedAt: time.Now().Add(-time.Hour)}
		if got := removed(r.load(config.RoleStream), a); !strings.HasPrefix(got, want) || want == "" && got != "" {
			t.Errorf("%s: %q", params, got)
		}
	}
}
