package bench

import (
	"strings"
	"testing"
)

// smallReplay has a warm-up that is longer than what the generator repeats from.
var smallReplay = replaySizes{entities: 100, warmUp: 2000, body: 256, holes: holeSizes{holes: 7, entities: 10, partitions: 3, body: 256}}

func TestReplayScenario(t *testing.T) {
	t.Parallel()
	o := tiny(t)
	o.Events = 500
	r := newReport(o)
	if err := runReplay(t.Context(), o, smallReplay, r); err != nil {
		t.Fatal(err)
	}
	checkReport(t, r, `replay/rewind replay/fill`,
		`replay/gate_cpu_forebay replay/gate_cpu_postgres replay/gate_wal replay/rewind_cpu_forebay replay/rewind_cpu_postgres replay/rewind_wal
		replay/fill_cpu_forebay replay/fill_cpu_postgres replay/fill_wal`,
		`replay/holes replay/holes_plan replay/holes_fill replay/holes_rewind`)
	for _, x := range r.Ratios {
		if x.Bar != replayBar || x.AtMost || len(x.Rounds) != o.Rounds {
			t.Errorf("%+v", x)
		}
	}
	if n := r.Figures[0].Value; n != 7 {
		t.Errorf("%v holes", n)
	}
	for _, name := range []string{"replay.gate", "replay.skip", "replay.holes"} {
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

// The holes are as many as are asked for, however many events there are, and versions of the other entities follow each other.
func TestHoles(t *testing.T) {
	t.Parallel()
	for _, count := range []int{200, 201, 250, 299, 1000} {
		h := &holeLog{holeSizes: holeSizes{holes: 100, entities: 7}, count: count}
		holes, last := 0, map[string]int64{}
		for e := range h.events() {
			if e.Type == "order.left-out" {
				holes++
			}
			if last[string(e.Entity)]++; e.Version.Value != last[string(e.Entity)] {
				t.Fatalf("%d events: %s has version %d after %d", count, e.Entity, e.Version.Value, last[string(e.Entity)]-1)
			}
		}
		if holes != 100 || len(last) != 107 {
			t.Errorf("%d events: %d holes, %d entities", count, holes, len(last))
		}
	}
}

// What the destination has seen is held to every event: one that is missing, came twice, or should not have run is found.
func TestHoleCheck(t *testing.T) {
	t.Parallel()
	const hole, other = 25, 3 // of 100 events, two of them holes
	for name, c := range map[string]struct {
		holes  uint8
		change func(times []uint8)
		want   string
	}{
		"before fill":            {0, func(times []uint8) { times[hole], times[75] = 0, 0 }, ""},
		"after fill":             {1, func([]uint8) {}, ""},
		"a hole that ran before": {0, func(times []uint8) { times[75] = 0 }, "1 came that should not"},
		"a hole that is left":    {1, func(times []uint8) { times[hole] = 0 }, "1 did not come"},
		"a hole that ran twice":  {1, func(times []uint8) { times[hole] = 2 }, "1 came again"},
		"another is lost":        {1, func(times []uint8) { times[other] = 0 }, "1 did not come"},
		"another ran again":      {1, func(times []uint8) { times[other] = 2 }, "1 came again"},
	} {
		h := &holeLog{holeSizes: holeSizes{holes: 2}, count: 100, came: &countingDestination{times: make([]uint8, 100)}}
		for i := range h.came.times {
			h.came.times[i] = 1
		}
		c.change(h.came.times)
		err := h.check(c.holes)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func TestReplayRefusesTooFewEvents(t *testing.T) {
	t.Parallel()
	if err := runReplay(t.Context(), Options{Events: 13}, smallReplay, newReport(Options{})); err == nil || !strings.Contains(err.Error(), "at least 14") {
		t.Errorf("%v", err)
	}
}
