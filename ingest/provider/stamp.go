package provider

import (
	"strconv"
	"strings"
	"time"

	"github.com/forebay-io/forebay/schemas"
)

// spacedTimes are GitLab's other formats: `2015-05-17 18:21:36 UTC` and `2021-04-28 21:50:00 +0200`.
var spacedTimes = []string{"2006-01-02 15:04:05 UTC", "2006-01-02 15:04:05 -0700"}

// parseTime reads a provider's time strictly: RFC 3339, also with an offset without colon (Jira, Bitbucket Server); GitLab's own
// ones; `seconds.fraction` with one to nine digits, as two integers; or a bare integer in units of resolution.
// Only times that a version can hold.
func parseTime(text string, resolution time.Duration) (time.Time, bool) {
	var (
		t  time.Time
		ok bool
	)
	switch {
	case len(text) >= 20 && text[10] == 'T':
		t, ok = parseRFC3339(text)
	case strings.ContainsRune(text, ' '):
		for _, layout := range spacedTimes {
			var err error
			if t, err = time.Parse(layout, text); err == nil && t.Format(layout) == text {
				ok = true
				break
			}
		}
	case strings.ContainsRune(text, '.'):
		t, ok = parseFraction(text)
	default:
		t, ok = parseUnits(text, resolution)
	}
	if !ok || t.Before(schemas.MinTimestamp) || t.After(schemas.MaxTimestamp) {
		return time.Time{}, false
	}
	return t.UTC(), true
}

// coarse cuts what is finer than the resolution; zero cuts nothing. A provider that writes one field sometimes with and
// sometimes without a fraction would else make an event stale that came in the same second. It reports false for the
// one part of a second below MinTimestamp that a version cannot hold.
func coarse(t time.Time, resolution time.Duration) (time.Time, bool) {
	t = t.Truncate(resolution)
	return t, !t.Before(schemas.MinTimestamp)
}

// parseRFC3339 refuses what the standard parser lets through: hours of one digit and a comma before the fraction.
func parseRFC3339(text string) (time.Time, bool) {
	if text[13] != ':' || text[16] != ':' || strings.ContainsRune(text, ',') {
		return time.Time{}, false
	}
	layout := time.RFC3339Nano
	if n := len(text); n >= 24 && (text[n-5] == '+' || text[n-5] == '-') && digits(text[n-4:]) {
		layout = "2006-01-02T15:04:05.999999999-0700"
	}
	t, err := time.Parse(layout, text)
	return t, err == nil
}

// parseFraction parses Unix seconds with up to nine digits after the point.
func parseFraction(text string) (time.Time, bool) {
	whole, fraction, _ := strings.Cut(text, ".")
	if len(fraction) == 0 || len(fraction) > 9 {
		return time.Time{}, false
	}
	seconds, ok := parseCounter(whole)
	if !ok || !digits(fraction) {
		return time.Time{}, false
	}
	nanos, err := strconv.ParseInt(fraction+"000000000"[len(fraction):], 10, 64)
	return time.Unix(seconds, nanos), err == nil
}

// parseUnits refuses a number that is too small for its unit: it is one of seconds, not of the year 1970. One that is
// too large for seconds falls out of the range of versions.
func parseUnits(text string, resolution time.Duration) (time.Time, bool) {
	n, ok := parseCounter(text)
	if !ok {
		return time.Time{}, false
	}
	switch resolution {
	case time.Millisecond:
		return time.UnixMilli(n), len(text) >= 12
	case time.Microsecond:
		return time.UnixMicro(n), len(text) >= 15
	case time.Nanosecond:
		return time.Unix(0, n), len(text) >= 18
	}
	return time.Unix(n, 0), true
}

// parseCounter reads an exact integer from 0 to 2^63-1, without sign, leading zeros, fraction or exponent.
func parseCounter(text string) (int64, bool) {
	if !digits(text) || len(text) > 1 && text[0] == '0' {
		return 0, false
	}
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil
}

func digits(text string) bool {
	for i := range len(text) {
		if text[i] < '0' || text[i] > '9' {
			return false
		}
	}
	return text != ""
}
