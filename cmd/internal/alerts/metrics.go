package alerts

import (
	"maps"
	"math"
	"slices"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/forebay-io/forebay/stream/inbox"
)

// sample is the value of a metric with its labels.
type sample struct {
	labels map[string]string
	value  float64
}

// samples are some of a metric.
type samples []sample

// with returns those whose label has one of the values.
func (s samples) with(label string, values ...string) (out samples) {
	for _, one := range s {
		if slices.Contains(values, one.labels[label]) {
			out = append(out, one)
		}
	}
	return out
}

// by puts together what has the same values of one label or two.
func (s samples) by(fold func(a, b float64) float64, labels ...string) counts {
	out := counts{}
	for _, one := range s {
		var of [2]string
		for i, label := range labels {
			of[i] = one.labels[label]
		}
		if have, ok := out[of]; ok {
			one.value = fold(have, one.value)
		}
		out[of] = one.value
	}
	return out
}

func sum(a, b float64) float64 { return a + b }

// counts are values by those of one label or two.
type counts map[[2]string]float64

// where returns what holds.
func (c counts) where(holds func(of [2]string, value float64) bool) counts {
	out := maps.Clone(c)
	maps.DeleteFunc(out, func(of [2]string, value float64) bool { return !holds(of, value) })
	return out
}

func (c counts) above(least float64) counts {
	return c.where(func(_ [2]string, value float64) bool { return value > least })
}

// minus is by how much counters are above what they were; one that was not there began at 0.
func (c counts) minus(before counts) counts {
	out := maps.Clone(c)
	for of := range out {
		out[of] -= before[of]
	}
	return out
}

// seen is what metrics of this process say now, and what a few of them said before.
type seen struct {
	first, at time.Time // of the first look and of the last
	now       []*dto.MetricFamily
	past      []moment // momentsEvery apart, oldest first; and the last look
}

// moment is what rules ask about an earlier time.
type moment struct {
	at                   time.Time
	died, forged, waited counts
	unusable, undecided  counts // what went into quarantine: deliveries by source, records by subscription
	broken               counts // deliveries that the log does not take, by source
}

const (
	momentsEvery = 15 * time.Second
	momentsKept  = 75 * time.Minute // a little more than any rule asks back
)

// take takes what a registry gathers at a time.
func (s *seen) take(families []*dto.MetricFamily, at time.Time) {
	if s.first.IsZero() {
		s.first = at
	}
	s.at, s.now = at, families
	if n := len(s.past); n > 1 && s.past[n-1].at.Sub(s.past[n-2].at) < momentsEvery {
		s.past = s.past[:n-1]
	}
	s.past = slices.DeleteFunc(s.past, func(m moment) bool { return at.Sub(m.at) > momentsKept })
	deliveries := s.of("forebay_ingest_deliveries_total")
	s.past = append(s.past, moment{at: at, died: s.of("forebay_lane_dead_letters_total").by(sum, "destination"),
		forged: deliveries.with("reason", "mismatch", "malformed", "missing_header", "bad_key").by(sum, "team", "source"), waited: s.waiting(inbox.AttentionDead),
		unusable:  deliveries.with("outcome", "quarantined").by(sum, "team", "source"),
		broken:    deliveries.with("outcome", "broken").by(sum, "team", "source"),
		undecided: s.of("forebay_stream_decisions_total").with("decision", "quarantined").by(sum, "subscription")})
}

// of returns what a counter or a gauge says now.
func (s *seen) of(metric string) (out samples) {
	for _, f := range s.now {
		if f.GetName() != metric {
			continue
		}
		for _, m := range f.GetMetric() {
			one := sample{map[string]string{}, m.GetCounter().GetValue() + m.GetGauge().GetValue()}
			for _, l := range m.GetLabel() {
				one.labels[l.GetName()] = l.GetValue()
			}
			out = append(out, one)
		}
	}
	return out
}

// waiting is what waits for an operator, by who has it. Every process that shares a ledger counts the same: the largest count is that of all.
func (s *seen) waiting(kinds ...inbox.AttentionKind) counts {
	var names []string
	for _, k := range kinds {
		names = append(names, string(k))
	}
	return s.of("forebay_attention_waiting").with("kind", names...).by(math.Max, "team", "of")
}

// ago returns the moment that was the last so long ago; an empty one if there was none.
func (s *seen) ago(d time.Duration) moment {
	for _, m := range slices.Backward(s.past) {
		if s.at.Sub(m.at) >= d {
			return m
		}
	}
	return moment{}
}

// died counts what was given up within a time, by destination.
func (s *seen) died(within time.Duration) counts { return s.ago(0).died.minus(s.ago(within).died) }

// forged counts the deliveries that no key of their source verified, within a time that ended a while ago, by source.
func (s *seen) forged(within, ended time.Duration) counts {
	return s.ago(ended).forged.minus(s.ago(ended + within).forged)
}
