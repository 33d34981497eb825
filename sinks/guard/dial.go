package guard

import (
	"context"
	"net"
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
		return nil, classify(ctx, err)
	}
	return conn, nil
}
