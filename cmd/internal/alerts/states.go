package alerts

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"text/template"
	"time"
)

// Alert is a rule that has a sample, about one thing.
type Alert struct {
	Rule    *Rule
	Labels  map[string]string // of the sample
	Value   float64
	Since   time.Time // from when on it has one
	Firing  bool      // for as long as the rule wants
	Summary string
}

// Key tells an alert from others, in all processes alike.
func (a *Alert) Key() string {
	return a.Rule.Name + "{" + strings.TrimSuffix(labelKey(a.Labels), ",") + "}"
}

// Team is whose the alert is; empty if it is nobody's alone.
func (a *Alert) Team() string {
	if team := a.Labels["team"]; team != "" {
		return team
	}
	if team, _, ok := strings.Cut(a.Labels["subscription"], "."); ok {
		return team
	}
	team, _, _ := strings.Cut(a.Labels["destination"], "/")
	if team == a.Labels["destination"] { // a shared destination
		return ""
	}
	return team
}

// states follows which rules have samples, and since when. Not safe for concurrent use.
type states struct {
	rules  []Rule
	alerts map[string]*Alert // by Key
}

func newStates(rules []Rule) *states { return &states{rules: rules, alerts: map[string]*Alert{}} }

// evaluate asks all rules, at the time of the last samples.
func (s *states) evaluate(h *History, now time.Time) {
	found := map[string]*Alert{}
	for i := range s.rules {
		r := &s.rules[i]
		for _, sample := range r.Expr.eval(h, now) {
			a := &Alert{Rule: r, Labels: sample.labels, Value: sample.value, Since: now}
			if before := s.alerts[a.Key()]; before != nil {
				a.Since = before.Since
			}
			a.Firing, a.Summary = now.Sub(a.Since) >= r.For, summary(a)
			found[a.Key()] = a
		}
	}
	s.alerts = found
}

// unsure returns the keys of what may hold, of rules that compare with a time from before the first samples.
func (s *states) unsure(h *History, now time.Time) (keys []string) {
	for i := range s.rules {
		c, ok := s.rules[i].Expr.(Compare)
		if !ok || c.Right == nil || !slices.ContainsFunc(c.Right.selects(), func(of Select) bool { return now.Sub(h.first) < of.back+stale }) {
			continue
		}
		for _, sample := range c.Left.eval(h, now) {
			keys = append(keys, (&Alert{Rule: &s.rules[i], Labels: sample.labels}).Key())
		}
	}
	return keys
}

// list returns what is wanted, by key.
func (s *states) list(wanted func(*Alert) bool) (list []*Alert) {
	for _, a := range s.alerts {
		if wanted(a) {
			list = append(list, a)
		}
	}
	slices.SortFunc(list, func(a, b *Alert) int { return cmp.Compare(a.Key(), b.Key()) })
	return list
}

// summary renders the rule's words as Prometheus does.
func summary(a *Alert) string {
	t, err := template.New("").Option("missingkey=zero").Funcs(template.FuncMap{"humanizeDuration": humanizeDuration}).Parse("{{$labels := .Labels}}{{$value := .Value}}" + a.Rule.Summary)
	var out strings.Builder
	if err == nil {
		err = t.Execute(&out, a)
	}
	if err != nil {
		panic(fmt.Sprintf("alerts: summary of %s: %v", a.Rule.Name, err)) // tests render each
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
