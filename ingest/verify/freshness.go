package verify

import (
	"strconv"
	"time"
)

// parseStamp reads a timestamp as text. The text itself is what is signed; this is only for its age.
func parseStamp(unit, text string) (time.Time, bool) {
	if unit == "rfc3339" {
		t, err := time.Parse(time.RFC3339Nano, text)
		return t, err == nil
	}
	if len(text) == 0 || len(text) > 16 {
		return time.Time{}, false
	}
	for i := range len(text) {
		if text[i] < '0' || text[i] > '9' {
			return time.Time{}, false
		}
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return time.Time{}, false
	}
	if unit == "ms" {
		return time.UnixMilli(n), true
	}
	return time.Unix(n, 0), true
}

func formatStamp(unit string, t time.Time) string {
	switch unit {
	case "rfc3339":
		return t.UTC().Format(time.RFC3339Nano)
	case "ms":
		return strconv.FormatInt(t.UnixMilli(), 10)
	}
	return strconv.FormatInt(t.Unix(), 10)
}

// fresh refuses a stamp further from now than tolerance, in either direction; the border itself is fresh.
func fresh(unit, text string, tolerance time.Duration, now time.Time) *Error {
	t, ok := parseStamp(unit, text)
	if !ok {
		return refuse(Malformed, "the timestamp is not %s", map[string]string{
			"s": "1 to 16 digits of Unix seconds", "ms": "1 to 16 digits of Unix milliseconds", "rfc3339": "RFC 3339"}[unit])
	}
	// Sub saturates, so both comparisons hold for any pair of times.
	switch d := now.Sub(t); {
	case d > tolerance:
		return refuse(TooOld, "the timestamp is further back than %s", tolerance)
	case d < -tolerance:
		return refuse(TooNew, "the timestamp is further ahead than %s", tolerance)
	}
	return nil
}
