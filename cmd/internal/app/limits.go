package app

import (
	"sync"

	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/cmd/internal/topics"
)

// bodyLimits has the largest body for each topic that is produced to. Topics are added, but once something is produced a limit never changes: a
// producer asks for it once per partition and keeps the answer until the process ends. Safe for concurrent use.
type bodyLimits struct {
	mu    sync.Mutex
	bytes map[string]int64 // by topic
}

// add adds those topics of c that are not in l yet. The others keep their limit.
func (l *bodyLimits) add(c *config.Config) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.bytes == nil {
		l.bytes = map[string]int64{}
	}
	for topic, limit := range topicLimits(c) {
		if _, ok := l.bytes[topic]; !ok {
			l.bytes[topic] = limit
		}
	}
}

// hold makes room for records that are there already, of these bytes by topic: of sources that are in the file no more, or had a larger limit. Their
// topics took them, and `topics apply` lowers no limit.
func (l *bodyLimits) hold(largest map[string]int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for topic, n := range largest {
		l.bytes[topic] = max(l.bytes[topic], n)
	}
}

// given returns a topic's limit; 0 if it has none.
func (l *bodyLimits) given(topic string) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.bytes[topic]
}

// of returns what a producer may send to a topic: its limit, else the largest of all.
func (l *bodyLimits) of(topic string) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	limit, ok := l.bytes[topic]
	if !ok {
		for _, n := range l.bytes {
			limit = max(limit, n)
		}
	}
	return limit
}

// fits reports whether the process was made for the bodies of a source: the largest body is fixed in the source's topics, by `topics apply`, and
// at the start in what writes and reads them. The stream goes first: what it has no room for it cannot decide.
func (a *App) fits(c *config.Config, team, source string) bool {
	wanted := c.MaxBody(team, source)
	room := func(l *bodyLimits, largest int64) bool {
		given := l.given(topics.Quarantine(team, source)) // as that of its events, whatever that topic's name
		return wanted <= largest && (given == 0 || wanted <= given)
	}
	return (a.intake == nil || room(&a.intake.limits, a.intake.largest)) && (a.stream == nil || room(&a.stream.limits, a.stream.largest))
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
