package alerts

import (
	"bytes"

	"go.yaml.in/yaml/v3"
)

// ruleFile is a file of rules, as Prometheus reads it.
type ruleFile struct {
	Groups []ruleGroup `yaml:"groups"`
}

type ruleGroup struct {
	Name  string      `yaml:"name"`
	Rules []ruleEntry `yaml:"rules"`
}

type ruleEntry struct {
	Alert       string            `yaml:"alert"`
	Expr        string            `yaml:"expr"`
	For         string            `yaml:"for,omitempty"`
	Labels      map[string]string `yaml:"labels"`
	Annotations map[string]string `yaml:"annotations"`
}

// RuleFile returns the rules as Prometheus reads them.
func RuleFile(rules []Rule) ([]byte, error) {
	g := ruleGroup{Name: "forebay"}
	for _, r := range rules {
		e := ruleEntry{Alert: r.Name, Expr: r.Expr.PromQL(), Labels: map[string]string{"severity": r.Severity},
			Annotations: map[string]string{"summary": r.Summary, "runbook_url": r.RunbookURL()}}
		if r.For > 0 {
			e.For = window(r.For)
		}
		g.Rules = append(g.Rules, e)
	}
	var out bytes.Buffer
	out.WriteString("# Alerts of Forebay for Prometheus. Written from cmd/internal/alerts/rules.go: `go test ./cmd/internal/alerts -update`.\n" +
		"# Tested with forebay.tests.yaml. What to do about each is in deploy/runbooks.\n")
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	err := enc.Encode(ruleFile{[]ruleGroup{g}})
	return out.Bytes(), err
}
