package sink

import (
	"errors"
	"strconv"
	"strings"
)

// Cost is what a run has cost, in millionths of whatever unit the file's budgets count in.
type Cost int64

const (
	costDigits = 6
	// MaxCost is the most that a run may cost: a thousand million units. Who says more is wrong.
	MaxCost Cost = 1e9 * 1e6
)

var errCost = errors.New("not a cost: write a decimal from 0 to 1000000000, such as 0.25")

// ParseCost reads a cost as destinations write it. It takes digits with a point, and an exponent, as Python's JSON has what is less than 0.0001:
// no sign, no word. What is behind the sixth place, as where floating-point numbers were added, is rounded up.
func ParseCost(s string) (Cost, error) {
	if n := strings.IndexAny(s, "eE"); n > 0 && len(s) <= 32 && strings.Trim(s[:n]+strings.TrimLeft(s[n+1:], "+-"), "0123456789.") == "" {
		if f, err := strconv.ParseFloat(s, 64); err == nil && f <= float64(MaxCost) {
			s = strconv.FormatFloat(f, 'f', -1, 64)
		}
	}
	whole, part, point := strings.Cut(s, ".")
	if whole == "" || len(whole) > 10 || point && part == "" {
		return 0, errCost
	}
	part += strings.Repeat("0", costDigits)
	rest := strings.TrimRight(part[costDigits:], "0")
	n, err := strconv.ParseUint(whole+part[:costDigits], 10, 63)
	if rest != "" {
		n++
	}
	if err != nil || strings.Trim(rest, "0123456789") != "" || Cost(n) > MaxCost {
		return 0, errCost
	}
	return Cost(n), nil
}

// String returns the cost as [ParseCost] reads it.
func (c Cost) String() string {
	s := strconv.FormatInt(int64(c)/1e6, 10)
	if part := int64(c) % 1e6; part != 0 {
		s += "." + strings.TrimRight(strconv.FormatInt(1e6+part, 10)[1:], "0")
	}
	return s
}
