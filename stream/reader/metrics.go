package reader

import "github.com/prometheus/client_golang/prometheus"

// Metrics of one subscription.
type Metrics struct {
	copies *prometheus.CounterVec // result: stored, lost, or failed (a sweep)
}

// NewMetrics registers them; a nil reg registers nothing.
func NewMetrics(reg prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{copies: prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "forebay", Subsystem: "stream",
		Name: "payload_copies_total", Help: "Payloads of open actions that the log would have forgotten."}, []string{"result"})}
	if reg == nil {
		return m, nil
	}
	return m, reg.Register(m.copies)
}
