//go:build !linux

package pg

import (
	"syscall"
	"time"
)

// userTimeout is not to be had here: keepalives and the deadlines of transactions are.
func userTimeout(time.Duration) func(network, address string, c syscall.RawConn) error { return nil }
