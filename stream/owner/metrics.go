package owner

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics of one subscription.
type metrics struct {
	claims  *prometheus.CounterVec // result: ok, stopped, refused (not the group's member), error
	state   *prometheus.GaugeVec   // state
	stops   *prometheus.CounterVec // reason
	seeks   *prometheus.CounterVec // direction
	mirrors *prometheus.CounterVec // result
}

// newMetrics registers them; a nil reg registers nothing.
func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	opts := func(n, help string) prometheus.CounterOpts {
		return prometheus.CounterOpts{Namespace: "forebay", Subsystem: "stream", Name: n, Help: help}
	}
	m := &metrics{
		claims:  prometheus.NewCounterVec(opts("claims_total", "Claims of partitions."), []string{"result"}),
		state:   prometheus.NewGaugeVec(prometheus.GaugeOpts(opts("partitions", "Assigned partitions by state.")), []string{"state"}),
		stops:   prometheus.NewCounterVec(opts("stops_total", "Partitions that are stopped until an operator acts."), []string{"reason"}),
		seeks:   prometheus.NewCounterVec(opts("seeks_total", "Positions changed by an operator."), []string{"direction"}),
		mirrors: prometheus.NewCounterVec(opts("mirror_commits_total", "Commits of positions to Kafka."), []string{"result"}),
	}
	if reg == nil {
		return m, nil
	}
	var errs []error
	for _, c := range []prometheus.Collector{m.claims, m.state, m.stops, m.seeks, m.mirrors} {
		errs = append(errs, reg.Register(c))
	}
	return m, errors.Join(errs...)
}
