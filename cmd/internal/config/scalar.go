package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Duration is a time.Duration written in Go's form, with "d" for days: "7d", "1d12h", "30s".
type Duration time.Duration

// ParseDuration reads a duration in Go's form, with days in front: "1d12h". It may be negative if it has no days.
func ParseDuration(s string) (Duration, error) {
	rest, days := s, time.Duration(0)
	if head, tail, ok := strings.Cut(s, "d"); ok {
		n, err := strconv.ParseUint(head, 10, 32)
		if err != nil || n > math.MaxInt64/uint64(24*time.Hour) {
			return 0, fmt.Errorf("%q is not a duration such as 30s, 10m, 24h or 7d", s)
		}
		if rest, days = tail, time.Duration(n)*24*time.Hour; rest == "" {
			return Duration(days), nil
		}
	}
	d, err := time.ParseDuration(rest)
	if err != nil || (d < 0 && days > 0) || d > math.MaxInt64-days {
		return 0, fmt.Errorf("%q is not a duration such as 30s, 10m, 24h or 7d", s)
	}
	return Duration(days + d), nil
}

// Std returns the duration as the standard library's type.
func (d Duration) Std() time.Duration { return time.Duration(d) }

// String returns the shortest form that [ParseDuration] reads back: whole days first, no zero parts behind.
func (d Duration) String() string {
	const day = 24 * time.Hour
	t := time.Duration(d)
	if t <= 0 {
		return t.String()
	}
	var b strings.Builder
	if days := t / day; days > 0 {
		fmt.Fprintf(&b, "%dd", days)
		if t %= day; t == 0 {
			return b.String()
		}
	}
	text := t.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	b.WriteString(text)
	return b.String()
}

// Size is a number of bytes, written plain or with KiB, MiB or GiB.
type Size int64

var sizeUnits = []struct {
	suffix string
	bytes  int64
}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"", 1}}

// ParseSize reads a number of bytes with or without a unit, as [Size.String] writes it.
func ParseSize(s string) (Size, error) {
	for _, u := range sizeUnits {
		head, ok := strings.CutSuffix(s, u.suffix)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(head), 10, 64)
		if err != nil || n < 0 || n > math.MaxInt64/u.bytes {
			break
		}
		return Size(n * u.bytes), nil
	}
	return 0, fmt.Errorf("%q is not a size such as 65536, 512KiB or 25MiB", s)
}

// String returns the size in the largest unit that divides it without a remainder.
func (s Size) String() string {
	for _, u := range sizeUnits {
		if int64(s) >= u.bytes && int64(s)%u.bytes == 0 {
			return strconv.FormatInt(int64(s)/u.bytes, 10) + u.suffix
		}
	}
	return strconv.FormatInt(int64(s), 10)
}
