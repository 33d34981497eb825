package guard

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/sink"
)

// Resolver finds the addresses of a name; [net.Resolver] is one.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// Config makes a [Client]. Its zero value reaches public addresses by https.
type Config struct {
	// AllowNetworks may be reached although they are private, and in plain text.
	AllowNetworks []netip.Prefix
	// Timeout bounds an exchange from the resolution to the last byte of the answer; default 30 s. The request's
	// context may end it sooner.
	Timeout time.Duration
	// MaxResponse bounds the bytes of an answer's body; default 1 MiB. Reading beyond it is ErrTooLarge.
	MaxResponse int64
	Resolver    Resolver // default net.DefaultResolver
	// Dial connects to an address that was resolved and judged; default a socket, whose address is judged once more right
	// before it connects. For a network in memory.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// TLS is cloned; default the system's roots and TLS 1.2.
	TLS *tls.Config
	// MaxIdle is how many idle connections are kept per host; default 64.
	MaxIdle int
}

// ErrTooLarge is returned by a body that is longer than MaxResponse.
var ErrTooLarge = errors.New("answer is larger than allowed")

var errTimeout = errors.New("exchange took longer than allowed")

// Client makes guarded calls. Safe for concurrent use.
type Client struct {
	timeout       time.Duration
	maxResponse   int64
	plain, secure *side
}

// side is the client's half for one scheme: connections of one are never used for the other.
type side struct {
	rule          rule
	resolver      Resolver
	lookupTimeout time.Duration
	dialer        net.Dialer
	connect       func(ctx context.Context, network, address string) (net.Conn, error) // the dialer's, or Config.Dial
	transport     *http.Transport
}

// New makes a client. Nothing is connected.
func New(cfg Config) (*Client, error) {
	if cfg.Timeout == 0 {
		cfg.Timeout = 30 * time.Second
	}
	if cfg.MaxResponse == 0 {
		cfg.MaxResponse = 1 << 20
	}
	if cfg.MaxIdle == 0 {
		cfg.MaxIdle = 64
	}
	if cfg.Resolver == nil {
		cfg.Resolver = net.DefaultResolver
	}
	if cfg.Timeout < 0 || cfg.MaxResponse < 0 || cfg.MaxIdle < 0 {
		return nil, schemas.Errorf(schemas.Invalid, "make an HTTP client", "a limit is negative")
	}
	c := &Client{timeout: cfg.Timeout, maxResponse: cfg.MaxResponse}
	var err error
	if c.plain, err = newSide(cfg, true); err != nil {
		return nil, err
	}
	c.secure, err = newSide(cfg, false)
	return c, err
}

// newSide makes the transport for one kind of address: plain HTTP, or TLS.
func newSide(cfg Config, plain bool) (*side, error) {
	r, err := newRule(cfg.AllowNetworks, plain)
	if err != nil {
		return nil, schemas.Errorf(schemas.Invalid, "make an HTTP client", "%w", err)
	}
	s := &side{rule: r, resolver: cfg.Resolver, lookupTimeout: cfg.Timeout / 4 * 3}
	s.dialer = net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second, Control: s.control}
	s.connect = s.dialer.DialContext
	if cfg.Dial != nil {
		s.connect = cfg.Dial
	}
	tlsConfig := &tls.Config{MinVersion: tls.VersionTLS12}
	if cfg.TLS != nil {
		tlsConfig = cfg.TLS.Clone()
	}
	s.transport = &http.Transport{
		DialContext:            s.dial,
		TLSClientConfig:        tlsConfig,
		TLSHandshakeTimeout:    10 * time.Second,
		ForceAttemptHTTP2:      true,
		DisableCompression:     true, // the answer is recorded as it came, and never blown up
		MaxIdleConnsPerHost:    cfg.MaxIdle,
		IdleConnTimeout:        30 * time.Second,
		MaxResponseHeaderBytes: 64 << 10,
		// A timeout ends a connection of HTTP/1, but of HTTP/2 only its stream: whoever went away without a word would fail every call until
		// TCP gave up.
		HTTP2: &http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: 5 * time.Second},
	}
	return s, nil
}

// Outgoing is a header of every request that a [Client] sends, whatever its caller has put there. The operator listener takes no request
// with it: that listener trusts whoever is on the machine, which those who write URLs into the files of teams are not.
const Outgoing = "Forebay-Outgoing"

// Do sends a request once and gives the answer as it comes, redirects included. The caller closes the body, which
// ends the exchange. Errors are [sink.AttemptError]s of class forbidden, dns,
// timeout or network and name no URL; one of a request that was not sent, or surely not looked at, says that the destination is untouched.
func (c *Client) Do(req *http.Request) (*http.Response, error) {
	if err := c.CheckURL(req.URL); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(req.Context(), c.timeout, errTimeout)
	var connected atomic.Bool
	traced := httptrace.WithClientTrace(withEnd(ctx), &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected.Store(true) }})
	resp, err := c.side(req.URL).transport.RoundTrip(once(req.WithContext(traced)))
	if err != nil {
		err = classify(ctx, err, !connected.Load() || unprocessed(err))
		cancel()
		return nil, err
	}
	if resp.StatusCode == http.StatusSwitchingProtocols { // nobody has asked for it; its body is the connection, which ctx would not end
		resp.Body.Close()
		resp.Body = http.NoBody
	}
	resp.Body = &body{ctx: ctx, cancel: cancel, from: resp.Body, left: c.maxResponse}
	return resp, nil
}

func (c *Client) side(u *url.URL) *side {
	if u.Scheme == "http" {
		return c.plain
	}
	return c.secure
}

// Close closes idle connections.
func (c *Client) Close() {
	c.plain.transport.CloseIdleConnections()
	c.secure.transport.CloseIdleConnections()
}

// once keeps net/http from sending a request again when a kept-alive connection turns out dead: it does so for requests with GetBody,
// and without a body where it sees an idempotency key, and the lane counts attempts. A GET without one it may send again, which changes
// nothing: with a body to keep it from that, a GET over HTTP/2 would be of unknown length, which proxies pass on in chunks. A body is left as it
// is: net/http sends one that it knows to be in memory together with the headers, any other in a packet of its own. The header is a copy, and
// says that the request is [Outgoing].
func once(req *http.Request) *http.Request {
	req.GetBody = nil
	req.Header = req.Header.Clone()
	if req.Header == nil {
		req.Header = http.Header{}
	}
	req.Header.Set(Outgoing, "true")
	if req.Body == nil || req.Body == http.NoBody {
		// A body of unknown length would be sent in chunks, which some servers do not read. net/http does not see a key under this name,
		// which is the same to servers.
		for _, name := range []string{"Idempotency-Key", "X-Idempotency-Key"} {
			if key, ok := req.Header[name]; ok {
				delete(req.Header, name)
				req.Header[strings.ToLower(name)] = key
			}
		}
	}
	return req
}

// unprocessed reports whether the server has said over HTTP/2 that it has not looked at the request: by a GOAWAY that ends before its stream, or
// by refusing that (RFC 9113, section 8.7). net/http would send it again but for once, and has the reason in its error's text alone. Were the
// text to change, nobody could tell whether the server has acted.
func unprocessed(err error) bool {
	why, ok := strings.CutPrefix(err.Error(), "http2: Transport: cannot retry err [")
	return ok && (strings.HasPrefix(why, "http2: Transport received Server's graceful shutdown GOAWAY]") || strings.Contains(why, "; REFUSED_STREAM; "))
}

// classify wraps the error of a transport with its class, and with untouched: that the server has surely not looked at the request. Where ctx has ended, the reason comes in front. The text may be kept and logged: a transport's errors name hosts and addresses
// but no URL.
func classify(ctx context.Context, err error, untouched bool) error {
	if _, ok := errors.AsType[*sink.AttemptError](err); ok {
		return err
	}
	class := sink.ClassNetwork
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() || errors.Is(err, context.DeadlineExceeded) {
		class = sink.ClassTimeout
	}
	if cause := context.Cause(ctx); cause != nil {
		if !errors.Is(err, cause) { // net/http returns the cause at some steps, and the context's own error at others
			err = fmt.Errorf("%w: %w", cause, err)
		}
		if errors.Is(cause, errTimeout) || errors.Is(cause, context.DeadlineExceeded) || ctx.Err() == context.DeadlineExceeded {
			class = sink.ClassTimeout
		}
	}
	if _, ok := errors.AsType[*net.DNSError](err); ok { // counts before a timeout: the resolver may be what did not answer
		class = sink.ClassDNS
	}
	return &sink.AttemptError{Class: class, Err: err, Untouched: untouched}
}

// body bounds an answer in size and gives errors their class.
type body struct {
	ctx    context.Context
	cancel context.CancelFunc
	from   io.ReadCloser
	left   int64
}

// Read implements [io.Reader]. Beyond the most bytes that are allowed it returns ErrTooLarge.
func (b *body) Read(p []byte) (int, error) {
	if b.left <= 0 {
		var one [1]byte
		if n, err := b.from.Read(one[:]); n == 0 {
			return 0, b.wrap(err)
		}
		return 0, ErrTooLarge
	}
	n, err := b.from.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, b.wrap(err)
}

func (b *body) wrap(err error) error {
	if err == nil || err == io.EOF { //nolint:errorlint // a reader gives io.EOF itself, and must
		return err
	}
	return classify(b.ctx, err, false)
}

func (b *body) Close() error {
	defer b.cancel()
	return b.from.Close()
}

// Reach connects to a URL's host, with the TLS handshake if it is https, and sends no request.
func (c *Client) Reach(ctx context.Context, u *url.URL) error {
	if err := c.CheckURL(u); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, c.timeout, errTimeout)
	defer cancel()
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	s := c.side(u)
	conn, err := s.dial(ctx, "tcp", net.JoinHostPort(u.Hostname(), port))
	if err != nil {
		return classify(ctx, err, true)
	}
	defer conn.Close()
	if u.Scheme == "http" {
		return nil
	}
	config := s.transport.TLSClientConfig.Clone()
	config.ServerName = cmp.Or(config.ServerName, u.Hostname())
	if err := tls.Client(conn, config).HandshakeContext(ctx); err != nil {
		return classify(ctx, err, true)
	}
	return nil
}
