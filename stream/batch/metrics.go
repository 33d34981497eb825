package batch

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/forebay-io/forebay/stream/gate"
)

// Metrics of one subscription.
type Metrics struct {
	decisions *prometheus.CounterVec // decision, reason
	batch     prometheus.Histogram
	bytes     prometheus.Histogram
	apply     prometheus.Histogram
	lag       *prometheus.GaugeVec // topic, partition
	lagTime   *lag
	fetchErrs prometheus.Counter
	gaps      prometheus.Counter     // discontinuities between what was read and the ledger's offset
	replays   *prometheus.CounterVec // end
}

// NewMetrics registers them; a nil reg registers nothing.
func NewMetrics(reg prometheus.Registerer) (*Metrics, error) {
	counter := func(n, help string) prometheus.CounterOpts {
		return prometheus.CounterOpts{Namespace: "forebay", Subsystem: "stream", Name: n, Help: help}
	}
	histogram := func(n, help string, buckets []float64) prometheus.Histogram {
		return prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: "forebay", Subsystem: "stream", Name: n, Help: help, Buckets: buckets})
	}
	m := &Metrics{
		decisions: prometheus.NewCounterVec(counter("decisions_total", "Decisions of the gate."), []string{"decision", "reason"}),
		batch:     histogram("batch_records", "Records of a batch.", prometheus.ExponentialBuckets(1, 4, 7)),
		bytes:     histogram("batch_bytes", "Bytes of a batch's records.", prometheus.ExponentialBuckets(1<<10, 8, 7)),
		apply:     histogram("apply_seconds", "Time to commit a batch.", prometheus.ExponentialBuckets(0.001, 2, 14)),
		lag: prometheus.NewGaugeVec(prometheus.GaugeOpts(counter("lag_records", "Records behind the end of a claimed partition.")),
			[]string{"topic", "partition"}),
		lagTime:   newLag(),
		fetchErrs: prometheus.NewCounter(counter("fetch_errors_total", "Errors while reading partitions.")),
		gaps: prometheus.NewCounter(counter("discontinuities_total",
			"Batches that did not begin where the ledger stands; the partition was read again from there.")),
		replays: prometheus.NewCounterVec(counter("replay_parts_total",
			"Partitions of replays that this process has ended: complete, or why not, such as errors. One that an operator has cancelled is not counted."), []string{"end"}),
	}
	m.replays.WithLabelValues(replayComplete)
	for _, reason := range gate.QuarantineReasons() { // an alert looks at them: of a counter that begins at 1 Prometheus sees no increase
		m.decisions.WithLabelValues(string(gate.Quarantined), string(reason))
	}
	if reg == nil {
		return m, nil
	}
	var errs []error
	for _, c := range []prometheus.Collector{m.decisions, m.batch, m.bytes, m.apply, m.lag, m.lagTime, m.fetchErrs, m.gaps, m.replays} {
		errs = append(errs, reg.Register(c))
	}
	return m, errors.Join(errs...)
}

// ReadFailed counts an error while reading that is about no claimed partition.
func (m *Metrics) ReadFailed() { m.fetchErrs.Inc() }

// replayComplete is the end of a part of a replay that was read to its end.
const replayComplete = "complete"

// decided counts decisions.
func (m *Metrics) decided(outcomes []gate.Outcome) {
	for i := range outcomes {
		m.decisions.WithLabelValues(string(outcomes[i].Decision), string(outcomes[i].Reason)).Inc()
	}
}
