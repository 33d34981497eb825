package deadletter

import "github.com/prometheus/client_golang/prometheus"

// Metrics of one subscription.
type Metrics struct {
	exports *prometheus.CounterVec // result: done (dead letters), failed (tries)
}

// NewMetrics registers them; a nil reg registers nothing.
func NewMetrics(reg prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{exports: prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "forebay", Subsystem: "stream",
		Name: "dead_exports_total", Help: "Dead letters written to the dead topic; tries that failed."}, []string{"result"})}
	if reg == nil {
		return m, nil
	}
	return m, reg.Register(m.exports)
}
