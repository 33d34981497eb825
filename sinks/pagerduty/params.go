package pagerduty

import "github.com/forebay-io/forebay/sinks/template"

// Params declares the parameters of an alert.
func Params() []template.Param {
	return []template.Param{
		{Name: "event_action", Doc: "trigger, acknowledge or resolve.", Kind: template.Text, Required: true, Values: []string{"trigger", "acknowledge", "resolve"}, Default: "trigger"},
		{Name: "dedup_key", Doc: "What the alert is known by; longer than 255 bytes, its hash is.", Kind: template.Text, Required: true, Default: "{{event.source}}/{{event.entity}}"},
		{Name: "summary", Doc: "One line about the alert; cut after 1024 characters.", Kind: template.Text, Required: true, Default: "{{event.type}} {{event.entity}}", Max: func(map[string]any, string) int { return maxSummary }},
		{Name: "source", Doc: "What is affected.", Kind: template.Text, Required: true, Default: "{{event.source}}"},
		{Name: "severity", Doc: "critical, error, warning or info.", Kind: template.Text, Required: true, Values: []string{"critical", "error", "warning", "info"}, Default: "error"},
		{Name: "timestamp", Doc: "When it happened, in RFC 3339.", Kind: template.Text, Default: "{{event.time}}"},
		{Name: "component", Doc: "The part of the source that is affected.", Kind: template.Text},
		{Name: "group", Doc: "What it belongs to.", Kind: template.Text},
		{Name: "class", Doc: "Kind of the alert.", Kind: template.Text},
		{Name: "custom_details", Doc: "More about it, any JSON; cut where PagerDuty would refuse it.", Kind: template.Value, Cuts: true},
		{Name: "client", Doc: "Name of what sends the alert.", Kind: template.Text, Default: "Forebay"},
		{Name: "client_url", Doc: "Its URL.", Kind: template.Text},
		{Name: "links", Doc: "List of {href, text}.", Kind: template.List},
		{Name: "images", Doc: "List of {src, href, alt}.", Kind: template.List},
	}
}
