package app

import (
	"slices"
	"sync"

	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/cmd/internal/topics"
)

// bodyLimits has the largest body for each topic that the intake produces to. Topics are added, but a limit never changes: the producer
// asks for it once per partition and keeps the answer until the process ends. Safe for concurrent use.
type bodyLimits struct {
	mu    sync.Mutex
	bytes map[string]int64 // by topic
}

// add adds those topics of c that are not in l yet. The others keep their limit.
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

// of returns a topic's limit; 0 if the intake does not produce to it.
func (l *bodyLimits) of(topic string) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.bytes[topic]
}

// exceeded returns the topics, sorted, for which c has a higher limit than the producer was given.
func (l *bodyLimits) exceeded(c *config.Config) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var raised []string
	for topic, wanted := range topicLimits(c) {
		if given, ok := l.bytes[topic]; ok && wanted > given {
			raised = append(raised, topic)
		}
	}
	slices.Sort(raised)
	return raised
}

// topicLimits returns the largest body for each topic that the sources of c have: events and quarantine.
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
