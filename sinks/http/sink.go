package httpsink

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/header"
	"github.com/forebay-io/forebay/sinks/guard"
	"github.com/forebay-io/forebay/sinks/redact"
	"github.com/forebay-io/forebay/sinks/spec"
	"github.com/forebay-io/forebay/sinks/template"
	"github.com/forebay-io/forebay/stream/sink"
)

// Config makes a [Sink].
type Config struct {
	// URL is called with POST. It may hold a secret in its query and is never shown.
	URL string
	// Secret signs every call: "whsec_" and base64 of 24 to 64 bytes. Without it calls are not signed.
	Secret schemas.Secret
	// Headers are sent as they are with every call; they may not name a header that the sink sets itself.
	Headers spec.Headers
	// Expect is [ExpectJSON] where a 2xx counts only with JSON, or 204; empty: any 2xx counts.
	Expect string
	// Common has Params, those that [Params] declares; nil: none, and the event's body is sent as it is. Timeout is of an exchange; default 30 s.
	spec.Common
	// Resolver and Dial as in [guard.Config].
	Resolver guard.Resolver
	Dial     func(ctx context.Context, network, address string) (net.Conn, error)
	// Now is the clock of signatures; default time.Now.
	Now func() time.Time
}

// ExpectJSON says that who answers with something else, such as a proxy's login page, is not the destination.
const ExpectJSON = "json"

// Sink is one HTTP destination. Safe for concurrent use.
type Sink struct {
	sink.Opaque
	url     *url.URL
	key     []byte // nil: calls are not signed
	headers http.Header
	params  *template.Set
	json    bool // is expected
	agent   string
	client  *guard.Client
	now     func() time.Time
	redact  *redact.Redactor
}

var (
	_ sink.Sink     = (*Sink)(nil)
	_ sink.Checker  = (*Sink)(nil)
	_ sink.Endpoint = (*Sink)(nil)
	_ sink.Canceler = (*Sink)(nil)
)

// New makes a sink without connecting. Errors are of kind invalid and show neither URL nor secrets.
func New(cfg Config) (*Sink, error) {
	const op = "make an http destination"
	target, err := url.Parse(cfg.URL)
	if err != nil {
		return nil, schemas.Errorf(schemas.Invalid, op, "its URL cannot be parsed")
	}
	s := &Sink{Opaque: "http destination", url: target, json: cfg.Expect == ExpectJSON, agent: "Forebay/" + cmp.Or(cfg.Version, "dev"), now: cfg.Now}
	if cfg.Params != nil && !cfg.Params.Empty() {
		s.params = cfg.Params
	}
	if s.now == nil {
		s.now = time.Now
	}
	if s.key, err = signingKey(cfg.Secret); err != nil {
		return nil, schemas.Errorf(schemas.Invalid, op, "%w", err)
	}
	if s.headers, err = header.Compile(cfg.Headers, ours...); err != nil {
		return nil, schemas.Errorf(schemas.Invalid, op, "%w", err)
	}
	s.client, err = guard.New(guard.Config{
		AllowNetworks: cfg.AllowNetworks, Timeout: cfg.Timeout, Resolver: cfg.Resolver, Dial: cfg.Dial,
		MaxResponse: math.MaxInt64, // Do keeps its head alone, and reads on
	})
	if err != nil {
		return nil, err
	}
	if err := s.client.CheckURL(target); err != nil {
		return nil, schemas.Errorf(schemas.Invalid, op, "%w", err)
	}
	s.redact = redactor(cfg, target)
	return s, nil
}

// Idempotency returns idempotent: the key goes with every attempt.
func (s *Sink) Idempotency() sink.Idempotency { return sink.Idempotent }

// Endpoint says that the URL is one place for all actions.
func (s *Sink) Endpoint() {}

// Where implements [sink.Located].
func (s *Sink) Where() string { return s.redact.Text(guard.Plain(s.url)) }

// Close closes idle connections.
func (s *Sink) Close(context.Context) error {
	s.client.Close()
	return nil
}

// lastWords is how long the body of a 202 is read that has taken a long action: the action does not wait for it.
const lastWords = time.Second

// Do makes one attempt.
func (s *Sink) Do(ctx context.Context, a sink.Action) (sink.Outcome, error) {
	sent, contentType, err := s.body(a)
	if err != nil {
		return sink.Outcome{}, err
	}
	req, err := s.request(ctx, a, sent, contentType)
	if err != nil {
		return sink.Outcome{}, &sink.AttemptError{Class: sink.ClassBug, Err: err}
	}
	redact := s.redact
	if a.Later != nil {
		redact = redact.And(a.Later.Token)
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return sink.Outcome{}, redact.Err(err)
	}
	defer resp.Body.Close()
	taken := a.Later != nil && resp.StatusCode == http.StatusAccepted
	var cut atomic.Bool
	if taken { // whatever it says behind its headers
		defer time.AfterFunc(lastWords, func() { cut.Store(true); resp.Body.Close() }).Stop()
	}
	var body io.Reader = resp.Body
	var read bytes.Buffer // of the answer, where it counts
	if s.json {
		body = io.TeeReader(body, &read)
	}
	out := sink.Outcome{
		Code: resp.StatusCode, Response: redact.Answer(body, resp.ContentLength), RetryAfter: guard.RetryAfter(resp.Header, s.now()),
		Later: taken,
	}
	if said := resp.Header.Get("Forebay-Cancel-Url"); out.Later && len(said) <= sink.MaxCancelURL {
		out.CancelURL = said
	}
	if said := resp.Header.Get("Forebay-Cost"); said != "" {
		cost, err := sink.ParseCost(said)
		out.Cost, out.CostRefused = cost, err != nil
	}
	if class := sink.ClassOfStatus(resp.StatusCode); class != sink.ClassOK {
		return out, redact.Err(&sink.AttemptError{Class: class, Err: fmt.Errorf("destination answered %d%s", resp.StatusCode, guard.Location(resp))})
	}
	if !out.Later { // a handler may stream its answer while it works: that is done when the answer ends
		if _, err := io.Copy(io.Discard, resp.Body); err != nil { // also the error that Answer has met
			return out, redact.Err(&sink.AttemptError{Class: sink.ClassOf(err), Err: fmt.Errorf("destination answered %d, and not to the end: %w", resp.StatusCode, err)})
		}
	}
	if s.json && resp.StatusCode != http.StatusNoContent && !isJSON(read.Bytes(), read.Len() < redact.Limit() && !cut.Load()) {
		out.Later, out.CancelURL = false, ""
		return out, &sink.AttemptError{Class: sink.ClassBusy, Err: fmt.Errorf("destination answered %d with something that is not JSON", resp.StatusCode)}
	}
	return out, nil
}

// isJSON reports whether an answer is JSON, as far as it was read. A byte order mark before it may be ignored (RFC 8259, section 8.1).
func isJSON(answer []byte, whole bool) bool {
	answer = bytes.TrimPrefix(answer, []byte("\xef\xbb\xbf"))
	if whole {
		return json.Valid(answer)
	}
	for d := json.NewDecoder(bytes.NewReader(answer)); ; {
		if _, err := d.Token(); err != nil {
			return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		}
	}
}

// request builds one attempt's request.
func (s *Sink) request(ctx context.Context, a sink.Action, body []byte, contentType string) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	target := *s.url
	req.URL, req.Host = &target, target.Host
	h := make(http.Header, len(s.headers)+headerCount)
	req.Header = h
	maps.Copy(h, s.headers)
	setEvent(h, a.Event)
	if e := a.Event; e.Extensions[schemas.EncodingAttribute] != "" && len(body) > 0 && len(e.Data) > 0 && &body[0] == &e.Data[0] {
		h.Set("Content-Encoding", e.Extensions[schemas.EncodingAttribute]) // the event's body, as its sender signed it
	}
	if contentType != "" {
		h.Set("Content-Type", contentType)
	}
	h.Set("User-Agent", s.agent)
	h.Set("Idempotency-Key", string(a.ID))
	h.Set("Webhook-Id", string(a.ID))
	h.Set("Forebay-Attempt", strconv.Itoa(a.Attempt))
	if a.Late {
		h.Set("Forebay-Late", "true")
	}
	setLater(h, a.Later)
	a.Call().Headers(h.Set)
	hop(h, a)
	s.sign(h, a.ID, body)
	return req, nil
}

// sign signs a call, if the destination has a secret.
func (s *Sink) sign(h http.Header, id schemas.ActionID, body []byte) {
	if s.key != nil {
		stamp := strconv.FormatInt(s.now().Unix(), 10)
		h.Set("Webhook-Timestamp", stamp)
		h.Set("Webhook-Signature", sign(s.key, string(id), stamp, body))
	}
}

// Check reports whether the destination's address is allowed and accepts connections. Nothing is sent to it but a TLS
// handshake where the URL is https.
func (s *Sink) Check(ctx context.Context) error {
	if err := s.client.Reach(ctx, s.url); err != nil {
		return s.redact.Err(err)
	}
	return nil
}

// headerCount is about how many headers the sink sets.
const headerCount = 32

// ours are the headers that the sink sets.
var ours = []string{
	"Ce-", "Content-Type", "Forebay-", "Idempotency-Key", "Traceparent", "Tracestate", "User-Agent", "Webhook-", schemas.ChainHeader, schemas.DepthHeader, schemas.TraceIDHeader,
	sink.CancelHeader,
}
