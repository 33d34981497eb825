package alerts

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	dto "github.com/prometheus/client_model/go"
	"go.yaml.in/yaml/v3"
)

// unitTests is a file of unit tests as promtool reads it, as far as deploy/alerts/forebay.tests.yaml uses it.
type unitTests struct {
	RuleFiles          []string `yaml:"rule_files"`
	EvaluationInterval string   `yaml:"evaluation_interval"`
	FuzzyCompare       bool     `yaml:"fuzzy_compare"`
	Tests              []struct {
		Name        string `yaml:"name"`
		Interval    string `yaml:"interval"`
		InputSeries []struct {
			Series string `yaml:"series"`
			Values string `yaml:"values"`
		} `yaml:"input_series"`
		AlertRuleTest []struct {
			EvalTime  string `yaml:"eval_time"`
			Alertname string `yaml:"alertname"`
			ExpAlerts []struct {
				ExpLabels      map[string]string `yaml:"exp_labels"`
				ExpAnnotations map[string]string `yaml:"exp_annotations"`
			} `yaml:"exp_alerts"`
		} `yaml:"alert_rule_test"`
	} `yaml:"tests"`
}

// What promtool says of the rules in Prometheus (make lint), the rules in Go say, too: the same file of tests is played to them.
func TestPlayed(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(deploy, "alerts", "forebay.tests.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var file unitTests
	dec := yaml.NewDecoder(strings.NewReader(string(text)))
	dec.KnownFields(true)
	if err := dec.Decode(&file); err != nil {
		t.Fatal(err)
	}
	rules := Rules(Defaults())
	fires, rests := map[string]bool{}, map[string]bool{}
	for _, test := range file.Tests {
		t.Run(test.Name, func(t *testing.T) {
			interval := duration(t, test.Interval)
			var all []played
			for _, s := range test.InputSeries {
				all = append(all, parseSeries(t, s.Series, s.Values))
			}
			want, got := map[string][]string{}, map[string][]string{}
			last := time.Duration(0)
			for _, a := range test.AlertRuleTest {
				at := duration(t, a.EvalTime)
				key := a.Alertname + " at " + at.String()
				want[key], got[key] = []string{}, []string{}
				for _, e := range a.ExpAlerts {
					want[key] = append(want[key], fmt.Sprint(e.ExpLabels, e.ExpAnnotations["summary"], e.ExpAnnotations["runbook_url"]))
				}
				fires[a.Alertname] = fires[a.Alertname] || len(a.ExpAlerts) > 0
				rests[a.Alertname] = rests[a.Alertname] || len(a.ExpAlerts) == 0
				last = max(last, at)
			}
			n := &Notifier{cfg: Config{Rules: rules, Board: func() (Board, error) { return nil, nil }}}
			for at := time.Duration(0); at <= last; at += interval {
				now := time.Unix(0, 0).Add(at)
				n.find(gathered(all, int(at/interval)), now)
				for _, a := range test.AlertRuleTest {
					if duration(t, a.EvalTime) != at {
						continue
					}
					for _, f := range n.alerts {
						if !f.Firing || f.Rule.Name != a.Alertname {
							continue
						}
						labels := maps.Clone(f.Labels)
						labels["severity"] = f.Rule.Severity
						key := a.Alertname + " at " + at.String()
						got[key] = append(got[key], fmt.Sprint(labels, f.summary(), RunbookURL(f.Rule.Name)))
					}
				}
			}
			for _, list := range []map[string][]string{want, got} {
				for key := range list {
					slices.Sort(list[key])
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
	for _, r := range rules {
		if !fires[r.Name] || !rests[r.Name] {
			t.Errorf("%s is not tested both ways: fires %t, rests %t", r.Name, fires[r.Name], rests[r.Name])
		}
	}
}

func duration(t *testing.T, text string) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// played is a series as a test has it; nil is a sample that is not there.
type played struct {
	name   string
	labels map[string]string
	values []*float64
}

var (
	seriesForm = regexp.MustCompile(`^([a-z_]+)\{(.*)\}$`)
	labelForm  = regexp.MustCompile(`([a-z_]+)="([^"]*)"`)
	repeated   = regexp.MustCompile(`^(-?[0-9.]+)(?:([+-][0-9.]+))?x([0-9]+)$`)
)

// parseSeries reads promtool's notation: a, a+bxN, axN, stale.
func parseSeries(t *testing.T, series, values string) played {
	t.Helper()
	m := seriesForm.FindStringSubmatch(series)
	if m == nil {
		t.Fatalf("series %s", series)
	}
	p := played{name: m[1], labels: map[string]string{}}
	for _, l := range labelForm.FindAllStringSubmatch(m[2], -1) {
		p.labels[l[1]] = l[2]
	}
	for word := range strings.FieldsSeq(values) {
		switch r := repeated.FindStringSubmatch(word); {
		case word == "stale":
			p.values = append(p.values, nil)
		case r != nil:
			first, _ := strconv.ParseFloat(r[1], 64)
			step, _ := strconv.ParseFloat(r[2], 64)
			n, _ := strconv.Atoi(r[3])
			for i := range n + 1 { // as promtool counts
				p.values = append(p.values, new(first+float64(i)*step))
			}
		default:
			v, err := strconv.ParseFloat(word, 64)
			if err != nil {
				t.Fatal(err)
			}
			p.values = append(p.values, new(v))
		}
	}
	return p
}

// gathered are the samples of all series at a step, as a registry gathers them.
func gathered(all []played, step int) (families []*dto.MetricFamily) {
	for _, p := range all {
		if step >= len(p.values) || p.values[step] == nil {
			continue
		}
		m, kind := &dto.Metric{}, dto.MetricType_GAUGE
		if strings.HasSuffix(p.name, "_total") {
			kind, m.Counter = dto.MetricType_COUNTER, &dto.Counter{Value: p.values[step]}
		} else {
			m.Gauge = &dto.Gauge{Value: p.values[step]}
		}
		for _, name := range slices.Sorted(maps.Keys(p.labels)) {
			m.Label = append(m.Label, &dto.LabelPair{Name: new(name), Value: new(p.labels[name])})
		}
		families = append(families, &dto.MetricFamily{Name: new(p.name), Type: &kind, Metric: []*dto.Metric{m}})
	}
	return families
}
