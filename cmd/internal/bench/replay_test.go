package bench

import (
	"strings"
	"testing"
)

// smallReplay has a warm-up that is longer than what the generator repeats from.
var smallReplay = replaySizes{entities: 100, warmUp: 2000, body: 256}

func TestReplayScenario(t *testing.T) {
	t.Parallel()
	o := tiny(t)
	r := newReport(o)
	if err := runReplay(t.Context(), o, smallReplay, r); err != nil {
		t.Fatal(err)
	}
	checkReport(t, r, `replay/rewind replay/fill`,
		`replay/gate_cpu_forebay replay/gate_cpu_postgres replay/gate_wal replay/rewind_cpu_forebay replay/rewind_cpu_postgres replay/rewind_wal
		replay/fill_cpu_forebay replay/fill_cpu_postgres replay/fill_wal`)
	for _, x := range r.Ratios {
		if x.Bar != replayBar || x.AtMost || len(x.Rounds) != o.Rounds {
			t.Errorf("%+v", x)
		}
	}
	for _, name := range []string{"replay.gate", "replay.skip"} {
		if r.Settings[name] == "" {
			t.Errorf("no setting %s: %v", name, r.Settings)
		}
	}
}

// Events that were never decided are not counted as skipped.
func TestSkippingOfOtherEventsFails(t *testing.T) {
	t.Parallel()
	g := gateOf(opened(t))
	if _, err := g.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	other := g
	other.seed++
	if _, err := other.filled(t.Context()); err == nil || !strings.Contains(err.Error(), "would run it") {
		t.Errorf("fill: %v", err)
	}
	if _, err := other.rewound(t.Context()); err == nil || !strings.Contains(err.Error(), "read again") {
		t.Errorf("after a reset: %v", err)
	}
}
