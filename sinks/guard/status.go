package guard

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/forebay-io/forebay/stream"
)

// Status is a row of the table that says what an HTTP status means for an action. Low and High are inclusive.
type Status struct {
	Low, High int
	Class     stream.Class
}

// Statuses is the one table of HTTP statuses; the first row that fits counts. No row: rejected.
//
//	2xx                       done
//	401, 403                  denied: dead at once, alerted
//	408, 425, 5xx             unavailable: retried
//	429                       throttled: retried, Retry-After wins
//	1xx, 3xx, other 4xx       rejected: dead at once; redirects are not followed
var Statuses = []Status{
	{200, 299, stream.ClassOK},
	{401, 401, stream.ClassDenied},
	{403, 403, stream.ClassDenied},
	{408, 408, stream.ClassBusy},
	{425, 425, stream.ClassBusy},
	{429, 429, stream.ClassThrottled},
	{500, 599, stream.ClassBusy},
}

// ClassOf is the class of an HTTP status.
func ClassOf(code int) stream.Class {
	for _, s := range Statuses {
		if s.Low <= code && code <= s.High {
			return s.Class
		}
	}
	return stream.ClassRejected
}

// RetryAfter reads the Retry-After of an answer: whole seconds or an HTTP date, seen from now. 0 where there is none,
// it cannot be read, or it has passed.
func RetryAfter(h http.Header, now time.Time) time.Duration {
	text := strings.TrimSpace(h.Get("Retry-After"))
	if text == "" {
		return 0
	}
	if strings.Trim(text, "0123456789") == "" {
		const most = 365 * 24 * 60 * 60 // beyond a year nobody means it, and int64 has an end
		seconds, err := strconv.Atoi(text)
		if err != nil {
			seconds = most
		}
		return time.Duration(min(seconds, most)) * time.Second
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return 0
	}
	return max(0, at.Sub(now))
}
