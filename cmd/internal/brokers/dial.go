// Package brokers dials Kafka brokers, says in plain words why one refuses a client, and notices brokers that are gone without having closed their connections: a machine that is gone
// by keepalives and by bytes that it does not acknowledge, a broker that hangs by reads on one connection that wait in vain, which also
// end the other connections to it.
package brokers

import (
	"context"
	"net"
	"time"
)

// machineTimeout is after how long without an answer of a broker's machine its connections end. If the machine answers and the broker
// does not, the timeout of a request ends its connection: 10 s, and what the broker itself may wait.
const machineTimeout = 20 * time.Second

// Dialer makes the dial function of one Kafka client. Without secure, nothing is encrypted.
func Dialer(secure *TLS) func(ctx context.Context, network, address string) (net.Conn, error) {
	s := newSilence(dialer())
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := s.connect(ctx, network, address)
		if err != nil {
			return nil, err
		}
		if secure == nil {
			return &firstBytes{Conn: conn, address: address}, nil
		}
		return secure.encrypt(ctx, conn, address)
	}
}

func dialer() *net.Dialer {
	return &net.Dialer{
		Timeout:         10 * time.Second,
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: machineTimeout / 2, Interval: machineTimeout / 4, Count: 2},
		Control:         userTimeout(machineTimeout),
	}
}
