package guard

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// RetryAfter reads the Retry-After of an answer: seconds, of which a part counts as one (Shopify writes 2.0), or an HTTP date, seen from now.
// 0 if there is none, it cannot be read, or it has passed.
func RetryAfter(h http.Header, now time.Time) time.Duration {
	text := strings.TrimSpace(h.Get("Retry-After"))
	if text == "" {
		return 0
	}
	if whole, part, _ := strings.Cut(text, "."); whole != "" && strings.Trim(whole+part, "0123456789") == "" {
		const most = 365 * 24 * 60 * 60 // beyond a year nobody means it, and int64 has an end
		seconds, err := strconv.Atoi(whole)
		if err != nil {
			seconds = most
		} else if strings.Trim(part, "0") != "" {
			seconds++
		}
		return time.Duration(min(seconds, most)) * time.Second
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return 0
	}
	return max(0, at.Sub(now))
}

// Location says behind the status of an answer where a redirect leads, which nobody follows: ", a redirect to https://example.com/login";
// empty if it leads nowhere. The query is left out.
func Location(resp *http.Response) string {
	to, err := resp.Location()
	if err != nil || resp.StatusCode/100 != 3 {
		return ""
	}
	return ", a redirect to " + Plain(to)
}

// Plain returns a URL without what is secret in any: user, password, query and fragment.
func Plain(u *url.URL) string {
	plain := *u
	plain.User, plain.RawQuery, plain.ForceQuery, plain.Fragment, plain.RawFragment = nil, "", false, "", ""
	return plain.String()
}
