package httpsink

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/sinks/spec"
	"github.com/forebay-io/forebay/stream/sink"
	"github.com/forebay-io/forebay/stream/sink/sinktest"
)

// TestCancelURL: what the 202 says is taken as it is, where it is a 202 of long work and no longer than it may be.
func TestCancelURL(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", sink.MaxCancelURL)
	for name, tt := range map[string]struct {
		later      bool
		code       int
		said, want string
	}{
		"taken":       {true, 202, "/jobs/7?token=of%20it", "/jobs/7?token=of%20it"},
		"said twice":  {true, 202, "/jobs/7", "/jobs/7"},
		"not offered": {false, 202, "/jobs/7", ""},
		"done":        {true, 200, "/jobs/7", ""},
		"failed":      {true, 503, "/jobs/7", ""},
		"as long":     {true, 202, long, long},
		"too long":    {true, 202, long + "x", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("forebay-cancel-url", tt.said)
				if name == "said twice" {
					w.Header().Add("Forebay-Cancel-URL", "/jobs/8")
				}
				w.WriteHeader(tt.code)
			}))
			defer server.Close()
			a := sinktest.Action(1)
			if tt.later {
				a.Later = &sink.Later{URL: "https://forebay.example/v1/actions/act_1", Deadline: time.Minute}
			}
			out, _ := must(t, Config{URL: server.URL, Common: spec.Common{AllowNetworks: loopback}}).Do(t.Context(), a)
			if out.CancelURL != tt.want {
				t.Errorf("%q, want %q", out.CancelURL, tt.want)
			}
		})
	}
}

// TestCancel: the call is signed as all are, and carries the configured headers where they go anyway.
func TestCancel(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_790_000_000, 0)
	key := []byte(strings.Repeat("k", 32))
	secret := "whsec_" + base64.StdEncoding.EncodeToString(key)
	const body = `{"action_id":"act_7","reason":"newer"}`
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte("act_7.1790000000." + body))
	want := map[string]string{
		"Content-Type": "application/json", "User-Agent": "Forebay/dev", "Idempotency-Key": "act_7", "Webhook-Id": "act_7", "X-Forebay-Cancel": "newer",
		"Webhook-Timestamp": "1790000000", "Webhook-Signature": "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)),
		"Forebay-Outgoing": "true", "Authorization": "Bearer of the destination",
	}
	elsewhere := map[string]string{}
	for name, value := range want {
		if name != "Authorization" {
			elsewhere[name] = value
		}
	}
	type request struct {
		method, target, body string
		headers              map[string]string
	}
	got := make(chan request, 1)
	handler := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		headers := map[string]string{}
		for name := range r.Header {
			if name != "Content-Length" && name != "Accept-Encoding" {
				headers[name] = r.Header.Get(name)
			}
		}
		got <- request{r.Method, r.URL.String(), string(text), headers}
	})
	server, other := httptest.NewServer(handler), httptest.NewServer(handler)
	defer server.Close()
	defer other.Close()
	s := must(t, Config{URL: server.URL + "/run?token=of-the-url", Common: spec.Common{AllowNetworks: loopback}, Secret: schemas.NewSecret(secret), Now: func() time.Time { return now },
		Headers: map[string]schemas.Secret{"Authorization": schemas.NewSecret("Bearer of the destination")}})
	for url, sent := range map[string]request{
		"/jobs/7/cancel":       {"POST", "/jobs/7/cancel", body, want},
		"7?cancel=yes":         {"POST", "/7?cancel=yes", body, want},
		server.URL + "/jobs/7": {"POST", "/jobs/7", body, want},
		other.URL + "/jobs/7":  {"POST", "/jobs/7", body, elsewhere},
	} {
		if err := s.Cancel(t.Context(), sink.Cancel{ID: "act_7", URL: url, Reason: sink.Newer}); err != nil {
			t.Fatalf("%s: %v", url, err)
		}
		if d := cmp.Diff(sent, <-got, cmp.AllowUnexported(request{})); d != "" {
			t.Errorf("%s: %s", url, d)
		}
	}
}

// TestCancelIsGuarded: a URL that the agent gives goes nowhere where the destination's own may not go, and an answer means what it always does.
// No error shows what is secret.
func TestCancelIsGuarded(t *testing.T) {
	t.Parallel()
	status := http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if status == http.StatusFound {
			w.Header().Set("Location", "http://169.254.169.254/"+r.URL.Query().Get("token"))
		}
		w.WriteHeader(status)
	}))
	defer server.Close()
	allowed, strict := must(t, Config{URL: server.URL, Common: spec.Common{AllowNetworks: loopback}}), must(t, Config{URL: "https://agents.example/run"})
	for _, tt := range []struct {
		s      *Sink
		url    string
		status int
		class  sink.Class
	}{
		{strict, server.URL + "/?token=secret-of-a-job", 200, sink.ClassForbidden},
		{strict, "https://169.254.169.254/latest/meta-data", 200, sink.ClassForbidden},
		{strict, "//[::1]/", 200, sink.ClassForbidden},
		{allowed, "file:///etc/passwd", 200, sink.ClassForbidden},
		{allowed, "http://user:secret-of-a-job@127.0.0.1/", 200, sink.ClassForbidden},
		{allowed, "http://10.0.0.7/", 200, sink.ClassForbidden},
		{allowed, ":", 200, sink.ClassForbidden},
		{allowed, "/" + strings.Repeat("x", sink.MaxCancelURL), 200, sink.ClassForbidden},
		{allowed, "/?token=secret-of-a-job", 204, sink.ClassOK},
		{allowed, "/?token=secret-of-a-job", 302, sink.ClassRejected},
		{allowed, "/?token=secret-of-a-job", 404, sink.ClassRejected},
		{allowed, "/?token=secret-of-a-job", 401, sink.ClassDenied},
		{allowed, "/?token=secret-of-a-job", 503, sink.ClassBusy},
	} {
		status = tt.status
		err := tt.s.Cancel(t.Context(), sink.Cancel{ID: "act_7", URL: tt.url, Reason: sink.Newer})
		if sink.ClassOf(err) != tt.class {
			t.Errorf("%s, %d: %v, want %s", tt.url, tt.status, err, tt.class)
		}
		for e := err; e != nil; e = errors.Unwrap(e) {
			if strings.Contains(e.Error(), "secret-of-a-job") {
				t.Errorf("shows what is secret: %v", e)
			}
		}
	}
}
