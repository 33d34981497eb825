package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestWhatWaitsAndWhatIsKept reads every key of gaps, staleness and retention, and shows it.
func TestWhatWaitsAndWhatIsKept(t *testing.T) {
	t.Parallel()
	text := strings.NewReplacer(
		"order: version", "order: version\n        stale: {snapshot: hold, delta: drop}\n        equal: hold\n        retention: {done: 20d, dead: 60d}",
		"gap: {wait: 30s, then: skip}", "gap: {wait: 1m, then: dead_letter, max_wait: 5m, max_events: {entity: 7, subscription: 70}, max_bytes: {entity: 1MiB, subscription: 0}}",
	).Replace(design)
	c, problems := load(text, designEnv, designFiles, Options{})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	got := *c.Teams["acme"].Subscriptions["triage"]
	want := got
	want.Equal, want.Stale = "hold", Stale{Snapshot: "hold", Delta: "drop"}
	want.Gap = Gap{Wait: mustDuration("1m"), Then: "dead_letter", Late: "stale", MaxWait: mustDuration("5m"), MaxEvents: MaxEvents{Entity: 7, Subscription: 70},
		MaxBytes: MaxBytes{Entity: 1 << 20}}
	want.Retention = Retention{Done: mustDuration("20d"), Dead: mustDuration("60d")}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	shown, err := c.YAML()
	if err != nil || !strings.Contains(string(shown), "max_wait: 5m") || !strings.Contains(string(shown), `subscription: "0"`) {
		t.Errorf("config show leaves something out: %v\n%s", err, shown)
	}
}

// TestShortRetentionIsRemarked: what dedupe remembers is kept anyway, so that a shorter word means nothing.
func TestShortRetentionIsRemarked(t *testing.T) {
	t.Parallel()
	for words, want := range map[string]int{"done: 14d, dead: 1d": 2, "done: 14d": 1, "done: 15d, dead: 15d": 0} {
		c, problems := load(strings.Replace(design, "order: version", "retention: {"+words+"}", 1), designEnv, designFiles, Options{})
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		got := 0
		for _, n := range c.Notes() {
			if strings.Contains(n.Path, ".retention.") && strings.Contains(n.Message, "dedupe remembers is kept for 15d") {
				got++
			}
		}
		if got != want {
			t.Errorf("%s: %d remarks, want %d: %v", words, got, want, c.Notes())
		}
	}
}
