package app

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/cmd/internal/brokers"
	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/cmd/internal/topics"
	"github.com/forebay-io/forebay/schemas"
)

// KafkaOptions returns the options that every Kafka client of a process shares.
func KafkaOptions(c *config.Config) []kgo.Opt {
	return []kgo.Opt{
		kgo.SeedBrokers(c.Kafka.Brokers...),
		kgo.ClientID("forebay"),
		kgo.Dialer(brokers.Dialer()),
		kgo.RetryTimeout(30 * time.Second),
	}
}

// wantedTopics returns the topics that this process uses: for the intake each source's topics of events and of quarantine, for the
// stream its events alone.
func (a *App) wantedTopics() []topics.Topic {
	all := topics.Wanted(a.file(), a.file().MaxBody)
	if a.has(config.RoleIntake) {
		return all
	}
	return slices.DeleteFunc(all, func(t topics.Topic) bool { return !strings.HasPrefix(t.Name, "events.") })
}

// topicGrace is how long a topic may be missing after the start: not every broker knows at once of a topic that was just created.
const topicGrace = 3 * time.Second

// checkTopics returns an error if topics are missing, or have settings with which an acknowledged delivery could be lost. It waits
// until the brokers answer, and up to topicGrace for missing topics.
func (a *App) checkTopics(ctx context.Context, adm *kadm.Client) error {
	began := time.Now()
	err := a.patiently(ctx, "topics", func(ctx context.Context) error {
		err := topics.Check(ctx, adm, a.wantedTopics(), a.cfg.Path)
		if schemas.KindOf(err) == schemas.NotFound && time.Since(began) < topicGrace {
			return &schemas.Error{Kind: schemas.Unavailable, Err: err} // patiently tries again after an error of this kind
		}
		return err
	})
	a.ready.set("topics", err)
	return err
}
