//go:build !linux

package pg

import (
	"syscall"
	"time"
)

// userTimeout sets nothing: this system has no such timeout. Keepalives and the deadlines of transactions remain.
func userTimeout(time.Duration) func(network, address string, c syscall.RawConn) error { return nil }
