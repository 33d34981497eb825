package guard

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"

	"github.com/forebay-io/forebay/stream/sink"
)

// pipes is a network in memory with one server. What comes over a connection that goes dead is lost in both directions, and nobody is told.
type pipes struct {
	accept chan net.Conn
	closed chan struct{}
	once   sync.Once

	mu    sync.Mutex
	conns []*mortal
}

func newPipes() *pipes { return &pipes{accept: make(chan net.Conn), closed: make(chan struct{})} }

func (p *pipes) dial(context.Context, string, string) (net.Conn, error) {
	here, there := net.Pipe()
	p.accept <- there
	c := &mortal{Conn: here}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conns = append(p.conns, c)
	return c, nil
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.accept:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { p.once.Do(func() { close(p.closed) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 443} }

// mortal is the client's end of a connection.
type mortal struct {
	net.Conn
	dead atomic.Bool
}

func (c *mortal) Write(b []byte) (int, error) {
	if c.dead.Load() {
		return len(b), nil
	}
	return c.Conn.Write(b)
}

// TestADeadHTTP2ConnectionIsLeft: all calls to a host share one connection, so one that died without a word, as behind a firewall that forgot it,
// would fail all of them until TCP gives it up, after a quarter of an hour.
func TestADeadHTTP2ConnectionIsLeft(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		network := newPipes()
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.Proto) }))
		server.Listener.Close()
		server.Listener, server.EnableHTTP2 = network, true
		server.StartTLS()
		defer server.Close()
		roots := x509.NewCertPool()
		roots.AddCert(server.Certificate())
		c := must(t, Config{Dial: network.dial, AllowNetworks: loopback, TLS: &tls.Config{RootCAs: roots}, Timeout: 10 * time.Second})
		defer c.Close()
		call := func() error {
			resp, err := get(t, c, "https://127.0.0.1/")
			if err != nil {
				return err
			}
			defer resp.Body.Close()
			if resp.ProtoMajor != 2 {
				t.Errorf("over %s", resp.Proto)
			}
			return nil
		}
		if err := call(); err != nil {
			t.Fatal(err)
		}
		network.conns[0].dead.Store(true)
		died := time.Now()
		for call() != nil {
			if time.Since(died) > time.Minute {
				t.Fatal("calls still fail a minute after their connection died")
			}
		}
		network.conns[0].Conn.Close()
	})
}

// TestAGetHasNoBody: not even an empty one of unknown length, with which servers and proxies on the way may refuse it.
func TestAGetHasNoBody(t *testing.T) {
	t.Parallel()
	for _, http2 := range []bool{false, true} {
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if (r.ProtoMajor == 2) != http2 || r.ContentLength != 0 || len(r.TransferEncoding) > 0 {
				t.Errorf("%s: length %d, in %q", r.Proto, r.ContentLength, r.TransferEncoding)
			}
		}))
		server.EnableHTTP2 = http2
		server.StartTLS()
		defer server.Close()
		roots := x509.NewCertPool()
		roots.AddCert(server.Certificate())
		resp, err := get(t, must(t, Config{AllowNetworks: loopback, TLS: &tls.Config{RootCAs: roots}}), server.URL)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
	}
}

// TestHTTP2SaysWhatItHasNotProcessed: a server that goes away, or has no room for a stream, says that it has not looked at it (RFC 9113, sections
// 6.8 and 8.7). Of what else it does to a stream nobody can tell.
func TestHTTP2SaysWhatItHasNotProcessed(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		answer    func(f *http2.Framer, stream uint32) error
		untouched bool
	}{
		"goes away before it": {func(f *http2.Framer, _ uint32) error { return f.WriteGoAway(0, http2.ErrCodeNo, nil) }, true},
		"no room":             {func(f *http2.Framer, s uint32) error { return f.WriteRSTStream(s, http2.ErrCodeRefusedStream) }, true},
		"cancels":             {func(f *http2.Framer, s uint32) error { return f.WriteRSTStream(s, http2.ErrCodeCancel) }, false},
		"broken protocol":     {func(f *http2.Framer, s uint32) error { return f.WriteRSTStream(s, http2.ErrCodeProtocol) }, false},
		"goes away behind it": {func(f *http2.Framer, s uint32) error {
			return errors.Join(f.WriteGoAway(s, http2.ErrCodeNo, nil), io.EOF)
		}, false},
		"falls, and claims to refuse": {func(f *http2.Framer, s uint32) error {
			return errors.Join(f.WriteGoAway(s, http2.ErrCodeInternal, []byte("stream error: stream ID 1; REFUSED_STREAM;")), io.EOF)
		}, false},
		"closes": {func(*http2.Framer, uint32) error { return io.EOF }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			target, c := frames(t, test.answer)
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, target, strings.NewReader("{}"))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Idempotency-Key", "act_1")
			resp, err := c.Do(req)
			if err == nil {
				resp.Body.Close()
				t.Fatal(resp.Status)
			}
			if sink.ClassOf(err) != sink.ClassNetwork || sink.Untouched(err) != test.untouched {
				t.Errorf("class %s, untouched %v: %v", sink.ClassOf(err), sink.Untouched(err), err)
			}
		})
	}
}

// frames serves HTTP/2 by its frames: answer is called once a request has come whole, and the connection ends with an error of it.
func frames(t *testing.T, answer func(f *http2.Framer, stream uint32) error) (target string, c *Client) {
	t.Helper()
	server := httptest.NewTLSServer(nil)
	certificate := server.TLS.Certificates
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	server.Close()
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: certificate, NextProtos: []string{"h2"}})
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer conn.Close()
				io.CopyN(io.Discard, conn, int64(len(http2.ClientPreface)))
				f := http2.NewFramer(conn, conn)
				f.WriteSettings()
				for {
					read, err := f.ReadFrame()
					if err != nil {
						return
					}
					data, ok := read.(*http2.DataFrame)
					if ok && data.StreamEnded() && answer(f, data.StreamID) != nil {
						return
					}
				}
			})
		}
	})
	c = must(t, Config{AllowNetworks: loopback, TLS: &tls.Config{RootCAs: roots}, Timeout: time.Minute})
	t.Cleanup(func() { listener.Close(); c.Close(); serving.Wait() })
	return "https://" + listener.Addr().String(), c
}
