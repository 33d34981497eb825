package ingest

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// addressOf returns whom a request counts for: the address that it came from, or the one that a trusted proxy says it has it from. Of
// X-Forwarded-For the last address counts that is no trusted proxy's: what stands before it is whatever the sender wrote.
func (l Limits) addressOf(r *http.Request) netip.Addr {
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
	return peer.Addr().Unmap()
}

func (l Limits) trusts(addr netip.Addr) bool {
	return slices.ContainsFunc(l.TrustedProxies, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// forwardedAddress reads an element of X-Forwarded-For; some proxies write the port, too.
func forwardedAddress(s string) (netip.Addr, bool) {
	s = strings.TrimSpace(s)
	if addr, err := netip.ParseAddr(s); err == nil {
		return addr.Unmap(), true
	}
	peer, err := netip.ParseAddrPort(s)
	return peer.Addr().Unmap(), err == nil
}

// counted64 returns the first 64 bits of an IPv6 address: whoever has one address has all of them.
func counted64(addr netip.Addr) netip.Addr {
	if addr.Is6() {
		if p, err := addr.WithZone("").Prefix(64); err == nil {
			return p.Addr()
		}
	}
	return addr
}
