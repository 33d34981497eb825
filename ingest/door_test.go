package ingest

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// At a door, a request counts for its address until its sender is known, and the oldest gives way: not who is known, and no probe. An answer
// ends the connection of whoever is not known.
func TestDoor(t *testing.T) {
	t.Parallel()
	held, hold := make(chan string, 9), make(chan struct{})
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			Known(r.Context())
		}
		if r.URL.Path == "/held" || r.URL.Path == "/probe" {
			held <- r.URL.Path
			select {
			case <-hold:
			case <-r.Context().Done():
			}
		}
		_, _ = io.Copy(w, r.Body)
	})
	server := &http.Server{Handler: handler, ReadTimeout: time.Minute, ReadHeaderTimeout: patience}
	c := NewConnections(Limits{AddressConnections: 2, TrustedProxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.2/32")}}.WithDefaults(mib), "door", prometheus.NewRegistry(), slog.New(slog.DiscardHandler))
	c.Door(server, func(r *http.Request) bool { return r.URL.Path == "/probe" }, false)
	if server.ReadTimeout != bodyWithin {
		t.Errorf("a body may take %s", server.ReadTimeout)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() { server.Close(); <-served })
	opens := func(from, request, headers string) net.Conn {
		t.Helper()
		conn, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}).Dial("tcp", listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		fmt.Fprintf(conn, "%s HTTP/1.1\r\nHost: x\r\n%s\r\n", request, headers)
		if request != "GET /" {
			select {
			case <-held:
			case <-time.After(patience):
				t.Fatal("not asked")
			}
		}
		return conn
	}
	answered := func(name string, conn net.Conn, kept bool) {
		t.Helper()
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			return
		}
		resp.Body.Close()
		if resp.StatusCode != 200 || resp.Close == kept {
			t.Errorf("%s: %d, and the connection ends: %t", name, resp.StatusCode, resp.Close)
		}
	}
	const token, of8, of9 = "Authorization: x\r\n", "X-Forwarded-For: 192.0.2.8\r\n", "X-Forwarded-For: 192.0.2.9\r\n"
	known, probe := opens("127.0.0.1", "GET /held", token), opens("127.0.0.1", "GET /probe", "")
	other := opens("127.0.0.2", "GET /held", of8)
	var standing, proxied []net.Conn
	for range 3 { // of which two may stand
		standing = append(standing, opens("127.0.0.1", "GET /held", ""))
		proxied = append(proxied, opens("127.0.0.2", "GET /held", of9))
	}
	isClosed(t, "the oldest", standing[0])
	isClosed(t, "the oldest behind a proxy", proxied[0])
	answered("a new one", opens("127.0.0.1", "GET /", "Content-Length: 0\r\n"), false)
	isClosed(t, "the next", standing[1])
	close(hold)
	answered("who is known", known, true)
	fmt.Fprint(known, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	answered("who is known, without a token", known, false)
	answered("a probe", probe, false)
	answered("the newest", standing[2], false)
	answered("another behind the proxy", other, false)
	answered("the second behind the proxy", proxied[1], false)
}

// The deadline of the body, here half a second, holds for whoever is not known, and ends no request that is there.
func TestDoorsDeadline(t *testing.T) {
	t.Parallel()
	const short = 500 * time.Millisecond
	server := &http.Server{ReadTimeout: time.Minute, ReadHeaderTimeout: patience, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			Known(r.Context())
		}
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			w.WriteHeader(http.StatusRequestTimeout)
			return
		}
		select {
		case <-time.After(3 * short):
		case <-r.Context().Done():
			w.WriteHeader(http.StatusInternalServerError)
		}
	})}
	c := NewConnections(Limits{}.WithDefaults(mib), "door", prometheus.NewRegistry(), slog.New(slog.DiscardHandler))
	c.Door(server, func(*http.Request) bool { return false }, false)
	server.ReadTimeout = short
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() { server.Close(); <-served })
	for _, tt := range []struct {
		name, headers, body, later string
		want                       int
	}{
		{"no body", "", "", "", 200},
		{"a whole body", "Content-Length: 2\r\n", "ab", "", 200},
		{"half a body", "Content-Length: 2\r\n", "a", "", 408},
		{"a slow body of somebody who is known", "Authorization: x\r\nContent-Length: 2\r\n", "a", "b", 200},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			conn, err := net.Dial("tcp", listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: x\r\n%s\r\n%s", tt.headers, tt.body)
			if tt.later != "" {
				time.AfterFunc(2*short, func() { fmt.Fprint(conn, tt.later) })
			}
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if resp.StatusCode != tt.want {
				t.Errorf("answered %d, want %d", resp.StatusCode, tt.want)
			}
		})
	}
}
