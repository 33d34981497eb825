package ingest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// limited serves an intake on a listener with limits.
func limited(t *testing.T, l Limits) (in *intake, c *Connections, address string) {
	in = setup(t, nil)
	c = NewConnections(l.WithDefaults(mib), "ingest", prometheus.NewRegistry(), slog.New(slog.DiscardHandler))
	server := &http.Server{Handler: in.handler, ReadHeaderTimeout: patience}
	c.Bind(server)
	var open atomic.Int64
	hook := server.ConnState
	server.ConnState = func(conn net.Conn, s http.ConnState) {
		hook(conn, s)
		switch s {
		case http.StateNew:
			open.Add(1)
		case http.StateClosed:
			open.Add(-1)
		}
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Close()
		<-served
		waitFor(t, "connections do not end", func() bool { return open.Load() == 0 })
		waitFor(t, "connections are remembered", func() bool {
			c.mu.Lock()
			defer c.mu.Unlock()
			return len(c.all)+len(c.from)+c.silent.Len()+c.idle.Len()+c.ending.Len() == 0
		})
	})
	return in, c, listener.Addr().String()
}

// closedBy returns how many connections were closed for there were too many.
func closedBy(c *Connections) float64 {
	return testutil.ToFloat64(c.closed.WithLabelValues(manyOfAddress)) + testutil.ToFloat64(c.closed.WithLabelValues(manyInAll))
}

// dials makes connections to a listener, each of which it has taken when the next is made.
func dials(t *testing.T, c *Connections, address string, count int) (conns []net.Conn) {
	t.Helper()
	for range count {
		c.mu.Lock()
		before := float64(len(c.all)) + closedBy(c)
		c.mu.Unlock()
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		conns = append(conns, conn)
		waitFor(t, "a connection is not taken", func() bool {
			c.mu.Lock()
			defer c.mu.Unlock()
			return float64(len(c.all))+closedBy(c) > before
		})
	}
	return conns
}

func waitFor(t *testing.T, what string, there func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !there(); <-time.After(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal(what)
		}
	}
}

// speaks sends a signed delivery over a connection and fails unless it is taken.
func speaks(t *testing.T, name string, c net.Conn) {
	t.Helper()
	fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: x\r\nX-Signature: %s\r\nContent-Length: 1\r\n\r\n1", inPath, sign([]byte("1")))
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil || resp.StatusCode != 202 {
		t.Errorf("%s, once it speaks: %v %v", name, resp, err)
		return
	}
	resp.Body.Close()
}

// isClosed fails unless the other end has closed a connection.
func isClosed(t *testing.T, name string, c net.Conn) {
	t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(patience))
	if _, err := c.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("%s is not closed: %v", name, err)
	}
}

// Where there are too many connections in all, those go first that have never said anything, then those that idle, the oldest first; at
// last the new one, where all others are being answered.
func TestConnectionsInAll(t *testing.T) {
	t.Parallel()
	in, c, address := limited(t, Limits{Connections: 4, TrustedProxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	idles := func(count int) {
		t.Helper()
		waitFor(t, "too few connections idle", func() bool { c.mu.Lock(); defer c.mu.Unlock(); return c.idle.Len() == count })
	}
	idle := dials(t, c, address, 2)
	for i, conn := range idle {
		speaks(t, "one of two", conn)
		idles(i + 1)
	}
	silent := dials(t, c, address, 3)
	isClosed(t, "the oldest that is silent", silent[0])
	for i, conn := range append(idle, silent[1:]...) {
		speaks(t, fmt.Sprintf("connection %d of those that are left", i), conn)
		idles(max(2, i+1))
	}
	newer := dials(t, c, address, 1)[0]
	isClosed(t, "the one that idles the longest", idle[0])
	speaks(t, "the new one", newer)

	hold, entered := make(chan struct{}), make(chan struct{}, 4)
	in.log.answer = func(context.Context) error { entered <- struct{}{}; <-hold; return nil }
	var spoken sync.WaitGroup
	for _, conn := range []net.Conn{idle[1], silent[1], silent[2], newer} {
		spoken.Go(func() { speaks(t, "one of four that are answered at once", conn) })
	}
	for range 4 {
		in.wait(entered)
	}
	isClosed(t, "one that comes while all others are answered", dials(t, c, address, 1)[0])
	close(hold)
	spoken.Wait()
	speaks(t, "one that comes afterwards", dials(t, c, address, 1)[0])
	idles(4)

	refused := dials(t, c, address, 1)[0]
	fmt.Fprintf(refused, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n", inPath) // answered before its body comes
	waitFor(t, "one that was refused is not about to end", func() bool { c.mu.Lock(); defer c.mu.Unlock(); return c.ending.Len() == 1 })
	for _, conn := range dials(t, c, address, 1) { // of the others, none is closed
		speaks(t, "one that comes beside one that was refused", conn)
	}
	idles(4)
	if got := testutil.ToFloat64(c.closed.WithLabelValues(manyInAll)); got != 6 {
		t.Errorf("%v were counted as closed, want 6", got)
	}
}

// Bodies on their way have half of the connections; the oldest gives way to a newer one, however young.
func TestBodiesHaveHalfOfTheConnections(t *testing.T) {
	t.Parallel()
	in := withRoom(t, Limits{Connections: 6, AddressConnections: 6, YieldAfter: time.Hour})
	var standing []<-chan int
	for i := range 3 {
		standing = append(standing, in.stand(1000, 10))
		in.holds(i+1, int64(i+1)*ownMemory)
	}
	if a := in.post("1"); a.status != 202 {
		t.Errorf("beside as many as there may be: %+v", a)
	}
	if got := in.answered(standing[0]); got != 503 || in.count("unavailable", "connections") != 1 {
		t.Errorf("the oldest was answered %d", got)
	}
	in.holds(2, 2*ownMemory)
}

// An address with more connections that say nothing than it may have loses its oldest; who speaks is served. A trusted proxy has as
// many as it likes.
func TestSilentConnectionsOfAnAddress(t *testing.T) {
	t.Parallel()
	for _, trusted := range []bool{false, true} {
		l := Limits{AddressConnections: 3}
		if trusted {
			l.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
		}
		_, c, address := limited(t, l)
		for i, conn := range dials(t, c, address, 5) {
			if name := fmt.Sprintf("silent connection %d", i); !trusted && i < 2 {
				isClosed(t, name, conn)
			} else {
				speaks(t, name, conn)
			}
		}
		if want := map[bool]float64{false: 2, true: 0}[trusted]; testutil.ToFloat64(c.closed.WithLabelValues(manyOfAddress)) != want {
			t.Errorf("%v were closed in all, want %v of one address", closedBy(c), want)
		}
	}
}
