package mcpsink

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/forebay-io/forebay/schemas/short"
	"github.com/forebay-io/forebay/sinks/spec"
	"github.com/forebay-io/forebay/stream/sink"
	"github.com/forebay-io/forebay/stream/sink/sinktest"
)

// typescript is a running server of the TypeScript SDK, which speaks the protocol before 2026-07-28, with sessions.
type typescript struct {
	url    string
	worlds atomic.Int32
}

func newTypeScript(t *testing.T) *typescript {
	t.Helper()
	short.NeedsServer(t, "Node.js")
	dir := filepath.Join("testdata", "typescript")
	_, packages := os.Stat(filepath.Join(dir, "node_modules"))
	_, node := exec.LookPath("node")
	if err := errors.Join(packages, node); err != nil {
		if os.Getenv("FOREBAY_ALLOW_SKIP_NODE") == "1" && os.Getenv("CI") == "" { // by make test, never by .ci/run
			t.Skip("NOT TESTED ON AN MCP SERVER OF THE TYPESCRIPT SDK: Node.js or its packages are not here")
		}
		t.Fatalf("the TypeScript SDK is not installed: run make deps, which needs Node.js and npm (Debian: nodejs, npm): %v", err)
	}
	cmd := exec.Command("node", "server.mjs")
	cmd.Dir, cmd.Stderr = dir, t.Output()
	in, err := cmd.StdinPipe() // its end is the server's
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("node: %v", err)
		}
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the server did not start: %v", err)
	}
	return &typescript{url: "http://127.0.0.1:" + strings.TrimSpace(line)}
}

// place is a world of the server's, behind which faults can be put.
type place struct {
	t    *testing.T
	url  string
	http http.Handler
}

func (ts *typescript) world(t *testing.T) *place {
	t.Helper()
	p := &place{t: t, url: fmt.Sprintf("%s/%d", ts.url, ts.worlds.Add(1))}
	target, err := url.Parse(p.url)
	if err != nil {
		t.Fatal(err)
	}
	p.http = &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target.JoinPath("mcp"))
			r.Out.URL.Path = target.Path + "/mcp"
		}, FlushInterval: -1,
	}
	return p
}

// seen is what the world has to tell.
type seen struct {
	Calls []struct {
		Name        string
		Args        any
		Meta        map[string]any
		Key, Parent string
	}
	Done        map[string]int
	Open, Ended int
}

func (p *place) seen() (s seen) {
	p.t.Helper()
	resp, err := http.Get(p.url + "/seen")
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&s); err != nil {
		p.t.Fatal(err)
	}
	return s
}

func TestTypeScriptServer(t *testing.T) {
	ts := newTypeScript(t)
	defer http.DefaultClient.CloseIdleConnections()
	t.Run("call", func(t *testing.T) {
		p := ts.world(t)
		s := must(t, Config{URL: p.url + "/mcp", Common: spec.Common{Params: params(t, "triage", map[string]any{"order": "{{body.order}}", "deep": []any{1, "{{null}}", "{{event.type}}"}})}})
		a := sinktest.Action(1)
		out, err := s.Do(t.Context(), a)
		if err != nil || out.Code != 200 || !strings.Contains(string(out.Response), "filed") {
			t.Fatalf("%d %s, %v", out.Code, out.Response, err)
		}
		got := p.seen()
		if len(got.Calls) != 1 || got.Open != 0 || got.Ended != 1 {
			t.Fatalf("%+v: one call, and its session is ended", got)
		}
		c := got.Calls[0]
		if diff := cmp.Diff(any(map[string]any{"order": 7.0, "deep": []any{1.0, nil, "com.example.order.changed"}}), c.Args); diff != "" {
			t.Error(diff)
		}
		if c.Meta["forebay/action_id"] != string(a.ID) || c.Key != string(a.ID) || !strings.HasPrefix(c.Parent, a.Event.TraceParent[:36]) {
			t.Errorf("%+v", c)
		}
	})
	t.Run("ends", func(t *testing.T) {
		for _, tt := range []struct {
			tool  string
			retry bool
			class sink.Class
		}{
			{"fails", false, sink.ClassRejected}, {"fails", true, sink.ClassBusy}, {"picky", false, sink.ClassRejected},
			{"broken", false, sink.ClassBusy}, {"no-such-tool", false, sink.ClassRejected},
		} {
			p := ts.world(t)
			s := must(t, Config{URL: p.url + "/mcp", Common: spec.Common{Params: params(t, tt.tool, nil)}, ToolErrors: toolErrors(tt.retry)})
			out, err := s.Do(t.Context(), sinktest.Action(1))
			if got := sink.ClassOf(err); got != tt.class || sink.Untouched(err) || out.Code != 200 || p.seen().Open != 0 {
				t.Errorf("%s: class %q, want %q: %d %v", tt.tool, got, tt.class, out.Code, err)
			}
		}
	})
	t.Run("concurrent", func(t *testing.T) {
		p := ts.world(t)
		s := must(t, Config{URL: p.url + "/mcp"})
		errs := make(chan error, 16)
		for i := range cap(errs) {
			go func() {
				_, err := s.Do(t.Context(), sinktest.Action(i))
				errs <- err
			}()
		}
		for range cap(errs) {
			if err := <-errs; err != nil {
				t.Error(err)
			}
		}
		if got := p.seen(); len(got.Done) != cap(errs) || got.Open != 0 {
			t.Errorf("%d done, %d sessions left", len(got.Done), got.Open)
		}
	})
	t.Run("once", func(t *testing.T) { ts.once(t) })
}

// once breaks every request of an attempt in every way, and then lets the lane's next attempts be.
func (ts *typescript) once(t *testing.T) {
	// discover, which it does not know; initialize; initialized; the call; the end of the session
	const requests, call = 5, 3
	for _, fault := range []sinktest.Fault{
		sinktest.BeforeActing, sinktest.AfterActing, sinktest.WhileAnswering, sinktest.Refused(503), sinktest.Refused(429), sinktest.ActedThen(502),
	} {
		for at := range requests {
			p := ts.world(t)
			faults := &sinktest.Faults{Fake: p.http}
			faults.Break(append(slices.Repeat([]*sinktest.Fault{nil}, at), &fault)...)
			server := httptest.NewServer(faults)
			s := must(t, Config{URL: server.URL})
			a, where := sinktest.Action(1), fmt.Sprintf("%s, request %d", fault.Name, at+1)
			_, err := s.Do(t.Context(), a)
			if got := p.seen(); sink.Untouched(err) && len(got.Calls) != 0 || err == nil && len(got.Calls) != 1 {
				t.Errorf("%s: %d calls and %v", where, len(got.Calls), err)
			}
			if at == call && err == nil {
				t.Errorf("%s: no error", where)
			}
			for err != nil && a.Attempt < 4 {
				if !sink.ClassOf(err).Retried() {
					t.Errorf("%s: given up: %v", where, err)
					break
				}
				a.Attempt++
				_, err = s.Do(t.Context(), a)
			}
			if got := p.seen(); err != nil || len(got.Done) != 1 || got.Done[string(a.ID)] != 1 {
				t.Errorf("%s: in the end %v: %+v", where, err, got)
			}
			server.CloseClientConnections()
			server.Close()
		}
	}
}
