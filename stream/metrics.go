package stream

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/forebay-io/forebay/stream/gate"
)

// metrics of one subscription, which is a label on all of them.
type metrics struct {
	decisions *prometheus.CounterVec // decision, reason
	batch     prometheus.Histogram
	bytes     prometheus.Histogram
	apply     prometheus.Histogram
	lag       *prometheus.GaugeVec   // topic, partition
	claims    *prometheus.CounterVec // result
	state     *prometheus.GaugeVec   // state
	stops     *prometheus.CounterVec // reason
	seeks     *prometheus.CounterVec // direction
	mirrors   *prometheus.CounterVec // result
	fetchErrs prometheus.Counter
	gaps      prometheus.Counter     // between what was read and what the ledger has
	copies    *prometheus.CounterVec // result
	exports   *prometheus.CounterVec // result
}

func newMetrics(reg prometheus.Registerer, group string) (*metrics, error) {
	name := func(n, help string) prometheus.Opts {
		return prometheus.Opts{Namespace: "forebay", Subsystem: "stream", Name: n, Help: help,
			ConstLabels: prometheus.Labels{"subscription": group}}
	}
	counter := func(n, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts(name(n, help)), labels)
	}
	gauge := func(n, help string, labels ...string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts(name(n, help)), labels)
	}
	histogram := func(n, help string, buckets []float64) prometheus.Histogram {
		return prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: "forebay", Subsystem: "stream", Name: n,
			Help: help, ConstLabels: prometheus.Labels{"subscription": group}, Buckets: buckets})
	}
	m := &metrics{
		decisions: counter("decisions_total", "Decisions of the gate.", "decision", "reason"),
		batch:     histogram("batch_records", "Records of a batch.", prometheus.ExponentialBuckets(1, 4, 7)),
		bytes:     histogram("batch_bytes", "Bytes of a batch's records.", prometheus.ExponentialBuckets(1<<10, 8, 7)),
		apply:     histogram("apply_seconds", "Time to commit a batch.", prometheus.ExponentialBuckets(0.001, 2, 14)),
		lag:       gauge("lag_records", "Records behind the end of a claimed partition.", "topic", "partition"),
		claims:    counter("claims_total", "Claims of partitions.", "result"),
		state:     gauge("partitions", "Assigned partitions by state.", "state"),
		stops:     counter("stops_total", "Partitions stopped for a person to look at.", "reason"),
		seeks:     counter("seeks_total", "Positions changed by an operator.", "direction"),
		mirrors:   counter("mirror_commits_total", "Commits of positions to Kafka.", "result"),
		fetchErrs: counter("fetch_errors_total", "Errors while reading partitions.").WithLabelValues(),
		gaps: counter("discontinuities_total", "Batches that did not begin where the ledger stands; the partition was read again from there.").
			WithLabelValues(),
		copies:  counter("payload_copies_total", "Payloads of open actions that the log would have forgotten.", "result"),
		exports: counter("dead_exports_total", "Dead letters written to the dead topic; tries that failed.", "result"),
	}
	if reg == nil {
		return m, nil
	}
	var errs []error
	for _, c := range []prometheus.Collector{m.decisions, m.batch, m.bytes, m.apply, m.lag, m.claims, m.state, m.stops,
		m.seeks, m.mirrors, m.fetchErrs, m.gaps, m.copies, m.exports} {
		errs = append(errs, reg.Register(c))
	}
	return m, errors.Join(errs...)
}

func (m *metrics) decided(outcomes []gate.Outcome) {
	for i := range outcomes {
		m.decisions.WithLabelValues(string(outcomes[i].Decision), string(outcomes[i].Reason)).Inc()
	}
}
