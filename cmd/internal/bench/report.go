// Package bench measures Forebay beside its limits and its rivals, in one run, as ratios.
//
// A figure alone says little on a machine shared with a broker, a database and the load itself; a ratio of two
// figures taken in turns on that machine survives the move to another one.
package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// Ratio is one figure of ours beside one of theirs: a rival's, a limit's, or what is allowed. Bar is what the project
// asks of it.
type Ratio struct {
	Name   string  `json:"name"`
	Ratio  float64 `json:"ratio"`
	Ours   float64 `json:"ours"`
	Theirs float64 `json:"theirs"`
	Unit   string  `json:"unit"`
	Bar    float64 `json:"bar"`
	// AtMost says that the ratio may not be above the bar; else it may not be below.
	AtMost bool `json:"at_most,omitempty"`
	// Rounds are the ratios of the single rounds, which show how steady the figure is.
	Rounds []float64 `json:"rounds,omitempty"`
}

// Met reports whether the ratio reaches its bar.
func (x Ratio) Met() bool {
	if x.AtMost {
		return x.Ratio <= x.Bar
	}
	return x.Ratio >= x.Bar
}

// Cost is what one event costs, ours or theirs.
type Cost struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
}

// Report is a run of one or more scenarios.
type Report struct {
	Machine  Machine           `json:"machine"`
	Settings map[string]string `json:"settings"`
	Ratios   []Ratio           `json:"ratios"`
	Costs    []Cost            `json:"costs"`
}

// cost adds what each of n events cost of total. What could not be read is left out.
func (r *Report) cost(name, unit string, total float64, n int64) {
	if total > 0 && n > 0 {
		r.Costs = append(r.Costs, Cost{name, total / float64(n), unit})
	}
}

// WriteJSON writes the report as one indented JSON document.
func (r *Report) WriteJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(r)
}

// WriteTable writes the report as a table to read.
func (r *Report) WriteTable(w io.Writer) error {
	fmt.Fprintln(w, r.Machine)
	tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintln(tw, "\nRATIO\tOURS\tTHEIRS\tUNIT\tRATIO\tBAR\tROUNDS")
	for _, x := range r.Ratios {
		fmt.Fprintf(tw, "%s\t%.0f\t%.0f\t%s\t%.2f\t%s\t%s\n", x.Name, x.Ours, x.Theirs, x.Unit, x.Ratio, bar(x), rounds(x))
	}
	if len(r.Costs) > 0 {
		fmt.Fprintln(tw, "\nCOST\tPER EVENT\tUNIT")
	}
	for _, c := range r.Costs {
		fmt.Fprintf(tw, "%s\t%.1f\t%s\n", c.Name, c.Value, c.Unit)
	}
	fmt.Fprintln(tw, "\nSETTING\tVALUE")
	for _, k := range slices.Sorted(maps.Keys(r.Settings)) {
		fmt.Fprintf(tw, "%s\t%s\n", k, r.Settings[k])
	}
	return tw.Flush()
}

func bar(x Ratio) string {
	most, verdict := "", "met"
	if x.AtMost {
		most = "at most "
	}
	if !x.Met() {
		verdict = "missed"
	}
	return fmt.Sprintf("%s%.2f %s", most, x.Bar, verdict)
}

func rounds(x Ratio) string {
	s := make([]string, len(x.Rounds))
	for i, v := range x.Rounds {
		s[i] = fmt.Sprintf("%.2f", v)
	}
	return strings.Join(s, " ")
}

// ratioOf builds a ratio from rounds measured in turns: the median of ours over the median of theirs.
func ratioOf(name, unit string, ask float64, ours, theirs []float64) Ratio {
	r := Ratio{Name: name, Unit: unit, Bar: ask, Ours: median(ours), Theirs: median(theirs)}
	r.Ratio = r.Ours / r.Theirs
	for i, our := range ours[:min(len(ours), len(theirs))] {
		r.Rounds = append(r.Rounds, our/theirs[i])
	}
	return r
}

// against is a ratio of rounds to one figure: what is asked of them, or allowed.
func against(name, unit string, figure float64, ours []float64) Ratio {
	return ratioOf(name, unit, 1, ours, slices.Repeat([]float64{figure}, len(ours)))
}

// most says that the ratio may not be above its bar.
func (x Ratio) most() Ratio {
	x.AtMost = true
	return x
}

// atMost is a ratio of what was used to what is allowed.
func atMost(name, unit string, used, allowed float64) Ratio {
	return Ratio{Name: name, Unit: unit, Ours: used, Theirs: allowed, Ratio: used / allowed, Bar: 1, AtMost: true}
}

func median(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(v))
	if n := len(s); n%2 == 0 {
		return (s[n/2-1] + s[n/2]) / 2
	}
	return s[len(s)/2]
}

// p99 is in microseconds, and at least one: the action may come before the answer has been read.
func p99(times []time.Duration) float64 {
	return max(float64(percentile(times, 0.99).Microseconds()), 1)
}

// percentile is the smallest of v that a part p of them, in (0, 1], are not above; 0 of none.
func percentile(v []time.Duration, p float64) time.Duration {
	if len(v) == 0 {
		return 0
	}
	return slices.Sorted(slices.Values(v))[max(0, int(math.Ceil(p*float64(len(v))))-1)]
}
