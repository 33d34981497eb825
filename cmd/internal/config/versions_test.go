package config

import (
	"strings"
	"testing"
	"time"

	"github.com/forebay-io/forebay/ingest/provider"
	"github.com/google/go-cmp/cmp"
)

const plainVersion = "version: {from: /order/rev, kind: sequence}"

func TestVersionsReachTheSource(t *testing.T) {
	t.Parallel()
	for version, tt := range map[string]struct {
		want  provider.VersionConfig
		shown string
	}{
		"{from: /at, kind: timestamp, resolution: 1ms, rank: {from: /status, order: [queued, in_progress, completed]}}": {provider.VersionConfig{From: "/at", Kind: "timestamp", Resolution: time.Millisecond,
			Rank: &provider.RankConfig{From: "/status", Order: []string{"queued", "in_progress", "completed"}}}, "- in_progress"},
		`{from: "cel:body.order.rev + '-' + body.order.minor", kind: monotonic, as: text}`: {provider.VersionConfig{From: "cel:body.order.rev + '-' + body.order.minor", Kind: "monotonic", As: "text"}, "from: cel:body.order.rev + '-' + body.order.minor\n"},
		"{from: /rev, kind: monotonic}":                                 {provider.VersionConfig{From: "/rev", Kind: "monotonic", As: "integer"}, "as: integer"},
		"{from: /order/rev, kind: sequence, epoch: /order/incarnation}": {provider.VersionConfig{From: "/order/rev", Kind: "sequence", Epoch: "/order/incarnation"}, "epoch: /order/incarnation"},
	} {
		c, problems := load(strings.Replace(design, plainVersion, "version: "+version, 1), designEnv, designFiles, Options{})
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		if diff := cmp.Diff(&tt.want, c.Source("acme", "orders").Event.Version); diff != "" {
			t.Error(diff)
		}
		if shown, err := c.YAML(); err != nil || !strings.Contains(string(shown), tt.shown) {
			t.Errorf("config show leaves out %s: %v\n%s", tt.shown, err, shown)
		}
	}
}

func TestVersionProblems(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]string{
		"{from: /v, kind: sequence, as: text}":                                   "version.as: has no meaning with kind sequence",
		"{kind: none, as: text}":                                                 "version.as: has no meaning with kind none",
		"{from: /v, kind: monotonic, as: txt}":                                   "did you mean text?",
		"{from: /v, kind: monotonic, as: [text]}":                                "version.as: expected",
		"{kind: none, rank: {from: /s, order: [a]}}":                             "rank: has no meaning with kind none",
		"{from: /v, kind: sequence, rank: {order: [a]}}":                         "rank: from is missing",
		"{from: /v, kind: sequence, rank: {from: /s}}":                           "rank: order is missing",
		"{from: /v, kind: sequence, rank: {from: /s, order: []}}":                "rank.order: is empty",
		"{from: /v, kind: sequence, rank: {from: /s, order: [a, b, a]}}":         "rank.order[2]: \"a\" is listed twice",
		"{from: /v, kind: sequence, rank: {from: /s, order: [a], else: b}}":      "else",
		"{from: /v, kind: sequence, rank: {from: /s, order: [\"${env:NONE}\"]}}": "NONE is not set",
		"{kind: none, epoch: /run}":                                              "version.epoch: has no meaning with kind none",
		"{from: /v, kind: sequence, epoch: {from: /run}}":                        "version.epoch: expected",
		"{from: /v, kind: sequence, epoch: \"${env:NONE}\"}":                     "NONE is not set",
	} {
		_, problems := load(strings.Replace(design, plainVersion, "version: "+version, 1), designEnv, designFiles, Options{})
		if len(problems) == 0 || !strings.Contains(problems[0].String(), want) {
			t.Errorf("%s: %v, want %q", version, problems, want)
		}
	}
}
