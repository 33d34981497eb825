package alerts

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/template"
	"time"
)

// Alert is a rule with one of the things that it is about now.
type Alert struct {
	Rule   *Rule
	Labels map[string]string
	Value  float64
	Since  time.Time // from when on it is there
	Firing bool      // for as long as the rule wants

	instance string // of the process that alone sees it; empty: others know it, too
}

// newAlert returns a rule's alert about what has these values of its labels.
func newAlert(r *Rule, of [2]string, value float64) *Alert {
	a := &Alert{Rule: r, Labels: map[string]string{}, Value: value}
	for i, label := range r.By {
		if of[i] != "" {
			a.Labels[label] = of[i]
		}
	}
	return a
}

// Key tells an alert from others, in all processes alike.
func (a *Alert) Key() string {
	var labels []string
	for _, name := range slices.Sorted(maps.Keys(a.Labels)) {
		labels = append(labels, fmt.Sprintf("%s=%q", name, a.Labels[name]))
	}
	return a.Rule.Name + "{" + strings.Join(labels, ",") + "}"
}

// TeamOf returns whose an alert with these labels is; empty if it is nobody's alone.
func TeamOf(labels map[string]string) string {
	if team := labels["team"]; team != "" {
		return team
	}
	if team, _, ok := strings.Cut(labels["subscription"], "."); ok {
		return team
	}
	if team, _, ok := strings.Cut(labels["destination"], "/"); ok {
		return team
	}
	return "" // a shared destination, or a key
}

// summary renders the rule's words as Prometheus does.
func (a *Alert) summary() string {
	t, err := template.New("").Option("missingkey=zero").Funcs(template.FuncMap{"humanizeDuration": humanizeDuration}).Parse("{{$labels := .Labels}}{{$value := .Value}}" + a.Rule.Summary)
	var out strings.Builder
	if err == nil {
		err = t.Execute(&out, a)
	}
	if err != nil {
		panic(fmt.Sprintf("alerts: summary of %s: %v", a.Rule.Name, err)) // tests render each
	}
	if a.instance != "" {
		return strings.TrimSuffix(out.String(), ".") + ", as " + a.instance + " sees it."
	}
	return out.String()
}

// humanizeDuration is Prometheus' function of that name, of seconds.
func humanizeDuration(seconds float64) string {
	sign := ""
	if seconds < 0 {
		sign, seconds = "-", -seconds
	}
	n := int64(seconds)
	switch {
	case n == 0:
		return "0s"
	case n >= 24*60*60:
		return fmt.Sprintf("%s%dd %dh %dm %ds", sign, n/86400, n/3600%24, n/60%60, n%60)
	case n >= 60*60:
		return fmt.Sprintf("%s%dh %dm %ds", sign, n/3600, n/60%60, n%60)
	case n >= 60:
		return fmt.Sprintf("%s%dm %ds", sign, n/60, n%60)
	}
	return fmt.Sprintf("%s%.4gs", sign, seconds)
}
