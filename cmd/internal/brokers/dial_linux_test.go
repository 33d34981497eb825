package brokers

import (
	"net"
	"testing"

	"golang.org/x/sys/unix"
)

// A broker's machine that goes away without a word is noticed: by what is sent to it, and where nothing is.
func TestConnectionsNoticeAMachineThatIsGone(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	conn, err := dialer().DialContext(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	raw, err := conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var keeps, user, idle, interval, count int
	if err := raw.Control(func(fd uintptr) {
		keeps, _ = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_KEEPALIVE)
		user, _ = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT)
		idle, _ = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_KEEPIDLE)
		interval, _ = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_KEEPINTVL)
		count, _ = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_KEEPCNT)
	}); err != nil {
		t.Fatal(err)
	}
	if keeps != 1 || user != 20_000 || idle+interval*count > 20 {
		t.Errorf("keepalive %d (after %d s, %d times every %d s), user timeout %d ms", keeps, idle, count, interval, user)
	}
}
