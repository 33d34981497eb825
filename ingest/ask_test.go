package ingest

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/forebay-io/forebay/ingest/provider"
	"github.com/forebay-io/forebay/ingest/verify"
)

// asking is a mapping whose provider asks with GET, which is verified, and OPTIONS, which is not.
type asking struct{ fakeMapping }

func (asking) Asks(method string) (verified, asks bool) {
	return method == http.MethodGet, method == http.MethodGet || method == http.MethodOptions
}

func (asking) Challenge(r *verify.Request) (*provider.Answer, bool) {
	if r.Query == "" {
		return nil, false
	}
	return &provider.Answer{Status: 204, Header: http.Header{"X-Said": {r.Method + " " + r.Query + " " + r.Header.Get("X-Asked")}}}, true
}

// A provider that asks for its URL by another method than POST is answered; a stranger who does so learns no more than of any other source.
func TestHandshakeByOtherMethods(t *testing.T) {
	t.Parallel()
	in := setup(t, func(_ *Config, s *Source) { s.mapping = asking{} })
	signature := sign(nil)
	for _, test := range []struct {
		method, path string
		header       []string
		status       int
		said         string
	}{
		{"OPTIONS", inPath + "?x=1", []string{"X-Asked", "y"}, 204, "OPTIONS x=1 y"},
		{"GET", inPath + "?x=1", []string{"X-Signature", signature}, 204, "GET x=1"},
		{"GET", inPath + "?x=1", []string{"X-Signature", strings.Repeat("0", 64)}, 405, ""},
		{"GET", inPath + "?x=1", nil, 405, ""},
		{"OPTIONS", inPath, nil, 405, ""},
		{"PUT", inPath + "?x=1", []string{"X-Signature", signature}, 405, ""},
		{"OPTIONS", "/v1/in/acme/none?x=1", nil, 405, ""},
	} {
		a := in.do(test.method, test.path, nil, test.header...)
		if a.status != test.status || a.header.Get("X-Said") != test.said {
			t.Errorf("%s %s %v: %d %q", test.method, test.path, test.header, a.status, a.header.Get("X-Said"))
		}
	}
	if in.count("handshake", "") != 2 || in.count("refused", string(verify.Mismatch)) != 1 || len(in.log.events)+len(in.log.deliveries) != 0 {
		t.Error("handshakes are not counted, or came to something")
	}
}

// Where nothing proves who asks, the answer is that of a source that does not exist, and as soon.
func TestWhoCannotProveItsQuestion(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		in := newIntake(t, func(_ *Config, s *Source) { s.mapping = asking{} })
		began, answers := time.Now(), []*httptest.ResponseRecorder{}
		for _, path := range []string{inPath, "/v1/in/acme/none"} {
			r, w := httptest.NewRequest("GET", path+"?x=1", nil), httptest.NewRecorder()
			r.Header.Set("X-Signature", strings.Repeat("0", 64))
			in.handler.ServeHTTP(w, r)
			answers = append(answers, w)
		}
		got, want := answers[0], answers[1]
		diff := cmp.Diff(want.Result().Header, got.Result().Header)
		if diff != "" || got.Code != 405 || got.Body.String() != want.Body.String() || time.Since(began) != 0 {
			t.Errorf("%d %s after %s: %s", got.Code, got.Body, time.Since(began), diff)
		}
	})
}

// Intercom asks for the URL with HEAD before it saves it, and nothing proves that it is Intercom. It is answered; no other source shows that it exists.
func TestIntercomAsksForItsURL(t *testing.T) {
	t.Parallel()
	in := setup(t, nil)
	in.preset(provider.Config{Preset: "intercom"})
	for method, want := range map[string]int{"HEAD": 200, "GET": 405, "OPTIONS": 405} {
		if a := in.do(method, inPath, nil); a.status != want || method == "HEAD" && a.body != "" {
			t.Errorf("%s: %+v, want %d", method, a, want)
		}
	}
	if a := in.signed([]byte(`{"id":"n","topic":"ping","created_at":1781524800}`)); a.status != 202 || len(in.log.events) != 1 {
		t.Errorf("a delivery: %+v", a)
	}
	in.preset(provider.Config{Preset: "github"})
	if a := in.do("HEAD", inPath, nil); a.status != 405 {
		t.Errorf("GitHub's source: %+v", a)
	}
}

// unconfirmed is a provider whose API does not answer when its handshake is agreed to.
type unconfirmed struct{ asking }

func (unconfirmed) Confirm(*verify.Request) error { return errors.New("no answer") }

// A handshake that could not be agreed to is not answered as one, so that the provider asks again.
func TestHandshakeThatIsNotConfirmed(t *testing.T) {
	t.Parallel()
	in := setup(t, func(_ *Config, s *Source) { s.mapping = unconfirmed{} })
	if a := in.do("GET", inPath+"?x=1", nil, "X-Signature", sign(nil)); a.status != http.StatusServiceUnavailable {
		t.Errorf("answered %d", a.status)
	}
}

// crashing is a provider whose code panics when its handshake is agreed to.
type crashing struct{ asking }

func (crashing) Confirm(*verify.Request) error { panic("a fault") }

// A handshake of which nobody knows whether it was agreed to is not answered as one either.
func TestHandshakeWhoseConfirmationPanics(t *testing.T) {
	t.Parallel()
	in := setup(t, func(_ *Config, s *Source) { s.mapping = crashing{} })
	if a := in.do("GET", inPath+"?x=1", nil, "X-Signature", sign(nil)); a.status < 400 {
		t.Errorf("answered %d", a.status)
	}
}
