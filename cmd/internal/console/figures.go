package console

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
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

// figures returns the series of a metric; none if nothing was measured yet.
func figures(g prometheus.Gatherer, metric string) (list []figure) {
	families, _ := g.Gather() // with an error it returns what could be had, which is nearly all
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

// histogram is durations as bars, one a bucket.
type histogram struct {
	Width, Height, TextY int
	Bars                 []bar
	Labels               []barLabel
	Summary              string
}

type barLabel struct {
	X    int
	Text string
}

const (
	histogramHeight = 90
	bucketWidth     = 44
)

// latencies draws histograms of seconds as one; nil if nothing was measured.
func latencies(list []figure) *histogram {
	var uppers []float64
	sums := map[float64]uint64{}
	for _, f := range list {
		for _, b := range f.buckets {
			if _, ok := sums[b.upper]; !ok && !slices.Contains(uppers, b.upper) {
				uppers = append(uppers, b.upper)
			}
			sums[b.upper] += b.count
		}
	}
	slices.Sort(uppers)
	if len(uppers) == 0 || sums[uppers[len(uppers)-1]] == 0 {
		return nil
	}
	all := sums[uppers[len(uppers)-1]]
	h := &histogram{Width: len(uppers) * bucketWidth, Height: histogramHeight + 20, TextY: histogramHeight + 15,
		Summary: fmt.Sprintf("%d attempts; half took at most %s, 95 of 100 at most %s", all, seconds(within(sums, 0.5)), seconds(within(sums, 0.95)))}
	var most, before uint64
	for _, u := range uppers {
		most, before = max(most, sums[u]-before), sums[u]
	}
	before = 0
	took := "at most"
	for i, u := range uppers {
		n := sums[u] - before
		before = sums[u]
		height := int(float64(n) / float64(most) * histogramHeight)
		if n > 0 {
			h.Bars = append(h.Bars, bar{X: i*bucketWidth + 2, Y: histogramHeight - max(1, height), Width: bucketWidth - 4, Height: max(1, height), Class: "c-good", Title: fmt.Sprintf("%d took %s %s", n, took, seconds(u))})
		}
		took = "more than " + seconds(u) + ", at most"
		h.Labels = append(h.Labels, barLabel{i*bucketWidth + bucketWidth/2, seconds(u)})
	}
	return h
}

// seconds is a bucket's upper bound, rounded for reading.
func seconds(upper float64) string {
	if math.IsInf(upper, 1) {
		return "longer"
	}
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
