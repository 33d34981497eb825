package ingest

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// The lines of a kind that deliveries get in the log: strangers, and all deliveries while Kafka is away, could fill it. The counters
// count everything, and a log at debug level has every line.
const (
	linesPerSecond = 1
	linesBurst     = 50
	tellEvery      = time.Minute // how often the number of those that got none is told
)

// lineKind is a way for a delivery to end. Each has lines of its own, so that a flood of one hides no other.
type lineKind struct {
	outcome outcome
	reason  string // closed list
}

// lines bounds the lines of each kind, and tells how many deliveries got none. Safe for concurrent use.
type lines struct {
	limit rate.Limit
	burst int
	left  tally[lineKind]

	mu      sync.Mutex
	buckets map[lineKind]*rate.Limiter
}

func newLines(log *slog.Logger) *lines {
	l := &lines{limit: linesPerSecond, burst: linesBurst, buckets: map[lineKind]*rate.Limiter{}}
	l.left = tally[lineKind]{every: tellEvery, tell: func(kind lineKind, count int) {
		log.Log(context.Background(), kind.level(), "deliveries left out of this log",
			"outcome", string(kind.outcome), "reason", kind.reason, "count", count, "within", l.left.every)
	}}
	return l
}

// allow reports whether a delivery gets its line.
func (l *lines) allow(kind lineKind) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.buckets[kind]
	if b == nil {
		b = rate.NewLimiter(l.limit, l.burst)
		l.buckets[kind] = b
	}
	return b.Allow()
}
