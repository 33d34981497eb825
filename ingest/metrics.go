package ingest

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/forebay-io/forebay/ingest/provider"
	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas"
)

// unknown is the team and source label of all requests for sources that do not exist. No team or source can have this name.
const unknown = "_unknown"

// reasons are the values of the reason label. A reason that is not listed counts as "other".
var reasons = func() map[string]bool {
	m := map[string]bool{}
	for _, r := range []string{
		"intake", "source", "team", "unknown_source", "deadline", "client_gone", "in_flight", "internal", // intake
		"path", "method", "not_accepting", // before it
		schemaUnchecked, emptyList, onDisk, // accepted all the same
		"displaced", "connections", "address_connections", "address_bytes", "pace", "stood_still", "timeout", "broken_off", // body
		"missing_header", "malformed", "mismatch", "too_old", "too_new", "bad_key", "bad_cert_url", "key_not_ready", "digest_mismatch", // verify
	} {
		m[r] = true
	}
	for _, r := range provider.UnusableReasons() {
		m[r] = true
	}
	return m
}()

// alerted are the reasons of outcomes that alerts count.
var alerted = map[outcome][]string{
	quarantined: append(provider.UnusableReasons(), string(schemas.Internal)),
	broken:      {string(schemas.TooLarge), string(schemas.Internal)},
	refused:     {string(verify.Mismatch), string(verify.Malformed), string(verify.MissingHeader), string(verify.BadKey)},
}

func knownReason(reason string) string {
	if reasons[reason] {
		return reason
	}
	return "other"
}

type metrics struct {
	deliveries *prometheus.CounterVec
	bytes      *prometheus.CounterVec
	seconds    prometheus.Histogram
	inFlight   prometheus.Gauge
}

func newMetrics(r prometheus.Registerer, room *room) *metrics {
	opts := func(name, help string) prometheus.Opts {
		return prometheus.Opts{Namespace: "forebay", Subsystem: "ingest", Name: name, Help: help}
	}
	m := &metrics{
		deliveries: prometheus.NewCounterVec(prometheus.CounterOpts(opts("deliveries_total",
			"Deliveries received, by what became of them.")), []string{"team", "source", "outcome", "reason"}),
		bytes: prometheus.NewCounterVec(prometheus.CounterOpts(opts("body_bytes_total",
			"Bytes of bodies read.")), []string{"team", "source"}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: "forebay", Subsystem: "ingest", Name: "delivery_seconds",
			Help:    "Time from the request's header to its answer.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts(opts("deliveries_in_flight", "Deliveries being handled."))),
	}
	gauge := func(name, help string, value func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts(opts(name, help)), value)
	}
	r.MustRegister(m.deliveries, m.bytes, m.seconds, m.inFlight,
		gauge("memory_bytes", "Memory that deliveries hold, of intake.memory.", func() float64 { used, _, _ := room.usage(); return float64(used) }),
		gauge("large_memory_bytes", "What bodies that are not small hold of it.", func() float64 { _, large, _ := room.usage(); return float64(large) }),
		gauge("bodies_arriving", "Bodies on their way.", func() float64 { _, _, n := room.usage(); return float64(n) }))
	return m
}

// counted has a source's counters for the most frequent outcome, so that they are looked up once.
type counted struct {
	in              *metrics // where the counters are from
	accepted, bytes prometheus.Counter
}

// Begin has the counters of a source that alerts look at begin at 0: of one that begins at 1 Prometheus sees no increase.
func (h *Handler) Begin(team, source string) {
	for o, reasons := range alerted {
		for _, reason := range reasons {
			h.metrics.deliveries.WithLabelValues(team, source, string(o), reason)
		}
	}
}

// observe counts a delivery. Those of unknown sources are counted together, so that strangers cannot make up series.
func (m *metrics) observe(d *delivery, v verdict, took time.Duration) {
	m.seconds.Observe(took.Seconds())
	if d.source != nil && v.outcome == accepted && v.reason == "" {
		c := m.counted(d)
		c.accepted.Inc()
		c.bytes.Add(float64(d.size))
		return
	}
	m.count(d, v)
	team, source := d.labels()
	m.bytes.WithLabelValues(team, source).Add(float64(d.size))
}

// count counts a delivery by what became of it alone.
func (m *metrics) count(d *delivery, v verdict) {
	team, source := d.labels()
	m.deliveries.WithLabelValues(team, source, string(v.outcome), v.reason).Inc()
}

func (d *delivery) labels() (team, source string) {
	if d.source == nil {
		return unknown, unknown
	}
	return d.team, d.name
}

func (m *metrics) counted(d *delivery) *counted {
	c := d.source.counted.Load()
	if c == nil || c.in != m {
		c = &counted{m, m.deliveries.WithLabelValues(d.team, d.name, string(accepted), ""), m.bytes.WithLabelValues(d.team, d.name)}
		d.source.counted.Store(c)
	}
	return c
}
