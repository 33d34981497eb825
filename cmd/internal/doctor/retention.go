package doctor

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/cmd/internal/topics"
	"github.com/forebay-io/forebay/ingest/provider"
)

// retention holds what the log keeps, and how long providers deliver again, against what subscriptions remember: an event that comes after
// that runs twice.
func (d *doctor) retention(ctx context.Context) (found []Finding) {
	if none := d.notAnswered(); none != nil {
		return none
	}
	changes, err := d.plan(ctx)
	if err != nil {
		return []Finding{unknown("", "not made: "+notReached(err), "forebay topics plan -c "+d.Path)}
	}
	keeps := map[string]time.Duration{} // of topics that keep for another time than is configured; negative: for ever
	for _, c := range changes {
		for _, s := range c.Settings {
			if ms, err := strconv.ParseInt(s.Is, 10, 64); s.Name == topics.Retention && err == nil {
				keeps[c.Topic] = time.Duration(ms) * time.Millisecond
			}
		}
	}
	looked := 0
	for _, team := range sorted(d.kafka.Teams) {
		for _, name := range sorted(d.kafka.Teams[team].Subscriptions) {
			for _, s := range d.kafka.SourcesOf(team, name) {
				looked++
				kept, other := keeps[s.Topic]
				if !other {
					kept = s.Topics.Retention.Std()
				}
				found = append(found, remembered(team, name, s, kept, d.kafka.Teams[team].Subscriptions[name].Dedupe.Window)...)
			}
		}
	}
	if len(found) == 0 {
		found = append(found, ok("", "%d readings of sources are remembered for longer than the log has them or their provider delivers again", looked))
	}
	return found
}

// remembered holds one subscription's memory against one of its sources, whose topic keeps for a time.
func remembered(team, name string, s config.NamedSource, kept time.Duration, window config.Duration) (found []Finding) {
	path := "teams." + team + ".subscriptions." + name + ".dedupe.window"
	preset, _ := provider.Lookup(s.Preset)
	horizon := time.Duration(preset.RetryHorizon)
	if horizon > window.Std() {
		found = append(found, problem(path, fmt.Sprintf("is %s, and %s delivers again for %s: what comes after the window runs twice", window, s.Preset, config.Duration(horizon)),
			fmt.Sprintf("dedupe: {window: %s}", config.Duration(horizon+config.SegmentTime.Std()))))
	}
	switch log := kept + config.SegmentTime.Std(); {
	case kept < 0:
		found = append(found, warning(path, fmt.Sprintf("is %s, and %s keeps events for ever: a seek to before the window stops the partition (dedupe_forgotten)", window, s.Topic),
			fmt.Sprintf("kafka-configs.sh --bootstrap-server BROKER --alter --entity-type topics --entity-name %s --add-config retention.ms=%d", s.Topic, s.Topics.Retention.Std().Milliseconds())))
	case log > window.Std():
		found = append(found, warning(path, fmt.Sprintf("is %s, and the log of %s has events for up to %s: a seek to before the window stops the partition (dedupe_forgotten)", window, s.Topic, config.Duration(log)),
			fmt.Sprintf("dedupe: {window: %s}", config.Duration(log+config.RedeliveryHorizon.Std()))))
	}
	return found
}
