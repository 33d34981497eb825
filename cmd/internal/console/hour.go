package console

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	minutes     = 60
	sampleEvery = 30 * time.Second
)

// counter is one of what the overview counts, over all teams: what has a label's value, or what took no more than so many seconds.
type counter struct {
	of, name string // the title of what is told, or actMetric
	upper    float64
}

// told are the counters of the overview: by which label they are told apart.
var told = []struct{ title, metric, label string }{
	{"Deliveries", deliveriesMetric, "outcome"}, {"Refused, by reason", deliveriesMetric, "reason"},
	{"Decisions", "forebay_stream_decisions_total", "decision"}, {"Attempts", attemptsMetric, "class"},
}

// actMetric measures the time from acceptance to act.
const actMetric = "forebay_lane_accept_to_act_seconds"

// taken are the outcomes of deliveries that were not refused.
var taken = []string{"accepted", "handshake", "quarantined"}

// lastHour is by how much counters have grown in each minute of it, in memory. Safe for concurrent use.
type lastHour struct {
	gather prometheus.Gatherer

	mu    sync.Mutex                    // from the reading to the keeping: an older reading kept after a newer one would look like a reset
	last  map[counter]float64           // when they were read last; nil: they were not yet
	grown map[int64]map[counter]float64 // by minute of the epoch
}

// run reads the counters until ctx is done.
func (h *lastHour) run(ctx context.Context) {
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

// sample adds what was counted since the last time to the minute of now, and returns the sums of the last hour. Where a counter says less
// than before, what counted is gone, as a subscription after a reload.
func (h *lastHour) sample(now time.Time) map[counter]float64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	read, minute := readCounters(h.gather), now.Unix()/60
	more := map[counter]float64{}
	for c, n := range read {
		if h.last != nil && n > h.last[c] {
			more[c] = n - h.last[c]
		}
	}
	if h.grown[minute] == nil {
		h.grown[minute] = map[counter]float64{}
	}
	add(h.grown[minute], more)
	h.last = read
	maps.DeleteFunc(h.grown, func(m int64, _ map[counter]float64) bool { return m <= minute-minutes })
	sums := map[counter]float64{}
	for _, grown := range h.grown {
		add(sums, grown)
	}
	return sums
}

func add(sums, more map[counter]float64) {
	for c, n := range more {
		sums[c] += n
	}
}

// readCounters sums the counters over all teams.
func readCounters(g prometheus.Gatherer) map[counter]float64 {
	now, sums := gather(g), map[counter]float64{}
	for _, of := range told {
		for _, f := range now.figures(of.metric) {
			name := f.labels[of.label]
			if of.label == "reason" {
				if slices.Contains(taken, f.labels["outcome"]) {
					continue
				}
				name = strings.TrimSpace(fmt.Sprintf("%s (%s)", name, f.labels["outcome"]))
			}
			sums[counter{of.title, name, 0}] += f.value
		}
	}
	for _, f := range now.figures(actMetric) {
		for _, b := range f.buckets {
			sums[counter{of: actMetric, upper: b.upper}] += float64(b.count)
		}
	}
	return sums
}

// hourText is what the overview says of one metric in the last hour.
type hourText struct{ Title, Text string }

// report says what was counted in the hour that ends at now, the most frequent first. Of what was not counted it says nothing.
func (h *lastHour) report(now time.Time) (list []hourText) {
	sums := h.sample(now)
	for _, of := range told {
		var found []named
		for c, n := range sums {
			if c.of == of.title {
				found = append(found, named{c.name, int64(n)})
			}
		}
		slices.SortFunc(found, func(a, b named) int { return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Name, b.Name)) })
		var texts []string
		for _, n := range found {
			texts = append(texts, fmt.Sprintf("%d %s", n.Count, n.Name))
		}
		if len(texts) > 0 {
			list = append(list, hourText{of.title, strings.Join(texts, ", ")})
		}
	}
	acted := map[float64]uint64{}
	for c, n := range sums {
		if c.of == actMetric {
			acted[c.upper] = uint64(n)
		}
	}
	if all := acted[math.Inf(1)]; all > 0 {
		list = append(list, hourText{"Accept to act", fmt.Sprintf("p50 %s, p99 %s, of %d actions", atMost(within(acted, 0.5)), atMost(within(acted, 0.99)), all)})
	}
	return list
}
