// Package firstfilter keeps repeats of what was acknowledged away from the log, by a Redis that all intakes ask.
//
// It saves load and decides nothing: the ledger stays the only truth of what was seen. A key is entered only after the broker's ack, so what it
// answers for is durable. A Redis that is gone, slow, full or flushed lets the repeats through, which the gate then finds to be duplicates; no
// sender sees an error of it.
//
// A key is made of the topic's id, the event's identity and its body's hash. So another body under the same id is no repeat, and neither
// another installation on the same Redis nor a topic that was created again takes what it has never had for one.
package firstfilter

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/forebay-io/forebay/ingest"
	"github.com/forebay-io/forebay/schemas"
)

// TopicIDs asks the brokers for the ids of topics. Those that have none are left out.
type TopicIDs func(ctx context.Context, topics ...string) (map[string][16]byte, error)

// Use is how one source uses a filter.
type Use struct {
	Redis  Config
	Topic  string
	Window time.Duration // how long a key is known
}

// Log is an [ingest.Log] that takes an event without writing it where another one of the same identity and body was acknowledged within the
// window. Safe for concurrent use. Close it.
type Log struct {
	ingest.Log
	ids     TopicIDs
	uses    atomic.Pointer[map[string]use] // by the event's source
	mu      sync.Mutex                     // held by Put and Close
	open    map[Config]*Filter             // by where, under mu; nil: closed
	answers *prometheus.CounterVec
	entered *prometheus.CounterVec
}

type use struct {
	Use
	filter  *Filter
	id      *topicID
	answers *prometheus.CounterVec // of the source
}

// New returns a Log in front of another that filters nothing yet.
func New(log ingest.Log, ids TopicIDs, r prometheus.Registerer) *Log {
	opts := func(name, help string) prometheus.CounterOpts {
		return prometheus.CounterOpts{Namespace: "forebay", Subsystem: "ingest", Name: name, Help: help}
	}
	l := &Log{Log: log, ids: ids, open: map[Config]*Filter{},
		answers: prometheus.NewCounterVec(opts("first_filter_total", "What the Redis of first_filter said of events: a hit was answered without a record; an error is no answer in time; "+
			"unasked is while it does not answer, or the topic's id is not known."), []string{"team", "source", "result"}),
		entered: prometheus.NewCounterVec(opts("first_filter_entered_total", "Events that were entered into the Redis of first_filter after their ack, and those that were lost for it: their repeats reach the log."), []string{"result"})}
	r.MustRegister(l.answers, l.entered)
	l.uses.Store(&map[string]use{})
	return l
}

// Put replaces what is filtered: how each source, /TEAM/SOURCE, does it. What stays where it is keeps its connections. Nothing is waited for
// but for those that end.
func (l *Log) Put(sources map[string]Use) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open == nil {
		return nil
	}
	next, used, before := map[string]use{}, map[Config]*Filter{}, *l.uses.Load()
	for source, u := range sources {
		f := l.open[u.Redis]
		if f == nil {
			var err error
			if f, err = open(u.Redis, l.entered); err != nil {
				l.shut(used)
				return err
			}
			l.open[u.Redis] = f
		}
		id := before[source].id
		if id == nil || before[source].Topic != u.Topic {
			id = &topicID{}
		}
		team, name, _ := strings.Cut(strings.TrimPrefix(source, "/"), "/")
		used[u.Redis], next[source] = f, use{u, f, id, l.answers.MustCurryWith(prometheus.Labels{"team": team, "source": name})}
	}
	l.uses.Store(&next)
	l.shut(used)
	return nil
}

// shut closes what is in neither the filters that are in use nor in used.
func (l *Log) shut(used map[Config]*Filter) {
	for _, u := range *l.uses.Load() {
		used[u.Redis] = u.filter
	}
	for _, at := range slices.Collect(maps.Keys(l.open)) {
		if used[at] == nil {
			l.open[at].close()
			delete(l.open, at)
		}
	}
}

// Close ends all connections to Redis. The log goes on without a filter.
func (l *Log) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.uses.Store(&map[string]use{})
	l.shut(map[Config]*Filter{})
	l.open = nil
}

// Append implements [ingest.Log].
func (l *Log) Append(ctx context.Context, by time.Time, topic string, e *schemas.Event) error {
	return l.unseen(topic, []*schemas.Event{e}, func(left []*schemas.Event) error {
		if len(left) == 0 {
			return nil
		}
		return l.Log.Append(ctx, by, topic, e)
	})
}

// AppendAll implements [ingest.Log]: of a list, what is known is left out.
func (l *Log) AppendAll(ctx context.Context, by time.Time, topic string, events []*schemas.Event, quarantine string, rest []*ingest.Delivery) error {
	return l.unseen(topic, events, func(left []*schemas.Event) error {
		if len(left) == 0 && len(rest) == 0 {
			return nil
		}
		return l.Log.AppendAll(ctx, by, topic, left, quarantine, rest)
	})
}

// mostOfList is how many elements of a list are asked for: a longer one goes to the log whole.
const mostOfList = 1000

// unseen has those of a delivery's events appended that are not known, and enters them once they are.
func (l *Log) unseen(topic string, events []*schemas.Event, appended func(left []*schemas.Event) error) error {
	if len(events) == 0 {
		return appended(events)
	}
	u, ok := (*l.uses.Load())[events[0].Source]
	if !ok {
		return appended(events)
	}
	id, ok := u.id.get(l.ids, topic)
	if !ok || topic != u.Topic || len(events) > mostOfList {
		u.answers.WithLabelValues("unasked").Add(float64(len(events)))
		return appended(events)
	}
	keys := make([]string, len(events))
	for i, e := range events {
		keys[i] = keyOf(id, e)
	}
	seen, err := u.filter.seen(keys...)
	left, enter := make([]*schemas.Event, 0, len(events)), make([]string, 0, len(events))
	for i, e := range events {
		result := "miss"
		switch {
		case errors.Is(err, errUnasked):
			result = "unasked"
		case err != nil:
			result = "error"
		case seen[i]:
			result = "hit"
		}
		u.answers.WithLabelValues(result).Inc()
		if result != "hit" {
			left, enter = append(left, e), append(enter, keys[i])
		}
	}
	if err := appended(left); err != nil {
		return err
	}
	for _, key := range enter {
		u.filter.enter(key, u.Window)
	}
	return nil
}

// keyOf returns the key of an event in Redis. Whoever wants one source's forgotten deletes what begins with forebay:first:/TEAM/SOURCE:.
func keyOf(topic [16]byte, e *schemas.Event) string {
	text := append(topic[:], e.Hash[:]...) // of fixed lengths, so that nothing moves between them and the id
	sum := sha256.Sum256(append(text, e.ID...))
	return "forebay:first:" + e.Source + ":" + base64.RawURLEncoding.EncodeToString(sum[:16])
}

const (
	idEvery  = 10 * time.Second // how often the brokers are asked for a topic's id
	idWithin = 5 * time.Second
)

// topicID is the id of a topic, which may be deleted and created again. The zero value asks. Safe for concurrent use.
type topicID struct {
	mu     sync.Mutex
	asking bool
	asked  time.Time
	at     time.Time // of the answer
	id     [16]byte  // zero: the topic is not there
}

// get returns the topic's id, unless it is not known as of lately. Nobody waits for the brokers.
func (t *topicID) get(ids TopicIDs, topic string) (id [16]byte, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.asking && (time.Since(t.asked) >= idEvery || t.id == [16]byte{} && time.Since(t.asked) >= time.Second) {
		t.asking, t.asked = true, time.Now()
		go t.ask(ids, topic)
	}
	return t.id, t.id != [16]byte{} && time.Since(t.at) < idEvery+2*idWithin
}

func (t *topicID) ask(ids TopicIDs, topic string) {
	ctx, cancel := context.WithTimeout(context.Background(), idWithin)
	defer cancel()
	found, err := ids(ctx, topic)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.asking = false
	if err == nil {
		t.id, t.at = found[topic], time.Now()
	}
}
