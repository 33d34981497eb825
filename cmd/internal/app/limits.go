package app

import (
	"slices"
	"strings"
	"sync"

	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/cmd/internal/topics"
	"github.com/forebay-io/forebay/schemas"
)

// bodyLimits has the largest body for each topic that is produced to. Topics are added, but a limit never changes: a producer asks for it once per
// partition and keeps the answer until the process ends. Safe for concurrent use.
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

// of returns a topic's limit; 0 if it is not produced to.
func (l *bodyLimits) of(topic string) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.bytes[topic]
}

// fit returns an error if c has larger bodies than this process was made for: a topic's, or the largest of all at the start. The largest body is
// fixed in the topics, by `topics apply`, and at the start in what writes and reads them. The stream goes first: what it has no room for it cannot
// decide.
func (l *bodyLimits) fit(c *config.Config, largest int64, file string) error {
	if grown := l.exceeded(c); len(grown) > 0 {
		return schemas.Errorf(schemas.Conflict, "reload", "larger bodies for %s: that needs `forebay topics apply -c %s` and a restart of all processes, those with the stream role first",
			strings.Join(grown, ", "), file)
	}
	if now := c.LargestBody(); now > largest {
		return schemas.Errorf(schemas.Conflict, "reload", "bodies of %d bytes, where the largest at the start was %d: that needs a restart of all processes, those with the stream role first", now, largest)
	}
	return nil
}

// exceeded returns the topics, sorted, for which c has a higher limit than l.
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
