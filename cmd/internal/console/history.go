package console

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

const (
	minutes     = 60
	sampleEvery = 10 * time.Second
)

// series counts those samples of a counter that have one of the values in a label; those that have none of any series before it on the same
// chart, if it names no values.
type series struct {
	name, class string // class tells how it is drawn
	values      []string
}

// chartOf is what a chart is drawn from: one counter, told apart by one label.
type chartOf struct {
	title, metric, label string
	series               []series
}

// charted is what the overview draws.
var charted = []chartOf{
	{"Deliveries", "forebay_ingest_deliveries_total", "outcome", []series{{"accepted", "c-good", []string{"accepted", "handshake"}}, {"kept in quarantine", "c-wait", []string{"quarantined"}}, {"not taken", "c-bad", nil}}},
	{"Decisions", "forebay_stream_decisions_total", "decision", []series{{"run", "c-good", []string{"applied", "late"}}, {"wait", "c-wait", []string{"buffered", "parked"}}, {"do nothing", "c-quiet", []string{"duplicate", "stale", "filtered"}}, {"kept for an operator", "c-bad", nil}}},
	{"Attempts", "forebay_lane_attempts_total", "class", []series{{"done", "c-good", []string{"ok"}}, {"failed", "c-bad", nil}}},
}

// history is how much was counted in each of the last minutes, in memory. Safe for concurrent use.
type history struct {
	gather prometheus.Gatherer

	sampling sync.Mutex // one at a time, from the reading to the keeping: an older reading kept after a newer one would look like a reset

	mu     sync.Mutex
	counts map[int64]*counted // by minute of the epoch
	last   *counted           // the counters' values when they were read last; nil: they were not yet
	at     time.Time          // when that was
}

// counted is what the counters say, or by how much that has grown in a minute.
type counted struct {
	charts  [][]float64         // chart, series
	tried   []figure            // attempts, by their labels; of the last rateMinutes alone
	refused map[refusal]float64 // deliveries that were not taken
	acted   map[float64]uint64  // how many actions were done within so many seconds after their event was accepted
	lag     *float64            // seconds, of the partition that is furthest behind, the most that was read in the minute; nil: nothing was read
}

// refusal is why a delivery was not taken.
type refusal struct{ Outcome, Reason string }

// actMetric measures the time from acceptance to act, lagMetric how far each claimed partition is behind.
const (
	actMetric = "forebay_lane_accept_to_act_seconds"
	lagMetric = "forebay_stream_lag_seconds"
)

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
	read := readCounters(h.gather)
	h.mu.Lock()
	defer h.mu.Unlock()
	minute := now.Unix() / 60
	if h.counts == nil {
		h.counts = map[int64]*counted{}
	}
	if h.counts[minute] == nil {
		h.counts[minute] = blank()
	}
	if h.last != nil {
		h.counts[minute].grow(h.last, read)
	}
	h.counts[minute].lag = further(h.counts[minute].lag, read.lag)
	h.last, h.at = read, now
	for m, n := range h.counts {
		if m <= minute-rateMinutes {
			n.tried = nil
		}
		if m <= minute-minutes {
			delete(h.counts, m)
		}
	}
}

// grow adds by how much counters have grown. Where one says less, what counted is gone, as a subscription after a reload.
func (n *counted) grow(before, now *counted) {
	for c := range now.charts {
		for s := range now.charts[c] {
			n.charts[c][s] += max(0, now.charts[c][s]-before.charts[c][s])
		}
	}
	n.tried = append(n.tried, growth(before.tried, now.tried)...)
	for why, count := range now.refused {
		if more := count - before.refused[why]; more > 0 {
			n.refused[why] += more
		}
	}
	if all := math.Inf(1); now.acted[all] < before.acted[all] {
		return
	}
	for upper, count := range now.acted {
		if count > before.acted[upper] {
			n.acted[upper] += count - before.acted[upper]
		}
	}
}

// further returns the longer of two lags, of which either may not be known.
func further(a, b *float64) *float64 {
	if a == nil || b != nil && *b > *a {
		return b
	}
	return a
}

// rateMinutes is over how many minutes, this one included, a rate is taken.
const rateMinutes = 5

// attemptsText says how many attempts with labels that match there were in the last minutes.
func (h *history) attemptsText(now time.Time, match func(labels map[string]string) bool) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	sum := 0.0
	for minute, n := range h.counts {
		for _, f := range n.tried { // what the counters grew by in that minute
			if minute > now.Unix()/60-rateMinutes && match(f.labels) {
				sum += f.value
			}
		}
	}
	return fmt.Sprintf("%.0f attempts of this process in the last %d minutes", sum, rateMinutes)
}

// growth returns by how much counters have grown. One that is lower than before has begun again from zero: all of it is growth.
func growth(before, now []figure) (grown []figure) {
	had := map[string]float64{}
	for _, f := range before {
		had[fmt.Sprint(f.labels)] = f.value
	}
	for _, f := range now {
		if n := had[fmt.Sprint(f.labels)]; n <= f.value {
			f.value -= n
		}
		if f.value > 0 {
			grown = append(grown, f)
		}
	}
	return grown
}

func blank() *counted {
	n := &counted{charts: make([][]float64, len(charted)), refused: map[refusal]float64{}, acted: map[float64]uint64{}}
	for c := range charted {
		n.charts[c] = make([]float64, len(charted[c].series))
	}
	return n
}

// taken are the outcomes of deliveries that were not refused.
var taken = []string{"accepted", "handshake", "quarantined"}

// readCounters sums the counters.
func readCounters(g prometheus.Gatherer) *counted {
	families, _ := g.Gather() // with an error it returns what could be had, which is nearly all
	n := blank()
	for _, f := range families {
		switch f.GetName() {
		case attemptsMetric:
			for _, m := range f.GetMetric() {
				n.tried = append(n.tried, figure{labels: labelsOf(m.GetLabel()), value: m.GetCounter().GetValue()})
			}
		case deliveriesMetric:
			for _, m := range f.GetMetric() {
				if of := labelsOf(m.GetLabel()); !slices.Contains(taken, of["outcome"]) {
					n.refused[refusal{of["outcome"], of["reason"]}] += m.GetCounter().GetValue()
				}
			}
		case actMetric:
			for _, m := range f.GetMetric() {
				for _, b := range m.GetHistogram().GetBucket() {
					n.acted[b.GetUpperBound()] += b.GetCumulativeCount()
				}
				n.acted[math.Inf(1)] += m.GetHistogram().GetSampleCount()
			}
		case lagMetric:
			for _, m := range f.GetMetric() {
				n.lag = further(n.lag, new(m.GetGauge().GetValue()))
			}
		}
		for c, chart := range charted {
			if f.GetName() == chart.metric {
				chart.sum(f, n.charts[c])
			}
		}
	}
	return n
}

// sum adds a metric to the sums of the chart's series.
func (c *chartOf) sum(f *dto.MetricFamily, sums []float64) {
	for _, m := range f.GetMetric() {
		value := labelsOf(m.GetLabel())[c.label]
		sums[slices.IndexFunc(c.series, func(s series) bool { return s.values == nil || slices.Contains(s.values, value) })] += m.GetCounter().GetValue()
	}
}

// refusedFor is how many deliveries were refused for a reason.
type refusedFor struct {
	refusal
	Count int64
}

// name is the reason as a chart has it: other outcomes may have one of the same name.
func (r refusal) name() string {
	if r.Reason == "" {
		return r.Outcome
	}
	return r.Reason + " (" + r.Outcome + ")"
}

// refusals returns why deliveries were refused in the minutes of an hour, the most frequent reason first.
func (h hour) refusals() (list []refusedFor) {
	sums := map[refusal]float64{}
	for _, n := range h {
		for why, count := range n.refused {
			sums[why] += count
		}
	}
	for why, count := range sums {
		list = append(list, refusedFor{why, int64(count)})
	}
	slices.SortFunc(list, func(a, b refusedFor) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Outcome, b.Outcome), cmp.Compare(a.Reason, b.Reason))
	})
	return list
}

// acceptToAct is within which time after acceptance actions were done, in words.
type acceptToAct struct {
	Actions  uint64
	P50, P99 string // by the bucket that has it
}

// acted returns how long it took from acceptance to act in the minutes of an hour; nil: nothing was done.
func (h hour) acted() *acceptToAct {
	sums := map[float64]uint64{}
	for _, n := range h {
		for upper, count := range n.acted {
			sums[upper] += count
		}
	}
	all := sums[math.Inf(1)]
	if all == 0 {
		return nil
	}
	return &acceptToAct{all, atMost(within(sums, 0.5)), atMost(within(sums, 0.99))}
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

// hour is what was counted in each of its minutes, the oldest first.
type hour []*counted

// hourReport is what the overview says of the last hour.
type hourReport struct {
	Charts   []chart
	Refusals []refusedFor
	Acted    *acceptToAct // nil: nothing was done
}

// report says what was in the hour that ends at now.
func (h *history) report(now time.Time) hourReport {
	h.mu.Lock()
	defer h.mu.Unlock()
	none, last := blank(), make(hour, minutes)
	for i := range last {
		last[i] = cmp.Or(h.counts[now.Unix()/60-minutes+1+int64(i)], none)
	}
	return hourReport{last.charts(), last.refusals(), last.acted()}
}
