package app

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/cmd/internal/rig"
	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/stream/ledger/pgtest"
	"github.com/forebay-io/forebay/stream/policy"
)

const loopsText = `version: 1
kafka: {brokers: ["%s"], session_timeout: 6s}
postgres: {%s}
listen: {intake: "127.0.0.1:0", operator: "127.0.0.1:0"}
topics: {partitions: 3, replication: 1, retention: 1d}
teams:
  acme:
    sources:
      github: {preset: github, secrets: [first-secret], own: [app/77]}
      slack: {preset: slack, secrets: [slack-secret]}
      agents: {preset: generic, secrets: [agents-secret], verify: {signature_header: X-Signature}, event: {id: header:X-Event-Id, type: /type, entity: [/on], chain: true}}
    destinations:
      agent: {type: http, url: "%s/run", agent: coder, allow_networks: [127.0.0.0/8], retry: {min: 10ms, max: 100ms}}
    subscriptions:
      triage: {sources: [github], begin: all, actions: [{name: run, to: agent}]}
      chat: {sources: [slack], begin: all, dedupe: {also: {key: "body.event.channel + '/' + body.event.ts"}}, actions: [{name: run, to: agent}]}
      calls: {sources: [agents], begin: all, actions: [{name: run, to: agent}]}
`

// unguarded takes the guards out of loopsText.
var unguarded = strings.NewReplacer("agent: coder, ", "", "begin: all,", "begin: all, senders: {own: allow}, loop: {depth: 1000, runs: {limit: 1000}},",
	` dedupe: {also: {key: "body.event.channel + '/' + body.event.ts"}},`, "")

// TestIncidentsOfLoops plays, from outside, what has happened to others: each row is a stream of deliveries, and what of it may reach the agent. What
// guards keep from it does reach it where they are taken out.
func TestIncidentsOfLoops(t *testing.T) {
	t.Parallel()
	t.Run("guarded", func(t *testing.T) { incidentsOfLoops(t, loopsText, true) })
	t.Run("unguarded", func(t *testing.T) { incidentsOfLoops(t, unguarded.Replace(loopsText), false) })
}

func incidentsOfLoops(t *testing.T, text string, guarded bool) {
	t.Parallel()
	agent, place := newAgent(t), newLedger(t)
	r := deploy(t, agent.URL, place, false)
	r.text = fmt.Sprintf(text, r.cluster.ListenAddrs()[0], place, agent.URL)
	r.createTopics()
	p := r.run(config.RoleIntake, config.RoleStream)
	db := pgtest.Connect(t, place.url, place.schema)

	github := func(event, body string) {
		p.accepted("github", "first-secret", &verify.Request{Method: "POST", Body: []byte(body),
			Header: http.Header{"Content-Type": {"application/json"}, "X-Github-Event": {event}}})
	}
	comment := func(issue, n int, more, sender string) {
		github("issue_comment", fmt.Sprintf(`{"action":"created","repository":{"id":9},"issue":{"number":%d},"comment":{"id":%d,"updated_at":"2026-11-29T10:00:00Z",%s},"sender":{%s}}`, issue, n, more, sender))
	}
	slack := func(typ, id, ts string) {
		p.accepted("slack", "slack-secret", &verify.Request{Method: "POST", Header: http.Header{"Content-Type": {"application/json"}},
			Body: fmt.Appendf(nil, `{"type":"event_callback","team_id":"T","event_id":%q,"event":{"type":%q,"user":"U1","channel":"C1","ts":%q,"event_ts":%q}}`, id, typ, ts, ts)})
	}
	call := func(id, on string, chain ...string) {
		p.accepted("agents", "agents-secret", &verify.Request{Method: "POST", Body: fmt.Appendf(nil, `{"type":"task","on":%q}`, on),
			Header: http.Header{"Content-Type": {"application/json"}, "X-Event-Id": {id}, "X-Agent-Call-Chain": {strings.Join(chain, ", ")}, "X-Agent-Call-Depth": {"0"}}})
	}
	const person, program = `"id":1,"login":"ann","type":"User"`, `"id":6,"login":"reviewer","type":"Bot"`
	for _, incident := range []struct {
		name      string
		entity    string // of its events, or a pattern of several
		play      func()
		runs      int
		unguarded int            // runs without the guards; 0: they keep nothing from the agent
		ended     map[string]int // actions that did not run, by status and class
		events    map[string]int // events without an action, by decision and reason
	}{
		{"claude-code-action 1445: a run triggered by its own comments", "9/1", func() {
			for n := range 5 {
				comment(1, 100+n, `"body":"done","performed_via_github_app":{"id":77}`, `"id":5,"type":"Bot"`)
			}
			comment(1, 199, `"body":"/run"`, person)
		}, 1, 6, map[string]int{"dropped own": 5}, nil},
		{"the same without own: our mark", "9/2", func() {
			comment(2, 200, `"body":"done\n\n<!-- forebay:act_1 -->"`, program)
			comment(2, 201, `"body":"/run\n\n<!-- forebay:act_1 -->"`, person) // pasted by a person: it runs
		}, 1, 2, map[string]int{"dropped own": 1}, nil},
		{"RyotaK: a user called like an app", "9/3", func() {
			comment(3, 300, `"body":"/run"`, `"id":7,"login":"forebay[bot]","type":"User"`)
		}, 1, 0, nil, nil},
		{"codex 37964, commonly 508: programs that answer each other, without headers", "9/4", func() {
			for n := range 35 {
				comment(4, 400+n, fmt.Sprintf(`"body":"thanks %d"`, n), program)
			}
		}, 30, 35, map[string]int{"dead_letter loop": 1}, nil},
		{"500 check runs of one commit", "9/abc", func() {
			for n := range 500 {
				github("check_run", fmt.Sprintf(`{"action":"completed","repository":{"id":9},"check_run":{"id":%d,"head_sha":"abc","status":"completed","app":{"id":3},"completed_at":"2026-11-29T10:00:00Z"},"sender":{%s}}`, n, program))
			}
		}, 500, 0, nil, nil},
		{"Clawith 666: a depth that nothing read, and lies", "deep", func() {
			call("d1", "deep", "a", "b", "c", "d", "e", "f", "g")
			call("d2", "deep", "a", "b", "c", "d", "e", "f", "g", "h")
		}, 1, 2, map[string]int{"dropped loop": 1}, nil},
		{"commonly 508 with headers: a cycle", "cycle", func() {
			call("c1", "cycle", "planner")
			call("c2", "cycle", "planner", "coder", "acme.calls")
		}, 1, 2, map[string]int{"dropped loop": 1}, nil},
		{"open-swe 1934, 1962: one post under two ids", "T/C1/%", func() {
			slack("app_mention", "E1", "1764410000.000100")
			slack("message", "E2", "1764410000.000100")
			slack("message", "E2", "1764410000.000100") // Slack's retry
			slack("message", "E3", "1764410000.000200")
		}, 2, 3, nil, map[string]int{"duplicate key": 1}},
	} {
		if !guarded {
			if incident.unguarded == 0 {
				continue
			}
			incident.runs, incident.ended, incident.events = incident.unguarded, nil, nil
		}
		incident.play()
		count := func(sql string) map[string]int {
			rows, err := db.Query(t.Context(), sql, incident.entity)
			if err != nil {
				t.Fatal(err)
			}
			defer rows.Close()
			found := map[string]int{}
			for rows.Next() {
				var what string
				var n int
				if err := rows.Scan(&what, &n); err != nil {
					t.Fatal(err)
				}
				found[what] = n
			}
			return found
		}
		calls := func() (n int) {
			agent.mu.Lock()
			defer agent.mu.Unlock()
			for _, c := range agent.calls {
				if begin, any := strings.CutSuffix(incident.entity, "%"); c.Entity == incident.entity || any && strings.HasPrefix(c.Entity, begin) {
					n++
				}
			}
			return n
		}
		var ended, events map[string]int
		same := func(want, got map[string]int) bool {
			return fmt.Sprint(want) == fmt.Sprint(got) || len(want)+len(got) == 0
		}
		ok := func() bool {
			ended = count(`SELECT a.status || ' ' || coalesce(a.class, ''), count(*) FROM actions a JOIN events e ON e.window_id = a.event_window AND e.event_key = a.event_key
				WHERE e.entity LIKE $1 AND a.status NOT IN ('done', 'pending', 'failed') GROUP BY 1`)
			events = count(`SELECT decision || ' ' || reason, count(*) FROM events WHERE entity LIKE $1 AND lane_seq IS NULL GROUP BY 1`)
			return calls() == incident.runs && same(incident.ended, ended) && same(incident.events, events)
		}
		if !rig.Until(time.Minute, ok) {
			t.Errorf("%s: %d runs, want %d; ended %v, want %v; events %v, want %v", incident.name, calls(), incident.runs, ended, incident.ended, events, incident.events)
		}
	}
	if !guarded {
		p.clean()
		return
	}
	if dead, err := p.api.DeadLetters(t.Context(), api.DeadLetterFilter{Class: policy.Loop, Limit: 10}); err != nil || len(dead.Items) != 1 {
		t.Errorf("dead letters of class loop: %+v %v", dead, err)
	}
	p.clean()
}
