package app

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/cmd/internal/rig"
)

// TestIncidentsOfQuestionsAreResolved: what a question has opened at PagerDuty is resolved under the same dedup_key, whatever ends it, and again under
// the same key where PagerDuty did not take it.
func TestIncidentsOfQuestionsAreResolved(t *testing.T) {
	t.Parallel()
	type said struct {
		Action string `json:"event_action"`
		Dedup  string `json:"dedup_key"`
		key    string
	}
	var mu sync.Mutex
	var all []said
	pagers := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		one := said{key: r.Header.Get("Idempotency-Key")}
		if err := json.NewDecoder(r.Body).Decode(&one); err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		first := !slices.ContainsFunc(all, func(s said) bool { return s.Action == one.Action })
		if all = append(all, one); first && one.Action == "resolve" {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		w.WriteHeader(http.StatusAccepted)
		_, _ = w.Write([]byte(`{"status":"success"}`))
	}))
	t.Cleanup(pagers.Close)
	of := func(action string) (list []said) {
		mu.Lock()
		defer mu.Unlock()
		for _, s := range all {
			if s.Action == action {
				list = append(list, s)
			}
		}
		return list
	}
	to := newAgent(t)
	r := deploy(t, to.URL, newLedger(t), true)
	r.text = strings.Replace(r.text, "    destinations:\n", `    destinations:
      pagers: {type: pagerduty, routing_key: k, base_url: "`+pagers.URL+`", allow_networks: [127.0.0.0/8], params: {event_action: trigger}}
`, 1)
	r.text = strings.Replace(r.text, "begin: all, gap: {wait: 20s, then: park}, actions: [{name: run, to: agent}]}",
		"begin: all, actions: [{name: run, to: agent, approval: {ask: pagers}}]}", 1)
	p := r.run(config.RoleIntake, config.RoleStream)
	for n, verb := range []string{api.VerbApprove, api.VerbDeny} {
		entity := []string{"yes", "no"}[n]
		p.accepted("orders", "orders-secret", order(entity, 1))
		a := p.asked(entity + "-1")
		p.approvalOf(a.ID, "told", func(a *api.ApprovalItem) bool { return a.ToldAt != nil })
		if _, err := p.api.AnswerApproval(t.Context(), a.ID, verb, api.ApprovalRequest{Reason: "looked", By: "jo"}); err != nil {
			t.Fatal(err)
		}
		if !rig.Until(time.Minute, func() bool { return len(of("resolve")) == n+2 }) {
			t.Fatalf("%s: resolved %+v", verb, of("resolve"))
		}
		opened, ended := of("trigger"), of("resolve")
		last := ended[len(ended)-1]
		if len(opened) != n+1 || last.Dedup != opened[n].Dedup || !strings.Contains(last.Dedup, "."+a.ID) || last.key == "" || last.key == opened[n].key {
			t.Errorf("%s: opened %+v, resolved %+v", verb, opened, ended)
		}
		if n == 0 && ended[0] != ended[1] {
			t.Errorf("resolved under other keys: %+v", ended)
		}
	}
	p.clean()
}

// TestMessagesOfQuestionsAreChanged: Slack's message of a question says how it has ended, whatever ends it, and nothing is posted beside it; it is the
// message that the answer named, and again the same one where Slack did not take the change.
func TestMessagesOfQuestionsAreChanged(t *testing.T) {
	t.Parallel()
	type said struct {
		Channel, Text, TS string
		method, key       string
		Blocks            []any
	}
	var mu sync.Mutex
	var all []said
	of := func(method string) (list []said) {
		mu.Lock()
		defer mu.Unlock()
		for _, s := range all {
			if s.method == method {
				list = append(list, s)
			}
		}
		return list
	}
	slack := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		one := said{method: strings.TrimPrefix(r.URL.Path, "/"), key: r.Header.Get("Idempotency-Key")}
		if err := json.NewDecoder(r.Body).Decode(&one); err != nil {
			t.Error(err)
		}
		mu.Lock()
		all = append(all, one)
		mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		if n := len(of(one.method)); n == 1 && one.method == "chat.update" {
			w.WriteHeader(http.StatusServiceUnavailable)
		} else {
			_, _ = fmt.Fprintf(w, `{"ok":true,"channel":"C0123456789","ts":"170000000%d.000100"}`, n)
		}
	}))
	t.Cleanup(slack.Close)
	to := newAgent(t)
	r := deploy(t, to.URL, newLedger(t), true)
	r.text = strings.Replace(r.text, "    destinations:\n", `    destinations:
      chat: {type: slack, token: xoxb-1, base_url: "`+slack.URL+`", allow_networks: [127.0.0.0/8], params: {channel: C0123456789, text: "answer: {{body.url}}", blocks: [{type: divider}]}}
`, 1)
	r.text = strings.Replace(r.text, "begin: all, gap: {wait: 20s, then: park}, actions: [{name: run, to: agent}]}",
		"begin: all, actions: [{name: run, to: agent, approval: {ask: chat}}]}", 1)
	p := r.run(config.RoleIntake, config.RoleStream)
	for n, want := range []string{"was denied by jo: looked", "needs no answer any more: its entity has a newer version by now"} {
		entity := []string{"no", "moved"}[n]
		p.accepted("orders", "orders-secret", order(entity, 1))
		a := p.asked(entity + "-1")
		p.approvalOf(a.ID, "told", func(a *api.ApprovalItem) bool { return a.ToldAt != nil })
		if n == 1 {
			p.accepted("orders", "orders-secret", order(entity, 2))
		} else if _, err := p.api.AnswerApproval(t.Context(), a.ID, api.VerbDeny, api.ApprovalRequest{Reason: "looked", By: "jo"}); err != nil {
			t.Fatal(err)
		}
		if !rig.Until(3*time.Minute, func() bool { return len(of("chat.update")) == n+2 }) { // that its entity has moved on is seen within a minute
			t.Fatalf("%s: changed %+v", want, of("chat.update"))
		}
		asked, ended := of("chat.postMessage")[n], of("chat.update")[n+1]
		if ended.TS != fmt.Sprintf("170000000%d.000100", n+1) || ended.Channel != asked.Channel || !strings.Contains(ended.Text, want) || len(asked.Blocks) != 1 || len(ended.Blocks) > 0 ||
			ended.key == "" || ended.key == asked.key {
			t.Errorf("asked %+v, ended %+v", asked, ended)
		}
	}
	if ended := of("chat.update"); !reflect.DeepEqual(ended[0], ended[1]) {
		t.Errorf("changed as %+v", ended)
	}
	p.clean()
	if looks := len(all) - len(of("chat.update")) - len(of("chat.postMessage")); looks > 0 {
		t.Errorf("looked %d times for what the answers named", looks)
	}
}
