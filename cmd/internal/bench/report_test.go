package bench

import (
	"bytes"
	"strings"
	"testing"
)

func TestMet(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		ratio Ratio
		met   bool
		text  string
	}{
		{"at least, above", Ratio{Ratio: 0.81, Bar: 0.8}, true, "0.80 met"},
		{"at least, on it", Ratio{Ratio: 0.8, Bar: 0.8}, true, "0.80 met"},
		{"at least, below", Ratio{Ratio: 0.79, Bar: 0.8}, false, "0.80 missed"},
		{"at most, below", atMost("m", "MiB", 399, 400), true, "at most 1.00 met"},
		{"at most, on it", atMost("m", "MiB", 400, 400), true, "at most 1.00 met"},
		{"at most, above", atMost("m", "MiB", 11, 10), false, "at most 1.00 missed"},
		{"not a number", Ratio{Ratio: zero() / zero(), Bar: 0.8}, false, "0.80 missed"},
	} {
		if c.ratio.Met() != c.met || bar(c.ratio) != c.text {
			t.Errorf("%s: %v %q", c.name, c.ratio.Met(), bar(c.ratio))
		}
	}
}

func zero() float64 { return 0 }

func TestReportTable(t *testing.T) {
	t.Parallel()
	r := &Report{Ratios: []Ratio{atMost("scale/memory", "MiB", 500, 400)}, Costs: []Cost{{"gate/wal", 580.4, "bytes"}}, Settings: map[string]string{"round": "6s"}}
	var got bytes.Buffer
	if err := r.WriteTable(&got); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"scale/memory  500   400     MiB   1.25   at most 1.00 missed", "gate/wal  580.4      bytes", "round    6s"} {
		if !strings.Contains(got.String(), want) {
			t.Errorf("%q is not in\n%s", want, got.String())
		}
	}
}

func TestUnknownScenario(t *testing.T) {
	t.Parallel()
	_, err := Run(t.Context(), []string{"gait"}, Options{})
	if err == nil || !strings.Contains(err.Error(), strings.Join(Names(), ", ")) {
		t.Errorf("%v", err)
	}
	for _, name := range Names() {
		if Help(name) == "" {
			t.Errorf("%s has no help", name)
		}
	}
}
