package app

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/cmd/internal/brokers"
	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/cmd/internal/topics"
	"github.com/forebay-io/forebay/schemas"
)

// KafkaOptions are what every Kafka client of a process shares.
func KafkaOptions(c *config.Config) []kgo.Opt {
	return []kgo.Opt{
		kgo.SeedBrokers(c.Kafka.Brokers...),
		kgo.ClientID("forebay"),
		kgo.Dialer(brokers.Dialer()),
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

// topicGrace is how long a topic may be missing after the start: of several brokers, one that is asked may hear of a
// topic later than the one that was asked to create it.
const topicGrace = 3 * time.Second

// checkTopics ends the start where topics are missing, or have settings with which an acknowledged delivery could be lost. Brokers
// that are away are waited for, and missing topics for topicGrace: somebody may be applying them.
func (a *App) checkTopics(ctx context.Context, adm *kadm.Client) error {
	began := time.Now()
	err := a.patiently(ctx, "topics", func(ctx context.Context) error {
		err := topics.Check(ctx, adm, a.wantedTopics(), a.cfg.Path)
		if schemas.KindOf(err) == schemas.NotFound && time.Since(began) < topicGrace {
			return &schemas.Error{Kind: schemas.Unavailable, Err: err} // of this kind it is tried again
		}
		return err
	})
	a.ready.set("topics", err)
	return err
}
