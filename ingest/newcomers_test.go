package ingest

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// An address with more connections that say nothing than it may have loses its oldest; who speaks is served. A trusted proxy has as
// many as it likes.
func TestNewcomers(t *testing.T) {
	t.Parallel()
	for _, trusted := range []bool{false, true} {
		l := Limits{AddressConnections: 3}
		if trusted {
			l.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
		}
		in := setup(t, nil)
		n := NewNewcomers(l.WithDefaults(mib), prometheus.NewRegistry())
		server := &http.Server{Handler: in.handler, ConnState: n.ConnState, ReadHeaderTimeout: patience}
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		served := make(chan error, 1)
		go func() { served <- server.Serve(listener) }()
		var silent []net.Conn
		for range 5 {
			c, err := net.Dial("tcp", listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			silent = append(silent, c)
		}
		for i, c := range silent {
			if closes := !trusted && i < 2; closes {
				_ = c.SetReadDeadline(time.Now().Add(patience))
				if _, err := c.Read(make([]byte, 1)); err != io.EOF {
					t.Errorf("silent connection %d is not closed: %v", i, err)
				}
				continue
			}
			fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: x\r\nX-Signature: %s\r\nContent-Length: 1\r\n\r\n1", inPath, sign([]byte("1")))
			resp, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil || resp.StatusCode != 202 {
				t.Fatalf("connection %d, once it speaks: %v %v", i, resp, err)
			}
			resp.Body.Close()
		}
		if want := map[bool]float64{false: 2, true: 0}[trusted]; testutil.ToFloat64(n.closed) != want {
			t.Errorf("%v were counted as closed, want %v", testutil.ToFloat64(n.closed), want)
		}
		server.Close()
		<-served
		n.mu.Lock()
		if len(n.conns)+len(n.from) != 0 {
			t.Errorf("%d connections of %d addresses are remembered", len(n.conns), len(n.from))
		}
		n.mu.Unlock()
	}
}

// Who has shown no signature keeps no connection; who has, does.
func TestStrangersKeepNoConnection(t *testing.T) {
	t.Parallel()
	in := setup(t, nil)
	for _, test := range []struct {
		name, method, path, signature string
		status                        int
		closed                        bool
	}{
		{"signed", "POST", inPath, sign(nil), 202, false},
		{"forged", "POST", inPath, sign([]byte("x")), 401, true},
		{"unknown source", "POST", inPath + "x", sign(nil), 401, true},
		{"no source", "GET", "/", "", 404, true},
		{"unclean path", "POST", "//", "", 404, true},
		{"other method", "GET", inPath, "", 405, true},
	} {
		r, err := http.NewRequestWithContext(t.Context(), test.method, in.server.URL+test.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-Signature", test.signature)
		resp, err := in.server.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != test.status || resp.Close != test.closed {
			t.Errorf("%s: %d, closed %t", test.name, resp.StatusCode, resp.Close)
		}
	}
}
