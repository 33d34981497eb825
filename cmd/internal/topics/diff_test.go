package topics

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/forebay-io/forebay/cmd/internal/config"
)

var update = flag.Bool("update", false, "rewrite golden files")

// fileAt is the configuration that a plan is made for: another source, longer retention, a compression, more partitions and copies than
// there are.
const fileAt = `version: 1
kafka: {brokers: ["127.0.0.1:9092"]}
postgres: {url: postgres://h/d}
topics: {partitions: 4, replication: 3, retention: 3d, compression: zstd}
teams:
  acme:
    sources:
      github: {preset: github, secrets: [s], topics: {compression: lz4}}
      small: {preset: github, secrets: [s], topics: {partitions: 3, replication: 1, retention: 6h}}
      stripe: {preset: stripe, secrets: [s]}
    destinations: {log: {type: log}}
    subscriptions: {triage: {sources: [github], actions: [{name: a, to: log}]}}
`

// TestPlanIsADifference: create, change, leave, cannot be changed, unknown: each with what there is, what is configured and what to do. What
// apply then does is what the plan said, and a second plan has only what it could not do.
func TestPlanIsADifference(t *testing.T) {
	t.Parallel()
	cl, adm, was := setup(t)
	if _, err := Apply(t.Context(), cl, was, false); err != nil {
		t.Fatal(err)
	}
	set(t, adm, "quarantine.acme.small", map[string]string{retention: "900000000", minInsync: "1", compression: "zstd"})
	if _, err := adm.CreateTopics(t.Context(), 2, 1, nil, "events.acme.old", "events.gone.x", "dead.acme.old", "elsewhere", "events", "events.x"); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(config.Options{Path: "forebay.yaml", Data: []byte(fileAt)})
	if err != nil {
		t.Fatal(err)
	}
	want := Wanted(c, func(string, string) int64 { return 25 << 20 })
	plan := func() []Change {
		t.Helper()
		changes, err := Plan(t.Context(), cl, want)
		if err != nil {
			t.Fatal(err)
		}
		strangers, err := Strangers(t.Context(), adm, c, want)
		if err != nil {
			t.Fatal(err)
		}
		return append(changes, strangers...)
	}
	planned := plan()
	var text bytes.Buffer
	Write(&text, planned)
	asJSON, err := json.MarshalIndent(planned[:3], "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "testdata/plan.golden.txt", text.String())
	golden(t, "testdata/plan.golden.json", string(asJSON)+"\n")
	if !Different(planned) {
		t.Error("a plan that changes something is no difference")
	}

	done, err := Apply(t.Context(), cl, want, false)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(withoutStrangers(planned), done, cmp.Comparer(func(a, b Change) bool {
		return a.Topic == b.Topic && a.Action == b.Action && cmp.Equal(a.Settings, b.Settings)
	})); diff != "" {
		t.Errorf("what was applied (+) is not what was planned (-):\n%s", diff)
	}
	var names []string
	for _, change := range done {
		names = append(names, change.Topic)
	}
	have, err := describe(t.Context(), adm, names)
	if err != nil {
		t.Fatal(err)
	}
	looked := 0
	for _, change := range planned {
		for _, s := range change.Settings {
			got, known := have[change.Topic][s.Name]
			switch {
			case !known:
				continue
			case s.Set && got != s.Want:
				t.Errorf("%s of %s is %s, planned was %s", s.Name, change.Topic, got, s.Want)
			case !s.Set && got != s.Is:
				t.Errorf("%s of %s is %s, it should stay %s", s.Name, change.Topic, got, s.Is)
			}
			looked++
		}
	}
	if looked == 0 {
		t.Error("no setting was looked at")
	}
	text.Reset()
	Write(&text, plan())
	golden(t, "testdata/planned.golden.txt", text.String())
}

func withoutStrangers(changes []Change) (list []Change) {
	for _, c := range changes {
		if c.Action != Unknown {
			list = append(list, c)
		}
	}
	return list
}

// TestPlanOfWhatIsThere: what apply has made is as configured, and unknown topics alone are no difference.
func TestPlanOfWhatIsThere(t *testing.T) {
	t.Parallel()
	cl, _, want := setup(t)
	if _, err := Apply(t.Context(), cl, want, false); err != nil {
		t.Fatal(err)
	}
	changes, err := Plan(t.Context(), cl, want)
	if err != nil || Different(append(changes, Change{Topic: "events.acme.old", Action: Unknown})) {
		t.Errorf("%s, %v", verbs(changes), err)
	}
	var text strings.Builder
	Write(&text, nil)
	if !strings.Contains(text.String(), "no topics") {
		t.Errorf("an empty plan says %q", text.String())
	}
}

func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-) is not what was made (+); -update writes it:\n%s", file, diff)
	}
}
