package app

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/cmd/internal/rig"
	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/sink"
)

// partsOf returns the parts of filters of a key as text.
func partsOf(list []api.FilterItem, key string) string {
	var all []string
	for _, f := range list {
		if f.Key == key {
			text, _ := json.Marshal(f)
			all = append(all, string(text))
		}
	}
	return strings.Join(all, "\n")
}

// TestExplain: what each guard is for an event is told with the values it goes by, and looking neither asks nor counts.
func TestExplain(t *testing.T) {
	t.Parallel()
	to := newAgent(t)
	r := deploy(t, to.URL, newLedger(t), true)
	r.text = strings.Replace(r.text, "teams:\n", `policy:
  - {name: ask, if: "has(body.order) && body.order.startsWith('ask')", then: approve, reason: "changes production"}
  - {name: free, if: "has(body.order) && body.order == 'free'", then: allow}
  - {name: never, if: "has(body.order) && body.order in ['never', 'free']", then: deny}
teams:
`, 1)
	r.text = strings.Replace(r.text, "fulfil: {", `fulfil: {dedupe: {also: {key: "body.order + '/' + string(body.rev)", window: 5m}}, senders: {automation: drop}, `, 1)
	p := r.run(config.RoleIntake, config.RoleStream)
	says := func(event, key string, wants ...string) {
		t.Helper()
		d, err := p.api.Item(t.Context(), "acme", "fulfil", "orders", event)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range wants {
			if got := partsOf(d.Filters, key); !strings.Contains(got, want) {
				t.Errorf("%s of %s: %q is not in\n%s", key, event, want, got)
			}
		}
	}
	p.accepted("orders", "orders-secret", order("ask", 1))
	p.accepted("orders", "orders-secret", order("never", 1))
	p.accepted("orders", "orders-secret", order("free", 1))
	asked := p.asked("ask-1")
	p.item("fulfil", "orders", "never-1", "applied", "denied")
	p.item("fulfil", "orders", "free-1", "applied", "done")
	says("ask-1", "dedupe.also", `"key, for 5m"`, `"\"ask/1\""`)
	again := order("free", 1) // the same under another id
	again.Header.Set("X-Event-Id", "other")
	p.accepted("orders", "orders-secret", again)
	p.item("fulfil", "orders", "other", "duplicate", "")
	says("other", "dedupe.also", `{"name":"first event","value":"\"orders/free-1\""}`)
	says("free-1", "dedupe.also", `{"name":"first event","value":"this one"}`)
	says("ask-1", "senders", `"own: drop, automation: drop"`, `"result":"true"`, `"sender.kind"`)
	says("ask-1", "loop", `"depth: 8, runs: {limit: 30, per: 1h}"`, `{"name":"number of the call","value":"1"}`, `not counted: no conversation by a program`)
	const notAsked = `[{"depth":0,"text":"rule never: deny","result":"not asked"}]`
	says("ask-1", "policy", `{"depth":0,"text":"rule ask: approve","result":"false"}`, notAsked, `{"name":"body.order","value":"\"ask\""}`)
	says("ask-1", "approval", `"result":"false"`, `{"name":"approval","value":"`+asked.ID+`"}`, `"\"waiting\""`)
	says("never-1", "policy", `{"depth":0,"text":"rule ask: approve","result":"true"}`, `{"depth":0,"text":"rule never: deny","result":"false"}`)
	says("free-1", "policy", `{"depth":0,"text":"rule ask: approve","result":"true"}`, `{"depth":0,"text":"rule free: allow","result":"true"}`,
		notAsked)
	for _, event := range []string{"never-1", "free-1"} { // the one is denied, the other runs: no approval counts
		if d, err := p.api.Item(t.Context(), "acme", "fulfil", "orders", event); err != nil || partsOf(d.Filters, "approval") != "" {
			t.Errorf("approval of %s: %s %v", event, partsOf(d.Filters, "approval"), err)
		}
	}
	for n := range 2 { // a program comments
		p.accepted("github", "first-secret", &verify.Request{Method: "POST", Header: http.Header{"Content-Type": {"application/json"},
			"X-Github-Event": {"issue_comment"}},
			Body: fmt.Appendf(nil, `{"action":"created","repository":{"id":9},"issue":{"number":1},"comment":{"id":%d,"updated_at":"2026-11-29T10:00:00Z","body":"ok"},"sender":{"id":6,"login":"reviewer","type":"Bot"}}`, n)})
	}
	var comments api.Page[api.InboxItem]
	if !rig.Until(time.Minute, func() (ok bool) {
		var err error
		comments, err = p.api.Items(t.Context(), api.InboxFilter{Team: "acme", Subscription: "triage", Status: "done", Limit: 10})
		return err == nil && len(comments.Items) == 2
	}) {
		t.Fatalf("%+v", comments)
	}
	said := ""
	for range 2 { // looking notes nothing
		said = ""
		for _, i := range comments.Items {
			d, err := p.api.Item(t.Context(), "acme", "triage", "github", i.EventID)
			if err != nil {
				t.Fatal(err)
			}
			said += partsOf(d.Filters, "loop") + partsOf(d.Filters, "senders")
		}
	}
	for _, want := range []string{`{"name":"said by programs","value":"1"}`, `{"name":"said by programs","value":"2"}`, `"\"automation\""`} {
		if !strings.Contains(said, want) {
			t.Errorf("%q is not in\n%s", want, said)
		}
	}
	if page, err := p.api.Approvals(t.Context(), "", "", 100, ""); err != nil || len(page.Items) != 1 {
		t.Errorf("asked by looking: %+v %v", page, err)
	}
	p.clean()
}

// TestExplainOfRules: in each level the first rule that holds decides, the strictest of the levels counts, and what nobody asks is said to be that.
func TestExplainOfRules(t *testing.T) {
	t.Parallel()
	rules := func(list ...string) (of []config.PolicyRule) { // name, condition and then of each
		for r := range slices.Chunk(list, 3) {
			of = append(of, config.PolicyRule{Name: r[0], If: r[1], Then: r[2]})
		}
		return of
	}
	for name, c := range map[string]struct {
		top, team []config.PolicyRule
		own       *config.Approval
		want      string
		asks      bool
	}{
		"none holds":      {rules("a", "false", "deny"), rules("b", "false", "approve"), nil, "a:true b:true", false},
		"both levels":     {rules("a", "true", "approve", "b", "true", "deny"), rules("c", "true", "allow"), nil, "a:false b:not asked c:true", true},
		"the top denies":  {rules("a", "true", "deny"), rules("b", "true", "approve"), &config.Approval{}, "a:false b:not asked", false},
		"the team denies": {rules("a", "true", "approve"), rules("b", "true", "deny"), nil, "a:false b:false", false},
		"one fails":       {rules("a", "body.no == 1", "allow", "b", "true", "deny"), rules("c", "true", "deny"), &config.Approval{}, "a:false b:not asked c:not asked", false},
		"the action asks": {rules("a", "true", "allow"), nil, &config.Approval{}, "a:true", true},
		"behind an allow": {rules("a", "true", "allow", "b", "true", "approve"), nil, nil, "a:true b:not asked", false},
	} {
		file := &config.Config{Policy: c.top, Teams: map[string]*config.Team{"acme": {Policy: c.team}}}
		list, asks := ruleItems(file, "acme", config.Action{Name: "run", Approval: c.own}, &schemas.Event{Data: []byte("{}")}, false)
		var got []string
		for _, i := range list {
			if (len(i.Parts) == 1) != (i.Parts[0].Result == "not asked") {
				t.Errorf("%s: %+v", name, i)
			}
			got = append(got, strings.TrimPrefix(i.Parts[0].Text[:6], "rule ")+":"+i.Parts[0].Result)
		}
		if s := strings.Join(got, " "); s != c.want || asks != c.asks {
			t.Errorf("%s: %s, want %s; asks %t", name, s, c.want, asks)
		}
	}
}

// TestExplainOfThinEvents: what is asked of the document that an attempt fetches is not told of the event that names it; of one that no document is
// fetched for, it is.
func TestExplainOfThinEvents(t *testing.T) {
	t.Parallel()
	r := &deployment{t: t, text: fmt.Sprintf(deploymentText, "127.0.0.1:1", "postgres: {url: postgres://127.0.0.1:1/none}", "http://127.0.0.1:1")}
	r.text = strings.NewReplacer("version: {from: /rev, kind: sequence}}\n", "version: {from: /rev, kind: sequence}}\n        thin: {url: \"https://api.example/{id}\"}\n",
		"then: park}, actions: [{name: run, to: agent}]", "then: park}, actions: [{name: run, to: agent, when: body.open, approval: {}}]",
		"teams:\n", "policy: [{name: big, if: body.total > 5, then: deny}]\nteams:\n").Replace(r.text)
	file := r.load(config.RoleStream)
	for source, at := range map[string]nameInTeam{"/acme/orders": {"acme", "fulfil"}, "/acme/github": {"acme", "triage"}} {
		for _, e := range []*schemas.Event{{ID: "1", Source: source}, {ID: "1", Source: source, Deleted: true}, {ID: "1", Source: source, Backfill: true}} {
			thin := isThin(file, at, e)
			if want := source == "/acme/orders" && !e.Deleted && !e.Backfill; thin != want {
				t.Errorf("%+v is thin: %t", e, thin)
			}
			sub := subscriptionIn(file, nameInTeam{"acme", "fulfil"})
			list, asks := ruleItems(file, "acme", sub.Actions[0], e, thin)
			list = append(list, filtersOf(sub, e, thin)...)
			result := "error"
			if thin {
				result = "not known"
			}
			if !thin && asks || thin && !asks || len(list) != 2 {
				t.Errorf("%+v: asks %t, %+v", e, asks, list)
			}
			for _, item := range list {
				part := item.Parts[len(item.Parts)-1]
				if item.Key == "policy" && !thin {
					part = item.Parts[1]
				}
				if part.Result != result {
					t.Errorf("%+v: %s is %+v", e, item.Key, part)
				}
			}
		}
	}
}

// TestExplainOfGuards: senders and loops are told as the guards decide.
func TestExplainOfGuards(t *testing.T) {
	t.Parallel()
	file := &config.Config{Teams: map[string]*config.Team{"acme": {
		Destinations:  map[string]*config.Destination{"run": {Agent: "coder"}},
		Subscriptions: map[string]*config.Subscription{"triage": {Senders: config.Senders{Own: config.SendersDrop, Automation: config.SendersAllow}}},
	}}}
	at := nameInTeam{"acme", "triage"}
	sub := subscriptionIn(file, at)
	sub.Loop.Depth, sub.Loop.Runs.Limit, sub.Loop.Runs.Per = 2, 30, config.Duration(time.Hour)
	e := &schemas.Event{Sender: schemas.Sender{ID: "7", Login: "us[bot]", Kind: schemas.Own, Trust: schemas.Member},
		Chain: schemas.Chain{Agents: []string{"planner", "coder"}, Depth: 2}}
	act := sink.Action{Name: "run", Subscription: "acme.triage", Destination: "acme/run", Event: e}
	check := func(what string, got api.FilterItem, result string, wants ...string) {
		t.Helper()
		text := partsOf([]api.FilterItem{got}, got.Key)
		if got.Parts[0].Result != result {
			t.Errorf("%s: %s, want %s: %s", what, got.Parts[0].Result, result, text)
		}
		for _, want := range wants {
			if !strings.Contains(text, want) {
				t.Errorf("%s: %q is not in %s", what, want, text)
			}
		}
	}
	check("own", sendersItem(t.Context(), sub, act), "false", "senders.own is drop", `"\"own\""`, `"\"us[bot]\""`, `"\"member\""`)
	of := guarding{file: file, at: at}
	check("too deep", loopItem(t.Context(), of, act), "false", "loop.depth is 2", `{"name":"number of the call","value":"3"}`, `[\"planner\",\"coder\"]`)
	e.Chain.Depth, sub.Loop.Depth = 0, 8
	check("a cycle", loopItem(t.Context(), of, act), "false", `a cycle: agent \"coder\"`)
	e.Chain, e.Conversation = schemas.Chain{}, true
	check("a process that does not run it", loopItem(t.Context(), of, act), "error")
	sub.Senders.Own = config.SendersAllow
	check("allowed", sendersItem(t.Context(), sub, act), "true")
}
