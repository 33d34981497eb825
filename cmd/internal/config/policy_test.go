package config

import (
	"strings"
	"testing"
)

const asking = `version: 1
kafka: {brokers: ["127.0.0.1:9092"]}
postgres: {url: postgres://h/d}
destinations:
  pagers: {type: pagerduty, routing_key: k, teams: [acme]}
  others: {type: http, url: "https://example.com/", teams: [beta]}
teams:
  beta: {}
  acme:
    sources: {github: {preset: github, secrets: [s]}}
    destinations:
      deploy: {type: http, url: "https://example.com/deploy"}
      hook: {type: http, url: "https://example.com/hook"}
      discord: {type: http, url: "https://example.com/chat", params: {body: {content: "{{body.text}}"}}}
      issues: {type: http, url: "https://example.com/issues", params: {body: {n: "{{body.issue.number}}"}}}
      hidden: {type: http, url: "https://example.com/issues", params: {body: {n: "${env:WORD} {{body.issue.number}}"}}}
      chat: {type: slack, token: t, params: {channel: C0123456789}}
      nowhere: {type: slack, token: t}
      printed: {type: log}
    subscriptions:
      triage: {sources: [github], actions: [{name: run, to: deploy, approval: {ask: hook}}]}
`

// TestAskOfRules: whom the questions of a rule can be told, of a team and at the top.
func TestAskOfRules(t *testing.T) {
	t.Parallel()
	const top, of = `policy: [{name: prod, if: "action.to == 'deploy'", then: approve, ask: `, `    policy: [{name: prod, if: "action.to == 'deploy'", then: approve, ask: `
	text := strings.Replace(asking, ", approval: {ask: hook}", "", 1)
	text = strings.Replace(text, "teams: [acme]}", "teams: [acme]}\n  all: {type: http, url: \"https://example.com/\", teams: [\"*\"]}", 1)
	for name, c := range map[string]struct{ top, team, want string }{
		"of the team":             {team: of + "hook}]"},
		"that teams share":        {team: of + "pagers}]"},
		"of another":              {team: of + "others}]", want: "shared destination others is not for team acme"},
		"which is not there":      {team: of + "hok}]", want: "teams.acme.policy[0].ask: the team has no destination \"hok\"; did you mean hook?"},
		"of a type without":       {team: of + "printed}]", want: "destination printed is of type log"},
		"what it asks about":      {team: of + "deploy}]", want: "rule prod is about action run of acme.triage, which goes to destination deploy itself"},
		"of the top":              {top: top + "all}]"},
		"of the top, not for all": {top: top + "others}]", want: "teams.acme: rule prod at the top asks shared destination others, which is not for this team"},
		"of the top, a team's":    {top: top + "hook}]", want: "policy[0].ask: there is no shared destination \"hook\""},
		"of one that denies":      {team: strings.Replace(of, "approve", "deny", 1) + "hook}]", want: "policy[0].ask: nobody is asked where then is deny"},
	} {
		file := text
		if c.top != "" {
			file = strings.Replace(file, "teams:\n  beta", c.top+"\nteams:\n  beta", 1)
		} else {
			file = strings.Replace(file, "  acme:\n", "  acme:\n"+c.team+"\n", 1)
		}
		_, problems := load(file, map[string]string{"WORD": "w"}, nil, Options{})
		got := problems.Error()
		if len(problems) == 0 {
			got = ""
		}
		if c.want == "" && got != "" || !strings.Contains(got, c.want) || len(problems) > 1 {
			t.Errorf("%s: %s\nwant %q", name, got, c.want)
		}
	}
}

// TestAsk: whom a question can be told, and what is said of the others.
func TestAsk(t *testing.T) {
	t.Parallel()
	for ask, want := range map[string]string{
		"hook": "", "pagers": "", "discord": "", "chat": "",
		"hok":     "forebay.yaml:21: teams.acme.subscriptions.triage.actions[0].approval.ask: the team has no destination \"hok\"; did you mean hook?",
		"others":  "shared destination others is not for team acme",
		"printed": "destination printed is of type log, and a question is told by one of http, slack, pagerduty",
		"deploy":  "action run of acme.triage goes to destination deploy, and needs an approval itself",
		"nowhere": "params.channel is missing at destination nowhere",
		"issues":  "destination issues cannot tell a question: template: params.body",
		"hidden":  "destination hidden cannot tell a question: one of its params cannot be made of a question;",
	} {
		_, problems := load(strings.Replace(asking, "ask: hook", "ask: "+ask, 1), map[string]string{"WORD": "a-secret-word"}, nil, Options{})
		got := problems.Error()
		if len(problems) == 0 {
			got = ""
		}
		if want == "" && got != "" || !strings.Contains(got, want) || strings.Contains(got, "a-secret-word") || len(problems) > 1 {
			t.Errorf("%s: %s\nwant %q", ask, got, want)
		}
	}
	c, problems := load(asking, map[string]string{"WORD": "w"}, nil, Options{})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	d, _ := c.Destination("acme", "chat")
	if got := d.ForQuestions().Params.Values(); got["channel"] != "C0123456789" || got["text"] != "{{body.text}}" || len(d.Params) != 1 {
		t.Errorf("%v, of %v", got, d.Params)
	}
}
