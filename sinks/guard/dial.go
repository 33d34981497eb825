package guard

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/forebay-io/forebay/stream/sink"
)

// Dial connects to a host and port for a protocol that is not HTTP, with the same judgement of its addresses. plain says
// that what follows is not, or may not be, encrypted: then listed networks alone are reached. Errors are
// [sink.AttemptError]s of class forbidden, dns, timeout or network; nothing was sent.
func (c *Client) Dial(ctx context.Context, network, address string, plain bool) (net.Conn, error) {
	switch network {
	case "tcp", "tcp4", "tcp6":
	default:
		return nil, refuse("%s is not an address on a network", network)
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, refuse("the address is not host:port")
	}
	s := c.secure
	if plain {
		s = c.plain
	}
	if err := checkHost(s.rule, host); err != nil {
		return nil, err
	}
	conn, err := s.dial(ctx, network, address)
	if err != nil {
		return nil, classify(ctx, err, true)
	}
	return conn, nil
}

// Socket returns the judgement of the address that a [net.Dialer] is about to connect to, for its Control. It is for clients that resolve
// names and connect by themselves. allowed is as [Config.AllowNetworks], plain as in [Client.Dial].
func Socket(allowed []netip.Prefix, plain bool) (func(network, address string) error, error) {
	r, err := newRule(allowed, plain)
	if err != nil {
		return nil, err
	}
	return func(network, address string) error {
		at, err := netip.ParseAddrPort(address)
		if err != nil || network != "tcp" && network != "tcp4" && network != "tcp6" {
			return refuse("%s is not an address on a network", network)
		}
		if why := r.why(at.Addr()); why != "" {
			return refuse("address %s is refused (%s)", at.Addr(), why)
		}
		return nil
	}, nil
}

// endKey is the context key of the end of the exchange that a connection is made for. The transport connects without the deadline of
// the request, since another one may take the connection.
type endKey struct{}

func withEnd(ctx context.Context) context.Context {
	end, _ := ctx.Deadline()
	return context.WithValue(ctx, endKey{}, end)
}

// dial resolves a name, judges every address it has, and connects to one of those and to nothing else. A name with
// one refused address among others is refused: nobody publishes that in good faith. Of localhost those are taken that are not refused, if there are any.
func (s *side) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if end, ok := ctx.Value(endKey{}).(time.Time); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, end)
		defer cancel()
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	addrs, err := s.resolve(ctx, host)
	if err != nil {
		return nil, err
	}
	if strings.EqualFold(host, "localhost") { // which no DNS publishes: the machine's file often has both loopback addresses, where one is meant
		if may := slices.DeleteFunc(slices.Clone(addrs), func(a netip.Addr) bool { return s.rule.why(a) != "" }); len(may) > 0 {
			addrs = may
		}
	}
	for _, addr := range addrs {
		if err := s.rule.check(addr); err != nil {
			if _, literal := netip.ParseAddr(host); literal != nil {
				err = &sink.AttemptError{Class: sink.ClassForbidden, Err: &leadsTo{err, s.rule.plain}, Untouched: true}
			}
			return nil, err
		}
	}
	return s.race(ctx, network, port, addrs)
}

// resolve looks up the addresses of a host. It takes at most three quarters of the time that the exchange has left: otherwise the
// exchange would time out while it waits for a silent resolver, and the destination would be blamed.
func (s *side) resolve(ctx context.Context, host string) ([]netip.Addr, error) {
	if addr, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{addr}, nil
	}
	timeout := s.lookupTimeout
	if end, ok := ctx.Deadline(); ok {
		timeout = min(timeout, time.Until(end)/4*3)
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	addrs, err := s.resolver.LookupNetIP(ctx, "ip", host)
	if err == nil && len(addrs) == 0 {
		err = &net.DNSError{Err: "no addresses", Name: host, IsNotFound: true}
	}
	return addrs, err
}

// fallbackDelay is how long the addresses of one family have a head start over those of the other; RFC 8305 has 250 ms, net.Dialer 300.
const fallbackDelay = 300 * time.Millisecond

// race connects as [net.Dialer] does with a name, Happy Eyeballs, which cannot be told to connect to what was judged: the addresses
// of the family that the resolver prefers, one after the other, and after a head start those of the other family beside them. The
// first connection wins.
func (s *side) race(ctx context.Context, network, port string, addrs []netip.Addr) (net.Conn, error) {
	var preferred, others []netip.Addr
	for _, addr := range addrs {
		if addr.Unmap().Is4() == addrs[0].Unmap().Is4() {
			preferred = append(preferred, addr)
		} else {
			others = append(others, addr)
		}
	}
	if len(others) == 0 {
		return s.each(ctx, network, port, preferred)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // whoever has lost gives up
	ends := make(chan end)
	start := func(addrs []netip.Addr, first bool) {
		conn, err := s.each(ctx, network, port, addrs)
		select {
		case ends <- end{conn, err, first}:
		case <-ctx.Done():
			if conn != nil {
				conn.Close()
			}
		}
	}
	go start(preferred, true)
	delay := time.NewTimer(fallbackDelay)
	defer delay.Stop()
	running, waiting := 1, true
	var failed error
	for {
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-delay.C:
		case e := <-ends:
			if e.err == nil {
				return e.conn, nil
			}
			if running--; failed == nil || e.preferred {
				failed = e.err
			}
		}
		if waiting { // the head start is over, or those who had it have failed
			waiting, running = false, running+1
			go start(others, false)
		}
		if running == 0 {
			return nil, failed
		}
	}
}

// end is what came of connecting to the addresses of one family.
type end struct {
	conn      net.Conn
	err       error
	preferred bool
}

// each connects to one address after the other. Each has its part of the time that is left, so that a dead one leaves some to the next.
func (s *side) each(ctx context.Context, network, port string, addrs []netip.Addr) (conn net.Conn, err error) {
	for i, addr := range addrs {
		part := s.dialer.Timeout
		if until, ok := ctx.Deadline(); ok {
			part = min(part, time.Until(until))
		}
		one, cancel := context.WithTimeout(ctx, part/time.Duration(len(addrs)-i))
		conn, err = s.connect(one, network, net.JoinHostPort(addr.String(), port))
		cancel()
		if err == nil || ctx.Err() != nil {
			return conn, err
		}
	}
	return nil, err
}

// leadsTo is the refusal of an address that a name has. Whoever may write a destination's URL is not told where inner names lead: that is for the
// process's log.
type leadsTo struct {
	refusal error
	plain   bool // which refuses public addresses, too
}

func (e *leadsTo) Error() string {
	if e.plain {
		return "the name in the URL leads to an address that is refused in plain text: a public one takes TLS (https, for Postgres sslmode=require), " +
			"any other has to be in allow_networks; the process's log says which it is"
	}
	return "the name in the URL leads to an address that is refused: if it is meant, allow_networks has to list it; the process's log says which it is"
}

// ForLog implements what [sink.ForLog] asks for.
func (e *leadsTo) ForLog() string { return errors.Unwrap(e.refusal).Error() }

// control judges the address of a socket right before it connects: the last word, whoever resolved it.
func (s *side) control(_, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return refuse("connecting to something that is not an address")
	}
	return s.rule.check(at.Addr())
}
