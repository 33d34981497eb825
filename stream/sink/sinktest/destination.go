package sinktest

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
)

// destination is a scriptable HTTP server that keeps every request it got.
type destination struct {
	*httptest.Server
	over chan struct{} // closed when the test ends: whoever hangs goes on

	answer func(code int) string
	lookup func(w http.ResponseWriter, r *http.Request) bool

	mu      sync.Mutex
	handler http.HandlerFunc
	got     []received
}

type received struct {
	req  *http.Request
	body []byte
}

// newDestination starts a server that answers 200 until it gets another script, and stops it after the test.
func newDestination(t *testing.T, h Harness) *destination {
	d := &destination{over: make(chan struct{}), answer: h.Answer, lookup: h.Lookup}
	if d.answer == nil {
		d.answer = func(int) string { return "answer" }
	}
	if d.lookup == nil {
		d.lookup = func(http.ResponseWriter, *http.Request) bool { return false }
	}
	d.handler = d.status(200, nil)
	d.Server = httptest.NewServer(http.HandlerFunc(d.serve))
	t.Cleanup(func() {
		close(d.over)
		d.Server.CloseClientConnections()
		d.Server.Close()
	})
	return d
}

// serve keeps each request and answers it by the script. It does not keep lookups.
func (d *destination) serve(w http.ResponseWriter, r *http.Request) {
	if d.lookup(w, r) {
		return
	}
	body, _ := io.ReadAll(r.Body)
	d.mu.Lock()
	d.got = append(d.got, received{r, body})
	handler := d.handler
	d.mu.Unlock()
	handler(w, r)
}

// script sets what the destination does from now on.
func (d *destination) script(h http.HandlerFunc) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.handler = h
}

func (d *destination) all() []received {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]received(nil), d.got...)
}

func (d *destination) count() int { return len(d.all()) }

// status answers with a code and headers.
func (d *destination) status(code int, headers map[string]string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for name, value := range headers {
			w.Header().Set(name, value)
		}
		w.WriteHeader(code)
		if code >= 200 && code != 204 && code != 304 {
			_, _ = io.WriteString(w, d.answer(code))
		}
	}
}

// reset breaks the connection hard, before any answer.
func reset(w http.ResponseWriter, _ *http.Request) {
	conn, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		panic(err)
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

// hang never answers.
func (d *destination) hang(_ http.ResponseWriter, r *http.Request) {
	select {
	case <-r.Context().Done():
	case <-d.over:
	}
}

// hangInBody answers with a status and the beginning of a body, and then no more.
func (d *destination) hangInBody(w http.ResponseWriter, r *http.Request) {
	_, _ = io.WriteString(w, "beginning")
	w.(http.Flusher).Flush()
	d.hang(w, r)
}
