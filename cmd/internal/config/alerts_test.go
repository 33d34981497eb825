package config

import (
	"strings"
	"testing"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/alerts"
)

const alertsHead = "version: 1\nkafka: {brokers: [\"127.0.0.1:9092\"]}\npostgres: {url: \"postgres://x@127.0.0.1/x\"}\n"

// Receivers have the keys of their sinks and nothing of lanes, and what is wrong is said with what to do.
func TestAlertsAreChecked(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"alerts: {receivers: {r: {type: email}}}":                                                        `alerts.receivers.r.type: "email" is not one of http, slack, pagerduty`,
		"alerts: {receivers: {r: {type: kafka}}}":                                                        `"kafka" is not one of http, slack, pagerduty`,
		"alerts: {receivers: {r: {type: slack, token: x}}}":                                              "params.channel is missing",
		"alerts: {receivers: {r: {type: pagerduty}}}":                                                    "routing_key is missing",
		"alerts: {receivers: {r: {type: http, url: \"http://127.0.0.1:1/\"}}}":                           "allow_networks",
		"alerts: {receivers: {r: {type: http, url: \"https://x.example/\", retry: {}}}}":                 "alerts.receivers.r.retry: unknown key",
		"alerts: {receivers: {r: {type: http, url: \"https://x.example/\", token: x}}}":                  "has no meaning for type http",
		"alerts: {receivers: {r: {type: http, url: \"https://x.example/\", severities: [fatal]}}}":       "is not one of critical, warning",
		"alerts: {receivers: {r: {type: http, url: \"https://x.example/\", params: {body: \"{{x}}\"}}}}": "alerts.receivers.r.params.body",
		"alerts: {every: 5m}":          "alerts.every: 5m is not between 1s and 1m",
		"alerts: {repeat: 1s}":         "alerts.repeat",
		"alerts: {off: [ForebayLagg]}": "did you mean ForebayLag?",
		"alerts: {dead_letters: 0}":    "must be at least 1",
		"alerts: {lag: 1s}":            "alerts.lag",
		"alerts: {expires: 1s}":        "alerts.expires",
		"alerts: {oldest: 1s}":         "alerts.oldest",
	} {
		_, problems := load(alertsHead+text, nil, nil, Options{})
		if all := problems.Error(); len(problems) != 1 || !strings.Contains(all, want) {
			t.Errorf("%s: %s, want %s", text, all, want)
		}
	}
}

// Without a receiver nothing is looked for, with one everything that is not off, by the thresholds of the file.
func TestAlertRules(t *testing.T) {
	t.Parallel()
	c, problems := load(alertsHead, nil, nil, Options{})
	if len(problems) > 0 || len(c.Alerts.Rules()) != 0 {
		t.Errorf("%v, %d rules", problems, len(c.Alerts.Rules()))
	}
	c, problems = load(alertsHead+"alerts: {off: [ForebayDeadLetter], lag: 90s, receivers: {r: {type: slack, token: \"${env:T}\", severities: [critical], params: {channel: C0123456789}}}}",
		map[string]string{"T": "xoxb"}, nil, Options{Roles: []Role{RoleIntake}})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	rules := c.Alerts.Rules()
	if len(rules) != len(alerts.Rules(alerts.Defaults()))-1 {
		t.Errorf("%d rules", len(rules))
	}
	for _, r := range rules {
		if r.Name == "ForebayDeadLetter" {
			t.Error("an alert that is off is looked for")
		}
	}
	want := alerts.Defaults()
	if want.Lag = 90 * time.Second; c.Alerts.thresholds() != want {
		t.Errorf("%+v", c.Alerts.thresholds())
	}
	d, r := c.Alerts.Destination("r"), c.Alerts.Receivers["r"]
	if d.Params["text"] == nil || d.Params["channel"] == nil || r.Params["text"] != nil || d.Timeout.Std() != 10*time.Second || !r.Wants(alerts.Critical) || r.Wants(alerts.Warning) {
		t.Errorf("%+v %+v", d.Destination, r)
	}
	if hidden := c.HiddenOf(d); len(hidden) != 1 || hidden[0].Reveal() != "xoxb" {
		t.Errorf("%d secrets are hidden", len(hidden))
	}
}
