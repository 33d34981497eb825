package ingest

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// TestBurstOfStrangers: a process that had no processor for a while finds many new connections at once. The first one, whose request is there, is read
// before it has to give way to those behind it that send nothing.
func TestBurstOfStrangers(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	const most, strangers = 32, 300
	for range 10 {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		l := Limits{Connections: most, TrustedProxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}.WithDefaults(mib)
		answers := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
		server := &http.Server{Handler: answers, ReadHeaderTimeout: patience}
		NewConnections(l, "ingest", prometheus.NewRegistry(), slog.New(slog.DiscardHandler)).Bind(server)
		dial := func() net.Conn {
			conn, err := net.Dial("tcp", listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { conn.Close() })
			return conn
		}
		genuine := dial()
		fmt.Fprint(genuine, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		for range strangers {
			dial()
		}
		served := make(chan error, 1)
		go func() { served <- server.Serve(listener) }() // all of them have come
		_ = genuine.SetReadDeadline(time.Now().Add(patience))
		resp, err := http.ReadResponse(bufio.NewReader(genuine), nil)
		if err != nil {
			t.Errorf("who had sent a request before all others came has no answer: %v", err)
		} else {
			io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
		server.Close()
		<-served
	}
}
