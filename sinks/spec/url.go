package spec

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/forebay-io/forebay/sinks/guard"
)

// URL checks the value of a key whose URL is called, if there is one and it is known.
func (r *Report) URL(key, text string) {
	if !r.Known(key) || text == "" {
		return
	}
	if err := checkURL(text, r.AllowNetworks); err != nil {
		r.Problem(key, "%v", err)
	}
}

// BaseURL checks the value of [BaseURL], which paths are put behind.
func (r *Report) BaseURL(text string) {
	const key = "base_url"
	if r.Known(key) && strings.Contains(text, "?") {
		r.Problem(key, "has a query: paths are put behind it")
		return
	}
	r.URL(key, text)
}

// Headers checks the values of a key of headers that are sent as they are.
func (r *Report) Headers(key string, headers Headers) {
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		if r.Known(key) && strings.Contains(headers[name].Reveal(), "{{") {
			r.Problem(key+"."+name, "%v", errTemplate)
		}
	}
}

var errTemplate = errors.New("has a template, and only params have those: it would be sent as it stands")

// checkURL refuses a URL that no request can be sent to.
func checkURL(text string, allowed []netip.Prefix) error {
	u, err := url.Parse(text)
	switch {
	case strings.Contains(text, "{{"):
		return errTemplate
	case err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https"):
		return errors.New("is not an absolute http or https URL")
	case u.User != nil:
		return errors.New("carries credentials; put them into headers")
	case u.Fragment != "":
		return errors.New("has a fragment, which is never sent")
	}
	return CheckReach(u, allowed)
}

// CheckReach judges where a URL leads as far as that is known before its name is resolved; sinks/guard has the last word.
// The error goes behind the key of the URL.
func CheckReach(u *url.URL, allowed []netip.Prefix) error {
	if u.Scheme == "http" && len(allowed) == 0 {
		return errors.New("plain http is refused unless allow_networks lists the network that it goes to" + example(u.Hostname()))
	}
	inside := func(addr netip.Addr) bool {
		return slices.ContainsFunc(allowed, func(p netip.Prefix) bool { return p.Contains(addr.Unmap()) })
	}
	addr, err := netip.ParseAddr(u.Hostname())
	switch {
	case isLocalhost(u.Hostname()) && !slices.ContainsFunc(localhost, inside):
		return errors.New("localhost is in none of allow_networks" + example(u.Hostname()))
	case err != nil:
		return nil //nolint:nilerr // a name, to be judged when it is resolved
	}
	private := addr.IsPrivate() || addr.IsLoopback() || addr.IsLinkLocalUnicast() || addr.IsUnspecified()
	if (private || u.Scheme == "http") && !inside(addr) {
		return fmt.Errorf("%s is in none of allow_networks%s", addr, example(u.Hostname()))
	}
	return nil
}

// localhost has the addresses of that name. Which of them somebody listens at differs.
var localhost = []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()}

func isLocalhost(host string) bool { return strings.EqualFold(host, "localhost") }

// example says how a host is allowed, for the end of a message. It is empty for a name, which may lead anywhere.
func example(host string) string {
	const lead = ": if it is meant, write "
	if isLocalhost(host) {
		return lead + guard.AllowLine(localhost...)
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return ""
	}
	return lead + guard.AllowLine(addr)
}
