package alerts

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Expr is a question about metrics: a vector of samples, by their labels. It has one text in PromQL and one answer from a [History].
type Expr interface {
	PromQL() string
	eval(h *History, at time.Time) vector
	// selects returns the metrics that it is about, with all labels that it names.
	selects() []Select
}

// sample is a value with its labels.
type sample struct {
	labels map[string]string
	value  float64
}

// vector has samples by [labelKey] of their labels.
type vector map[string]sample

// labelKey is a text for a set of labels; different sets have different texts.
func labelKey(labels map[string]string) string {
	var b strings.Builder
	for _, name := range sortedKeys(labels) {
		fmt.Fprintf(&b, "%s=%q,", name, labels[name])
	}
	return b.String()
}

// Select is the series of a metric whose labels have one of the listed values.
type Select struct {
	Name   string
	Match  []Match
	Offset time.Duration // how long ago

	by   []string      // labels that it is aggregated by, for selects
	back time.Duration // how far back it is asked, for selects
}

// Match says that a label has one of these values, which are plain words.
type Match struct {
	Label  string
	Values []string
}

func (s Select) matches(labels map[string]string) bool {
	for _, m := range s.Match {
		if !slices.Contains(m.Values, labels[m.Label]) {
			return false
		}
	}
	return true
}

// window is the text of a duration in PromQL.
func window(d time.Duration) string {
	text := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, zero) {
			text = text[:len(text)-2]
		}
	}
	return text
}

func (s Select) text(suffix string) string {
	var match []string
	for _, m := range s.Match {
		op := "="
		if len(m.Values) > 1 {
			op = "=~"
		}
		match = append(match, fmt.Sprintf("%s%s%q", m.Label, op, strings.Join(m.Values, "|")))
	}
	text := s.Name
	if len(match) > 0 {
		text += "{" + strings.Join(match, ",") + "}"
	}
	text += suffix
	if s.Offset > 0 {
		text += " offset " + window(s.Offset)
	}
	return text
}

// PromQL implements [Expr].
func (s Select) PromQL() string { return s.text("") }

func (s Select) selects() []Select {
	s.back = s.Offset
	return []Select{s}
}

func (s Select) eval(h *History, at time.Time) vector {
	out := vector{}
	for key, of := range h.series[s.Name] {
		if v, ok := h.valueAt(of, at.Add(-s.Offset)); ok && s.matches(of.labels) {
			out[key] = sample{of.labels, v}
		}
	}
	return out
}

// Increase is by how much counters have grown in a time. They began at 0 with the process: one that was not there before it grew from 0.
type Increase struct {
	Of     Select
	Window time.Duration
}

// PromQL implements [Expr].
func (i Increase) PromQL() string { return "increase(" + i.Of.text("["+window(i.Window)+"]") + ")" }

func (i Increase) selects() []Select {
	s := i.Of
	s.back = s.Offset + i.Window
	return []Select{s}
}

func (i Increase) eval(h *History, at time.Time) vector {
	out := vector{}
	for key, of := range h.series[i.Of.Name] {
		if !i.Of.matches(of.labels) {
			continue
		}
		end := at.Add(-i.Of.Offset)
		now, ok := h.valueAt(of, end)
		if !ok {
			continue
		}
		before, _ := h.valueAt(of, end.Add(-i.Window))
		out[key] = sample{of.labels, now - before}
	}
	return out
}

// Aggregate is sum, max or min of samples that have the same values of the labels By; of what has the others, nothing is left.
type Aggregate struct {
	Op string
	By []string
	Of Expr
}

// PromQL implements [Expr].
func (a Aggregate) PromQL() string {
	return fmt.Sprintf("%s by (%s) (%s)", a.Op, strings.Join(a.By, ", "), a.Of.PromQL())
}

func (a Aggregate) selects() []Select {
	all := a.Of.selects()
	for i := range all {
		all[i].by = append(slices.Clone(all[i].by), a.By...)
	}
	return all
}

func (a Aggregate) eval(h *History, at time.Time) vector {
	out := vector{}
	for _, s := range a.Of.eval(h, at) {
		labels := map[string]string{}
		for _, name := range a.By {
			if s.labels[name] != "" {
				labels[name] = s.labels[name]
			}
		}
		key := labelKey(labels)
		have, ok := out[key]
		switch {
		case !ok:
			have = sample{labels, s.value}
		case a.Op == "max":
			have.value = max(have.value, s.value)
		case a.Op == "min":
			have.value = min(have.value, s.value)
		default:
			have.value += s.value
		}
		out[key] = have
	}
	return out
}

// Times is samples, multiplied.
type Times struct {
	Factor float64
	Of     Expr
}

// PromQL implements [Expr].
func (t Times) PromQL() string    { return fmt.Sprintf("%g * %s", t.Factor, t.Of.PromQL()) }
func (t Times) selects() []Select { return t.Of.selects() }

func (t Times) eval(h *History, at time.Time) vector {
	out := vector{}
	for key, s := range t.Of.eval(h, at) {
		out[key] = sample{s.labels, s.value * t.Factor}
	}
	return out
}

// Compare is the samples of Left that stand to Right, or to Number where there is no Right, as Op says: >, >=, < or <=. Where Right has no
// sample of the same labels, there is none.
type Compare struct {
	Left   Expr
	Op     string
	Number float64
	Right  Expr
}

// PromQL implements [Expr].
func (c Compare) PromQL() string {
	if c.Right == nil {
		return fmt.Sprintf("%s %s %g", c.Left.PromQL(), c.Op, c.Number)
	}
	return c.Left.PromQL() + " " + c.Op + " " + c.Right.PromQL()
}

func (c Compare) selects() []Select {
	if c.Right == nil {
		return c.Left.selects()
	}
	return append(c.Left.selects(), c.Right.selects()...)
}

func (c Compare) eval(h *History, at time.Time) vector {
	left, right := c.Left.eval(h, at), vector(nil)
	if c.Right != nil {
		right = c.Right.eval(h, at)
	}
	out := vector{}
	for key, s := range left {
		other := c.Number
		if c.Right != nil {
			r, ok := right[key]
			if !ok {
				continue
			}
			other = r.value
		}
		if holds(s.value, c.Op, other) {
			out[key] = s
		}
	}
	return out
}

func holds(a float64, op string, b float64) bool {
	switch op {
	case ">":
		return a > b
	case ">=":
		return a >= b
	case "<":
		return a < b
	default:
		return a <= b
	}
}

// Unless is the samples of Of without those whose labels But has.
type Unless struct{ Of, But Expr }

// PromQL implements [Expr].
func (u Unless) PromQL() string    { return u.Of.PromQL() + " unless " + u.But.PromQL() }
func (u Unless) selects() []Select { return append(u.Of.selects(), u.But.selects()...) }

func (u Unless) eval(h *History, at time.Time) vector {
	out, but := u.Of.eval(h, at), u.But.eval(h, at)
	for key := range but {
		delete(out, key)
	}
	return out
}
