package metrics

import (
	"fmt"
	"slices"
	"strings"
)

// others are metrics of Go and of the process that dashboards show.
var others = []Metric{
	{"go_goroutines", "gauge", "", []string{"instance"}},
	{"process_cpu_seconds_total", "counter", "", []string{"instance"}},
	{"process_resident_memory_bytes", "gauge", "", []string{"instance"}},
}

// values are those that a label has in the tests, where queries ask for several; every other label has one.
var values = map[string][]string{"team": {"acme"}, "subscription": {"acme.fulfil"}, "outcome": {"accepted", "refused"}, "class": {"ok", "timeout"}, "end": {"complete", "errors"},
	"kind": {"reload_refused"}}

// QueryTests is a file for promtool test rules: each query of each dashboard is asked on series of the metrics that there are, and has to find some.
func QueryTests() string {
	var b strings.Builder
	b.WriteString("# Generated: go test ./cmd/internal/metrics -update. `make lint` has promtool ask each query of the dashboards; each has to find something.\n" +
		"evaluation_interval: 1m\ntests:\n  - interval: 1m\n    input_series:\n")
	series := func(name, labels, values string) {
		fmt.Fprintf(&b, "      - {series: '%s{%s}', values: '%s'}\n", name, labels, values)
	}
	for _, m := range append(All(), others...) {
		for _, labels := range labelled(append(slices.Clone(m.Labels), "instance")) {
			switch m.Type {
			case "counter":
				series(m.Name, labels, "0+60x60")
			case "gauge":
				series(m.Name, labels, "0.5x60")
			case "histogram":
				for _, le := range []string{"0.1", "1", "+Inf"} {
					series(m.Name+"_bucket", labels+`,le="`+le+`"`, "0+60x60")
				}
				series(m.Name+"_sum", labels, "0+60x60")
				series(m.Name+"_count", labels, "0+60x60")
			}
		}
	}
	for _, r := range Recorded() {
		for _, labels := range labelled(r.Labels) {
			series(r.Name, labels, "0.5x60")
		}
	}
	b.WriteString("    promql_expr_test:\n")
	asked := map[string]bool{}
	for _, d := range Dashboards() {
		for _, row := range d.Rows {
			for _, p := range row.Panels {
				for _, q := range p.Queries {
					if expr := strings.NewReplacer("$__rate_interval", "5m", "$team", "acme").Replace(q.Expr); !asked[expr] {
						asked[expr] = true
						fmt.Fprintf(&b, "      - {expr: 'count(%s) > bool 0', eval_time: 59m, exp_samples: [{labels: '{}', value: 1}]}\n", expr)
					}
				}
			}
		}
	}
	return b.String()
}

// labelled are the series of a metric: one for each value that a label has in the tests.
func labelled(labels []string) []string {
	slices.Sort(labels)
	list := []string{""}
	for _, l := range slices.Compact(labels) {
		of := values[l]
		if of == nil {
			of = []string{l + "-1"}
		}
		var next []string
		for _, before := range list {
			for _, v := range of {
				next = append(next, strings.TrimPrefix(before+","+l+`="`+v+`"`, ","))
			}
		}
		list = next
	}
	return list
}
