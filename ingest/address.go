package ingest

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// AddressOf returns whom a request counts for: the address that it came from, or the one that a trusted proxy says it has it from. Of
// X-Forwarded-For the last address counts that is no trusted proxy's: what stands before it is whatever the sender wrote.
func (l Limits) AddressOf(r *http.Request) netip.Addr {
	addr := peerOf(r.RemoteAddr)
	if !l.trusts(addr) {
		return counted64(addr)
	}
	hops := r.Header["X-Forwarded-For"]
	for i := range slices.Backward(hops) {
		list := strings.Split(hops[i], ",")
		for j := range slices.Backward(list) {
			before, ok := forwardedAddress(list[j])
			if !ok {
				return counted64(addr) // the last hop that is known
			}
			if addr = before; !l.trusts(addr) {
				return counted64(addr)
			}
		}
	}
	return counted64(addr)
}

// peerOf reads the address of a connection's other end; the zero address if it has none.
func peerOf(remote string) netip.Addr {
	peer, _ := netip.ParseAddrPort(remote)
	return plain(peer.Addr())
}

func (l Limits) trusts(addr netip.Addr) bool {
	return slices.ContainsFunc(l.TrustedProxies, func(p netip.Prefix) bool { return unmapped(p).Contains(addr) })
}

// plain returns an address as networks and counts have it: IPv4 as such, and no zone.
func plain(addr netip.Addr) netip.Addr { return addr.Unmap().WithZone("") }

// unmapped returns a network of IPv4 that is written as one of IPv6 (::ffff:10.0.0.0/104) as such.
func unmapped(p netip.Prefix) netip.Prefix {
	if p.Addr().Is4In6() && p.Bits() >= 96 {
		return netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	return p
}

// forwardedAddress reads an element of X-Forwarded-For; some proxies write the port, too, or brackets alone.
func forwardedAddress(s string) (netip.Addr, bool) {
	s = strings.TrimSpace(s)
	bare, ok := strings.CutPrefix(s, "[")
	if ok {
		bare, ok = strings.CutSuffix(bare, "]")
	}
	if !ok {
		bare = s
	}
	if addr, err := netip.ParseAddr(bare); err == nil {
		return plain(addr), true
	}
	peer, err := netip.ParseAddrPort(s)
	return plain(peer.Addr()), err == nil
}

// nat64 has all of IPv4 in its last 32 bits (RFC 6052).
var nat64 = netip.MustParsePrefix("64:ff9b::/96")

// counted64 returns the first 64 bits of an IPv6 address: whoever has one address has all of them. One of NAT64 counts whole, because
// senders share those bits.
func counted64(addr netip.Addr) netip.Addr {
	if addr.Is6() && !nat64.Contains(addr) {
		if p, err := addr.Prefix(64); err == nil {
			return p.Addr()
		}
	}
	return addr
}
