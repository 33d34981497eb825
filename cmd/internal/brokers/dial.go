// Package brokers dials Kafka brokers so that one that has gone without a word is noticed: its machine by keepalives and unacknowledged
// bytes, the broker by what all connections to it have not heard.
package brokers

import (
	"context"
	"net"
	"time"
)

// gone is how long the machine of a broker may not answer before its connections are given up. Where the machine answers and
// the broker does not, the time of each request ends the connection (10 s, and what the broker may wait).
const gone = 20 * time.Second

// Dialer makes what one Kafka client dials with.
func Dialer() func(ctx context.Context, network, address string) (net.Conn, error) {
	return newSilence(dialer()).connect
}

func dialer() *net.Dialer {
	return &net.Dialer{
		Timeout:         10 * time.Second,
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: gone / 2, Interval: gone / 4, Count: 2},
		Control:         userTimeout(gone),
	}
}
