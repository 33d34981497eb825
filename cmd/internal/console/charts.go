package console

import (
	"fmt"
	"maps"
	"math"
	"slices"
)

// chart is the last hour as bars, one a minute.
type chart struct {
	Caption, Summary string
	Width, Height    int
	Bars             []bar
	Legend           []legend
}

type bar struct {
	X, Y, Width, Height int
	Class, Title        string
}

// legend says what is drawn in a class, with its figure for the whole hour.
type legend struct{ Class, Text string }

const (
	barWidth, barGap = 5, 1
	chartHeight      = 72
	onAxis           = 2. / chartHeight // of the height: is nothing, and is seen on the axis
)

// charts draws an hour. Charts of which nothing was counted are left out.
func (h hour) charts() (list []chart) {
	add := func(c *chart) {
		if c != nil {
			list = append(list, *c)
		}
	}
	for i, of := range charted {
		var parts []stacked
		for s, one := range of.series {
			parts = append(parts, stacked{one.name, one.class, func(n *counted) float64 { return n.charts[i][s] }})
		}
		add(h.stack(of.title, parts))
		if of.metric == deliveriesMetric {
			add(h.stack("Refusals", h.reasons()))
		}
	}
	add(h.actChart())
	add(h.lagChart())
	return list
}

// stacked is one of the counts that are drawn on top of each other, the first at the bottom.
type stacked struct {
	name, class string
	count       func(*counted) float64
}

// reasonClasses are how the most frequent reasons of refusals are drawn; all others are one.
var reasonClasses = []string{"c-bad", "c-wait", "c-other"}

// reasons are why deliveries were refused in an hour: the most frequent reasons, and the others together.
func (h hour) reasons() (parts []stacked) {
	var named []refusal
	for _, r := range h.refusals() {
		if len(named) < len(reasonClasses) {
			why := r.refusal
			parts = append(parts, stacked{why.name(), reasonClasses[len(named)], func(n *counted) float64 { return n.refused[why] }})
			named = append(named, why)
			continue
		}
		return append(parts, stacked{"for other reasons", "c-quiet", func(n *counted) (sum float64) {
			for why, count := range n.refused {
				if !slices.Contains(named, why) {
					sum += count
				}
			}
			return sum
		}})
	}
	return parts
}

// stack draws counts; nil: nothing was counted.
func (h hour) stack(title string, parts []stacked) *chart {
	var most float64
	sums := make([]float64, len(parts))
	for _, n := range h {
		var all float64
		for p, of := range parts {
			count := of.count(n)
			sums[p] += count
			all += count
		}
		most = max(most, all)
	}
	if most == 0 {
		return nil
	}
	c := newChart(fmt.Sprintf("%s, at most %.0f a minute", title, most), fmt.Sprintf("%s of the last hour, a bar a minute; most in a minute: %.0f", title, most))
	for p, of := range parts {
		c.Legend = append(c.Legend, legend{of.class, fmt.Sprintf("%.0f %s", sums[p], of.name)})
	}
	for i, n := range h {
		y := chartHeight
		for _, of := range parts {
			if count := of.count(n); count > 0 {
				y = c.draw(i, y, count/most, of.class, fmt.Sprintf("%.0f %s", count, of.name))
			}
		}
	}
	return c
}

// actChart draws p50 and p99 of accept-to-act, a bar a minute. The buckets of the histogram widen with the time that they stand for, so each has the
// same height on the chart, as on a logarithmic scale. nil: nothing was done in the hour.
func (h hour) actChart() *chart {
	all := h.acted()
	if all == nil {
		return nil
	}
	var steps []float64
	longest := 0.0
	for _, n := range h {
		if n.acted[math.Inf(1)] > 0 {
			longest = max(longest, within(n.acted, 0.99))
			steps = slices.AppendSeq(steps, maps.Keys(n.acted))
		}
	}
	slices.Sort(steps)
	steps = slices.Compact(steps)
	of := func(upper float64) float64 {
		return float64(slices.Index(steps, upper)+1) / float64(slices.Index(steps, longest)+1)
	}
	c := newChart("Accept to act, p99 of a minute "+atMost(longest),
		"Accept to act of the last hour, a bar a minute, a step of its height for each bucket of the histogram; p99 of a minute: "+atMost(longest))
	c.Legend = []legend{{"c-good", "p50 " + all.P50}, {"c-wait", "p99 " + all.P99}}
	for i, n := range h {
		count := n.acted[math.Inf(1)]
		if count == 0 {
			continue
		}
		p50, p99 := within(n.acted, 0.5), within(n.acted, 0.99)
		y := c.draw(i, chartHeight, of(p50), "c-good", fmt.Sprintf("p50 of %d actions %s", count, atMost(p50)))
		if p99 > p50 {
			c.draw(i, y, of(p99)-of(p50), "c-wait", fmt.Sprintf("p99 of %d actions %s", count, atMost(p99)))
		}
	}
	return c
}

// lagChart draws, a bar a minute, the lag of the partition that was furthest behind. It returns nil if no minute has a lag, as
// where this process has claimed no partition.
func (h hour) lagChart() *chart {
	var longest float64
	behind, level := 0, 0 // minutes
	for _, n := range h {
		switch {
		case n.lag == nil:
		case *n.lag == 0:
			level++
		default:
			behind++
			longest = max(longest, *n.lag)
		}
	}
	if behind+level == 0 {
		return nil
	}
	most := "none"
	if behind > 0 {
		most = seconds(longest)
	}
	c := newChart("Largest lag of a partition: "+most, "Lag of the last hour, a bar a minute, of the partition that is furthest behind; largest: "+most)
	c.Legend = []legend{{"c-wait", fmt.Sprintf("behind in %d of %d minutes", behind, behind+level)}, {"c-good", fmt.Sprintf("read to the end in %d", level)}}
	for i, n := range h {
		switch {
		case n.lag == nil:
		case *n.lag == 0:
			c.draw(i, chartHeight, onAxis, "c-good", "read to the end")
		default:
			c.draw(i, chartHeight, *n.lag/longest, "c-wait", seconds(*n.lag)+" behind")
		}
	}
	return c
}

func newChart(caption, summary string) *chart {
	return &chart{Caption: caption, Summary: summary, Width: minutes * (barWidth + barGap), Height: chartHeight}
}

// draw draws a bar of a share of the chart's height, one pixel at least, from y up, and returns where it ends. Minute 0 is the oldest.
func (c *chart) draw(minute, y int, share float64, class, what string) (top int) {
	height := max(1, int(share*chartHeight))
	top = max(0, y-height)
	ago := "this minute"
	switch n := minutes - 1 - minute; n {
	case 0:
	case 1:
		ago = "a minute ago"
	default:
		ago = fmt.Sprintf("%d minutes ago", n)
	}
	c.Bars = append(c.Bars, bar{X: minute * (barWidth + barGap), Y: top, Width: barWidth, Height: height, Class: class, Title: ago + ": " + what})
	return top
}
