package schemas

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// VersionKind says how the values of a version line relate to each other.
type VersionKind string

const (
	// Sequence values are dense: a hole means a missing event.
	Sequence VersionKind = "sequence"
	// Monotonic values grow; holes are normal.
	Monotonic VersionKind = "monotonic"
	// Timestamp values are times; equal ones are common.
	Timestamp VersionKind = "timestamp"
	// None means that the provider gives no version: arrival orders.
	None VersionKind = "none"
)

// Valid reports whether k is one of the declared kinds.
func (k VersionKind) Valid() bool {
	switch k {
	case Sequence, Monotonic, Timestamp, None:
		return true
	}
	return false
}

// Version is the version of an event's entity, on one of the entity's clocks, after the event.
//
// Versions compare only within one version line, that is with equal Clock and Kind, and texts only with texts (see
// [Version.Comparable]).
type Version struct {
	// Clock names which of the entity's clocks it is ("issue", "comment"); empty is the entity's only one.
	Clock string
	// Kind is never empty: an event without a version has kind None.
	Kind VersionKind
	// Epoch counts how often the provider's counter has started again, from 1 to MaxEpoch, if the provider says so. On a record, 0
	// says nothing; the gate then takes the version to be of its version line's epoch.
	Epoch int64
	// Value is the counter, or Unix nanoseconds for kind Timestamp. It is never negative for counters, and 0 where Text
	// is set.
	Value int64
	// Text is a version that is a text and compares bytewise, such as a ULID or a revision of fixed width; kind Monotonic
	// only. See [IsVersionText].
	Text string
	// Sub breaks ties inside one value (a rank such as queued, in_progress, completed).
	Sub int32
}

// Compare orders v and w of one version line: by epoch, value, text, sub.
func (v Version) Compare(w Version) int {
	return cmp.Or(cmp.Compare(v.Epoch, w.Epoch), cmp.Compare(v.Value, w.Value), strings.Compare(v.Text, w.Text), cmp.Compare(v.Sub, w.Sub))
}

// Comparable reports whether the values of v and w mean the same: two counters, two times or two texts. The values of a source mean
// something else when its mapping is changed.
func (v Version) Comparable(w Version) bool {
	return v.Kind == w.Kind && (v.Text == "") == (w.Text == "")
}

// IsVersionText reports whether s may be a [Version.Text]: 1 to MaxVersionText characters of printable ASCII without the space.
func IsVersionText(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return 0 < len(s) && len(s) <= MaxVersionText
}

// timeText is RFC 3339 in UTC with nine fractional digits, which sorts as text.
const timeText = "2006-01-02T15:04:05.000000000Z"

// MaxTimestamp and MinTimestamp bound kind Timestamp: years 0001 to 9999 do not fit 64 bits of nanoseconds, and four
// digits of year are what makes the text sort.
var (
	MinTimestamp = time.Unix(0, math.MinInt64+1).UTC()
	MaxTimestamp = time.Unix(0, math.MaxInt64).UTC()
)

// Sortable returns the version as text that sorts inside its version line: a counter padded to 20 digits, a time in UTC with nine
// fractional digits, or "=" and a text; before it "e000001:" for an epoch, behind it "+00001" for a sub. Between a text and its sub is a
// space, which sorts before all characters of texts: so "a" with a sub sorts before "ab". Kind None gives the empty text.
func (v Version) Sortable() string { return string(v.AppendText(nil)) }

// AppendText appends [Version.Sortable] to b.
func (v Version) AppendText(b []byte) []byte {
	if v.Kind == None || v.Kind == "" {
		return b
	}
	if v.Epoch > 0 {
		b = append(b, 'e')
		b = appendPadded(b, v.Epoch, 6)
		b = append(b, ':')
	}
	switch {
	case v.Text != "":
		b = append(b, '=')
		b = append(b, v.Text...)
		if v.Sub > 0 {
			b = append(b, ' ')
		}
	case v.Kind == Timestamp:
		b = appendTime(b, time.Unix(0, v.Value).UTC())
	default:
		b = appendPadded(b, v.Value, 20)
	}
	if v.Sub > 0 {
		b = append(b, '+')
		b = appendPadded(b, int64(v.Sub), 5)
	}
	return b
}

// appendPadded appends n with leading zeros, width digits in all.
func appendPadded(b []byte, n int64, width int) []byte {
	var digits [20]byte
	s := strconv.AppendInt(digits[:0], n, 10)
	for range width - len(s) {
		b = append(b, '0')
	}
	return append(b, s...)
}

// appendTime appends t in the layout timeText. It uses RFC 3339, for which package time has a fast path, and adds the nanoseconds itself.
func appendTime(b []byte, t time.Time) []byte {
	b = t.AppendFormat(b, time.RFC3339)
	b[len(b)-1] = '.' // instead of Z
	nanos := strconv.AppendInt(b, int64(t.Nanosecond())+1e9, 10)
	copy(nanos[len(b):], nanos[len(b)+1:]) // removes the 1 of 1e9, which kept leading zeros
	nanos[len(nanos)-1] = 'Z'
	return nanos
}

// ParseVersion reads what [Version.Sortable] returns, and only that form: two texts are equal exactly when their versions are.
func ParseVersion(clock string, kind VersionKind, text string) (Version, error) {
	v := Version{Clock: clock, Kind: kind}
	if !kind.Valid() {
		return v, fmt.Errorf("version kind %q is not one of sequence, monotonic, timestamp, none", kind)
	}
	if kind == None {
		if text != "" {
			return v, fmt.Errorf("version %q on kind none", text)
		}
		return v, nil
	}
	rest := text
	if strings.HasPrefix(rest, "e") {
		head, tail, ok := strings.Cut(rest[1:], ":")
		epoch, err := parseDigits(head)
		if !ok || err != nil || len(head) != 6 || epoch == 0 {
			return v, fmt.Errorf("version %q: malformed epoch", text)
		}
		v.Epoch, rest = epoch, tail
	}
	afterEquals, isText := strings.CutPrefix(rest, "=")
	separator := "+"
	if isText {
		rest, separator = afterEquals, " +"
	}
	if head, tail, ok := strings.Cut(rest, separator); ok {
		sub, err := parseDigits(tail)
		if err != nil || len(tail) != 5 || sub == 0 {
			return v, fmt.Errorf("version %q: malformed sub", text)
		}
		v.Sub, rest = int32(sub), head
	}
	if isText {
		v.Text = rest
		if kind != Monotonic || !IsVersionText(rest) {
			return v, fmt.Errorf("version %q: no text of kind monotonic", text)
		}
		return v, nil
	}
	if kind == Timestamp {
		t, err := time.Parse(timeText, rest)
		if err != nil || len(rest) != len(timeText) || rest[19] != '.' || t.Before(MinTimestamp) || t.After(MaxTimestamp) {
			return v, fmt.Errorf("version %q: not a time with nine fractional digits in UTC", text)
		}
		v.Value = t.UnixNano()
		return v, nil
	}
	value, err := parseDigits(rest)
	if err != nil || len(rest) != 20 {
		return v, fmt.Errorf("version %q: not a counter of 20 digits", text)
	}
	v.Value = value
	return v, nil
}

// parseDigits reads an unsigned decimal that fits 63 bits, with leading zeros, without a sign.
func parseDigits(s string) (int64, error) {
	u, err := strconv.ParseUint(s, 10, 63)
	return int64(u), err
}
