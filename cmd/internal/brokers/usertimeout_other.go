//go:build !linux

package brokers

import (
	"syscall"
	"time"
)

// userTimeout returns nil: only Linux has the option. Elsewhere, keepalives end an idle connection whose peer is gone, and the timeout
// of its request one on which something was sent.
func userTimeout(time.Duration) func(network, address string, c syscall.RawConn) error { return nil }
