package console

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	minutes     = 60
	sampleEvery = 10 * time.Second
)

// series counts those samples of a counter that have one of the values in a label; those that have none of any series before it on the same
// chart, if it names no values.
type series struct {
	Name, class string // class tells how it is drawn
	values      []string
}

// charted is what the overview draws, of one counter each.
var charted = []struct {
	title, metric, label string
	series               []series
}{
	{"Deliveries", "forebay_ingest_deliveries_total", "outcome", []series{{"accepted", "c-good", []string{"accepted", "handshake"}}, {"kept in quarantine", "c-wait", []string{"quarantined"}}, {"not taken", "c-bad", nil}}},
	{"Decisions", "forebay_stream_decisions_total", "decision", []series{{"run", "c-good", []string{"applied", "late"}}, {"wait", "c-wait", []string{"buffered", "parked"}}, {"do nothing", "c-quiet", []string{"duplicate", "stale", "filtered"}}, {"kept for an operator", "c-bad", nil}}},
	{"Attempts", "forebay_lane_attempts_total", "class", []series{{"done", "c-good", []string{"ok"}}, {"failed", "c-bad", nil}}},
}

// history is how much was counted in each of the last minutes, in memory. Safe for concurrent use.
type history struct {
	gather prometheus.Gatherer

	sampling sync.Mutex // one at a time, from the reading to the keeping: an older reading kept after a newer one would look like a reset

	mu     sync.Mutex
	counts map[int64][][]float64 // by minute of the epoch: chart, series
	last   [][]float64           // the counters' values when they were read last; nil: they were not yet
	tries  map[int64][]figure    // by minute of the epoch: attempts in it, by their labels
	tried  []figure              // the attempts when they were read last
	at     time.Time             // when that was
}

// run reads the counters until ctx is done.
func (h *history) run(ctx context.Context) {
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	h.sample(time.Now())
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			h.sample(now)
		}
	}
}

// refresh samples for who looks now, unless that was done a moment ago.
func (h *history) refresh(now time.Time) {
	h.sampling.Lock()
	defer h.sampling.Unlock()
	h.mu.Lock()
	fresh := now.Sub(h.at) < time.Second
	h.mu.Unlock()
	if !fresh {
		h.add(now)
	}
}

// sample adds what was counted since the last time to the minute of now, and forgets the minutes of before the last hour.
func (h *history) sample(now time.Time) {
	h.sampling.Lock()
	defer h.sampling.Unlock()
	h.add(now)
}

// add is sample for who holds sampling.
func (h *history) add(now time.Time) {
	values, tried := counted(h.gather)
	h.mu.Lock()
	defer h.mu.Unlock()
	minute := now.Unix() / 60
	if h.counts == nil {
		h.counts = map[int64][][]float64{}
	}
	if h.counts[minute] == nil {
		h.counts[minute] = blank()
	}
	for c := range values {
		for s := range values[c] {
			if h.last != nil && values[c][s] > h.last[c][s] { // less: what counted is gone, as a subscription after a reload
				h.counts[minute][c][s] += values[c][s] - h.last[c][s]
			}
		}
	}
	if h.tries == nil {
		h.tries = map[int64][]figure{}
	}
	if h.last != nil {
		h.tries[minute] = append(h.tries[minute], growth(h.tried, tried)...)
	}
	h.last, h.at, h.tried = values, now, tried
	for m := range h.tries {
		if m <= minute-rateMinutes {
			delete(h.tries, m)
		}
	}
	for m := range h.counts {
		if m <= minute-minutes {
			delete(h.counts, m)
		}
	}
}

// rateMinutes is over how many minutes, this one included, a rate is taken.
const rateMinutes = 5

// rate is how many attempts with certain labels there were in the last minutes, in words.
func (h *history) rate(now time.Time, of func(labels map[string]string) bool) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	sum := 0.0
	for m, list := range h.tries {
		for _, f := range list {
			if m > now.Unix()/60-rateMinutes && of(f.labels) {
				sum += f.value
			}
		}
	}
	return fmt.Sprintf("%.0f attempts of this process in the last %d minutes", sum, rateMinutes)
}

// growth returns by how much counters have grown.
func growth(before, now []figure) (grown []figure) {
	had := map[string]float64{}
	for _, f := range before {
		had[fmt.Sprint(f.labels)] = f.value
	}
	for _, f := range now {
		if n := had[fmt.Sprint(f.labels)]; n <= f.value { // more: what counted is gone, and begins anew
			f.value -= n
		}
		if f.value > 0 {
			grown = append(grown, f)
		}
	}
	return grown
}

func blank() [][]float64 {
	all := make([][]float64, len(charted))
	for c := range charted {
		all[c] = make([]float64, len(charted[c].series))
	}
	return all
}

// counted sums the counters by chart and series, and returns the attempts by all their labels.
func counted(g prometheus.Gatherer) (all [][]float64, tried []figure) {
	families, _ := g.Gather() // with an error it returns what could be had, which is nearly all
	all = blank()
	for _, f := range families {
		if f.GetName() == attemptsMetric {
			for _, m := range f.GetMetric() {
				tried = append(tried, figure{labels: labelsOf(m.GetLabel()), value: m.GetCounter().GetValue()})
			}
		}
		for c, chart := range charted {
			if f.GetName() != chart.metric {
				continue
			}
			for _, m := range f.GetMetric() {
				value := ""
				for _, l := range m.GetLabel() {
					if l.GetName() == chart.label {
						value = l.GetValue()
					}
				}
				s := slices.IndexFunc(chart.series, func(s series) bool { return s.values == nil || slices.Contains(s.values, value) })
				all[c][s] += m.GetCounter().GetValue()
			}
		}
	}
	return all, tried
}

// chart is the last hour as bars, one a minute, the series stacked.
type chart struct {
	Title   string
	Width   int
	Height  int
	Bars    []bar
	Most    int64 // in one minute
	Legend  []total
	Summary string
}

type bar struct {
	X, Y, Width, Height int
	Class, Title        string
}

type total struct {
	series
	Count int64
}

// Class is how the series is drawn.
func (t total) Class() string { return t.class }

const (
	barWidth, barGap = 5, 1
	chartHeight      = 72
)

// charts draws the hour that ends at now. Charts of which nothing was counted are left out.
func (h *history) charts(now time.Time) (list []chart) {
	h.mu.Lock()
	defer h.mu.Unlock()
	to := now.Unix() / 60
	for c, of := range charted {
		d := chart{Title: of.title, Width: minutes * (barWidth + barGap), Height: chartHeight}
		var most, all float64
		for _, s := range of.series {
			d.Legend = append(d.Legend, total{series: s})
		}
		for _, counts := range h.counts {
			var sum float64
			for s, n := range counts[c] {
				sum += n
				d.Legend[s].Count += int64(n)
			}
			most, all = max(most, sum), all+sum
		}
		if all == 0 {
			continue
		}
		d.Most, d.Summary = int64(most), fmt.Sprintf("%s of the last hour, a bar a minute; most in a minute: %.0f", of.title, most)
		for i := range minutes {
			d.Bars = append(d.Bars, stack(of.series, h.counts[to-minutes+1+int64(i)], c, i, most)...)
		}
		list = append(list, d)
	}
	return list
}

// stack draws a minute: the first series at the bottom.
func stack(of []series, counts [][]float64, c, i int, most float64) (bars []bar) {
	if counts == nil {
		return nil
	}
	y := chartHeight
	for s := range of {
		n := counts[c][s]
		if n == 0 {
			continue
		}
		height := max(1, int(n/most*chartHeight))
		y = max(0, y-height)
		ago := "this minute"
		if i < minutes-1 {
			ago = fmt.Sprintf("%d minutes ago", minutes-1-i)
		}
		bars = append(bars, bar{X: i * (barWidth + barGap), Y: y, Width: barWidth, Height: height, Class: of[s].class, Title: fmt.Sprintf("%s: %.0f %s", ago, n, of[s].Name)})
	}
	return bars
}
