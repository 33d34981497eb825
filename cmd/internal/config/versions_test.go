package config

import (
	"strings"
	"testing"
	"time"

	"github.com/forebay-io/forebay/ingest/provider"
	"github.com/google/go-cmp/cmp"
)

func TestEqualWords(t *testing.T) {
	t.Parallel()
	for _, word := range []string{"apply", "first", "last", "hold"} {
		c, problems := load(strings.Replace(design, "order: version", "equal: "+word, 1), designEnv, designFiles, Options{})
		if len(problems) > 0 {
			t.Fatalf("equal: %s: %v", word, problems)
		}
		if got := c.Teams["acme"].Subscriptions["triage"].Equal; got != word {
			t.Errorf("equal is %q, want %q", got, word)
		}
	}
}

const plainVersion = "version: {from: /order/rev, kind: sequence}"

func TestRankReachesTheSource(t *testing.T) {
	t.Parallel()
	ranked := "version: {from: /at, kind: timestamp, resolution: 1ms, rank: {from: /status, order: [queued, in_progress, completed]}}"
	c, problems := load(strings.Replace(design, plainVersion, ranked, 1), designEnv, designFiles, Options{})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	want := &provider.VersionConfig{From: "/at", Kind: "timestamp", Resolution: time.Millisecond,
		Rank: &provider.RankConfig{From: "/status", Order: []string{"queued", "in_progress", "completed"}}}
	if diff := cmp.Diff(want, c.Source("acme", "orders").Event.Version); diff != "" {
		t.Error(diff)
	}
	shown, err := c.YAML()
	if err != nil || !strings.Contains(string(shown), "- in_progress") {
		t.Errorf("config show leaves the rank out: %v\n%s", err, shown)
	}
}

func TestExpressionsAndTextsReachTheSource(t *testing.T) {
	t.Parallel()
	c, problems := load(strings.Replace(design, plainVersion,
		`version: {from: "cel:body.order.rev + '-' + body.order.minor", kind: monotonic, as: text}`, 1), designEnv, designFiles, Options{})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	want := &provider.VersionConfig{From: "cel:body.order.rev + '-' + body.order.minor", Kind: "monotonic", As: "text"}
	if diff := cmp.Diff(want, c.Source("acme", "orders").Event.Version); diff != "" {
		t.Error(diff)
	}
	shown, err := c.YAML()
	if err != nil || !strings.Contains(string(shown), "as: text") || !strings.Contains(string(shown), "from: cel:body.order.rev + '-' + body.order.minor\n") {
		t.Errorf("config show leaves it out: %v\n%s", err, shown)
	}
	c, problems = load(strings.Replace(design, plainVersion, "version: {from: /rev, kind: monotonic}", 1), designEnv, designFiles, Options{})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	if shown, err := c.YAML(); err != nil || !strings.Contains(string(shown), "as: integer") {
		t.Errorf("config show leaves the default out: %v\n%s", err, shown)
	}
}

func TestAsProblems(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]string{
		"{from: /v, kind: sequence, as: text}":     "version.as: has no meaning with kind sequence",
		"{from: /v, kind: timestamp, as: integer}": "version.as: has no meaning with kind timestamp",
		"{kind: none, as: text}":                   "version.as: has no meaning with kind none",
		"{from: /v, kind: monotonic, as: txt}":     "did you mean text?",
		"{from: /v, kind: monotonic, as: [text]}":  "version.as: expected",
	} {
		_, problems := load(strings.Replace(design, plainVersion, "version: "+version, 1), designEnv, designFiles, Options{})
		if len(problems) != 1 || !strings.Contains(problems[0].String(), want) {
			t.Errorf("%s: %v, want %q", version, problems, want)
		}
	}
}

func TestRankProblems(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]string{
		"{kind: none, rank: {from: /s, order: [a]}}":                             "rank: has no meaning with kind none",
		"{from: /v, kind: sequence, rank: {order: [a]}}":                         "rank: from is missing",
		"{from: /v, kind: sequence, rank: {from: /s}}":                           "rank: order is missing",
		"{from: /v, kind: sequence, rank: {from: /s, order: []}}":                "rank.order: is empty",
		"{from: /v, kind: sequence, rank: {from: /s, order: [a, b, a]}}":         "rank.order[2]: \"a\" is listed twice",
		"{from: /v, kind: sequence, rank: {from: /s, order: a}}":                 "rank.order",
		"{from: /v, kind: sequence, rank: {from: /s, order: [a], else: b}}":      "else",
		"{from: /v, kind: sequence, rank: [queued]}":                             "rank",
		"{from: /v, kind: sequence, rank: {from: /s, order: [\"${env:NONE}\"]}}": "NONE is not set",
	} {
		_, problems := load(strings.Replace(design, plainVersion, "version: "+version, 1), designEnv, designFiles, Options{})
		if len(problems) == 0 || !strings.Contains(problems[0].String(), want) {
			t.Errorf("%s: %v, want %q", version, problems, want)
		}
	}
}

func TestEpochReachesTheSource(t *testing.T) {
	t.Parallel()
	c, problems := load(strings.Replace(design, plainVersion, "version: {from: /order/rev, kind: sequence, epoch: /order/incarnation}", 1), designEnv, designFiles, Options{})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	want := &provider.VersionConfig{From: "/order/rev", Kind: "sequence", Epoch: "/order/incarnation"}
	if diff := cmp.Diff(want, c.Source("acme", "orders").Event.Version); diff != "" {
		t.Error(diff)
	}
	shown, err := c.YAML()
	if err != nil || !strings.Contains(string(shown), "epoch: /order/incarnation") {
		t.Errorf("config show leaves the epoch out: %v\n%s", err, shown)
	}
}

func TestEpochProblems(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]string{
		"{kind: none, epoch: /run}":                          "version.epoch: has no meaning with kind none",
		"{from: /v, kind: sequence, epoch: [/run]}":          "version.epoch: expected",
		"{from: /v, kind: sequence, epoch: {from: /run}}":    "version.epoch: expected",
		"{from: /v, kind: sequence, epoch: \"${env:NONE}\"}": "NONE is not set",
	} {
		_, problems := load(strings.Replace(design, plainVersion, "version: "+version, 1), designEnv, designFiles, Options{})
		if len(problems) != 1 || !strings.Contains(problems[0].String(), want) {
			t.Errorf("%s: %v, want %q", version, problems, want)
		}
	}
}
