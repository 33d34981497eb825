package httpsink

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/forebay-io/forebay/sinks/spec"
	"github.com/forebay-io/forebay/stream/sink"
	"github.com/forebay-io/forebay/stream/sink/sinktest"
)

// TestExpectJSON: a login page with 200 is not success where JSON is expected, and is where nothing is said.
func TestExpectJSON(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 100_000)
	for name, tt := range map[string]struct {
		code int
		body string
		json bool
	}{
		"object": {200, ` {"ok": true} `, true}, "literal": {201, "true", true}, "long": {200, `[{"a":"` + long + `"}]`, true},
		"long, of small values":    {200, "[" + strings.Repeat("1,", 50_000) + "1]", true},
		"behind a byte order mark": {200, "\ufeff{}", true}, "long, behind a byte order mark": {200, "\ufeff[\"" + long + "\"]", true},
		"a byte order mark": {200, "\ufeff", false}, "a login page behind one": {200, "\ufeff<html>" + long, false},
		"no content":      {204, "", true},
		"login page":      {200, "<!DOCTYPE html><html><title>Log in</title></html>", false},
		"long login page": {200, "<html>" + long, false},
		"empty":           {200, "", false}, "text": {202, "ok", false}, "words behind a number": {200, "1 action taken", false}, "in part": {200, `{"ok":`, false},
	} {
		for _, expect := range []string{ExpectJSON, ""} {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json") // whatever it is
				w.WriteHeader(tt.code)
				_, _ = io.WriteString(w, tt.body)
			}))
			a := sinktest.Action(1)
			a.Later = &sink.Later{}
			out, err := must(t, Config{URL: server.URL, Expect: expect, Common: spec.Common{AllowNetworks: loopback}}).Do(t.Context(), a)
			server.Close()
			want := sink.ClassOK
			if expect == ExpectJSON && !tt.json {
				want = sink.ClassBusy
			}
			if sink.ClassOf(err) != want || out.Code != tt.code || out.Later != (want == sink.ClassOK && tt.code == http.StatusAccepted) {
				t.Errorf("%s, expect %q: %v, %v", name, expect, out.Later, err)
			}
		}
	}
}

// TestTakenStreamsOn: an action that a 202 has taken does not wait for the end of what that says, which may come once it is done.
func TestTakenStreamsOn(t *testing.T) {
	t.Parallel()
	for _, begins := range []string{`{"job": 7, "log": [`, ""} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusAccepted)
			_, _ = io.WriteString(w, begins)
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}))
		for _, expect := range []string{ExpectJSON, ""} {
			a := sinktest.Action(1)
			a.Later = &sink.Later{}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			out, err := must(t, Config{URL: server.URL, Expect: expect, Common: spec.Common{AllowNetworks: loopback}}).Do(ctx, a)
			if err != nil || !out.Later || ctx.Err() != nil || string(out.Response) != begins {
				t.Errorf("expect %q of %q: %+v, %v, %v", expect, begins, out, err, ctx.Err())
			}
			cancel()
		}
		server.Close()
	}
}
