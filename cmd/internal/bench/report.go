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
	"slices"
	"strings"
	"text/tabwriter"
)

// Ratio is one figure of ours beside one of theirs. Bar is what the project asks of it; 0 asks nothing.
type Ratio struct {
	Name   string  `json:"name"`
	Ratio  float64 `json:"ratio"`
	Ours   float64 `json:"ours"`
	Theirs float64 `json:"theirs"`
	Unit   string  `json:"unit"`
	Bar    float64 `json:"bar,omitempty"`
	// Rounds are the ratios of the single rounds, which show how steady the figure is.
	Rounds []float64 `json:"rounds,omitempty"`
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

// Met reports whether every ratio reaches its bar.
func (r *Report) Met() bool {
	return !slices.ContainsFunc(r.Ratios, func(x Ratio) bool { return x.Ratio < x.Bar })
}

// WriteJSON writes the report as one indented JSON document.
func (r *Report) WriteJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(r)
}

// WriteTable writes the report for people.
func (r *Report) WriteTable(w io.Writer) error {
	fmt.Fprintln(w, r.Machine)
	tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintln(tw, "\nRATIO\tOURS\tTHEIRS\tUNIT\tRATIO\tBAR\tROUNDS")
	for _, x := range r.Ratios {
		fmt.Fprintf(tw, "%s\t%.0f\t%.0f\t%s\t%.2f\t%s\t%s\n", x.Name, x.Ours, x.Theirs, x.Unit, x.Ratio, bar(x), rounds(x))
	}
	fmt.Fprintln(tw, "\nCOST\tPER EVENT\tUNIT")
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
	switch {
	case x.Bar == 0:
		return "-"
	case x.Ratio < x.Bar:
		return fmt.Sprintf("%.2f missed", x.Bar)
	}
	return fmt.Sprintf("%.2f met", x.Bar)
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
	for i := range min(len(ours), len(theirs)) {
		r.Rounds = append(r.Rounds, ours[i]/theirs[i])
	}
	return r
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
