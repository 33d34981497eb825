package provider

import (
	"testing"
	"time"
)

func TestParseTime(t *testing.T) {
	t.Parallel()
	const s, ms, us, ns = time.Second, time.Millisecond, time.Microsecond, time.Nanosecond
	tests := []struct {
		text       string
		resolution time.Duration
		want       string // "" is refused
	}{
		{"2019-05-15T15:20:18Z", s, "2019-05-15T15:20:18Z"},
		{"2021-12-31T19:00:00-05:00", s, "2022-01-01T00:00:00Z"},
		{"2026-07-14T18:56:00.738000+00:00", s, "2026-07-14T18:56:00.738Z"},
		{"2026-07-14T18:56:00.123456789Z", s, "2026-07-14T18:56:00.123456789Z"},
		{"2015-05-17 18:21:36 UTC", s, "2015-05-17T18:21:36Z"},
		{"1515449522.000016", us, "2018-01-08T22:12:02.000016Z"},
		{"1515449522.5", s, "2018-01-08T22:12:02.5Z"},
		{"1515449522000016", us, "2018-01-08T22:12:02.000016Z"},
		{"1515449522", s, "2018-01-08T22:12:02Z"},
		{"1515449522", 0, "2018-01-08T22:12:02Z"},
		{"1515449522123", ms, "2018-01-08T22:12:02.123Z"},
		{"1515449522123456789", ns, "2018-01-08T22:12:02.123456789Z"},
		{"0", s, "1970-01-01T00:00:00Z"},
		{"9223372036", s, "2262-04-11T23:47:16Z"},
		{"9223372037", s, ""},           // does not fit nanoseconds
		{"1515449522123", s, ""},        // milliseconds taken for seconds
		{"1515449522", ms, ""},          // seconds taken for milliseconds
		{"1515449522", us, ""},          // or microseconds
		{"1515449522000016", ns, ""},    // microseconds taken for nanoseconds
		{"9223372036854775808", ns, ""}, // 2^63
		{"", s, ""}, {"-1", s, ""}, {"+1", s, ""}, {"01", s, ""}, {"1e9", s, ""}, {"1 ", s, ""}, {"1.", s, ""}, {".1", s, ""},
		{"1.0000000001", s, ""}, {"1.-1", s, ""}, {"1.1.1", s, ""}, {"99999999999.0", s, ""}, {"now", s, ""},
		{"2019-05-15T15:20:18", s, ""}, {"2019-05-15", s, ""}, {"2019-05-15T15:20:18z", s, ""}, {"2019-05-15t15:20:18Z", s, ""},
		{"2019-05-15T15:20:18,5Z", s, ""}, {"2019-05-15T5:20:18Z", s, ""}, {"2019-13-15T15:20:18Z", s, ""},
		{"2019-05-15T15:20:60Z", s, ""}, {"2019-05-15T15:20:18+25:00", s, ""}, {"1600-01-01T00:00:00Z", s, ""},
		{"9999-12-31T23:59:59Z", s, ""}, {"2015-05-17 18:21:36", s, ""}, {"2015-05-17 8:21:36 UTC", s, ""},
		{"2015-05-17 18:21:36 CET", s, ""}, {"2015-05-17 18:21:36.5 UTC", s, ""},
	}
	for _, tt := range tests {
		got, ok := parseTime(tt.text, tt.resolution)
		if ok != (tt.want != "") || ok && got.Format(time.RFC3339Nano) != tt.want {
			t.Errorf("%q in %s: %s %t, want %q", tt.text, tt.resolution, got, ok, tt.want)
		}
	}
}

// TestSlackTimesCompareExactly: as floating point these two are equal.
func TestSlackTimesCompareExactly(t *testing.T) {
	t.Parallel()
	a, okA := parseTime("1755517523.000001", time.Microsecond)
	b, okB := parseTime("1755517523.000002", time.Microsecond)
	if !okA || !okB || !a.Before(b) {
		t.Errorf("%s %s", a, b)
	}
}
