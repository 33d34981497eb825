//go:build !linux

package brokers

import (
	"syscall"
	"time"
)

// userTimeout returns Linux'. Elsewhere keepalives notice a peer that is gone, and what is sent to one the time of its request.
func userTimeout(time.Duration) func(network, address string, c syscall.RawConn) error { return nil }
