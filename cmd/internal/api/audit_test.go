package api

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger"
)

// rowsOf are the rows of the audit that a POST to each path leaves: what is changed, and what that is about.
var rowsOf = map[string]string{
	"POST /v1/quarantine/{team}/{source}/{partition}/{offset}/redrive": "quarantine.redrive of acme: acme/github/0/1",
	"POST /v1/sources/{team}/{source}/test":                            "source.test of acme: acme/github",
	"POST /v1/inbox/{team}/{subscription}/{source}/{event}/redrive":    "inbox.redrive of acme: acme/triage/github/e1",
	"POST /v1/dlq/{action}/{verb}":                                     "dlq.replay of acme: act-acme",
	"POST /v1/alerts/{alert}/silence":                                  "alert.silence of acme: ForebayLag",
	"POST /v1/silences/{silence}/end":                                  "alert.unsilence of acme: 1",
	"POST /v1/approvals/{approval}/{verb}":                             "approval.approve of acme: 1",
	"POST /v1/replays":                                                 "replay.plan of acme: acme.triage",
	"POST /v1/replays/{replay}/start":                                  "replay.start of acme: 1",
	"POST /v1/replays/{replay}/cancel":                                 "replay.cancel of acme: 1",
	"POST /v1/subscriptions/{team}/{subscription}/accept":              "subscription.accept of acme: acme/triage",
	"POST /v1/subscriptions/{team}/{subscription}/seek":                "subscription.seek of acme: acme/triage",
	"POST /v1/subscriptions/{team}/{subscription}/pause":               "subscription.pause of acme: acme/triage",
	"POST /v1/subscriptions/{team}/{subscription}/resume":              "subscription.resume of acme: acme/triage",
	"POST /v1/destinations/{team}/{destination}/pause":                 "destination.pause of acme: acme/agent",
	"POST /v1/destinations/{team}/{destination}/resume":                "destination.resume of acme: acme/agent",
	"POST /v1/destinations/{destination}/pause":                        "destination.pause of : shared-acme",
	"POST /v1/destinations/{destination}/resume":                       "destination.resume of : shared-acme",
	"POST /v1/pause":                 "pause of : ",
	"POST /v1/resume":                "resume of : ",
	"POST /v1/teams/{team}/pause":    "team.pause of acme: acme",
	"POST /v1/teams/{team}/resume":   "team.resume of acme: acme",
	"POST /v1/agents/{agent}/pause":  "agent.pause of : coder",
	"POST /v1/agents/{agent}/resume": "agent.resume of : coder",
	"POST /v1/tokens":                "token.create of : eve",
	"POST /v1/tokens/{token}/revoke": "token.revoke of : ann",
}

// nothingBefore are those changes before which there is nothing that they are about.
var nothingBefore = []string{"POST /v1/pause", "POST /v1/resume", "POST /v1/teams/{team}/pause", "POST /v1/teams/{team}/resume", "POST /v1/agents/{agent}/pause",
	"POST /v1/agents/{agent}/resume", "POST /v1/sources/{team}/{source}/test", "POST /v1/replays", "POST /v1/tokens"}

// Every change leaves one row, which is there before the change is made; a dry run, and what only reads, leave none. Where no row can be
// kept, nothing is changed.
func TestEveryChangeIsKept(t *testing.T) {
	t.Parallel()
	var tokens tokensOf
	token := tokens.add(ledger.Token{Role: "admin", Payloads: true})
	c, w := guardedWorld(t, &tokens, nil)
	for _, r := range (&server{}).routes() {
		method, _, _ := strings.Cut(r.pattern, " ")
		w.audit = nil
		got, by := askAs(t, c, w, token, method, pathOf(r.pattern, "acme"), bodyOf(r.pattern, "acme"))
		want := rowsOf[r.pattern]
		if want == "" && (len(w.audit) != 0 || method == "POST" && !strings.HasSuffix(r.pattern, "/count")) {
			t.Errorf("%s left %+v: add it to rowsOf", r.pattern, w.audit)
		}
		if want == "" {
			continue
		}
		if len(w.audit) != 1 || w.kept != 1 || len(by) != 1 {
			t.Errorf("%s left %+v, of which %d rows were there when it was done: %+v", r.pattern, w.audit, w.kept, got)
			continue
		}
		row := w.audit[0]
		if text := fmt.Sprintf("%s of %s: %s", row.Action, row.Team, row.Object); text != want || row.Actor != "t0" || row.Role != "admin" || row.By != "mallory" ||
			row.Outcome != OutcomeDone || (row.Reason != "x" && r.pattern != "POST /v1/replays") || row.After == nil {
			t.Errorf("%s left %+v, want %s", r.pattern, row, want)
		}
		if (row.Before == nil) != slices.Contains(nothingBefore, r.pattern) {
			t.Errorf("%s keeps of what was before: %s", r.pattern, row.Before)
		}
		if text := string(row.Before) + string(row.After); strings.Contains(text, answered) || strings.Contains(text, "fbo_") {
			t.Errorf("%s keeps what events carry, or a token: %s", r.pattern, text)
		}
		if dry := strings.Replace(bodyOf(r.pattern, "acme"), `"by"`, `"dry_run": true, "by"`, 1); strings.Contains(r.pattern, "pause") {
			w.audit = nil
			if got, _ := askAs(t, c, w, token, method, pathOf(r.pattern, "acme"), dry); got.Status != 200 || len(w.audit) != 0 {
				t.Errorf("%s as a dry run: %+v %+v", r.pattern, got, w.audit)
			}
		}
		w.auditAway = true
		if got, by := askAs(t, c, w, token, method, pathOf(r.pattern, "acme"), bodyOf(r.pattern, "acme")); got.Status != http.StatusServiceUnavailable || by != nil {
			t.Errorf("%s was changed without a row: %+v %q", r.pattern, got, by)
		}
		w.auditAway = false
	}
}

// A silence's row has what there was before: its end and its reason. A token's has whose it was, what it opened and whether it did. No row has
// what opens anything, or what another team had.
func TestRowsOfSilencesAndTokens(t *testing.T) {
	t.Parallel()
	var tokens tokensOf
	admin, pay := tokens.add(ledger.Token{Role: "admin"}), tokens.add(ledger.Token{Role: "responder", Teams: []string{"pay"}})
	c, w := guardedWorld(t, &tokens, nil)
	const silence, end, revoke, reason = "/v1/alerts/ForebayLag/silence", "/v1/silences/1/end", "/v1/tokens/ann/revoke", `"reason": "x", "by": "mallory"}`
	was := `{"id":1,"alert":"ForebayLag","team":"acme","reason":"it is known","by":"bob","created_at":"0001-01-01T00:00:00Z","until":"2026-12-01T12:00:00Z"}`
	ann := `{"name":"ann","role":"operator","teams":["acme"],"payloads":true,"created_at":"0001-01-01T00:00:00Z","created_by":"root","reason":"she is on call","expires_at":"2027-01-01T00:00:00Z",` +
		`"used_at":null,"revoked_at":null,"revoked_by":"","revoked_reason":""}`
	for _, one := range []struct{ token, path, body, before string }{
		{admin, silence, `{"team": "acme", "seconds": 60, ` + reason, was},
		{admin, silence, `{"team": "none", "seconds": 60, ` + reason, ""}, // nothing was silenced for it
		{admin, silence, `{"seconds": 60, ` + reason, ""},                 // one of all teams replaces none of one team's
		{admin, "/v1/alerts/ForebayGap/silence", `{"team": "acme", "seconds": 60, ` + reason, ""},
		{admin, end, "{" + reason, was},
		{admin, "/v1/silences/7/end", "{" + reason, ""},
		{pay, silence, `{"team": "acme", "seconds": 60, ` + reason, ""}, // which is refused
		{pay, end, "{" + reason, ""},
		{admin, revoke, "{" + reason, ann},
		{admin, "/v1/tokens/nobody/revoke", "{" + reason, ""},
	} {
		w.audit = nil
		askAs(t, c, w, one.token, "POST", one.path, one.body)
		if len(w.audit) != 1 || string(w.audit[0].Before) != one.before {
			t.Errorf("%s %s left %+v with %s before, want %s", one.path, one.body, w.audit, w.audit[0].Before, one.before)
		}
	}
}

// A row has what was before and after, and what became of a change that was not made; what nobody may ask leaves none.
func TestRowsSayWhatBecameOfChanges(t *testing.T) {
	t.Parallel()
	var tokens tokensOf
	viewer, responder := tokens.add(ledger.Token{Role: "viewer", Teams: []string{"acme"}}), tokens.add(ledger.Token{Role: "operator", Teams: []string{"acme"}})
	everywhere := tokens.add(ledger.Token{Role: "operator"})
	c, w := guardedWorld(t, &tokens, nil)
	const path, body = "/v1/destinations/acme/agent/pause", `{"reason": "they move", "by": "ann@ops"}`
	pause := func(token string) AuditItem {
		t.Helper()
		w.audit = nil
		askAs(t, c, w, token, "POST", path, body)
		if len(w.audit) != 1 {
			t.Fatalf("%+v", w.audit)
		}
		return w.audit[0]
	}
	row := pause(responder)
	if !strings.Contains(string(row.Before), `"state":""`) || !strings.Contains(string(row.After), `"state":"paused"`) || row.Reason != "they move" || row.By != "ann@ops" || row.Actor != "t1" {
		t.Errorf("%+v %s %s", row, row.Before, row.After)
	}
	for _, by := range []string{responder, everywhere} { // the error for a name that nothing has may say which there are: a team's auditor reads the row
		w.refuses = schemas.Errorf(schemas.NotFound, "", "no destination acme/agent is known; did you mean pay/agent?")
		if row := pause(by); row.Outcome != OutcomeRefused || row.Team != "acme" || strings.Contains(row.Detail, "pay") || row.Detail == "" {
			t.Errorf("%+v", row)
		}
	}
	for kind, want := range map[schemas.Kind]string{schemas.Conflict: OutcomeRefused, schemas.Invalid: OutcomeRefused,
		schemas.Unavailable: OutcomeFailed, schemas.Internal: OutcomeFailed} {
		w.refuses = schemas.Errorf(kind, "", "because")
		if row := pause(responder); row.Outcome != want || row.Detail != "because" || row.After != nil {
			t.Errorf("%s: %+v", kind, row)
		}
	}
	w.refuses, w.audit = nil, nil
	for _, asked := range [][3]string{{viewer, path, body}, {"", path, body}, {responder, "/v1/destinations/pay/agent/pause", body}, {responder, "/v1/dlq/act-pay/replay", body}} {
		if got, _ := askAs(t, c, w, asked[0], "POST", asked[1], asked[2]); got.Status < 400 || len(w.audit) != 0 {
			t.Errorf("%s: %+v %+v", asked[1], got, w.audit)
		}
	}
	if askAs(t, c, w, responder, "POST", "/v1/replays", bodyOf("POST /v1/replays", "pay")); len(w.audit) != 1 || w.audit[0].Team != "" || w.audit[0].Outcome != OutcomeRefused {
		t.Errorf("a plan for another team: %+v", w.audit)
	}
	w.audit, w.refuses = nil, schemas.Errorf(schemas.Conflict, "", "because")
	for _, path := range []string{"/v1/dlq/act-acme/replay", "/v1/replays/1/start"} {
		w.audit = nil
		if askAs(t, c, w, responder, "POST", path, body); len(w.audit) != 1 || w.audit[0].Team != "acme" || w.audit[0].Outcome != OutcomeRefused {
			t.Errorf("%s, refused: %+v", path, w.audit)
		}
	}
	w.audit, w.refuses = nil, nil
	if got, _ := askAs(t, c, w, responder, "POST", "/v1/dlq/act-acme/anything", body); got.Status < 400 || len(w.audit) != 0 {
		t.Errorf("a word of the caller's own: %+v %+v", got, w.audit)
	}
	open, w2 := guardedWorld(t, &tokens, func(cfg *Config) { cfg.Access = nil })
	if askAs(t, open, w2, "", "POST", path, body); len(w2.audit) != 1 || w2.audit[0].Actor != "loopback" || w2.audit[0].Role != "" || w2.audit[0].By != "ann@ops" {
		t.Errorf("without tokens: %+v", w2.audit)
	}
	large := `{"reason": "` + strings.Repeat("x", maxRequest) + `"}`
	if got, by := askAs(t, open, w2, "", "POST", path, large); got.Status != http.StatusRequestEntityTooLarge || by != nil {
		t.Errorf("%+v", got)
	}
}

func TestAuditOverTheWire(t *testing.T) {
	t.Parallel()
	c, w := guardedWorld(t, &tokensOf{}, func(cfg *Config) { cfg.Access = nil })
	page, err := c.Changes(t.Context(), AuditFilter{Team: "acme", Actor: "ann", Action: "dlq.replay", Object: "act_1", Limit: 7, Cursor: "9"})
	calls, _ := w.taken()
	if err != nil || len(page.Items) != 1 || string(page.Items[0].After) != `{"n":1}` || page.Items[0].Before != nil && string(page.Items[0].Before) != "null" {
		t.Errorf("%+v %v", page, err)
	}
	if diff := cmp.Diff([]string{"audit acme"}, calls); diff != "" {
		t.Error(diff)
	}
	if text := keptJSON(map[string]string{"a": "\x00", "b": strings.Repeat("x", mostKept)}); !strings.HasPrefix(string(text), `{"omitted_bytes":32`) {
		t.Errorf("%.100s", text)
	}
	if text := string(keptJSON(map[string]string{"a": "\x00"})); text != `{"a":"\ufffd"}` {
		t.Errorf("%s", text)
	}
}

// What pages ask in this process is kept as what comes over the wire.
func TestPagesAreAudited(t *testing.T) {
	t.Parallel()
	w := &world{}
	var cfg Config
	w.config(&cfg)
	pages, err := InProcess(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pages.AskDeadLetter(t.Context(), "act-acme", VerbReplay, DeadLetterRequest{DryRun: true}); err != nil || len(w.audit) != 0 {
		t.Errorf("a dry run: %v %+v", err, w.audit)
	}
	if _, err := pages.AskDeadLetter(t.Context(), "act-acme", VerbReplay, DeadLetterRequest{Reason: "mended", By: "ann"}); err != nil || len(w.audit) != 1 || w.kept != 1 {
		t.Fatalf("%v %+v", err, w.audit)
	}
	if calls, _ := w.taken(); slices.Contains(calls, "dead letter acme") { // which counts what stands behind it
		t.Errorf("asked %q for what was before", calls)
	}
	if row := w.audit[0]; row.Actor != "loopback" || row.By != "ann" || row.Action != "dlq.replay" || row.Team != "acme" || row.Object != "act-acme" || row.Reason != "mended" ||
		row.Outcome != OutcomeDone || row.Before == nil || strings.Contains(string(row.Before), answered) {
		t.Errorf("%+v %s", row, row.Before)
	}
	if _, err := pages.AskDeadLetter(t.Context(), "act-none", VerbDiscard, DeadLetterRequest{Reason: "x"}); err == nil || len(w.audit) != 2 || w.audit[1].Outcome != OutcomeRefused {
		t.Errorf("%v %+v", err, w.audit)
	}
	w.taken()
	w.auditAway = true
	if _, err := pages.AskDeadLetter(t.Context(), "act-acme", VerbDiscard, DeadLetterRequest{Reason: "x"}); err == nil {
		t.Error("without a row")
	}
	if _, by := w.taken(); by != nil {
		t.Errorf("changed by %q without a row", by)
	}
}

// TestAuditActions: what a change leaves in the audit can be asked for, and nothing else.
func TestAuditActions(t *testing.T) {
	t.Parallel()
	all := AuditActions()
	for path, row := range rowsOf {
		if action, _, _ := strings.Cut(row, " "); !slices.Contains(all, action) {
			t.Errorf("%s is not among %q, and %s leaves it", action, all, path)
		}
	}
	for _, action := range []string{"approval.deny", "agent.create", "agent.revoke"} {
		if !slices.Contains(all, action) {
			t.Errorf("%s is not among %q", action, all)
		}
	}
	for _, action := range []string{"approval.replay", "approval.discard", "dlq.approve"} {
		if slices.Contains(all, action) {
			t.Errorf("%s is no action of anybody's", action)
		}
	}
}
