package app

import (
	"maps"
	"slices"
	"sync"

	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/cmd/internal/topics"
)

// bodyLimits are the largest bodies of the topics that intake fills. They only ever grow by topics: the producer asks
// once a partition and keeps the answer, so a limit that has been used stays until the process ends. Safe for
// concurrent use.
type bodyLimits struct {
	mu    sync.Mutex
	bytes map[string]int64 // by topic
}

// add takes in the topics of c that are new.
func (l *bodyLimits) add(c *config.Config) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for topic, limit := range topicLimits(c) {
		if _, ok := l.bytes[topic]; !ok {
			if l.bytes == nil {
				l.bytes = map[string]int64{}
			}
			l.bytes[topic] = limit
		}
	}
}

// of is a topic's limit; 0 for one that nobody fills.
func (l *bodyLimits) of(topic string) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.bytes[topic]
}

// exceeded lists the topics that c wants larger bodies in than they can get, sorted.
func (l *bodyLimits) exceeded(c *config.Config) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	wanted := topicLimits(c)
	maps.DeleteFunc(wanted, func(topic string, limit int64) bool {
		limited, ok := l.bytes[topic]
		return !ok || limit <= limited
	})
	return slices.Sorted(maps.Keys(wanted))
}

func topicLimits(c *config.Config) map[string]int64 {
	limits := map[string]int64{}
	for team, t := range c.Teams {
		for name, s := range t.Sources {
			limit := c.MaxBody(team, name)
			limits[s.Topic], limits[topics.Quarantine(team, name)] = limit, limit
		}
	}
	return limits
}
