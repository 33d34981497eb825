package app

import (
	"encoding/json"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/forebay-io/forebay/cmd/internal/config"
)

// TestMetricsAreListed: the list of metrics, of which the reference and the dashboards are made, is what a process registers that has every part.
func TestMetricsAreListed(t *testing.T) {
	t.Parallel()
	r := deploy(t, newAgent(t).URL, newLedger(t), true)
	r.text = strings.Replace(r.text, `operator: "127.0.0.1:0"}`, `operator: "127.0.0.1:0", agents: "127.0.0.1:0", health: "127.0.0.1:0"}
agents: {public_url: "https://agents.example.com", secrets: [an-agents-secret-0123456789abcdef]}
alerts: {receivers: {room: {type: http, url: "https://example.com/"}}}
on_broker_outage: spool
intake: {spool: {dir: "`+t.TempDir()+`", max_size: 64MiB}}`, 1)
	p := r.run(config.RoleIntake, config.RoleStream)
	text, err := json.MarshalIndent(registeredMetrics(t, p.app.registry), "", "  ")
	p.clean()
	if err != nil {
		t.Fatal(err)
	}
	text = append(text, '\n')
	const path = "../metrics/metrics.json"
	if *update {
		if err := os.WriteFile(path, text, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	listed, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(listed), string(text)); diff != "" {
		t.Errorf("metrics.json and what is registered (-file +process); go test ./cmd/internal/app -run TestMetricsAreListed -update, then go test ./cmd/internal/metrics -update:\n%s", diff)
	}
}

// TestCountersOfAlertsBeginAt0: whatever counter the rules look at is there before anything is counted, of a source that a reload brings, too.
// Of one that begins at 1 Prometheus sees no increase, and the first of its kind would raise no alert.
func TestCountersOfAlertsBeginAt0(t *testing.T) {
	t.Parallel()
	rules, err := os.ReadFile("../../../deploy/alerts/forebay.rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	asked := regexp.MustCompile(`increase\((\w+)(?:\{(\w+)=~?"([^"]*)"\})?\[`).FindAllStringSubmatch(string(rules), -1)
	if len(asked) != strings.Count(string(rules), "increase(") || len(asked) == 0 {
		t.Fatalf("the rules ask in other ways, too: %q", asked)
	}
	r := deploy(t, newAgent(t).URL, newLedger(t), true)
	p := r.run(config.RoleIntake, config.RoleStream)
	r.text = strings.Replace(r.text, "    sources:\n", "    sources:\n      fresh: {preset: github, secrets: [fresh-secret]}\n", 1)
	r.reload(p, config.RoleIntake, config.RoleStream)
	for _, m := range asked {
		sources := []map[string]string{{}}
		if strings.HasPrefix(m[1], "forebay_ingest_") {
			sources = []map[string]string{{"source": "orders"}, {"source": "fresh"}}
		}
		for _, where := range sources {
			for value := range strings.SplitSeq(m[3], "|") {
				if m[2] != "" {
					where[m[2]] = value
				}
				if n, series := counted(t, p.app.registry, m[1], where); n != 0 || series == 0 {
					t.Errorf("%s of %v: %v in %d series", m[1], where, n, series)
				}
			}
		}
	}
	p.clean()
}

// describedAs has the parts of a description, as prometheus.Desc prints it: it has no other way to be read.
var describedAs = regexp.MustCompile(`^Desc\{fqName: ("(?:[^"\\]|\\.)*"), help: ("(?:[^"\\]|\\.)*"), (?:unit: "[^"]*", )?constLabels: \{(.*)\}, variableLabels: \{(.*)\}\}$`)

// metric is a metric as it is registered, and as the list has it.
type metric struct {
	Name   string   `json:"name"`
	Type   string   `json:"type"` // counter, gauge or histogram
	Help   string   `json:"help"`
	Labels []string `json:"labels"`
}

// registeredMetrics lists what is registered under Forebay's own names.
func registeredMetrics(t *testing.T, registry *prometheus.Registry) (list []metric) {
	t.Helper()
	found := map[string]metric{}
	all := make(chan *prometheus.Desc)
	go func() { registry.Describe(all); close(all) }()
	for d := range all {
		m := describedAs.FindStringSubmatch(d.String())
		if m == nil {
			t.Fatalf("%s is not understood", d)
		}
		var name, help string
		if json.Unmarshal([]byte(m[1]), &name) != nil || json.Unmarshal([]byte(m[2]), &help) != nil {
			t.Fatalf("%s is not understood", d)
		}
		if !strings.HasPrefix(name, "forebay_") {
			continue
		}
		labels := map[string]bool{}
		for _, l := range regexp.MustCompile(`(\w+)="`).FindAllStringSubmatch(m[3], -1) {
			labels[l[1]] = true
		}
		for _, l := range strings.FieldsFunc(m[4], func(r rune) bool { return r == ',' || r == ' ' }) {
			labels[l] = true
		}
		one := metric{Name: name, Help: help, Labels: slices.Sorted(maps.Keys(labels))}
		if before, ok := found[name]; ok && !reflect.DeepEqual(before, one) {
			t.Errorf("%s is registered as %+v and as %+v", name, before, one)
		}
		found[name] = one
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	gathered := map[string]string{}
	for _, f := range families {
		gathered[f.GetName()] = strings.ToLower(f.GetType().String())
	}
	byName := typesByName(registry)
	for _, name := range slices.Sorted(maps.Keys(found)) {
		m := found[name]
		m.Type = gathered[name]
		if m.Type == "" {
			m.Type = byName[name]
		}
		if m.Type == "" {
			m.Type = "gauge" // of a collector of its own, which has nothing to say now
		}
		if (m.Type == "counter") != strings.HasSuffix(name, "_total") {
			t.Errorf("%s is a %s", name, m.Type)
		}
		list = append(list, m)
	}
	return list
}

// typesByName has the types that collectors tell by their own type: only that tells a counter from a gauge of which there is none yet.
func typesByName(registry *prometheus.Registry) map[string]string {
	types := map[string]string{}
	field := reflect.ValueOf(registry).Elem().FieldByName("collectorsByID")
	for _, c := range *(*map[uint64]prometheus.Collector)(field.Addr().UnsafePointer()) {
		inner := reflect.ValueOf(c)
		for inner.Kind() == reflect.Pointer && inner.Elem().Kind() == reflect.Struct && inner.Elem().FieldByName("wrappedCollector").IsValid() {
			inner = inner.Elem().FieldByName("wrappedCollector").Elem()
		}
		kind := strings.ToLower(inner.Type().String())
		descs := make(chan *prometheus.Desc)
		go func() { c.Describe(descs); close(descs) }()
		for d := range descs {
			for _, name := range []string{"counter", "histogram", "gauge"} {
				if m := describedAs.FindStringSubmatch(d.String()); m != nil && strings.Contains(kind, name) {
					types[strings.Trim(m[1], `"`)] = name
				}
			}
		}
	}
	return types
}
