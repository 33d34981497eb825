package metrics

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the pages, dashboards and rules again")

const deploy = "../../../deploy"

// TestFiles: what is made of the list of metrics is what stands in the checkout.
func TestFiles(t *testing.T) {
	t.Parallel()
	files := map[string]string{"docs/METRICS.md": Reference(), "alerts/forebay.recording.yaml": RecordingRules(), "dashboards/queries.tests.yaml": QueryTests()}
	for _, d := range Dashboards() {
		files["dashboards/"+d.Name+".json"] = string(d.JSON())
	}
	for name, want := range files {
		path := filepath.Join(deploy, name)
		if *update {
			if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		have, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, string(have)); diff != "" {
			t.Errorf("%s (-code +file); go test ./cmd/internal/metrics -update:\n%s", name, diff)
		}
	}
	all, err := filepath.Glob(filepath.Join(deploy, "dashboards", "*.json"))
	if err != nil || len(all) != len(Dashboards()) {
		t.Errorf("%v, %v: want %d dashboards", all, err, len(Dashboards()))
	}
}

// TestQueriesAskForWhatThereIs: every name in a query, a rule or an alert is a metric, its labels are that metric's, and only what counts up has a rate.
func TestQueriesAskForWhatThereIs(t *testing.T) {
	t.Parallel()
	known := map[string]Metric{}
	for _, m := range append(All(), others...) {
		known[m.Name] = m
		if m.Type == "histogram" {
			for _, part := range []string{"_bucket", "_sum", "_count"} {
				known[m.Name+part] = Metric{m.Name + part, "counter", "", append([]string{"le"}, m.Labels...)}
			}
		}
	}
	for _, r := range Recorded() {
		known[r.Name] = Metric{r.Name, "gauge", "", r.Labels}
	}
	queries := map[string]string{}
	for _, d := range Dashboards() {
		for _, row := range d.Rows {
			for _, p := range row.Panels {
				for _, q := range p.Queries {
					queries[d.Name+": "+p.Title+": "+q.Legend] = q.Expr
				}
			}
		}
		queries[d.Name+" team"] = strings.TrimSuffix(strings.TrimPrefix(TeamsQuery, "label_values("), ", team)")
	}
	for _, r := range Recorded() {
		queries[r.Name] = r.Expr
	}
	alerts, err := os.ReadFile(filepath.Join(deploy, "alerts", "forebay.rules.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`(?m)^        expr: (.*)$`).FindAllStringSubmatch(string(alerts), -1) {
		queries["alert "+m[1]] = m[1]
	}
	names := regexp.MustCompile(`\b(?:forebay|go|process)[_:][a-z0-9_:]+\b`)
	by := regexp.MustCompile(`\b(?:by|on) \(([^)]*)\)`)
	matcher := regexp.MustCompile(`(\w+)(?:=~|!~|!=|=)"`)
	rated := regexp.MustCompile(`\b(?:rate|increase)\(([a-z0-9_:]+)`)
	groups, matchers, rates := 0, 0, 0
	for where, expr := range queries {
		labels := map[string]bool{"instance": true, "__name__": true}
		found := names.FindAllString(expr, -1)
		if len(found) == 0 {
			t.Errorf("%s asks for no metric: %s", where, expr)
		}
		for _, name := range found {
			m, ok := known[name]
			if !ok {
				t.Errorf("%s asks for %s, which there is not", where, name)
			}
			for _, l := range m.Labels {
				labels[l] = true
			}
		}
		for _, list := range by.FindAllStringSubmatch(expr, -1) {
			groups++
			for l := range strings.SplitSeq(list[1], ",") {
				if l = strings.TrimSpace(l); !labels[l] {
					t.Errorf("%s groups by %s, which none of its metrics has: %s", where, l, expr)
				}
			}
		}
		for _, l := range matcher.FindAllStringSubmatch(expr, -1) {
			matchers++
			if !labels[l[1]] {
				t.Errorf("%s asks for a label %s, which none of its metrics has: %s", where, l[1], expr)
			}
		}
		for _, r := range rated.FindAllStringSubmatch(expr, -1) {
			rates++
			if known[r[1]].Type != "counter" {
				t.Errorf("%s takes a rate of %s, which is a %s", where, r[1], known[r[1]].Type)
			}
		}
	}
	if groups == 0 || matchers == 0 || rates == 0 {
		t.Errorf("only %d groups, %d matchers and %d rates were found", groups, matchers, rates)
	}
}

// TestDashboardsAreWhole: panels lie beside each other, ids are unique, and every query asks the source that is chosen.
func TestDashboardsAreWhole(t *testing.T) {
	t.Parallel()
	for _, d := range Dashboards() {
		var page struct {
			Panels []struct {
				ID      int
				Type    string
				GridPos struct{ X, Y, W, H int }
				Targets []struct{ Datasource struct{ UID string } }
			}
		}
		if err := json.Unmarshal(d.JSON(), &page); err != nil {
			t.Fatal(err)
		}
		taken, ids := map[[2]int]bool{}, map[int]bool{}
		for _, p := range page.Panels {
			if ids[p.ID] || p.GridPos.X+p.GridPos.W > 24 || p.GridPos.W <= 0 || p.GridPos.H <= 0 || (p.Type != "row") != (len(p.Targets) > 0) {
				t.Errorf("%s: panel %+v", d.Name, p)
			}
			ids[p.ID] = true
			for x := range p.GridPos.W {
				for y := range p.GridPos.H {
					at := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
					if taken[at] {
						t.Fatalf("%s: panel %d lies on another", d.Name, p.ID)
					}
					taken[at] = true
				}
			}
			for _, q := range p.Targets {
				if q.Datasource.UID != "${source}" {
					t.Errorf("%s: panel %d asks %s", d.Name, p.ID, q.Datasource.UID)
				}
			}
		}
	}
}

// TestListIsSorted, and says something of each metric.
func TestListIsSorted(t *testing.T) {
	t.Parallel()
	all := All()
	if len(all) < 50 || !slices.IsSortedFunc(all, func(a, b Metric) int { return strings.Compare(a.Name, b.Name) }) {
		t.Errorf("%d metrics, sorted or not", len(all))
	}
	for _, m := range all {
		if m.Help == "" || !slices.Contains([]string{"counter", "gauge", "histogram"}, m.Type) || strings.Count(Reference(), "| `"+m.Name+"` |") != 1 {
			t.Errorf("%+v", m)
		}
	}
}
