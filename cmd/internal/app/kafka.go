package app

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/cmd/internal/topics"
)

// KafkaOptions are what every Kafka client of a process shares.
func KafkaOptions(c *config.Config) []kgo.Opt {
	return []kgo.Opt{
		kgo.SeedBrokers(c.Kafka.Brokers...),
		kgo.ClientID("forebay"),
		kgo.DialTimeout(10 * time.Second),
		kgo.RetryTimeout(30 * time.Second),
	}
}

// wantedTopics are the topics that a process with this configuration uses: the intake fills both of a source's, the
// stream reads its events.
func (a *App) wantedTopics() []topics.Topic {
	all := topics.Wanted(a.file(), a.file().MaxBody)
	if a.has(config.RoleIntake) {
		return all
	}
	var events []topics.Topic
	for _, t := range all {
		if t.Name[:len("events.")] == "events." {
			events = append(events, t)
		}
	}
	return events
}

// checkTopics refuses to go on with topics that are missing or cannot keep P1. Brokers that are away are waited for.
func (a *App) checkTopics(ctx context.Context, adm *kadm.Client) error {
	return a.patiently(ctx, "topics", func(ctx context.Context) error {
		return topics.Check(ctx, adm, a.wantedTopics(), a.cfg.Path)
	})
}
