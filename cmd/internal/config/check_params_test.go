package config

import (
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/forebay-io/forebay/stream/sink"
)

const chatting = `version: 1
kafka: {brokers: ["127.0.0.1:9092"]}
postgres: {url: postgres://h/d}
teams:
  acme:
    sources:
      github: {preset: github, secrets: [s]}
    destinations:
      plain: {type: log}
      chat:
        type: slack
        token: "${env:SLACK_TOKEN}"
        params:
          channel: "${env:ROOM}"
    subscriptions:
      triage:
        sources: [github]
        actions:
          - name: tell
            to: chat
            params:
              text: "Issue {{body.issue.number}}: {{body.issue.title}}"
              blocks:
                - type: section
                  text: {type: mrkdwn, text: "*{{body.issue.title}}*"}
          - {name: log, to: plain}
`

var chatEnv = map[string]string{"SLACK_TOKEN": "xoxb-hush-hush", "ROOM": "C0123456789"}

func TestParams(t *testing.T) {
	t.Parallel()
	c, problems := load(chatting, chatEnv, nil, Options{})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	if diff := cmp.Diff(map[string]any{"channel": "C0123456789"}, c.Teams["acme"].Destinations["chat"].Params.Values()); diff != "" {
		t.Error(diff)
	}
	want := map[string]map[string]any{"acme.triage/tell": {
		"text":   "Issue {{body.issue.number}}: {{body.issue.title}}",
		"blocks": []any{map[string]any{"type": "section", "text": map[string]any{"type": "mrkdwn", "text": "*{{body.issue.title}}*"}}},
	}}
	if diff := cmp.Diff(want, c.ActionParams(own(c, "chat"))); diff != "" {
		t.Error(diff)
	}
	if got := c.ActionParams(own(c, "plain")); len(got) != 0 {
		t.Errorf("params of a destination that has none: %v", got)
	}
	shown, err := c.YAML()
	if err != nil || strings.Contains(string(shown), "C0123456789") || !strings.Contains(string(shown), "channel: ${env:ROOM}") {
		t.Errorf("config show: %v\n%s", err, shown)
	}
}

// TestTakes: a destination is sent the parameters of an action that goes elsewhere by now where they could be written for it, and holds no reference.
func TestTakes(t *testing.T) {
	t.Parallel()
	const dests = "      old: {type: slack, token: \"${env:SLACK_TOKEN}\"}\n      plain:"
	for _, tt := range []struct{ name, old, new, want string }{
		{"fits", "", "", ""},
		{"other names", "type: slack, token: \"${env:SLACK_TOKEN}\"}", "type: http, url: \"https://h/\"}", "params.blocks means nothing there"},
		{"a reference", "text: \"Issue ", "text: \"${env:ROOM} ", "params.text has a reference"},
		{"a reference inside", "text: \"*{{", "text: \"${env:ROOM}{{", "params.blocks has a reference"},
	} {
		c, problems := load(strings.Replace(strings.Replace(chatting, "      plain:", dests, 1), tt.old, tt.new, 1), chatEnv, nil, Options{})
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		its := c.Teams["acme"].Subscriptions["triage"].Actions[0]
		got := ""
		open := sink.Action{Name: "tell", Subscription: "acme.triage", Destination: "acme/old"}
		if err := c.Unfit("acme", its, open); err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
		open.Destination = "acme/chat"
		if err := c.Unfit("acme", its, open); err != nil {
			t.Errorf("%s: where it goes: %v", tt.name, err)
		}
	}
}

func TestParamProblems(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, old, new, want string }{
		{"unknown variable", "{{body.issue.number}}", "{{bdy.issue.number}}", "forebay.yaml:22: teams.acme.subscriptions.triage.actions[0].params.text: {{bdy.issue.number}} is not an expression: at character 1: undeclared reference to 'bdy' (did you mean 'body'?)"},
		{"deep inside", `"*{{body.issue.title}}*"`, `"*{{event.nope}}*"`, "forebay.yaml:25: teams.acme.subscriptions.triage.actions[0].params.blocks[0].text.text: {{event.nope}} is not an expression"},
		{"of a type", "{{body.issue.number}}:", "{{event.parts}}", "forebay.yaml:22: teams.acme.subscriptions.triage.actions[0].params.text: {{event.parts}} is an expression of type list(string)"},
		{"not closed", "{{body.issue.number}}:", "{{body.issue.number:", "has {{ at character 7 without }}"},
		{"unknown parameter", "              text:", "              txt: x\n              text:", "forebay.yaml:22: teams.acme.subscriptions.triage.actions[0].params.txt: is no parameter here; there are channel, text, blocks, thread_ts"},
		{"missing", "              text:", "              thread_ts: '1.0' #", "forebay.yaml:19: teams.acme.subscriptions.triage.actions[0]: params.text is missing, here or at destination chat: The message"},
		{"of the destination", `channel: "${env:ROOM}"`, `channel: "#general"`, "forebay.yaml:14: teams.acme.destinations.chat.params.channel: is not the id of a channel, such as C0123456789"},
		{"of a reference", `"${env:ROOM}"`, `"${env:SLACK_TOKEN}"`, "forebay.yaml:14: teams.acme.destinations.chat.params.channel: what its reference leads to cannot be used here"},
		{"without a meaning there", "{type: log}", "{type: log, params: {a: b}}", "forebay.yaml:9: teams.acme.destinations.plain.params: has no meaning for type log"},
		{"plain http", "token:", "base_url: http://127.0.0.1/api\n        token:", "teams.acme.destinations.chat.base_url: plain http is refused unless allow_networks"},
		{"base_url with a query", "token:", "base_url: https://slack.example/api?team=x\n        token:", "forebay.yaml:12: teams.acme.destinations.chat.base_url: has a query: paths are put behind it"},
		{"both over one another", "              text:", "              channel: C9876543210\n              text:", ""},
		{"body of http that is none", "plain: {type: log}", "plain: {type: http, url: https://x.example, params: {body: {id: '{{event.nope}}'}}}", "teams.acme.destinations.plain.params.body.id: {{event.nope}} is not an expression"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if !strings.Contains(chatting, tt.old) {
				t.Fatalf("the file has no %q", tt.old)
			}
			_, problems := load(strings.Replace(chatting, tt.old, tt.new, 1), chatEnv, nil, Options{})
			switch {
			case tt.want == "" && len(problems) > 0:
				t.Errorf("unexpected problems:\n%v", problems)
			case tt.want != "" && (len(problems) != 1 || !strings.Contains(problems.Error(), tt.want)):
				t.Errorf("want %q, got\n%v", tt.want, problems)
			case strings.Contains(problems.Error(), "hush"):
				t.Errorf("a resolved value is printed:\n%v", problems)
			}
		})
	}
}

// Intake needs neither the token nor what the parameters refer to; whether they compile is not asked there.
func TestParamsAreOfTheStream(t *testing.T) {
	t.Parallel()
	text := strings.Replace(chatting, "              text:", "              thread_ts: \"${env:ROOM}\"\n              text:", 1)
	if _, problems := load(text, nil, nil, Options{Roles: []Role{RoleIntake}}); len(problems) > 0 {
		t.Error(problems)
	}
	if _, problems := load(text, chatEnv, nil, Options{Roles: []Role{RoleStream}}); len(problems) != 1 {
		t.Errorf("the stream is to say that a channel is no timestamp:\n%v", problems)
	}
}

const apis = `version: 1
kafka: {brokers: ["127.0.0.1:9092"]}
postgres: {url: postgres://h/d}
teams:
  acme:
    sources:
      github: {preset: github, secrets: [s]}
    destinations:
      comment:
        type: github
        do: comment
        token: "${env:GITHUB_TOKEN}"
        params: {repo: octo-org/hello, issue: "{{body.issue.number}}"}
      page:
        type: pagerduty
        routing_key: "${env:PD_KEY}"
        base_url: https://events.eu.pagerduty.com
        params: {severity: critical}
    subscriptions:
      triage:
        sources: [github]
        actions:
          - {name: comment, to: comment, params: {body: hello}}
          - {name: page, to: page}
`

func TestAPISinks(t *testing.T) {
	t.Parallel()
	env := map[string]string{"GITHUB_TOKEN": "github_pat_hush", "PD_KEY": "hush-hush"}
	for _, tt := range []struct{ name, old, new, want string }{
		{"as it is", "do: comment", "do: comment", ""},
		{"nothing to do", "        do: comment\n", "", "teams.acme.destinations.comment: do is missing: What is done: open an issue"},
		{"unknown thing to do", "do: comment", "do: coment", `"coment" is not one of issue, comment, labels, dispatch; did you mean comment?`},
		{"parameters of another", "do: comment", "do: issue", "params.issue: is no parameter here; there are repo, title, body, labels, assignees"},
		{"no routing key", `        routing_key: "${env:PD_KEY}"` + "\n", "", "teams.acme.destinations.page: routing_key is missing"},
		{"token for a key", "routing_key:", "token:", "teams.acme.destinations.page.token: has no meaning for type pagerduty"},
		{"of no kind", "severity: critical", "severity: bad", "teams.acme.destinations.page.params.severity: is not one of critical, error, warning, info"},
		{"no repository", "repo: octo-org/hello", "repo: hello", "forebay.yaml:13: teams.acme.destinations.comment.params.repo: is not the owner and name of a repository"},
		{"a body needed", "params: {body: hello}", "params: {}", "params.body is missing, here or at destination comment"},
		{"do for slack", "type: pagerduty", "type: slack", "teams.acme.destinations.page.routing_key: has no meaning for type slack"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if !strings.Contains(apis, tt.old) {
				t.Fatalf("the file has no %q", tt.old)
			}
			_, problems := load(strings.Replace(apis, tt.old, tt.new, 1), env, nil, Options{})
			if tt.want == "" && len(problems) > 0 || !strings.Contains(problems.Error(), tt.want) || strings.Contains(problems.Error(), "there are none") {
				t.Errorf("want %q, got\n%v", tt.want, problems)
			}
		})
	}
}

// TestExampleOfParams: what the example has in a comment can be taken out of it.
func TestExampleOfParams(t *testing.T) {
	t.Parallel()
	before, rest, ok := strings.Cut(string(Example()), "      # chat:\n")
	if !ok {
		t.Fatal("the example has no chat")
	}
	text := before + "      chat:\n" + strings.Replace(strings.Replace(rest, "      #   ", "        ", 2), "- {name: run, to: coder}", "- {name: run, to: chat}", 1)
	env := map[string]string{"SLACK_TOKEN": "xoxb-0000"}
	maps.Copy(env, designEnv)
	c, problems := load(strings.Replace(text, "      #   params", "        params", 1), env, nil, Options{})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	if d := c.Teams["acme"].Destinations["chat"]; d.Type != "slack" || len(d.Params) != 2 {
		t.Errorf("%+v", d)
	}
}
