package config

import (
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/alerts"
	"github.com/forebay-io/forebay/sinks/spec"
	"github.com/forebay-io/forebay/stream/inbox"
)

// Alerts says which alerts a process looks for itself, and who is told.
type Alerts struct {
	Receivers   map[string]*Receiver `yaml:"receivers"`
	Off         []string             `yaml:"off"`
	Every       Duration             `yaml:"every"`
	Repeat      Duration             `yaml:"repeat"`
	DeadLetters int                  `yaml:"dead_letters"`
	Oldest      Duration             `yaml:"oldest"`
	Lag         Duration             `yaml:"lag"`
	Expires     Duration             `yaml:"expires"`
}

// Receiver is a sink that is told of alerts.
type Receiver struct {
	Type string `yaml:"type"`
	// Keys are those of its type; nil if there is no such type.
	Keys          spec.Config
	Severities    []string       `yaml:"severities"`
	Timeout       Duration       `yaml:"timeout"`
	AllowNetworks []netip.Prefix `yaml:"allow_networks"`
	Params        Params         `yaml:"params"`
}

// receiverTypes are the types of sinks that can be told of alerts.
var receiverTypes = []string{"http", "slack", "pagerduty"}

// sinkKeyed is what has keys by its type: a destination, or a receiver of alerts.
type sinkKeyed interface {
	setType(name string)
	own() spec.Config // nil: there is no such type, or none is known yet
	types() []string  // that it may have
}

func (d *Destination) setType(name string) { d.Type, d.Keys = name, newKeys(name) }
func (d *Destination) own() spec.Config    { return d.Keys }
func (d *Destination) types() []string     { return sinkNames() }

func (r *Receiver) setType(name string) {
	r.Type = name
	if slices.Contains(receiverTypes, name) {
		r.Keys = newKeys(name)
	}
}
func (r *Receiver) own() spec.Config { return r.Keys }
func (r *Receiver) types() []string  { return receiverTypes }

func alertNames() (names []string) {
	for _, r := range alerts.Rules(alerts.Defaults()) {
		names = append(names, r.Name)
	}
	return names
}

func (a Alerts) thresholds() alerts.Thresholds {
	return alerts.Thresholds{Depth: a.DeadLetters, Oldest: a.Oldest.Std(), Lag: a.Lag.Std(), Expires: a.Expires.Std()}
}

// Rules returns the alerts that are looked for: none without a receiver.
func (a Alerts) Rules() []alerts.Rule {
	if len(a.Receivers) == 0 {
		return nil
	}
	return slices.DeleteFunc(alerts.Rules(a.thresholds()), func(r alerts.Rule) bool { return slices.Contains(a.Off, r.Name) })
}

// Wants reports whether a receiver is told of alerts of a severity.
func (r *Receiver) Wants(severity string) bool {
	return len(r.Severities) == 0 || slices.Contains(r.Severities, severity)
}

// Destination returns a receiver as what makes sinks takes it. What params leaves out is what its type is told of an alert otherwise.
func (a Alerts) Destination(name string) NamedDestination {
	r := a.Receivers[name]
	params := maps.Clone(receiverParams[r.Type])
	if params == nil {
		params = Params{}
	}
	maps.Copy(params, r.Params)
	return NamedDestination{At: "alerts.receivers." + name, Name: "alerts/" + name, Destination: &Destination{
		Type: r.Type, Keys: r.Keys, Timeout: r.Timeout, AllowNetworks: r.AllowNetworks, Params: params, Concurrency: 1}}
}

// receiverParams are what receivers of each destination type have for params.
var receiverParams = map[string]Params{
	"slack": {"text": paramOf("{{body.status == 'resolved' ? 'Resolved' : 'Firing'}}, {{body.severity}}: *{{body.alert}}*\n{{body.summary}}\n{{body.runbook_url}}")},
	"pagerduty": {
		"event_action": paramOf("{{body.status == 'resolved' ? 'resolve' : 'trigger'}}"), "severity": paramOf("{{body.severity}}"),
		"summary": paramOf("{{body.alert}}: {{body.summary}}"), "class": paramOf("{{body.alert}}"), "custom_details": map[string]any{"labels": paramOf("{{body.labels}}")},
		"links": []any{map[string]any{"href": paramOf("{{body.runbook_url}}"), "text": paramOf("Runbook")}},
	},
}

func paramOf(text string) paramText { return paramText{text, text} }

// alerts checks who is told of alerts, and when.
func (ck *checker) alerts() {
	a := ck.c.Alerts
	ck.between("alerts.every", a.Every, Duration(time.Second), Duration(time.Minute))
	ck.between("alerts.repeat", a.Repeat, Duration(time.Minute), Duration(7*24*time.Hour))
	if a.DeadLetters >= inbox.MostCounted {
		ck.problem("alerts.dead_letters", "must be below %d: more are not counted", inbox.MostCounted)
	}
	ck.between("alerts.oldest", a.Oldest, Duration(time.Minute), Duration(365*24*time.Hour))
	ck.between("alerts.lag", a.Lag, Duration(10*time.Second), Duration(7*24*time.Hour))
	ck.between("alerts.expires", a.Expires, Duration(time.Hour), Duration(365*24*time.Hour))
	for _, name := range keys(a.Receivers) {
		d := a.Destination(name)
		ck.between(d.Path()+".timeout", d.Timeout, Duration(100*time.Millisecond), Duration(time.Minute))
		if d.Keys == nil {
			continue // no such type, which is already reported
		}
		ck.sinkKeys(d)
		for _, p := range d.about().Params {
			if _, given := d.Params[p.Name]; p.Required && p.Default == "" && !given {
				ck.problem(d.Path(), "params.%s is missing: %s", p.Name, p.Doc)
			}
		}
	}
}
