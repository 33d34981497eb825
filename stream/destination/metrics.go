package destination

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are one destination's.
type metrics struct {
	transitions            *prometheus.CounterVec
	holds, pauses, limited prometheus.Counter
}

func newMetrics() *metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	m := &metrics{
		transitions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "forebay_destination_breaker_transitions_total", Help: "Changes of the destination's breaker, by the state it came to.",
		}, []string{"to"}),
		holds:   counter("forebay_destination_holds_total", "Answers that asked to leave the destination alone for a while."),
		pauses:  counter("forebay_destination_pauses_total", "Pauses of the destination that this process has seen."),
		limited: counter("forebay_destination_limited_total", "Actions that found no token and did not wait for one."),
	}
	for _, b := range []Breaking{Closed, Open, HalfOpen, Recovering} {
		m.transitions.WithLabelValues(string(b))
	}
	return m
}

func (d *Destination) register(r prometheus.Registerer) error {
	gauge := func(name, help string, labels prometheus.Labels, read func(Status) float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: labels}, func() float64 { return read(d.Status()) })
	}
	list := []prometheus.Collector{
		d.metrics.transitions, d.metrics.holds, d.metrics.pauses, d.metrics.limited,
		gauge("forebay_destination_running_attempts", "Attempts under way at the destination.", nil,
			func(s Status) float64 { return float64(s.Running) }),
		gauge("forebay_destination_consecutive_failures", "Failures in a row at the destination.", nil,
			func(s Status) float64 { return float64(s.Failures) }),
		gauge("forebay_destination_waiting_subscriptions", "Subscriptions that have something to attempt at the destination and may not now.", nil,
			func(s Status) float64 { return float64(s.Waiting) }),
		gauge("forebay_destination_hold_seconds", "For how long the destination is still to be left alone, as it asked.", nil,
			func(s Status) float64 {
				if s.OnHoldUntil.IsZero() {
					return 0
				}
				return max(0, time.Until(s.OnHoldUntil).Seconds())
			}),
	}
	for _, state := range States() {
		list = append(list, gauge("forebay_destination_state", "1 for the state that the destination is in.", prometheus.Labels{"state": string(state)},
			func(s Status) float64 {
				if s.State == state {
					return 1
				}
				return 0
			}))
	}
	r = prometheus.WrapRegistererWith(prometheus.Labels{"destination": d.name}, r)
	for _, c := range list {
		if err := r.Register(c); err != nil {
			return err
		}
	}
	return nil
}
