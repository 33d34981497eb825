package bench

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
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
		{"no bar", Ratio{Ratio: 0.01}, true, "-"},
		{"not a number", Ratio{Ratio: zero() / zero(), Bar: 0.8}, false, "0.80 missed"},
	} {
		if c.ratio.Met() != c.met || bar(c.ratio) != c.text {
			t.Errorf("%s: %v %q", c.name, c.ratio.Met(), bar(c.ratio))
		}
	}
}

func zero() float64 { return 0 }

func TestReportJSON(t *testing.T) {
	t.Parallel()
	r := &Report{
		Machine:  Machine{CPU: "cpu", Cores: 2, Memory: "1 kB", Kernel: "6", Go: "go1", When: time.Date(2026, 11, 21, 1, 2, 3, 0, time.UTC)},
		Settings: map[string]string{"round": "6s"},
		Ratios:   []Ratio{ratioOf("a/b", "events/s", 0.5, []float64{10, 30, 20}, []float64{20, 40, 80}), atMost("c/d", "MiB", 200, 400)},
	}
	r.cost("a/cpu", "us", 30, 4)
	r.cost("a/unknown", "us", 0, 4)
	r.cost("a/none", "us", 30, 0)
	r.figure("a/p50", "ms", 1.5)
	var got bytes.Buffer
	if err := r.WriteJSON(&got); err != nil {
		t.Fatal(err)
	}
	const want = `{
  "machine": {
    "cpu": "cpu",
    "cores": 2,
    "memory": "1 kB",
    "kernel": "6",
    "go": "go1",
    "when": "2026-11-21T01:02:03Z"
  },
  "settings": {
    "round": "6s"
  },
  "ratios": [
    {
      "name": "a/b",
      "ratio": 0.5,
      "ours": 20,
      "theirs": 40,
      "unit": "events/s",
      "bar": 0.5,
      "rounds": [
        0.5,
        0.75,
        0.25
      ]
    },
    {
      "name": "c/d",
      "ratio": 0.5,
      "ours": 200,
      "theirs": 400,
      "unit": "MiB",
      "bar": 1,
      "at_most": true
    }
  ],
  "costs": [
    {
      "name": "a/cpu",
      "value": 7.5,
      "unit": "us"
    }
  ],
  "figures": [
    {
      "name": "a/p50",
      "value": 1.5,
      "unit": "ms"
    }
  ]
}
`
	if diff := cmp.Diff(want, got.String()); diff != "" {
		t.Error(diff)
	}
}

func TestReportTable(t *testing.T) {
	t.Parallel()
	r := &Report{Ratios: []Ratio{atMost("scale/memory", "MiB", 500, 400)}, Costs: []Figure{{"gate/wal", 580.4, "bytes"}}, Settings: map[string]string{"round": "6s"}}
	var got bytes.Buffer
	if err := r.WriteTable(&got); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"scale/memory  500   400     MiB   1.25   at most 1.00 missed", "gate/wal  580.4      bytes", "round    6s"} {
		if !strings.Contains(got.String(), want) {
			t.Errorf("%q is not in\n%s", want, got.String())
		}
	}
	if strings.Contains(got.String(), "FIGURE") {
		t.Errorf("a table of no figures:\n%s", got.String())
	}
}

func TestPercentile(t *testing.T) {
	t.Parallel()
	var v []time.Duration
	for i := range 200 {
		v = append(v, time.Duration(200-i))
	}
	for p, want := range map[float64]time.Duration{0.005: 1, 0.5: 100, 0.99: 198, 1: 200} {
		if got := percentile(v, p); got != want {
			t.Errorf("p%v is %d, not %d", 100*p, got, want)
		}
	}
	if percentile(nil, 0.5) != 0 {
		t.Error("of none")
	}
}

func TestUnknownScenario(t *testing.T) {
	t.Parallel()
	_, err := Run(t.Context(), []string{"gait"}, Options{})
	if err == nil || !strings.Contains(err.Error(), "e2e, fanout, gate, hol, intake, lanes, replay, scale") {
		t.Errorf("%v", err)
	}
	for _, name := range Names() {
		if Help(name) == "" {
			t.Errorf("%s has no help", name)
		}
	}
}

func TestQuarterOfMemory(t *testing.T) {
	t.Parallel()
	for total, want := range map[string]string{"24684084 kB": "4096MB", "4194304 kB": "1024MB", "": "", "much": ""} {
		if got := quarterOfMemory(total); got != want {
			t.Errorf("%q: %q, want %q", total, got, want)
		}
	}
}
