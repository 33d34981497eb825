package mcpsink

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/sinks/guard"
	"github.com/forebay-io/forebay/stream/sink"
)

// exchange is the requests of one attempt. It is the transport under the SDK's, and keeps what that does not tell: the
// status of an answer, what the guard said, and whether the tool may have been called.
type exchange struct {
	sink               *Sink
	ctx                context.Context // the attempt's: no request outlives it
	key, parent, state string
	chain              schemas.Chain // of agents, that the call is the last of

	mu     sync.Mutex
	called bool           // the call of the tool was handed to the network
	last   *http.Response // to the newest POST of the attempt that is no cancellation; nil: none came
	err    error          // in its place
	head   []byte         // of the answer to the call, as far as it was read
	older  bool           // the server speaks a protocol before 2026-07-28
	lost   bool           // the newest answer says that the server has lost the session
	long   *ending        // what a result says that is longer than is parsed
}

// closing bounds the request that ends a session: whatever it is answered, the attempt is over.
const closing = time.Second

var errSecond = errors.New("the tool would be called twice in one attempt")

// RoundTrip implements [http.RoundTripper].
func (x *exchange) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method == http.MethodDelete {
		return x.endSession(req)
	}
	if err := x.ctx.Err(); err != nil {
		return nil, err
	}
	method, err := methodOf(req)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(req.Context())
	stop := context.AfterFunc(x.ctx, cancel)
	end := func() { stop(); cancel() }
	req = req.Clone(ctx)
	x.dress(req, method)
	if method == callMethod && !x.begin() {
		end()
		return nil, errSecond
	}
	resp, err := x.sink.guarded.Do(req)
	x.note(req, method, resp, err)
	if err != nil {
		end()
		return nil, err
	}
	b := &body{ReadCloser: resp.Body, x: x, kept: method == callMethod, end: end}
	b.stream = strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream")
	resp.Body = b
	inSession := req.Header.Get("Mcp-Session-Id") != ""
	if (b.kept || inSession) && sink.ClassOfStatus(resp.StatusCode) != sink.ClassOK { // of which the SDK reads nothing, or not all
		answer, _ := io.ReadAll(io.LimitReader(b, int64(x.sink.redact.Limit())))
		b.ReadCloser = struct {
			io.Reader
			io.Closer
		}{bytes.NewReader(answer), b.ReadCloser}
		b.kept = false
		x.noteLost(resp, inSession && lost(resp.StatusCode, answer))
	}
	return resp, nil
}

// endSession sends the request that ends a session. It is sent after a timeout, too: servers keep sessions for hours otherwise.
func (x *exchange) endSession(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(req.Context()), closing)
	req = req.Clone(ctx)
	x.dress(req, "")
	resp, err := x.sink.guarded.Do(req)
	if err != nil {
		cancel()
		return nil, err
	}
	resp.Body = &body{ReadCloser: resp.Body, x: x, end: cancel}
	return resp, nil
}

const callMethod = "tools/call"

// methodOf returns the JSON-RPC method of a request's body; empty if it has none.
func methodOf(req *http.Request) (string, error) {
	if req.Body == nil {
		return "", nil
	}
	b, err := io.ReadAll(req.Body)
	req.Body.Close()
	if err != nil {
		return "", err
	}
	req.Body = io.NopCloser(bytes.NewReader(b))
	var m struct{ Method string }
	return m.Method, json.Unmarshal(b, &m)
}

// dress puts our headers on a request.
func (x *exchange) dress(req *http.Request, method string) {
	maps.Copy(req.Header, x.sink.headers)
	req.Header.Set("Traceparent", x.parent)
	if x.state != "" {
		req.Header.Set("Tracestate", x.state)
	}
	x.chain.Headers(req.Header.Set)
	if method == callMethod {
		req.Header.Set("Idempotency-Key", x.key)
	}
}

// begin notes that the tool is called; false: it was already.
func (x *exchange) begin() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	first := !x.called
	x.called = true
	return first
}

// note keeps the answer to a request, or its error: how the attempt ends follows from the one that came last. Of no account are requests
// that are no POST, replies to the server (they have no method) and cancellations. Where the tool's call has not reached the server, it
// counts as not made.
func (x *exchange) note(req *http.Request, method string, resp *http.Response, err error) {
	if req.Method != http.MethodPost || method == "" || method == "notifications/cancelled" {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.older = x.older || method == "initialize"
	x.last, x.err, x.lost = resp, err, false
	if err != nil && method == callMethod && sink.Untouched(err) {
		x.called = false // the call has not reached the server
	}
}

// failure returns the error of a failed attempt.
func (x *exchange) failure(ctx context.Context, err error) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	e := &sink.AttemptError{Class: sink.ClassNetwork, Err: err, Untouched: !x.called}
	refusal, refused := errors.AsType[*jsonrpc.Error](err)
	switch {
	case ctx.Err() != nil:
		e.Class, e.Err = sink.ClassTimeout, context.Cause(ctx)
	case x.err != nil:
		e.Class, e.Err = sink.ClassOf(x.err), x.err
		if inner, ok := errors.AsType[*sink.AttemptError](x.err); ok {
			e.Err = inner.Err
		}
	case x.lost:
		e.Class, e.Untouched = sink.ClassBusy, true
		e.Err = fmt.Errorf("server answered %d: the session is gone; the next attempt begins another", x.last.StatusCode)
	case x.last != nil && sink.ClassOfStatus(x.last.StatusCode) != sink.ClassOK:
		e.Class, e.Err = sink.ClassOfStatus(x.last.StatusCode), fmt.Errorf("server answered %d%s", x.last.StatusCode, guard.Location(x.last))
		if refused {
			e.Err = fmt.Errorf("%w, error %d: %s", e.Err, refusal.Code, x.words(refusal))
		}
	case refused:
		e.Class, e.Err = classOf(refusal.Code), fmt.Errorf("server answered error %d: %s", refusal.Code, x.words(refusal))
	}
	return e
}

// words returns what an error shows of a server's own words: those about the call may quote what it carries, which not everybody who sees errors
// may see. They are in the answer that is kept. The caller holds mu.
func (x *exchange) words(refusal *jsonrpc.Error) string {
	if x.called {
		return "the answer has its words"
	}
	return refusal.Message
}

// noteLost notes whether an answer, if it is the newest, says that the server has lost the session.
func (x *exchange) noteLost(resp *http.Response, lost bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.last == resp {
		x.lost = lost
	}
}

// classOf returns the class of a JSON-RPC error.
func classOf(code int64) sink.Class {
	switch code {
	case jsonrpc.CodeParseError, jsonrpc.CodeInvalidRequest, jsonrpc.CodeMethodNotFound, jsonrpc.CodeInvalidParams:
		return sink.ClassRejected
	}
	return sink.ClassBusy
}

// outcome returns the outcome to record for the attempt.
func (x *exchange) outcome() sink.Outcome {
	x.mu.Lock()
	defer x.mu.Unlock()
	out := sink.Outcome{Response: x.sink.redact.Head(bytes.Clone(x.head))}
	if x.last != nil {
		out.Code = x.last.StatusCode
		out.RetryAfter = guard.RetryAfter(x.last.Header, x.sink.now())
	}
	return out
}

// maxResult is how much is kept of an answer, or of one event of a stream, to be parsed. Of a longer one is read whether it is the
// tool's result, and how the call ended: what the tool did would not be undone because nobody parses so much.
const maxResult = 64 << 10

// body is an answer's body. While it is read, it keeps the beginning in the exchange's head, if kept is set.
type body struct {
	io.ReadCloser
	x      *exchange
	kept   bool
	stream bool // of events: each has a size of its own
	end    func()

	size    int     // bytes of the message that is being read
	line    int     // of its line
	data    bool    // the line has data of an event, as far as it was read
	verdict verdict // on the message
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	for _, c := range p[:n] {
		b.measure(c)
	}
	if b.kept {
		b.x.keep(p[:n])
	}
	if b.size <= maxResult {
		return n, err
	}
	if b.kept && b.readOn() {
		b.x.mu.Lock()
		defer b.x.mu.Unlock()
		b.x.long = b.verdict.ending()
	}
	return n, guard.ErrTooLarge
}

// readOn reads the rest of a result that is too long until it is known how the call ended, and keeps nothing of it. It returns
// false if that stays unknown: the message is no result, it breaks off, the attempt's time is over, or it is longer than maxAnswer.
func (b *body) readOn() bool {
	b.x.mu.Lock()
	older := b.x.older
	b.x.mu.Unlock()
	p := make([]byte, 4<<10)
	for b.verdict.isResult() && !b.verdict.known(older) {
		n, err := b.ReadCloser.Read(p)
		for _, c := range p[:n] {
			if b.measure(c); b.verdict.known(older) {
				return true
			}
		}
		if err != nil {
			return false
		}
	}
	return b.verdict.known(older)
}

// measure counts a byte of the message, and has the verdict read it. In a stream an empty line ends a message, and what follows
// "data:" in its lines is JSON.
func (b *body) measure(c byte) {
	const data = "data:"
	b.size++
	switch {
	case b.stream && c == '\n' && b.line == 0:
		b.size, b.verdict = 0, verdict{}
	case c == '\n':
		b.line = 0
	case c == '\r':
	case b.stream && b.line < len(data):
		b.data = (b.line == 0 || b.data) && c == data[b.line]
		b.line++
	default:
		b.line++
		if !b.stream || b.data {
			b.verdict.read(c)
		}
	}
}

// keep keeps the beginning of the answer to the call.
func (x *exchange) keep(p []byte) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.head = append(x.head, p[:min(len(p), x.sink.redact.Limit()-len(x.head))]...)
}

// tooLong returns what is known of a result that is longer than is parsed; nil: there was none.
func (x *exchange) tooLong() *ending {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.long
}

func (b *body) Close() error {
	defer b.end()
	return b.ReadCloser.Close()
}
