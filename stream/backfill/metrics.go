package backfill

import (
	"cmp"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/forebay-io/forebay/stream/sink"
)

// Metrics are the figures of a process's backfills and thin sources. Nil counts nothing.
type Metrics struct {
	requests  *prometheus.CounterVec   // source, reason
	elements  *prometheus.CounterVec   // source, result
	exchanges *prometheus.CounterVec   // source, use, class
	seconds   *prometheus.HistogramVec // source, use
	bodies    *prometheus.CounterVec   // source, result
}

// NewMetrics registers the figures; once a process.
func NewMetrics(reg prometheus.Registerer) (*Metrics, error) {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "forebay", Name: name, Help: help}, labels)
	}
	m := &Metrics{
		requests:  counter("backfill_requests_total", "Backfills that have ended, by source and reason; reason ok is filled.", "source", "reason"),
		elements:  counter("backfill_elements_total", "Elements of backfill answers by what became of them.", "source", "result"),
		exchanges: counter("fetch_exchanges_total", "Requests to sources' APIs, for backfills and for thin events, by class of failure; class ok is success.", "source", "use", "class"),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: "forebay", Name: "fetch_duration_seconds",
			Help: "Duration of requests to sources' APIs.", Buckets: prometheus.ExponentialBuckets(0.001, 2.5, 12)}, []string{"source", "use"}),
		bodies: counter("thin_bodies_total", "Bodies of thin events by where they came from.", "source", "result"),
	}
	var errs []error
	for _, c := range []prometheus.Collector{m.requests, m.elements, m.exchanges, m.seconds, m.bodies} {
		errs = append(errs, reg.Register(c))
	}
	return m, errors.Join(errs...)
}

// What becomes of an element.
const (
	produced    = "produced"
	refused     = "other_entity" // of another entity, clock or kind of version
	unusable    = "unusable"     // cannot be made an event, or is too large for the topic
	outside     = "outside"      // not what is missing
	overLimit   = "over_limit"   // beyond the limit on elements
	notProduced = "not_produced" // the log did not take it in time
)

// ended counts a request and its elements.
func (m *Metrics) ended(source string, o *Outcome) {
	if m == nil {
		return
	}
	m.requests.WithLabelValues(source, cmp.Or(string(o.Reason), "ok")).Inc()
	for result, n := range map[string]int{
		produced: o.Produced, refused: o.Refused, unusable: o.Unusable, outside: o.Outside, overLimit: o.OverLimit, notProduced: o.NotProduced,
	} {
		if n > 0 {
			m.elements.WithLabelValues(source, result).Add(float64(n))
		}
	}
}

// body counts the body of a thin event: fetched, kept (from the cache) or failed.
func (m *Metrics) body(source, result string) {
	if m != nil {
		m.bodies.WithLabelValues(source, result).Inc()
	}
}

// fetchMetrics are the figures of one fetcher.
type fetchMetrics struct {
	exchanges *prometheus.CounterVec // class; nil counts nothing
	seconds   prometheus.Observer
}

func (m *Metrics) fetcher(source string, use Use) fetchMetrics {
	if m == nil {
		return fetchMetrics{}
	}
	of := prometheus.Labels{"source": source, "use": string(use)}
	return fetchMetrics{exchanges: m.exchanges.MustCurryWith(of), seconds: m.seconds.With(of)}
}

func (m fetchMetrics) exchange(class sink.Class, took time.Duration) {
	if m.exchanges == nil {
		return
	}
	m.exchanges.WithLabelValues(cmp.Or(string(class), "ok")).Inc()
	m.seconds.Observe(took.Seconds())
}
