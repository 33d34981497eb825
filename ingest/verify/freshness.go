package verify

import (
	"strconv"
	"time"
)

// parseStamp reads a timestamp as text. The text itself is what is signed; this is only for its age. A time has one form: with leading
// zeros a digit could move over a border of what is signed.
func parseStamp(unit, text string) (time.Time, bool) {
	if unit == "rfc3339" {
		t, err := time.Parse(time.RFC3339Nano, text)
		return t, err == nil
	}
	if len(text) == 0 || len(text) > 16 || len(text) > 1 && text[0] == '0' {
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

// readStamp is parseStamp with the refusal of what is no stamp.
func readStamp(unit, text string) (time.Time, *Error) {
	t, ok := parseStamp(unit, text)
	if !ok {
		return t, refuse(Malformed, "the timestamp is not %s", map[string]string{
			"s": "1 to 16 digits of Unix seconds without a leading zero", "ms": "1 to 16 digits of Unix milliseconds without a leading zero", "rfc3339": "RFC 3339"}[unit])
	}
	return t, nil
}

// fresh refuses a stamp further from now than tolerance, in either direction; the border itself is fresh. mismatch is what else is wrong
// with the signature; nil: it is right, and the refusal says something of clocks, or of a delivery that was kept back, and not of a forger. Of
// what is right and fresh, r gets the stamp.
func fresh(r *Request, stamp time.Time, tolerance time.Duration, now time.Time, mismatch error) error {
	// Sub saturates, so both comparisons hold for any pair of times.
	off, reason, where := now.Sub(stamp), TooOld, "behind"
	switch {
	case off < -tolerance:
		reason, where = TooNew, "ahead of"
	case off <= tolerance:
		if mismatch == nil {
			r.SignedAt = stamp
		}
		return mismatch
	}
	err := refuse(reason, "the time of signing is %s %s this machine's clock, where %s is allowed", off.Abs().Round(time.Second), where, tolerance)
	err.Off, err.Signed = off, mismatch == nil
	return err
}
