package backfill

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/forebay-io/forebay/schemas"
)

// reserved are the headers that the fetcher or its transport sets: of another one, an answer could not be read.
var reserved = map[string]bool{
	"Accept-Encoding": true, "Connection": true, "Content-Length": true, "Expect": true, "Host": true, "Range": true,
	"Te": true, "Trailer": true, "Transfer-Encoding": true, "Upgrade": true,
}

// compileHeaders checks names and values; the error names the header, never its value.
func compileHeaders(in map[string]schemas.Secret, agent string) (http.Header, error) {
	h := http.Header{}
	for name, value := range in {
		canonical := http.CanonicalHeaderKey(name)
		switch {
		case !token(name):
			return nil, fmt.Errorf("headers: %.40q is not a header name", name)
		case reserved[canonical], strings.HasPrefix(canonical, "Proxy-"):
			return nil, fmt.Errorf("headers: %s is set by forebay", canonical)
		case strings.ContainsFunc(value.Reveal(), func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }):
			return nil, fmt.Errorf("headers: %s has a value with control characters", canonical)
		case h[canonical] != nil:
			return nil, fmt.Errorf("headers: %s is given twice", canonical)
		}
		h[canonical] = []string{value.Reveal()}
	}
	if h["Accept"] == nil {
		h.Set("Accept", "application/json")
	}
	if h["User-Agent"] == nil { // GitHub, for one, answers nobody without
		h.Set("User-Agent", agent)
	}
	return h, nil
}

// token reports whether s is a token of RFC 9110.
func token(s string) bool {
	for i := range len(s) {
		c := s[i]
		letter := 'a' <= c|0x20 && c|0x20 <= 'z'
		if !letter && !('0' <= c && c <= '9') && strings.IndexByte("!#$%&'*+-.^_`|~", c) < 0 {
			return false
		}
	}
	return s != ""
}
