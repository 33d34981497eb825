package console

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// figure is one series of a metric of this process.
type figure struct {
	labels  map[string]string
	value   float64  // of a counter
	buckets []bucket // of a histogram
}

// bucket is how many of a histogram's observations are at most upper; all smaller ones are in it.
type bucket struct {
	upper float64
	count uint64
}

// gathered are the metrics of this process.
type gathered []*dto.MetricFamily

func gather(g prometheus.Gatherer) gathered {
	families, _ := g.Gather() // with an error it returns what could be had, which is nearly all
	return families
}

// figures returns the series of a metric; none if nothing was measured yet.
func (families gathered) figures(metric string) (list []figure) {
	for _, f := range families {
		if f.GetName() != metric {
			continue
		}
		for _, m := range f.GetMetric() {
			one := figure{labels: labelsOf(m.GetLabel()), value: m.GetCounter().GetValue()}
			for _, b := range m.GetHistogram().GetBucket() {
				one.buckets = append(one.buckets, bucket{b.GetUpperBound(), b.GetCumulativeCount()})
			}
			if h := m.GetHistogram(); h != nil {
				one.buckets = append(one.buckets, bucket{math.Inf(1), h.GetSampleCount()})
			}
			list = append(list, one)
		}
	}
	return list
}

func labelsOf[L interface {
	GetName() string
	GetValue() string
}](list []L) map[string]string {
	labels := map[string]string{}
	for _, l := range list {
		labels[l.GetName()] = l.GetValue()
	}
	return labels
}

// named is a count of something that has a name.
type named struct {
	Name  string
	Count int64
}

// counts sums figures by a label, the largest first.
func counts(list []figure, label string) (sums []named) {
	for _, f := range list {
		if f.value == 0 {
			continue
		}
		i := slices.IndexFunc(sums, func(n named) bool { return n.Name == f.labels[label] })
		if i < 0 {
			i, sums = len(sums), append(sums, named{Name: f.labels[label]})
		}
		sums[i].Count += int64(f.value)
	}
	slices.SortStableFunc(sums, func(a, b named) int { return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Name, b.Name)) })
	return sums
}

// latency says how long attempts took, of histograms of seconds; empty if nothing was measured.
func latency(list []figure) string {
	sums := map[float64]uint64{}
	for _, f := range list {
		for _, b := range f.buckets {
			sums[b.upper] += b.count
		}
	}
	all := sums[math.Inf(1)]
	if all == 0 {
		return ""
	}
	return fmt.Sprintf("%d attempts of this process since it began; half took %s, 95 of 100 %s", all, atMost(within(sums, 0.5)), atMost(within(sums, 0.95)))
}

// within returns the smallest of a histogram's upper bounds that holds a share of all; sums has how many are at most each, +Inf among them.
func within(sums map[float64]uint64, share float64) float64 {
	uppers := slices.Sorted(maps.Keys(sums))
	return uppers[slices.IndexFunc(uppers, func(u float64) bool { return float64(sums[u]) >= share*float64(sums[math.Inf(1)]) })]
}

// atMost says of a share of all what its bucket does.
func atMost(upper float64) string {
	if math.IsInf(upper, 1) {
		return "more than what is measured"
	}
	return "at most " + seconds(upper)
}

// seconds is a bucket's upper bound, rounded for reading.
func seconds(upper float64) string {
	d := time.Duration(upper * float64(time.Second))
	switch {
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.1fms", upper*1000)
	case d < time.Second:
		return fmt.Sprintf("%.0fms", upper*1000)
	case d < 10*time.Minute:
		return fmt.Sprintf("%.1fs", upper)
	}
	return fmt.Sprintf("%.0f minutes", d.Minutes())
}
