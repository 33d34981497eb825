package app

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
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
