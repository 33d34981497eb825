// Package metrics has the list of what a process counts, metrics.json, and makes of it the metrics reference (deploy/docs/METRICS.md), the
// dashboards (deploy/dashboards) and what tries their queries on a Prometheus, when its tests are run with -update. It has nothing but tests. A
// test of package app holds the list to what a process registers.
package metrics

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"
)

// Metric is a metric as it is registered.
type Metric struct {
	Name   string   `json:"name"`
	Type   string   `json:"type"` // counter, gauge or histogram
	Help   string   `json:"help"`
	Labels []string `json:"labels"`
}

//go:embed metrics.json
var list []byte

// All returns the metrics, by name.
func All() (all []Metric) {
	if err := json.Unmarshal(list, &all); err != nil {
		panic("metrics.json: " + err.Error()) // a test reads it
	}
	return all
}

// families are the sections of the reference, by the beginning of their metrics' names.
var families = []struct{ prefix, title string }{
	{"forebay_ingest_", "Intake"},
	{"forebay_spool_", "Spool"},
	{"forebay_stream_", "Stream: reading, claiming, deciding"},
	{"forebay_lane_", "Lanes: attempts"},
	{"forebay_destination_", "Destinations"},
	{"forebay_", "Process, and what waits for an operator"},
}

// Reference is the text of the metrics reference.
func Reference() string {
	var b strings.Builder
	b.WriteString(`# Metrics

What ` + "`/metrics`" + ` of listen.health and listen.operator has, beside Go's own (` + "`go_*`, `process_*`" + `). Counters begin at 0 with each process, those that alerts look
at before there is anything to count; a histogram is there as ` + "`_bucket`, `_sum` and `_count`" + `. Alerts on them: [deploy/alerts](../alerts/forebay.rules.yaml);
dashboards: [deploy/dashboards](../dashboards). All metrics of Go's runtime, and profiles, are at ` + "`/debug/runtime` and `/debug/pprof/NAME`" + ` of listen.operator,
for admins of all teams.
Generated: ` + "`go test ./cmd/internal/app -run TestMetricsAreListed -update && go test ./cmd/internal/metrics -update`" + `.
`)
	all := All()
	for _, f := range families {
		fmt.Fprintf(&b, "\n## %s\n\n| metric | type | labels | what it says |\n|---|---|---|---|\n", f.title)
		rest := all[:0:0]
		for _, m := range all {
			if !strings.HasPrefix(m.Name, f.prefix) {
				rest = append(rest, m)
				continue
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", m.Name, m.Type, strings.Join(m.Labels, ", "), strings.ReplaceAll(m.Help, "|", `\|`))
		}
		all = rest
	}
	b.WriteString("\n## Recorded by Prometheus\n\nBy [forebay.recording.yaml](../alerts/forebay.recording.yaml).\n\n| series | labels | what it says |\n|---|---|---|\n")
	for _, r := range Recorded() {
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", r.Name, strings.Join(r.Labels, ", "), r.Help)
	}
	return b.String()
}
