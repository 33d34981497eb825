package httpsink

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/sinks/guard"
	"github.com/forebay-io/forebay/sinks/spec"
	"github.com/forebay-io/forebay/stream/sink"
	"github.com/forebay-io/forebay/stream/sink/sinktest"
)

// nowhere is a DNS that knows no name.
type nowhere struct{}

func (nowhere) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
}

// answering is a destination that answers with one status.
func answering(t *testing.T, code int) string {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(code)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// TestFailureTable meets every row of the failure table that a sink can meet, with every status that the row is about.
func TestFailureTable(t *testing.T) {
	t.Parallel()
	statuses := map[string][]int{
		"2xx": {200, 201, 202, 204, 299}, "401, 403": {401, 403}, "404": {404}, "410": {410}, "429": {429}, "503": {503},
		"408, 425, other 5xx":                              {408, 425, 500, 501, 502, 504, 599},
		"400, 422, any other status, redirects among them": {400, 422, 300, 301, 304, 308, 402, 405, 409, 411, 418, 428, 431, 451, 600, 999},
	}
	met := 0
	for _, row := range sink.Failures() {
		t.Run(row.What, func(t *testing.T) {
			for _, code := range statuses[row.What] {
				if i := slices.IndexFunc(sink.Failures(), func(f sink.Failure) bool { return holds(f, code) }); sink.Failures()[i].What != row.What {
					t.Fatalf("%d is of another row", code)
				}
				meet(t, row, Config{URL: answering(t, code), Common: spec.Common{AllowNetworks: loopback}}, code)
			}
			cfg := Config{URL: "https://agents.example"}
			switch row.Class {
			case sink.ClassTimeout:
				cfg.URL, cfg.AllowNetworks, cfg.Timeout = hanging(t), loopback, 100*time.Millisecond
			case sink.ClassNetwork:
				cfg.URL, cfg.AllowNetworks = resetting(t), loopback
			case sink.ClassDNS:
				cfg.Resolver = nowhere{}
			case sink.ClassForbidden:
				cfg.Resolver = private{}
			default: // told by the codes alone, or met before the call: sinks/template, stream, stream/lane
				return
			}
			meet(t, row, cfg, 0)
		})
		if len(row.Codes) == 0 || statuses[row.What] != nil {
			met++
		}
	}
	if met != len(sink.Failures()) {
		t.Errorf("%d rows of %d are tested", met, len(sink.Failures()))
	}
}

func holds(f sink.Failure, code int) bool {
	return slices.ContainsFunc(f.Codes, func(c [2]int) bool { return c[0] <= code && code <= c[1] })
}

// meet makes one attempt and holds what it brought against the row.
func meet(t *testing.T, row sink.Failure, cfg Config, code int) {
	t.Helper()
	s := must(t, cfg)
	out, err := s.Do(t.Context(), sinktest.Action(1))
	class := sink.ClassOf(err)
	if class != row.Class || out.Code != code {
		t.Errorf("status %d: class %q with status %d, want %q: %v", code, class, out.Code, row.Class, err)
	}
	if got := class.Retried(); got != (row.Then == sink.ThenRetried) {
		t.Errorf("status %d: retried: %v", code, got)
	}
	if row.Hold && (out.RetryAfter != 7*time.Second || !sink.Holds(class, out.Code)) {
		t.Errorf("status %d: the destination does not wait: %+v", code, out)
	}
	if got := sink.PauseAfter(out.Code); got != row.PauseAfter {
		t.Errorf("status %d: pauses after %d", code, got)
	}
	if err != nil && !strings.Contains(err.Error(), strconv.Itoa(code)) && code != 0 {
		t.Errorf("the error does not tell the status: %v", err)
	}
}

// TestAnswerEndsWithItsBody: a handler that streams its answer may work until its end. What breaks off, or is shorter than it said, is no answer; a 202 of
// long work is one at once.
func TestAnswerEndsWithItsBody(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 8<<10)
	for _, tt := range []struct {
		name  string
		code  int
		later bool
		rest  func(w http.ResponseWriter, r *http.Request) // behind 8 KiB that were flushed
		want  sink.Class
	}{
		{"works on", 200, false, func(w http.ResponseWriter, r *http.Request) {
			select {
			case <-r.Context().Done():
				panic(http.ErrAbortHandler)
			case <-time.After(200 * time.Millisecond):
				_, _ = io.WriteString(w, strings.Repeat("y", 2<<20))
			}
		}, sink.ClassOK},
		{"breaks off", 200, false, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, sink.ClassNetwork},
		{"hangs", 201, false, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, sink.ClassTimeout},
		{"accepts and breaks off", 202, true, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, sink.ClassOK},
		{"refuses and breaks off", 400, false, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, sink.ClassRejected},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			w.WriteHeader(tt.code)
			_, _ = io.WriteString(w, long)
			w.(http.Flusher).Flush()
			tt.rest(w, r)
		}))
		defer server.Close()
		cfg := Config{URL: server.URL, Common: spec.Common{AllowNetworks: loopback, Timeout: 20 * time.Second}}
		if tt.want == sink.ClassTimeout {
			cfg.Timeout = 5 * time.Second
		}
		a := sinktest.Action(1)
		if tt.later {
			a.Later = &sink.Later{URL: "https://forebay.example/r", Token: schemas.NewSecret("token"), Deadline: time.Hour}
		}
		out, err := must(t, cfg).Do(t.Context(), a)
		if sink.ClassOf(err) != tt.want || out.Code != tt.code || out.Later != tt.later || !strings.HasPrefix(string(out.Response), "xxx") {
			t.Errorf("%s: class %q, want %q: %v, status %d, later %t, %d bytes", tt.name, sink.ClassOf(err), tt.want, err, out.Code, out.Later, len(out.Response))
		}
	}
}

// private is a DNS whose every name is in a private network.
type private struct{}

func (private) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	return []netip.Addr{netip.MustParseAddr("10.0.0.1")}, nil
}

var _, _ guard.Resolver = nowhere{}, private{}

func hanging(t *testing.T) string {
	over := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-over }))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(over) })
	return server.URL
}

func resetting(t *testing.T) string {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	t.Cleanup(server.Close)
	return server.URL
}
