package alerts

import (
	"maps"
	"slices"
	"sort"
	"time"

	dto "github.com/prometheus/client_model/go"
)

const (
	// pointsEvery is how far apart the samples are that are kept for later questions; the latest is always there.
	pointsEvery = 15 * time.Second
	// stale is how old a kept sample may be and still count as the value of a time; samples are taken once a minute at least.
	stale = 2 * time.Minute
)

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// History has the samples of the metrics that rules ask about, of each for as long as they ask back. It is not safe for concurrent use.
type History struct {
	wanted map[string][]Select
	keep   map[string]time.Duration      // by metric; one that is not here is asked for its latest samples alone
	series map[string]map[string]*series // by metric, and then by labelKey
	first  time.Time                     // when Record was called first
	latest time.Time                     // and last
}

// series is one metric with its labels.
type series struct {
	labels map[string]string
	points []point // oldest first
	last   point   // the latest, which may be too near to the one before to be among points
}

type point struct {
	at    time.Time
	value float64
}

// NewHistory returns a history for what these rules ask.
func NewHistory(rules []Rule) *History {
	h := &History{wanted: map[string][]Select{}, keep: map[string]time.Duration{}, series: map[string]map[string]*series{}}
	for _, r := range rules {
		for _, s := range r.Expr.selects() {
			h.wanted[s.Name] = append(h.wanted[s.Name], s)
			if s.back > 0 {
				h.keep[s.Name] = max(h.keep[s.Name], s.back+2*stale)
			}
		}
	}
	return h
}

// Record takes what a registry gathers at a time. Series that are not in it have no value from then on.
func (h *History) Record(families []*dto.MetricFamily, at time.Time) {
	for _, f := range families {
		if len(h.wanted[f.GetName()]) == 0 {
			continue
		}
		for _, m := range f.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			var value float64
			switch f.GetType() {
			case dto.MetricType_COUNTER:
				value = m.GetCounter().GetValue()
			case dto.MetricType_GAUGE:
				value = m.GetGauge().GetValue()
			default:
				continue
			}
			h.add(f.GetName(), labels, value, at)
		}
	}
	if h.first.IsZero() {
		h.first = at
	}
	h.latest = at
	h.forget(at)
}

// add takes one sample.
func (h *History) add(name string, labels map[string]string, value float64, at time.Time) {
	if !slices.ContainsFunc(h.wanted[name], func(s Select) bool { return s.matches(labels) }) {
		return
	}
	if h.series[name] == nil {
		h.series[name] = map[string]*series{}
	}
	key := labelKey(labels)
	s := h.series[name][key]
	if s == nil {
		s = &series{labels: labels}
		h.series[name][key] = s
	}
	s.last = point{at, value}
	if n := len(s.points); h.keep[name] > 0 && (n == 0 || at.Sub(s.points[n-1].at) >= pointsEvery) {
		s.points = append(s.points, s.last)
	}
}

// forget drops what is older than any question, and series that have not been seen for that long.
func (h *History) forget(now time.Time) {
	for name, all := range h.series {
		keep := h.keep[name]
		for key, s := range all {
			if now.Sub(s.last.at) > keep {
				delete(all, key)
				continue
			}
			if old := sort.Search(len(s.points), func(i int) bool { return now.Sub(s.points[i].at) <= keep }); old > len(s.points)/2 {
				s.points = slices.Clone(s.points[old:])
			}
		}
		if len(all) == 0 {
			delete(h.series, name)
		}
	}
}

// valueAt returns the value that a series had at a time; false if it had none.
func (h *History) valueAt(s *series, at time.Time) (float64, bool) {
	if !h.latest.After(at) {
		return s.last.value, s.last.at.Equal(h.latest)
	}
	after := sort.Search(len(s.points), func(i int) bool { return s.points[i].at.After(at) })
	if after == 0 || at.Sub(s.points[after-1].at) >= stale {
		return 0, false
	}
	return s.points[after-1].value, true
}
