package guard

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// network is a range that is never reached unless listed.
type network struct {
	prefix netip.Prefix
	what   string
}

func table(lines ...string) []network {
	out := make([]network, 0, len(lines))
	for _, line := range lines {
		prefix, what, _ := strings.Cut(line, " ")
		out = append(out, network{netip.MustParsePrefix(prefix), what})
	}
	return out
}

// refused4 follows the IANA special-purpose registry for IPv4, and adds the address at which Azure serves metadata.
var refused4 = table(
	"0.0.0.0/8 unspecified",
	"10.0.0.0/8 private",
	"100.64.0.0/10 carrier-grade NAT",
	"127.0.0.0/8 loopback",
	"168.63.129.16/32 metadata",
	"169.254.0.0/16 link-local, metadata",
	"172.16.0.0/12 private",
	"192.0.0.0/24 protocol assignments",
	"192.0.2.0/24 documentation",
	"192.88.99.0/24 6to4 relay",
	"192.168.0.0/16 private",
	"198.18.0.0/15 benchmarking",
	"198.51.100.0/24 documentation",
	"203.0.113.0/24 documentation",
	"224.0.0.0/4 multicast",
	"240.0.0.0/4 reserved",
)

// refused6 names what is refused of IPv6. Beyond the table everything outside 2000::/3 is refused: that is all there
// is of global unicast, and what is assigned later is closed until somebody looks at it.
var refused6 = table(
	"::/128 unspecified",
	"::1/128 loopback",
	"::/96 IPv4-compatible",
	"::ffff:0:0:0/96 IPv4-translated",
	"64:ff9b::/96 NAT64",
	"64:ff9b:1::/48 NAT64",
	"100::/64 discard",
	"2001::/23 protocol assignments, Teredo",
	"2001:db8::/32 documentation",
	"2002::/16 6to4",
	"3fff::/20 documentation",
	"fc00::/7 private",
	"fe80::/10 link-local",
	"fec0::/10 site-local",
	"ff00::/8 multicast",
)

var global6 = netip.MustParsePrefix("2000::/3")

// forbidden returns why an address is refused by its range; "" if it is not. IPv4-mapped addresses are judged as IPv4.
func forbidden(addr netip.Addr) string {
	if !addr.IsValid() {
		return "not an address"
	}
	if addr.Zone() != "" {
		return "has a zone"
	}
	addr = addr.Unmap()
	list := refused6
	if addr.Is4() {
		list = refused4
	}
	for _, n := range list {
		if n.prefix.Contains(addr) {
			return n.what
		}
	}
	if addr.Is6() && !global6.Contains(addr) {
		return "not global unicast"
	}
	return ""
}

// rule judges addresses for one scheme.
type rule struct {
	allowed []netip.Prefix
	plain   bool // http: listed networks alone
}

// newRule makes the rule that allows these networks, beside public addresses. IPv4-mapped prefixes count as IPv4.
func newRule(allowed []netip.Prefix, plain bool) (rule, error) {
	r := rule{plain: plain}
	for _, p := range allowed {
		if !p.IsValid() {
			return r, fmt.Errorf("allowed network is not valid")
		}
		if p.Addr().Is4In6() && p.Bits() >= 96 {
			p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
		}
		r.allowed = append(r.allowed, p.Masked())
	}
	return r, nil
}

// check returns nil for an address that may be connected to.
func (r rule) check(addr netip.Addr) error {
	plain := addr.WithZone("").Unmap()
	for _, p := range r.allowed {
		if p.Contains(plain) {
			return nil
		}
	}
	if why := forbidden(addr); why != "" {
		return refuse("address %s is refused (%s): if it is meant, write %s", plain, why, AllowLine(plain))
	}
	if r.plain {
		return refuse("%s is refused in plain text: use TLS (https, for Postgres sslmode=require), or write %s", plain, AllowLine(plain))
	}
	return nil
}

// why returns why an address may not be connected to; empty if it may.
func (r rule) why(addr netip.Addr) string {
	plain := addr.WithZone("").Unmap()
	for _, p := range r.allowed {
		if p.Contains(plain) {
			return ""
		}
	}
	if why := forbidden(addr); why != "" {
		return why
	}
	if r.plain {
		return "without TLS: sslmode=require"
	}
	return ""
}

// AllowLine returns the line of the file that allows addresses, for messages: allow_networks: [127.0.0.1/32]. YAML wants quotes around
// an IPv6 network in a list.
func AllowLine(addrs ...netip.Addr) string {
	var list []string
	for _, addr := range addrs {
		addr = addr.WithZone("").Unmap()
		one := netip.PrefixFrom(addr, addr.BitLen()).String()
		if addr.Is6() {
			one = strconv.Quote(one)
		}
		list = append(list, one)
	}
	return "allow_networks: [" + strings.Join(list, ", ") + "]"
}
