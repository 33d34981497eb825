package guard

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// RetryAfter reads the Retry-After of an answer: whole seconds or an HTTP date, seen from now. 0 if there is none,
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
