package mcpsink

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/sinks/spec"
	"github.com/forebay-io/forebay/sinks/template"
	"github.com/forebay-io/forebay/stream/sink"
	"github.com/forebay-io/forebay/stream/sink/sinktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}

func params(t testing.TB, tool string, arguments any) *template.Set {
	t.Helper()
	given := map[string]any{"tool": tool}
	if arguments != nil {
		given["arguments"] = arguments
	}
	set, err := template.NewSet(Params(), given, nil)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func toolErrors(retry bool) string {
	if retry {
		return ToolErrorRetry
	}
	return ToolErrorDead
}

func must(t testing.TB, cfg Config) *Sink {
	t.Helper()
	cfg.AllowNetworks = loopback
	if cfg.Params == nil {
		cfg.Params = params(t, "triage", nil)
	}
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close(context.Background()) })
	return s
}

// message is what a server reads of a request.
type message struct {
	ID     json.RawMessage
	Method string
	Params struct {
		Name string
		Meta map[string]any `json:"_meta"`
	}
}

func read(body []byte) (m message) {
	_ = json.Unmarshal(body, &m)
	return m
}

// discovered is what the newest servers answer before a call.
const discovered = `{"jsonrpc":"2.0","id":%s,"result":{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"resultType":"complete",
	"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"scripted","version":"1"}}}}`

// handshake answers what comes before a call and readies the answer to that.
func handshake(w http.ResponseWriter, r *http.Request) bool {
	b, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(strings.NewReader(string(b)))
	w.Header().Set("Content-Type", "application/json")
	m := read(b)
	switch m.Method {
	case "server/discover":
		_, _ = fmt.Fprintf(w, discovered, m.ID)
	case "notifications/cancelled":
		w.WriteHeader(http.StatusAccepted)
	default:
		return false
	}
	return true
}

func TestConformance(t *testing.T) {
	sinktest.Run(t, sinktest.Harness{
		Make: func(t testing.TB, d sinktest.Target) sink.Sink {
			return must(t, Config{
				URL: d.URL + "/mcp?token=" + url.QueryEscape(d.Secret), Headers: map[string]schemas.Secret{"Authorization": schemas.NewSecret("Bearer " + d.Secret)},
			})
		},
		Key: func(_ *http.Request, body []byte) string {
			key, _ := read(body).Params.Meta["forebay/action_id"].(string)
			return key
		},
		// The session is new with every attempt: the call is its second message.
		Answer: func(int) string {
			return `{"jsonrpc":"2.0","id":2,"result":{"resultType":"complete","content":[{"type":"text","text":"filed"}]}}`
		},
		Lookup: handshake,
	})
}

// serve points a sink at a handler.
func serve(t *testing.T, h http.Handler, cfg Config) *Sink {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	cfg.URL = server.URL
	return must(t, cfg)
}

// servers are the ways in which the SDK's server speaks: the newest protocol without sessions, and sessions of the one
// before; answers as JSON, and as streams of events.
var servers = map[string]mcp.StreamableHTTPOptions{
	"stateless": {Stateless: true}, "stateless, JSON": {Stateless: true, JSONResponse: true}, "sessions": {}, "sessions, JSON": {JSONResponse: true},
}

func TestCall(t *testing.T) {
	t.Parallel()
	for name, options := range servers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake(options)
			s := serve(t, f, Config{
				Headers: map[string]schemas.Secret{"Authorization": schemas.NewSecret("Bearer hush-hush")},
				Common:  spec.Common{Params: params(t, "triage", map[string]any{"order": "{{body.order}}", "title": "Order {{body.order}}", "deep": []any{map[string]any{"late": "{{event.late}}"}, 1}})},
			})
			a := sinktest.Action(1)
			a.Attempt = 3
			out, err := s.Do(t.Context(), a)
			if err != nil || out.Code != 200 || !strings.Contains(string(out.Response), "filed") {
				t.Fatalf("%d %s, %v", out.Code, out.Response, err)
			}
			if len(f.calls) != 1 || f.Done() != 1 {
				t.Fatalf("%d calls", len(f.calls))
			}
			call := f.calls[0]
			var arguments any
			if err := json.Unmarshal(call.Arguments, &arguments); err != nil {
				t.Fatal(err)
			}
			want := map[string]any{"order": 7.0, "title": "Order 7", "deep": []any{map[string]any{"late": false}, 1.0}}
			if diff := cmp.Diff(any(want), arguments); diff != "" {
				t.Error(diff)
			}
			if call.Meta["forebay/action_id"] != string(a.ID) || call.Meta["forebay/attempt"] != 3.0 {
				t.Errorf("_meta %v", call.Meta)
			}
			h := f.headers[0]
			if h.Get("Idempotency-Key") != string(a.ID) || h.Get("Authorization") != "Bearer hush-hush" || h.Get("User-Agent") != "Forebay/dev" ||
				!strings.HasPrefix(h.Get("Traceparent"), a.Event.TraceParent[:36]) || h.Get("Traceparent") != call.Meta["traceparent"] {
				t.Errorf("headers %v", h)
			}
			// The next attempt is a session of its own, and a tool without arguments gets an empty object.
			s.params = params(t, "triage", nil)
			if _, err := s.Do(t.Context(), sinktest.Action(2)); err != nil || string(f.calls[1].Arguments) != "{}" {
				t.Errorf("%v, arguments %s", err, f.calls[1].Arguments)
			}
		})
	}
}

// What tools answer, and what follows.
func TestEndsOfACall(t *testing.T) {
	t.Parallel()
	for name, options := range servers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(newFake(options))
			defer server.Close()
			defer server.CloseClientConnections()
			for _, tt := range []struct {
				tool  string
				retry bool
				class sink.Class
				said  string // in the answer that is kept, which who may not see what events carry does not see either
			}{
				{"triage", false, sink.ClassOK, "filed"},
				{"fails", false, sink.ClassRejected, "no such project"},
				{"fails", true, sink.ClassBusy, "no such project"},
				{"broken", false, sink.ClassBusy, "out of disk"},
				{"picky", false, sink.ClassRejected, "no project given"},
				{"crowded", false, sink.ClassBusy, "queue is full"},
				{"no-such-tool", false, sink.ClassRejected, "no-such-tool"},
			} {
				s := must(t, Config{URL: server.URL, Common: spec.Common{Params: params(t, tt.tool, nil)}, ToolErrors: toolErrors(tt.retry)})
				out, err := s.Do(t.Context(), sinktest.Action(1))
				if got := sink.ClassOf(err); got != tt.class || sink.Untouched(err) {
					t.Errorf("%s: class %q, want %q: %v", tt.tool, got, tt.class, err)
				}
				if !strings.Contains(string(out.Response), tt.said) || strings.Contains(fmt.Sprint(err), tt.said) {
					t.Errorf("%s: %q is not in %s, or in %v", tt.tool, tt.said, out.Response, err)
				}
			}
		})
	}
	for tool, want := range map[string]sink.Outcome{"triage": {}, "paid": {Cost: 250_000}, "overpaid": {CostRefused: true}} {
		s := serve(t, newFake(servers["stateless"]), Config{Common: spec.Common{Params: params(t, tool, nil)}})
		if out, _ := s.Do(t.Context(), sinktest.Action(1)); out.Cost != want.Cost || out.CostRefused != want.CostRefused {
			t.Errorf("%s has cost %s, refused %t", tool, out.Cost, out.CostRefused)
		}
	}
	s := serve(t, newFake(servers["stateless"]), Config{Common: spec.Common{Params: params(t, "asks", nil)}})
	if _, err := s.Do(t.Context(), sinktest.Action(1)); sink.ClassOf(err) != sink.ClassRejected || !strings.Contains(err.Error(), "asks for input") {
		t.Errorf("a tool that asks: %v", err)
	}
}

func TestErrorCodes(t *testing.T) {
	t.Parallel()
	for code, want := range map[int64]sink.Class{
		jsonrpc.CodeParseError: sink.ClassRejected, jsonrpc.CodeInvalidRequest: sink.ClassRejected, jsonrpc.CodeMethodNotFound: sink.ClassRejected,
		jsonrpc.CodeInvalidParams: sink.ClassRejected, jsonrpc.CodeInternalError: sink.ClassBusy, -32000: sink.ClassBusy, -32099: sink.ClassBusy,
		-32100: sink.ClassBusy, 1: sink.ClassBusy, 0: sink.ClassBusy,
	} {
		if got := classOf(code); got != want {
			t.Errorf("%d: %q, want %q", code, got, want)
		}
	}
}

// scripted answers by JSON-RPC method; what has no answer here goes to the handshake.
type scripted map[string]http.HandlerFunc

func (s scripted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b, _ := io.ReadAll(r.Body)
	method := read(b).Method
	if r.Method == http.MethodDelete {
		method = "DELETE"
	}
	r.Body = io.NopCloser(strings.NewReader(string(b)))
	if h := s[method]; h != nil {
		h(w, r)
		return
	}
	if !handshake(w, r) {
		w.WriteHeader(http.StatusTeapot)
	}
}

func answer(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "17")
		w.WriteHeader(code)
		_, _ = io.WriteString(w, "said so")
	}
}

func abort(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

// What fails before the call has not acted; what fails with the call may have.
func TestUntouched(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name      string
		script    scripted
		class     sink.Class
		untouched bool
		code      int
	}{
		{"refused at the handshake", scripted{"server/discover": answer(401), "initialize": answer(401)}, sink.ClassDenied, true, 401},
		{"busy at the handshake", scripted{"server/discover": answer(503), "initialize": answer(503)}, sink.ClassBusy, true, 503},
		{"cut at the handshake", scripted{"server/discover": abort, "initialize": abort}, sink.ClassNetwork, true, 0},
		{"no MCP server", scripted{"server/discover": answer(404), "initialize": answer(404)}, sink.ClassRejected, true, 404},
		{"cut at the call", scripted{"tools/call": abort}, sink.ClassNetwork, false, 0},
		{"busy at the call", scripted{"tools/call": answer(503)}, sink.ClassBusy, false, 503},
		{"too many calls", scripted{"tools/call": answer(429)}, sink.ClassThrottled, true, 429},
		{"no JSON", scripted{"tools/call": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, "filed")
		}}, sink.ClassNetwork, false, 200},
		{"a page", scripted{"tools/call": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			_, _ = io.WriteString(w, "<html>")
		}}, sink.ClassNetwork, false, 200},
		{"a stream without the answer", scripted{"tools/call": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, "id: 7\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":1,\"progress\":1}}\n\n")
		}}, sink.ClassNetwork, false, 200},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			out, err := serve(t, tt.script, Config{}).Do(t.Context(), sinktest.Action(1))
			if sink.ClassOf(err) != tt.class || sink.Untouched(err) != tt.untouched || out.Code != tt.code {
				t.Errorf("class %q, untouched %v, code %d: %v", sink.ClassOf(err), sink.Untouched(err), out.Code, err)
			}
			if out.Code > 400 && out.RetryAfter != 17*time.Second {
				t.Errorf("Retry-After %v", out.RetryAfter)
			}
		})
	}
	s := must(t, Config{URL: "http://127.0.0.1:1/"})
	if _, err := s.Do(t.Context(), sinktest.Action(1)); sink.ClassOf(err) != sink.ClassNetwork || !sink.Untouched(err) {
		t.Errorf("nobody listens: %v", err)
	}
}

// A server that is restarted between the handshake and the call has lost the session, and the tool was not called: the
// next attempt begins another.
func TestSessionThatTheServerLost(t *testing.T) {
	t.Parallel()
	for _, at := range []string{"notifications/initialized", callMethod} {
		for _, unsafe := range []bool{false, true} {
			t.Run(fmt.Sprint(at, ", unsafe ", unsafe), func(t *testing.T) {
				t.Parallel()
				before, after := newFake(servers["sessions"]), newFake(servers["sessions"])
				t.Cleanup(before.end)
				t.Cleanup(after.end)
				var restarted atomic.Bool
				s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					b, _ := io.ReadAll(r.Body)
					r.Body = io.NopCloser(strings.NewReader(string(b)))
					if read(b).Method == at {
						restarted.Store(true)
					}
					if restarted.Load() {
						after.ServeHTTP(w, r)
					} else {
						before.ServeHTTP(w, r)
					}
				}), Config{Idempotent: new(!unsafe)})
				out, err := s.Do(t.Context(), sinktest.Action(1))
				if sink.ClassOf(err) != sink.ClassBusy || !sink.Untouched(err) || out.Code != http.StatusNotFound {
					t.Fatalf("class %q, untouched %v, code %d: %v", sink.ClassOf(err), sink.Untouched(err), out.Code, err)
				}
				if _, err := s.Do(t.Context(), sinktest.Action(1)); err != nil || before.Done() != 0 || after.Done() != 1 {
					t.Errorf("the next attempt: done %d and %d times, %v", before.Done(), after.Done(), err)
				}
			})
		}
	}
}

// inSession answers with a session of the protocol before 2026-07-28, and then one method with a status and a body.
func inSession(at string, code int, contentType, body string) scripted {
	return scripted{
		"server/discover": answer(400),
		"initialize": func(w http.ResponseWriter, r *http.Request) {
			b, _ := io.ReadAll(r.Body)
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Mcp-Session-Id", "s1")
			_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"scripted","version":"1"}}}`, read(b).ID)
		},
		"notifications/initialized": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) },
		at: func(w http.ResponseWriter, r *http.Request) {
			b, _ := io.ReadAll(r.Body)
			w.Header().Set("Content-Type", contentType)
			w.WriteHeader(code)
			_, _ = io.WriteString(w, strings.ReplaceAll(body, "<id>", string(read(b).ID)))
		},
		"DELETE": answer(200),
	}
}

// TestFormsOfALostSession: what SDKs and servers answer to a session that they do not have, in their own words, is retried in a new one;
// what is said of the call or of credentials is not.
func TestFormsOfALostSession(t *testing.T) {
	t.Parallel()
	const text, object = "text/plain; charset=utf-8", "application/json"
	for _, tt := range []struct {
		name       string
		code       int
		kind, body string
		class      sink.Class
	}{
		{"the specification", 404, text, "", sink.ClassBusy},
		{"TypeScript SDK", 404, object, `{"jsonrpc":"2.0","error":{"code":-32001,"message":"Session not found"},"id":null}`, sink.ClassBusy},
		{"TypeScript SDK, not initialized", 400, object, `{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: Server not initialized"},"id":null}`, sink.ClassBusy},
		{"TypeScript SDK, examples", 400, object, `{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: No valid session ID provided"},"id":null}`, sink.ClassBusy},
		{"Python SDK until 2026", 400, text, "Bad Request: No valid session ID provided", sink.ClassBusy},
		{"Python SDK", 404, object, `{"jsonrpc":"2.0","id":"server-error","error":{"code":-32600,"message":"Session not found"}}`, sink.ClassBusy},
		{"Python SDK 2", 404, object, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Session not found"}}`, sink.ClassBusy},
		{"Python SDK, terminated", 404, object, `{"jsonrpc":"2.0","id":"server-error","error":{"code":-32600,"message":"Not Found: Session has been terminated"}}`, sink.ClassBusy},
		{"Python SDK, expired", 404, object, `{"jsonrpc":"2.0","id":"server-error","error":{"code":-32600,"message":"Not Found: Invalid or expired session ID"}}`, sink.ClassBusy},
		{"C# SDK", 404, object, `{"error":{"code":-32001,"message":"Session not found"},"id":"","jsonrpc":"2.0"}`, sink.ClassBusy},
		{"Go SDK", 404, text, "session not found\n", sink.ClassBusy},
		{"Rust SDK", 404, text, "Not Found: Session not found", sink.ClassBusy},
		{"Rust SDK until 2026", 401, text, "Unauthorized: Session not found", sink.ClassBusy},
		{"mcp-go", 400, text, "Invalid session ID\n", sink.ClassBusy},
		{"mcp-go, terminated", 404, text, "Session terminated\n", sink.ClassBusy},
		{"Anubis", 400, object, `{"jsonrpc":"2.0","id":<id>,"error":{"code":-32000,"message":"No active session"}}`, sink.ClassBusy},
		{"unknown header", 400, object, `{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: Unknown Mcp-Session-Id header"},"id":null}`, sink.ClassBusy},

		{"no such tool", 404, object, `{"jsonrpc":"2.0","id":<id>,"error":{"code":-32601,"message":"no tools here"}}`, sink.ClassRejected},
		{"no such argument", 400, object, `{"jsonrpc":"2.0","id":<id>,"error":{"code":-32602,"message":"unknown session of the game"}}`, sink.ClassRejected},
		{"another fault of ours", 400, object, `{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: Unsupported protocol version"},"id":null}`, sink.ClassRejected},
		{"credentials", 401, object, `{"error":"invalid_token","error_description":"The access token expired"}`, sink.ClassDenied},
		{"another's session", 403, text, "session user mismatch\n", sink.ClassDenied},
	} {
		for _, at := range []string{"notifications/initialized", callMethod} {
			if strings.Contains(tt.body, "<id>") && at != callMethod {
				continue // a notification has no id, and is no call
			}
			t.Run(tt.name+", "+at, func(t *testing.T) {
				t.Parallel()
				out, err := serve(t, inSession(at, tt.code, tt.kind, tt.body), Config{}).Do(t.Context(), sinktest.Action(1))
				lost := tt.class == sink.ClassBusy
				if sink.ClassOf(err) != tt.class || out.Code != tt.code || lost && !sink.Untouched(err) || lost != strings.Contains(fmt.Sprint(err), "the session is gone") {
					t.Errorf("class %q, untouched %v, code %d: %v", sink.ClassOf(err), sink.Untouched(err), out.Code, err)
				}
			})
		}
	}
	// Without a session nothing is lost.
	_, err := serve(t, scripted{callMethod: answer(404)}, Config{}).Do(t.Context(), sinktest.Action(1))
	if sink.ClassOf(err) != sink.ClassRejected {
		t.Errorf("404 without a session: %v", err)
	}
}

// until makes an attempt, and ends its time when there is something on reached.
func until(t *testing.T, s *Sink, n int, reached <-chan struct{}) error {
	t.Helper()
	ctx, end := context.WithCancelCause(t.Context())
	defer end(nil)
	done := make(chan error, 1)
	go func() {
		_, err := s.Do(ctx, sinktest.Action(n))
		done <- err
	}()
	for over := time.After(time.Minute); ; {
		select {
		case <-reached:
			end(context.DeadlineExceeded)
		case err := <-done:
			return err
		case <-over:
			t.Fatal("the attempt does not end")
		}
	}
}

// A server that hangs anywhere does not hold the attempt beyond its time, and one that hangs when the session is ended
// holds it for a moment only.
func TestHangs(t *testing.T) {
	t.Parallel()
	hang := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	for name, method := range map[string]string{"handshake": "server/discover", "call": "tools/call", "answer": "tools/call"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reached := make(chan struct{}, 1)
			s := serve(t, scripted{"notifications/cancelled": hang, method: func(w http.ResponseWriter, r *http.Request) {
				if name == "answer" {
					w.Header().Set("Content-Type", "text/event-stream")
					w.(http.Flusher).Flush()
				}
				reached <- struct{}{}
				hang(w, r)
			}}, Config{})
			if err := until(t, s, 1, reached); sink.ClassOf(err) != sink.ClassTimeout || sink.Untouched(err) != (name == "handshake") {
				t.Error(err)
			}
		})
	}
	f := newFake(servers["sessions"])
	defer f.end()
	s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodDelete {
			hang(w, r)
			return
		}
		f.ServeHTTP(w, r)
	}), Config{})
	if err := until(t, s, 1, nil); err != nil {
		t.Errorf("the end of the session: %v", err)
	}
}

// The key goes with every attempt, and a tool that looks at it acts once, whatever breaks and wherever.
func TestOnce(t *testing.T) {
	sinktest.Once(t, sinktest.Effect{
		Fake: func() sinktest.Fake { return newFake(servers["stateless"]) }, Calls: 2,
		Make: func(t testing.TB, url string) sink.Sink { return must(t, Config{URL: url}) },
	})
}

// Of an unsafe one that does not look at the key nothing is attempted again that may have acted.
func TestUnsafeActsAtMostOnce(t *testing.T) {
	sinktest.Once(t, sinktest.Effect{
		Fake: func() sinktest.Fake { return &forgetful{newFake(servers["stateless, JSON"])} }, Calls: 2,
		Make: func(t testing.TB, url string) sink.Sink { return must(t, Config{URL: url, Idempotent: new(false)}) },
	})
}

// forgetful counts every call as one that acts.
type forgetful struct{ *fake }

func (f *forgetful) Done() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.calls)
}

func TestTemplatesThatFail(t *testing.T) {
	t.Parallel()
	for _, p := range []*template.Set{
		params(t, "{{body.nobody.here}}", nil), params(t, "triage", map[string]any{"x": "{{body.nobody.here}}"}), params(t, "triage", "{{body.order}}"),
		params(t, "{{'no tool: ' + event.id}}", nil),
	} {
		f := newFake(servers["stateless"])
		_, err := serve(t, f, Config{Common: spec.Common{Params: p}}).Do(t.Context(), sinktest.Action(1))
		if sink.ClassOf(err) != sink.ClassTemplate || !sink.Untouched(err) || len(f.calls) != 0 {
			t.Errorf("%v, %d calls", err, len(f.calls))
		}
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	header := func(name, value string) map[string]schemas.Secret {
		return map[string]schemas.Secret{name: schemas.NewSecret(value)}
	}
	p := params(t, "triage", nil)
	for name, cfg := range map[string]Config{
		"no url":          {Common: spec.Common{Params: p}},
		"unparsable":      {Common: spec.Common{Params: p}, URL: "https://exa mple.com/hush-hush"},
		"private":         {Common: spec.Common{Params: p}, URL: "https://10.0.0.1/hush-hush"},
		"no params":       {URL: "https://example.com"},
		"reserved header": {Common: spec.Common{Params: p}, URL: "https://example.com", Headers: header("idempotency-key", "hush-hush")},
		"protocol header": {Common: spec.Common{Params: p}, URL: "https://example.com", Headers: header("Mcp-Session-Id", "hush-hush")},
	} {
		_, err := New(cfg)
		if schemas.KindOf(err) != schemas.Invalid || strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCheckAndGuard(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("check sent a request") }))
	s := must(t, Config{URL: server.URL})
	if err := s.Check(t.Context()); err != nil {
		t.Error(err)
	}
	server.Close()
	if err := s.Check(t.Context()); sink.ClassOf(err) != sink.ClassNetwork {
		t.Error(err)
	}
	s, err := New(Config{URL: "https://internal.example/", Common: spec.Common{Params: params(t, "triage", nil)}, Resolver: fixed("127.0.0.1")})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Do(t.Context(), sinktest.Action(1)); sink.ClassOf(err) != sink.ClassForbidden || !sink.Untouched(err) {
		t.Errorf("a name that leads inside: %v", err)
	}
	if fmt.Sprintf("%v %+v %#v", s, s, s) != "mcp destination mcp destination mcp destination" {
		t.Errorf("it prints %v", s)
	}
}

type fixed string

func (f fixed) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	return []netip.Addr{netip.MustParseAddr(string(f))}, nil
}

func TestDeclaredKind(t *testing.T) {
	t.Parallel()
	if got := must(t, Config{URL: "https://example.com"}).Idempotency(); got != sink.Idempotent {
		t.Error(got)
	}
	if got := must(t, Config{URL: "https://example.com", Idempotent: new(false)}).Idempotency(); got != sink.Unsafe {
		t.Error(got)
	}
}

func TestNoSecondCallInOneAttempt(t *testing.T) {
	t.Parallel()
	s := serve(t, newFake(servers["stateless"]), Config{})
	x := &exchange{sink: s, ctx: t.Context(), called: true}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url.String(), strings.NewReader(`{"method":"tools/call"}`))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := x.RoundTrip(req); !errors.Is(err, errSecond) {
		t.Errorf("%v", err)
	}
}

// TestSessionEndsAfterATimeout: a tool that hangs, and an attempt that is given up, leave no session on the server.
func TestSessionEndsAfterATimeout(t *testing.T) {
	t.Parallel()
	f := newFake(mcp.StreamableHTTPOptions{})
	reached, over := make(chan struct{}, 1), make(chan struct{})
	f.server.AddTool(&mcp.Tool{Name: "hangs", InputSchema: json.RawMessage(`{"type":"object"}`)}, func(ctx context.Context, _ *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		reached <- struct{}{}
		select {
		case <-ctx.Done():
		case <-over:
		}
		return text("late"), nil
	})
	var begun sync.Map // ids of sessions
	ended := make(chan string, 10)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(strings.NewReader(string(b)))
		if read(b).Method == "server/discover" { // the protocol before the newest has sessions
			w.WriteHeader(http.StatusNotFound)
			return
		}
		if id := r.Header.Get("Mcp-Session-Id"); r.Method == http.MethodDelete {
			ended <- id
		} else if id != "" {
			begun.Store(id, true)
		}
		f.ServeHTTP(w, r)
	}))
	t.Cleanup(func() { close(over); f.end(); server.Close() })
	s := must(t, Config{URL: server.URL, Common: spec.Common{Params: params(t, "hangs", nil)}})
	for n := range 3 {
		if err := until(t, s, n, reached); sink.ClassOf(err) != sink.ClassTimeout || sink.Untouched(err) {
			t.Fatal(err)
		}
	}
	_ = s.Close(t.Context())
	for range 3 {
		select {
		case id := <-ended:
			if _, was := begun.LoadAndDelete(id); !was {
				t.Errorf("session %s ends twice, or was none", id)
			}
		case <-time.After(time.Minute):
			t.Fatal("the session of an attempt that was given up is left on the server")
		}
	}
}

// TestLongResult: a tool that has answered was called, however much it has to say, and what it says of its failure counts wherever
// that is in the answer. What is no result, or has not been read as far as that, is no success.
func TestLongResult(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 100<<10)
	begin, content := `{"jsonrpc":"2.0","id":%s,"result":{`, `"content":[{"type":"text","text":"Traceback \"isError\":true ]}} `+long+`"}]`
	result := begin + content + `}}`
	tooMuch := strings.Repeat(long, maxAnswer/len(long)+1)
	for name, tt := range map[string]struct {
		kind, answer string
		class        sink.Class
	}{
		"a result":                           {"application/json", result, sink.ClassOK},
		"a result in a stream":               {"text/event-stream", "event: message\ndata: " + result + "\n\n", sink.ClassOK},
		"a result behind much progress":      {"text/event-stream", strings.Repeat(": x\n\n", 30<<10) + "event: message\ndata: " + strings.Replace(result, long, "short", 1) + "\n\n", sink.ClassOK},
		"a long notification before it":      {"text/event-stream", `data: {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"` + long + `"}}` + "\n\n", sink.ClassNetwork},
		"something that is no result at all": {"application/json", `{"jsonrpc":"2.0","id":%s,"error":{"code":-32000,"message":"` + long + `"}}`, sink.ClassNetwork},

		"a failure behind a traceback":                 {"application/json", begin + content + `,"isError":true}}`, sink.ClassRejected},
		"a failure before a traceback":                 {"application/json", begin + `"isError" : true , ` + content + `}}`, sink.ClassRejected},
		"a failure between two":                        {"application/json", begin + `"_meta":{"a":"` + long + `"},"isError":true,` + content + `}}`, sink.ClassRejected},
		"a failure behind a traceback in a stream":     {"text/event-stream", "event: message\r\ndata:" + begin + content + ",\r\ndata: \"isError\":true}}\r\n\r\n", sink.ClassRejected},
		"a failure before a traceback in a stream":     {"text/event-stream", "data: " + begin + `"isError":true,` + content + "}}\n\n", sink.ClassRejected},
		"a failure behind progress, in a stream":       {"text/event-stream", `data: {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}` + "\n\ndata: " + begin + content + `,"isError":true}}` + "\n\n", sink.ClassRejected},
		"a question behind a long state":               {"application/json", begin + `"requestState":"` + long + `","resultType":"input_required","inputRequests":{"a":{}}}}`, sink.ClassRejected},
		"a question before a long state":               {"application/json", begin + `"inputRequests":{"a":{}},"resultType":"input_required","requestState":"` + long + `"}}`, sink.ClassRejected},
		"a question that breaks off":                   {"application/json", begin + `"inputRequests":{"a":{}},"resultType":"input_required","requestState":"` + long, sink.ClassRejected},
		"a question without isError":                   {"application/json", begin + `"isError":false,` + content + `,"inputRequests":{"a":{}},"resultType":"input_required"}}`, sink.ClassRejected},
		"a server that is busy, with a long state":     {"application/json", begin + `"requestState":"` + long + `","inputRequests":{},"resultType":"input_required"}}`, sink.ClassBusy},
		"a success that quotes a question":             {"application/json", begin + content + `,"structuredContent":{"resultType":"input_required"},"resultType":"complete"}}`, sink.ClassOK},
		"a success that may have a question behind it": {"application/json", begin + `"isError":false,` + content, sink.ClassNetwork},
		"a success that is complete":                   {"application/json", begin + `"isError":false,"resultType":"complete",` + content, sink.ClassOK},
		"a success that says so behind its text":       {"application/json", begin + content + `,"isError":false}}`, sink.ClassOK},
		"a success that quotes a failure":              {"application/json", begin + content + `,"structuredContent":{"isError":true}}}`, sink.ClassOK},
		"a success with the result first":              {"application/json", `{"result":{` + content + `},"jsonrpc":"2.0","id":%s}`, sink.ClassOK},
		"a result that breaks off":                     {"application/json", begin + content, sink.ClassNetwork},
		"a result that breaks off in a stream":         {"text/event-stream", "data: " + begin + content + "\n\n", sink.ClassNetwork},
		"a failure behind more than is read at all":    {"application/json", begin + strings.Replace(content, long, tooMuch, 1) + `,"isError":true}}`, sink.ClassNetwork},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var calls atomic.Int32
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if handshake(w, r) {
					return
				}
				b, _ := io.ReadAll(r.Body)
				calls.Add(1)
				w.Header().Set("Content-Type", tt.kind)
				_, _ = io.WriteString(w, strings.Replace(tt.answer, "%s", string(read(b).ID), 1))
			}))
			defer server.Close()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			out, err := must(t, Config{URL: server.URL}).Do(ctx, sinktest.Action(1))
			if sink.ClassOf(err) != tt.class || len(out.Response) > sink.MaxResponse || calls.Load() != 1 {
				t.Errorf("class %q, want %q: %.300v, %d bytes kept of %d calls", sink.ClassOf(err), tt.class, err, len(out.Response), calls.Load())
			}
		})
	}
}

// TestLongResultOfAnOlderServer: before protocol 2026-07-28 no result asks for input, so that isError says all, also where the rest of the
// result never comes.
func TestLongResultOfAnOlderServer(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "application/json")
		switch m := read(b); m.Method {
		case "server/discover":
			w.WriteHeader(http.StatusNotFound)
		case "initialize":
			_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}}`, m.ID)
		case "tools/call":
			_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"isError":false,"content":[{"type":"text","text":"%s`, m.ID, strings.Repeat("x", 100<<10))
		default:
			w.WriteHeader(http.StatusAccepted)
		}
	}))
	defer server.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := must(t, Config{URL: server.URL}).Do(ctx, sinktest.Action(1)); err != nil {
		t.Errorf("a call whose result says that it did not fail: %v", err)
	}
}
