package guard

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forebay-io/forebay/stream/sink"
)

var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}

func get(t *testing.T, c *Client, target string) (*http.Response, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, target, nil)
	if err != nil {
		t.Fatal(err)
	}
	return c.Do(req)
}

// unreachable is a server that must never be reached.
func unreachable(t *testing.T) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a private server was reached") }))
	t.Cleanup(s.Close)
	return s
}

// TestControlHasTheLastWord goes around resolution: whatever hands the dialer an address, it is judged at connect.
func TestControlHasTheLastWord(t *testing.T) {
	t.Parallel()
	server := unreachable(t)
	c := must(t, Config{})
	conn, err := c.secure.dialer.DialContext(t.Context(), "tcp", server.Listener.Addr().String())
	if err == nil {
		conn.Close()
	}
	if sink.ClassOf(err) != sink.ClassForbidden {
		t.Errorf("connected: %v", err)
	}
	if err := c.secure.control("unix", "/var/run/docker.sock", nil); sink.ClassOf(err) != sink.ClassForbidden {
		t.Errorf("a socket that is no address: %v", err)
	}
}

func TestNoProxyFromTheEnvironment(t *testing.T) {
	proxy := unreachable(t)
	t.Setenv("HTTP_PROXY", proxy.URL)
	t.Setenv("HTTPS_PROXY", proxy.URL)
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	_, port, _ := net.SplitHostPort(server.Listener.Addr().String())
	resolver, _ := dnsServer(t, "127.0.0.1")
	resp, err := get(t, must(t, Config{Resolver: resolver, AllowNetworks: loopback}), "http://agents.example:"+port)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != 404 {
		t.Errorf("status %d: not the server's own", resp.StatusCode)
	}
}

func TestAnswerIsBounded(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := map[string]int{"/fits": 1000, "/over": 1001}[r.URL.Path]
		_, _ = w.Write(bytes.Repeat([]byte("x"), n))
	}))
	defer server.Close()
	c := must(t, Config{AllowNetworks: loopback, MaxResponse: 1000})
	for path, want := range map[string]error{"/fits": nil, "/over": ErrTooLarge} {
		resp, err := get(t, c, server.URL+path)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if len(b) != 1000 || !errors.Is(err, want) {
			t.Errorf("%s: %d bytes, %v", path, len(b), err)
		}
	}
}

func TestExchangeIsBoundedInTime(t *testing.T) {
	t.Parallel()
	over := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/body" {
			_, _ = io.WriteString(w, "x")
			w.(http.Flusher).Flush()
		}
		<-over
	}))
	defer server.Close()
	defer close(over)
	c := must(t, Config{AllowNetworks: loopback, Timeout: 50 * time.Millisecond})
	if _, err := get(t, c, server.URL+"/head"); sink.ClassOf(err) != sink.ClassTimeout || strings.Count(err.Error(), "longer than allowed") != 1 {
		t.Errorf("no answer: %v", err)
	}
	var resp *http.Response
	err := errors.New("no attempt")
	for timeout := 200 * time.Millisecond; err != nil && timeout < time.Minute; timeout *= 4 { // the beginning has to come in time, on a busy machine, too
		resp, err = get(t, must(t, Config{AllowNetworks: loopback, Timeout: timeout}), server.URL+"/body")
	}
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.ReadAll(resp.Body); sink.ClassOf(err) != sink.ClassTimeout {
		t.Errorf("no end of the answer: %v", err)
	}
}

// TestNetworkErrors has, for each way in which an exchange ends without an answer, what the lane reads of it: the class, and whether
// the destination is surely untouched, for then even what may not be done twice is tried again.
func TestNetworkErrors(t *testing.T) {
	t.Parallel()
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	reset := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	defer reset.Close()
	over := make(chan struct{})
	var arrived sync.Map // by path
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { arrived.Store(r.URL.Path, true); <-over }))
	defer silent.Close()
	defer close(over)
	mute, err := net.Listen("tcp", "127.0.0.1:0") // accepts in its kernel, and says nothing in TLS
	if err != nil {
		t.Fatal(err)
	}
	defer mute.Close()
	const slowName = "https://slow.example"
	const enough, short, shorter = time.Minute, 300 * time.Millisecond, 20 * time.Millisecond
	for _, tt := range []struct {
		name, url string
		resolver  Resolver
		allowed   time.Duration // by the client; enough: the exchange ends by itself, however busy the machine is
		caller    time.Duration // how long it has; 0: as long as the client allows
		class     sink.Class
		untouched bool
	}{
		{"a refused connection", closed.URL, nil, enough, 0, sink.ClassNetwork, true},
		{"no such name", "https://gone.example", nowhere{}, enough, 0, sink.ClassDNS, true},
		{"a name server that does not answer", slowName, slow{}, short, 0, sink.ClassDNS, true},
		{"a name server that does not answer, to a caller with less time", slowName, slow{}, short, shorter, sink.ClassDNS, true},
		{"a resolver that does not mind the time", "https://stuck.example", stuck{over}, short, 0, sink.ClassTimeout, true},
		{"a connection that is never made", "http://127.0.0.1:" + full(t, "127.0.0.1"), nil, short, 0, sink.ClassTimeout, true},
		{"a connection that is never made, for a caller with less time", "http://127.0.0.1:" + full(t, "127.0.0.1"), nil, short, shorter, sink.ClassTimeout, true},
		{"TLS that is never made", "https://" + mute.Addr().String(), nil, short, 0, sink.ClassTimeout, true},
		{"TLS with a server that has none", strings.Replace(reset.URL, "http:", "https:", 1), nil, enough, 0, sink.ClassNetwork, true},
		{"a connection cut off behind the request", reset.URL, nil, enough, 0, sink.ClassNetwork, false},
		{"no answer to the request", silent.URL, nil, short, 0, sink.ClassTimeout, false},
		{"no answer to the request of a caller with less time", silent.URL, nil, enough, shorter, sink.ClassTimeout, false},
	} {
		var err error
		for n := 1; n <= 64; n *= 2 { // with more time on a busy machine
			path, allowed, caller := fmt.Sprintf("/%s/%d", tt.caller, n), time.Duration(n)*tt.allowed, time.Duration(n)*tt.caller
			began := time.Now()
			err = exchange(t, must(t, Config{AllowNetworks: loopback, Resolver: tt.resolver, Timeout: allowed}), tt.url+path, caller)
			asItShould := true
			switch tt.url {
			case silent.URL: // the request arrived before the time was over
				_, asItShould = arrived.Load(path)
			case slowName: // the search was given up before the time was over
				asItShould = time.Since(began) < cmp.Or(caller, allowed)
			}
			if asItShould {
				break
			}
		}
		if sink.ClassOf(err) != tt.class || sink.Untouched(err) != tt.untouched {
			t.Errorf("%s: class %q, untouched %v, want %q and %v: %v", tt.name, sink.ClassOf(err), sink.Untouched(err), tt.class, tt.untouched, err)
		}
	}
}

// exchange posts for a caller that has so long; 0: any time.
func exchange(t *testing.T, c *Client, target string, caller time.Duration) error {
	t.Helper()
	ctx := t.Context()
	if caller > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, caller)
		defer cancel()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, target, strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Do(req)
	return err
}

// stuck finds nothing before it is told to, however long its caller has.
type stuck struct{ over chan struct{} }

func (s stuck) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	<-s.over
	return nil, errors.New("over")
}

// slow never finds anything.
type slow struct{}

func (slow) LookupNetIP(ctx context.Context, _, host string) ([]netip.Addr, error) {
	<-ctx.Done()
	return nil, &net.DNSError{Err: ctx.Err().Error(), Name: host, IsTimeout: true}
}

type nowhere struct{}

func (nowhere) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) { return nil, nil }

func TestTLSIsVerified(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()
	if _, err := get(t, must(t, Config{AllowNetworks: loopback}), server.URL); sink.ClassOf(err) != sink.ClassNetwork {
		t.Errorf("a certificate nobody trusts: %v", err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	c := must(t, Config{AllowNetworks: loopback, TLS: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}})
	resp, err := get(t, c, server.URL)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	u, _ := url.Parse(server.URL)
	if err := c.Reach(t.Context(), u); err != nil {
		t.Errorf("reach: %v", err)
	}
}

// TestSentOnce breaks a kept-alive connection at the second request, where net/http sends a request with an
// Idempotency-Key again by itself. Each says how long it is: some servers read no body in chunks, not even an empty one.
func TestSentOnce(t *testing.T) {
	t.Parallel()
	for _, body := range []string{"body", "", "none"} {
		content := func() io.Reader { return strings.NewReader(body) }
		if body == "none" {
			body, content = "", func() io.Reader { return nil }
		}
		var n atomic.Int32
		server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Content-Length") != strconv.Itoa(len(body)) || len(r.TransferEncoding) > 0 || r.Header.Get("Idempotency-Key") != "k" {
				t.Errorf("body %q: %v %q", body, r.Header, r.TransferEncoding)
			}
			if n.Add(1) > 1 {
				panic(http.ErrAbortHandler)
			}
		}))
		c := must(t, Config{AllowNetworks: loopback})
		for i := range 2 {
			req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, content())
			req.Header.Set("Idempotency-Key", "k")
			resp, err := c.Do(req)
			if (err != nil) != (i == 1) {
				t.Fatalf("request %d: %v", i, err)
			}
			if err == nil {
				resp.Body.Close()
			}
		}
		if got := n.Load(); got != 2 {
			t.Errorf("body %q: %d requests were sent for two", body, got)
		}
		server.Close()
	}
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Duration{
		"": 0, "0": 0, "120": 2 * time.Minute, " 5 ": 5 * time.Second, "2.0": 2 * time.Second, "1.5": 2 * time.Second, "0.5": time.Second, ".5": 0, ".": 0, "1.x": 0, "-1": 0, "soon": 0,
		"Thu, 01 Jan 2026 00:01:00 GMT": time.Minute, "Wed, 31 Dec 2025 23:59:00 GMT": 0,
		"Thursday, 01-Jan-26 00:01:00 GMT": time.Minute, "99999999999999999999": 365 * 24 * time.Hour,
	} {
		if got := RetryAfter(http.Header{"Retry-After": {text}}, now); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}
