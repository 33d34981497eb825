package brokers

import (
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// userTimeout returns a [net.Dialer.Control] that sets TCP_USER_TIMEOUT: the kernel ends the connection when what was sent to the peer
// stays unacknowledged for d. stream/ledger/internal/pg has the same function: a package that both may import would be public.
func userTimeout(d time.Duration) func(network, address string, c syscall.RawConn) error {
	return func(network, _ string, c syscall.RawConn) (err error) {
		if !strings.HasPrefix(network, "tcp") {
			return nil
		}
		if failed := c.Control(func(fd uintptr) {
			err = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(d.Milliseconds()))
		}); failed != nil {
			return failed
		}
		return err
	}
}
