package guard

import (
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"github.com/forebay-io/forebay/stream/sink"
)

func refuse(format string, args ...any) error {
	return &sink.AttemptError{Class: sink.ClassForbidden, Err: fmt.Errorf(format, args...), Untouched: true}
}

// CheckURL refuses a URL that the client would not call whatever its name resolves to: another scheme than http and
// https, user information, no host or one that could be read as a number, and a literal address that is not allowed.
// The error does not name the URL.
func (c *Client) CheckURL(u *url.URL) error {
	r := c.secure.rule
	switch {
	case u == nil:
		return refuse("URL is missing")
	case u.Scheme == "http":
		r = c.plain.rule
	case u.Scheme != "https":
		return refuse("URL scheme is not http or https")
	}
	if u.User != nil {
		return refuse("URL carries user information: use a header")
	}
	if u.Opaque != "" || u.Host == "" {
		return refuse("URL has no host")
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return refuse("URL has a port out of range")
		}
	}
	return checkHost(r, u.Hostname())
}

// checkHost judges a host before it is resolved.
func checkHost(r rule, host string) error {
	if host == "" || len(host) > 253 {
		return refuse("URL has no host, or one too long")
	}
	if addr, err := netip.ParseAddr(host); err == nil {
		if addr.Zone() != "" {
			return refuse("URL has an address with a zone")
		}
		return r.check(addr)
	}
	for i := range len(host) {
		c := host[i]
		if c <= ' ' || c >= 0x7f || strings.IndexByte(`%\/?#@:[]<>^|"`, c) >= 0 {
			return refuse("URL has a host with characters that no name has")
		}
	}
	if looksNumeric(host) {
		return refuse("URL has a host that could be read as a number")
	}
	return nil
}

// looksNumeric reports whether the last label of a name is a number in any of the spellings that some resolver takes
// for an IPv4 address: 2130706433, 127.1, 0x7f.1, 0177.0.0.1.
func looksNumeric(host string) bool {
	host = strings.TrimSuffix(host, ".")
	last := host[strings.LastIndexByte(host, '.')+1:]
	if last == "" {
		return true
	}
	if rest, ok := strings.CutPrefix(strings.ToLower(last), "0x"); ok {
		return strings.Trim(rest, "0123456789abcdef") == ""
	}
	return strings.Trim(last, "0123456789") == ""
}
