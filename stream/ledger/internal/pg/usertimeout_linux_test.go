package pg

import (
	"errors"
	"net"
	"syscall"
	"testing"
	"time"
)

// A peer that takes nothing any more, as a machine that is gone, ends the connection in the time that its packets have.
func TestPeerThatTakesNothing(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0") // nobody accepts: what is sent fills the buffers
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	d := Deadlines{2 * time.Second}
	conn, err := d.dialer().DialContext(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(8 * d.network())); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if _, err := conn.Write(make([]byte, 64<<20)); !errors.Is(err, syscall.ETIMEDOUT) {
		t.Errorf("after %s: %v", time.Since(began), err)
	}
}
