package dev

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

// played is an outcome that went as the model says.
func played(t *testing.T) *outcome {
	t.Helper()
	sent, err := playedScene()
	if err != nil {
		t.Fatal(err)
	}
	o := &outcome{sent: sent, want: expect(sent), got: expect(sent)}
	if err := o.check(); err != nil {
		t.Fatalf("an outcome as expected is refused: %v", err)
	}
	return o
}

// TestDemoRefusesWrongOutcomes tampers with what was seen, one thing at a time; demo exits non-zero on each.
func TestDemoRefusesWrongOutcomes(t *testing.T) {
	t.Parallel()
	const gap = "orders 820982911946154503"
	for name, tt := range map[string]struct {
		tamper func(*outcome)
		says   string
	}{
		"an acknowledged delivery more":  {func(o *outcome) { o.got.received++ }, "received"},
		"a forged one let in":            {func(o *outcome) { o.got.refused-- }, "refused"},
		"an unusable one lost":           {func(o *outcome) { o.got.quarantined = 0 }, "in quarantine"},
		"a duplicate not noticed":        {func(o *outcome) { o.got.duplicates-- }, "duplicates"},
		"a stale one applied":            {func(o *outcome) { o.got.stale-- }, "stale"},
		"no dead letter":                 {func(o *outcome) { o.got.dead = 0 }, "dead letters"},
		"what follows it does not wait":  {func(o *outcome) { o.got.behind-- }, "behind a dead letter"},
		"nothing buffered":               {func(o *outcome) { o.got.buffered = 0 }, "buffered"},
		"a call repeated":                {func(o *outcome) { o.repeats = 1 }, "calls repeated"},
		"two actions in the wrong order": {func(o *outcome) { slices.Reverse(o.got.run[gap]) }, "order of " + gap},
		"an action run twice":            {func(o *outcome) { o.got.run[gap] = append(o.got.run[gap], 5) }, "order of " + gap},
		"an action that never ran":       {func(o *outcome) { o.got.run[gap] = o.got.run[gap][:2] }, "order of " + gap},
		"an entity that never ran":       {func(o *outcome) { delete(o.got.run, gap) }, "order of " + gap},
		"an entity that nobody sent":     {func(o *outcome) { o.got.run["orders 0"] = []int{1} }, "entities that ran"},
		"a gap that a busy machine ends": {func(o *outcome) { o.got.buffered, o.took = 0, 4*time.Second }, "run the demo again when this machine is less busy"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := played(t)
			tt.tamper(o)
			if err := o.check(); err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("check says %v, want something about %s", err, tt.says)
			}
		})
	}
}

// TestTableShowsEveryEntity: the printed table has a line for each, in the order of arrival and as it ran.
func TestTableShowsEveryEntity(t *testing.T) {
	t.Parallel()
	o := played(t)
	var b strings.Builder
	if err := o.print(&b); err != nil {
		t.Fatal(err)
	}
	for _, line := range slices.Sorted(maps.Keys(o.want.run)) {
		if !strings.Contains(b.String(), line) {
			t.Errorf("the table does not show %s:\n%s", line, b.String())
		}
	}
}
