package mcpsink

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

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
	// URL is the server's endpoint. It may hold a secret in its query and is never shown.
	URL string
	// Headers are sent with every request, such as Authorization.
	Headers spec.Headers
	// ToolErrors says what follows a result with isError: [ToolErrorDead], the default, or [ToolErrorRetry].
	ToolErrors string
	// Untrusted is UntrustedOK where arguments may hold words of events; empty where they may not. The configuration is checked for it.
	Untrusted string
	// Idempotent says whether the tools look at the key; nil: they do.
	Idempotent *bool
	// Common has Params, those that [Params] declares; they are required. Timeout is of one request; default 30 s.
	spec.Common
	// Resolver as in [guard.Config].
	Resolver guard.Resolver
	// Now is the clock that dates in Retry-After are seen from; default time.Now.
	Now func() time.Time
}

// UntrustedOK is the word of Config.Untrusted.
const UntrustedOK = "ok"

// What may follow when a tool says that it failed.
const (
	ToolErrorDead  = "dead"
	ToolErrorRetry = "retry" // it may be another result the next time
)

// maxAnswer is how much of an answer is read; see maxResult for how much is kept.
const maxAnswer = 8 << 20

// Sink calls tools of one server. Safe for concurrent use.
type Sink struct {
	sink.Opaque
	url     *url.URL
	headers http.Header
	params  *template.Set
	failed  sink.Class // of a result with isError
	kind    sink.Idempotency
	mcp     *mcp.Client
	guarded *guard.Client
	redact  *redact.Redactor
	now     func() time.Time
	ending  sync.WaitGroup // sessions of attempts that were cut short
}

var (
	_ sink.Sink    = (*Sink)(nil)
	_ sink.Checker = (*Sink)(nil)
)

// New makes a sink without connecting. Errors are of kind invalid and show neither URL nor secrets.
func New(cfg Config) (*Sink, error) {
	const op = "make an mcp destination"
	target, err := url.Parse(cfg.URL)
	if err != nil {
		return nil, schemas.Errorf(schemas.Invalid, op, "its URL cannot be parsed")
	}
	if cfg.Params == nil {
		return nil, schemas.Errorf(schemas.Invalid, op, "params are missing")
	}
	s := &Sink{Opaque: "mcp destination", url: target, params: cfg.Params, failed: sink.ClassRejected, kind: sink.Idempotent, now: cfg.Now}
	if cfg.ToolErrors == ToolErrorRetry {
		s.failed = sink.ClassBusy
	}
	if cfg.Idempotent != nil && !*cfg.Idempotent {
		s.kind = sink.Unsafe
	}
	if s.now == nil {
		s.now = time.Now
	}
	if s.headers, err = header.Compile(cfg.Headers, ours...); err != nil {
		return nil, schemas.Errorf(schemas.Invalid, op, "%w", err)
	}
	version := cmp.Or(cfg.Version, "dev")
	s.headers.Set("User-Agent", "Forebay/"+version)
	s.guarded, err = guard.New(guard.Config{
		AllowNetworks: cfg.AllowNetworks, Timeout: cfg.Timeout, Resolver: cfg.Resolver, MaxResponse: maxAnswer,
	})
	if err != nil {
		return nil, err
	}
	if err := s.guarded.CheckURL(target); err != nil {
		return nil, schemas.Errorf(schemas.Invalid, op, "%w", err)
	}
	s.redact = redactor(cfg, target)
	// No capabilities: nobody here answers a server's questions.
	s.mcp = mcp.NewClient(&mcp.Implementation{Name: "forebay", Version: version}, &mcp.ClientOptions{
		Capabilities: &mcp.ClientCapabilities{}, MultiRoundTrip: &mcp.MultiRoundTripOptions{Disabled: true},
	})
	return s, nil
}

// ours are the headers that the sink sets.
var ours = []string{
	"Accept", "Content-Type", "Idempotency-Key", "Last-Event-Id", "Mcp-", "Traceparent", "Tracestate", "User-Agent", schemas.ChainHeader, schemas.DepthHeader, schemas.TraceIDHeader,
}

// redactor knows what is secret: the headers, what the URL has of secrets, and what references of the file led to.
func redactor(cfg Config, target *url.URL) *redact.Redactor {
	secrets := append(redact.Words(cfg.Hidden...), redact.URL(target)...)
	for _, h := range cfg.Headers {
		secrets = append(secrets, redact.Words(h)...)
	}
	return redact.New(secrets...)
}

// Do makes one attempt.
func (s *Sink) Do(ctx context.Context, a sink.Action) (sink.Outcome, error) {
	values, err := s.params.Render(a)
	if err != nil {
		return sink.Outcome{}, err
	}
	arguments, _ := values["arguments"].(map[string]any)
	if arguments == nil {
		arguments = map[string]any{}
	}
	ctx, cancel := context.WithCancel(ctx) // ends what the session has left over
	defer cancel()
	parent, state := a.Hop()
	x := &exchange{sink: s, ctx: ctx, key: string(a.ID), parent: parent, state: state, chain: a.Call()}
	meta := mcp.Meta{"forebay/action_id": string(a.ID), "forebay/attempt": a.Attempt, "traceparent": parent}
	result, err := s.call(ctx, x, &mcp.CallToolParams{Meta: meta, Name: values.Text("tool"), Arguments: arguments})
	switch long := x.tooLong(); {
	case err == nil:
		err = s.judge(&ending{result.NeedsInput(), len(result.InputRequests) > 0, result.IsError})
	case long != nil:
		err = s.judge(long)
	default:
		err = x.failure(ctx, err)
	}
	out := x.outcome()
	if result != nil {
		setCost(&out, result.Meta["forebay/cost"])
	}
	return out, s.redact.Err(err)
}

// setCost notes what the tool says that the call has cost: a number, or a decimal as text.
func setCost(out *sink.Outcome, said any) {
	text := ""
	switch said := said.(type) {
	case nil:
		return
	case string:
		text = said
	case float64:
		text = strconv.FormatFloat(said, 'f', -1, 64)
	}
	cost, err := sink.ParseCost(text)
	out.Cost, out.CostRefused = cost, err != nil
}

// call makes a session, calls the tool and ends the session.
func (s *Sink) call(ctx context.Context, x *exchange, params *mcp.CallToolParams) (*mcp.CallToolResult, error) {
	session, err := s.mcp.Connect(ctx, &mcp.StreamableClientTransport{
		Endpoint: s.url.String(), MaxRetries: -1, DisableStandaloneSSE: true, MaxEventSize: maxAnswer,
		HTTPClient: &http.Client{Transport: x, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
	}, nil)
	if err != nil {
		return nil, err
	}
	result, err := session.CallTool(ctx, params)
	if ctx.Err() != nil { // the attempt is over: its session ends beside the next one
		s.ending.Go(func() { _ = session.Close() })
	} else {
		_ = session.Close()
	}
	return result, err
}

// inputRequired is the resultType of a call that has not ended.
const inputRequired = "input_required"

// ending is what a result says of how the call ended.
type ending struct {
	needsInput bool // it has not: its resultType is input_required
	asks       bool // for some input
	failed     bool // isError
}

// judge says what a result means.
func (s *Sink) judge(e *ending) error {
	switch {
	case e.needsInput && !e.asks:
		return &sink.AttemptError{Class: sink.ClassBusy, Err: errors.New("the server is busy")}
	case e.needsInput:
		return &sink.AttemptError{Class: sink.ClassRejected, Err: errors.New("the tool asks for input, and nobody is there to answer")}
	case e.failed:
		return &sink.AttemptError{Class: s.failed, Err: errors.New("the tool failed; its answer says why")}
	}
	return nil
}

// Check reports whether the server's address is allowed and accepts connections. Nothing is sent to it but a TLS
// handshake where the URL is https.
func (s *Sink) Check(ctx context.Context) error { return s.redact.Err(s.guarded.Reach(ctx, s.url)) }

// Where implements [sink.Located].
func (s *Sink) Where() string { return s.redact.Text(guard.Plain(s.url)) }

// Answer implements [sink.Answerer].
func (s *Sink) Answer() int { return maxResult }

// Close waits until the sessions of attempts that were cut short have ended, a second at most, and closes idle connections.
func (s *Sink) Close(context.Context) error {
	s.ending.Wait()
	s.guarded.Close()
	return nil
}

// Idempotency returns idempotent for tools that look at the key; see the package comment.
func (s *Sink) Idempotency() sink.Idempotency { return s.kind }
