package api_test

import (
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/sinks/api"
	"github.com/forebay-io/forebay/stream/sink"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func must(t *testing.T, cfg api.Config) *api.Client {
	t.Helper()
	cfg.Kind, cfg.AllowNetworks = "test", []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	c, err := api.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

func TestPaths(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.RequestURI) }))
	defer server.Close()
	for _, tt := range []struct {
		base string
		path []string
		want string
	}{
		{"", []string{"repos", "o", "n"}, "/repos/o/n"}, {"/", []string{"a"}, "/a"}, {"/api/v3", []string{"a"}, "/api/v3/a"}, {"/api/v3/", []string{"a"}, "/api/v3/a"},
		{"/x", []string{"a/b", "c?d", "%2e%2e", "é "}, "/x/a%2Fb/c%3Fd/%252e%252e/%C3%A9%20"}, {"/x%2Fy", []string{"a"}, "/x%2Fy/a"},
	} {
		c := must(t, api.Config{BaseURL: server.URL + tt.base})
		a, err := c.Do(t.Context(), api.Call{Method: http.MethodGet, Path: tt.path})
		if err != nil || string(a.Body) != tt.want {
			t.Errorf("%s + %q: %s, %v, want %s", tt.base, tt.path, a.Body, err, tt.want)
		}
	}
	a, err := must(t, api.Config{BaseURL: server.URL}).Do(t.Context(), api.Call{Method: http.MethodGet, Path: []string{"a"}, Query: url.Values{"q": {"a&b"}}})
	if err != nil || string(a.Body) != "/a?q=a%26b" {
		t.Errorf("%s, %v", a.Body, err)
	}
}

func TestUnmade(t *testing.T) {
	t.Parallel()
	c := must(t, api.Config{BaseURL: "https://api.example"})
	for _, call := range []api.Call{
		{Method: http.MethodGet, Path: []string{"a", ""}}, {Method: http.MethodGet, Path: []string{".."}}, {Method: http.MethodGet, Path: []string{"."}},
		{Method: http.MethodPost, Path: []string{"a"}, Body: math.NaN()},
	} {
		if _, err := c.Do(t.Context(), call); sink.ClassOf(err) != sink.ClassTemplate || !sink.Untouched(err) {
			t.Errorf("%v: %v", call, err)
		}
	}
}

func TestHeaders(t *testing.T) {
	t.Parallel()
	var got http.Header
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.Header }))
	defer server.Close()
	c := must(t, api.Config{BaseURL: server.URL, Version: "1.2.3", Headers: http.Header{"Authorization": {"Bearer x"}}})
	if _, err := c.Do(t.Context(), api.Call{Method: http.MethodGet, Path: []string{"a"}}); err != nil {
		t.Fatal(err)
	}
	if got.Get("User-Agent") != "Forebay/1.2.3" || got.Get("Authorization") != "Bearer x" || got.Get("Idempotency-Key") != "" || got.Get("Content-Type") != "" {
		t.Errorf("of a call that asks: %v", got)
	}
	if _, err := c.Do(t.Context(), api.Call{Method: http.MethodPost, Path: []string{"a"}, Key: "act_1", Body: map[string]any{}}); err != nil {
		t.Fatal(err)
	}
	if got.Get("Idempotency-Key") != "act_1" || got.Get("Content-Type") != "application/json; charset=utf-8" {
		t.Errorf("of a call that acts: %v", got)
	}
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	const secret = "hush-hush-hush"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Retry-After", "7")
		switch r.URL.Path {
		case "/cut":
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, "beginning")
		case "/long":
			_, _ = io.WriteString(w, strings.Repeat("x", 8<<20)+"y")
		default:
			w.WriteHeader(http.StatusTeapot)
			_, _ = io.WriteString(w, "the secret is "+secret+strings.Repeat("x", 5000))
		}
	}))
	defer server.Close()
	c := must(t, api.Config{BaseURL: server.URL, Secrets: []schemas.Secret{schemas.NewSecret(secret)}})
	call := func(path string) api.Answer {
		a, err := c.Do(t.Context(), api.Call{Method: http.MethodGet, Path: []string{path}})
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	a := call("whole")
	if out := a.Outcome; a.Code != 418 || out.Code != 418 || out.RetryAfter != 7*time.Second || len(out.Response) > sink.MaxResponse || strings.Contains(string(out.Response), "hush") {
		t.Errorf("%+v", out)
	}
	if err := c.CheckWhole("it", a); err != nil || !strings.Contains(string(a.Body), secret) {
		t.Errorf("what the sink reads is not the answer itself: %v", err)
	}
	if a = call("cut"); sink.ClassOf(c.CheckWhole("it", a)) != sink.ClassNetwork || string(a.Outcome.Response) != "beginning" {
		t.Errorf("cut off: %+v, %v", a.Outcome, c.CheckWhole("it", a))
	}
	if a = call("long"); sink.ClassOf(c.CheckWhole("it", a)) != sink.ClassBusy || len(a.Body) != 64<<10 {
		t.Errorf("too long: %d bytes, %v", len(a.Body), c.CheckWhole("it", a))
	}
	err := c.Failed(sink.ClassDenied, "no entry for %s", secret)
	if sink.ClassOf(err) != sink.ClassDenied || strings.Contains(fmt.Sprintf("%+v", err), secret) {
		t.Errorf("%v", err)
	}
	if got := api.Untouched(err); sink.ClassOf(got) != sink.ClassDenied || !sink.Untouched(got) || got.Error() != err.Error() {
		t.Errorf("%v", got)
	}
	if err := c.Check(t.Context()); err != nil {
		t.Errorf("check: %v", err)
	}
	server.Close()
	if err := c.Check(t.Context()); sink.ClassOf(err) != sink.ClassNetwork {
		t.Errorf("check of what is away: %v", err)
	}
}
