package ingest

import (
	"bytes"
	"net/http"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/forebay-io/forebay/ingest/provider"
	"github.com/forebay-io/forebay/ingest/verify"
)

// Whatever a stranger sends, a source that exists answers like one that does not: status, headers and body.
func TestUnknownSourceLooksLikeAKnownOne(t *testing.T) {
	t.Parallel()
	in := setup(t, nil)
	for _, test := range []struct {
		name   string
		size   int
		header []string
		want   int
	}{
		{"missing", 10, nil, 401},
		{"malformed", 10, []string{"X-Signature", "zz"}, 401},
		{"wrong", 10, []string{"X-Signature", sign([]byte("other"))}, 401},
		{"twice", 10, []string{"X-Signature", "00", "X-Signature", "00"}, 401},
		{"over a source's limit", 2000, nil, 401},
		{"at the ceiling", ceiling, nil, 401},
		{"over the ceiling", ceiling + 1, nil, 413},
	} {
		body := bytes.Repeat([]byte("x"), test.size)
		var answers []answer
		for _, p := range []string{inPath, "/v1/in/acme/other", "/v1/in/nobody/orders", "/v1/in/ACME/orders", "/v1/in/acme%2Forders/x"} {
			a := in.do("POST", p, bytes.NewReader(body), test.header...)
			a.header.Del("Date")
			answers = append(answers, a)
		}
		if answers[0].status != test.want {
			t.Errorf("%s: %d, want %d", test.name, answers[0].status, test.want)
		}
		for _, other := range answers[1:] {
			if diff := cmp.Diff(answers[0], other, cmp.AllowUnexported(answer{})); diff != "" {
				t.Errorf("%s: told apart by %s", test.name, diff)
			}
		}
	}
	want := answer{401, http.Header{"Content-Type": {"application/problem+json"}, "Www-Authenticate": {"Signature"}, "Content-Length": {"60"}},
		`{"type":"about:blank","title":"Unauthorized","status":401}`}
	got := in.do("POST", inPath, nil)
	got.header.Del("Date")
	want.header.Set("Content-Length", got.header.Get("Content-Length"))
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(answer{})); diff != "" {
		t.Error(diff)
	}
	if len(in.log.events)+len(in.log.deliveries) != 0 {
		t.Error("a refused delivery was kept")
	}
}

// The work is the same too: a refusal that comes early, and one of no source, hash the body once like a mismatch.
func TestRefusalsDoTheSameWork(t *testing.T) {
	t.Parallel()
	in := setup(t, nil)
	body := bytes.Repeat([]byte("x"), 8<<20)
	best := func(source *Source, header string) time.Duration {
		least := time.Hour
		for range 7 {
			d := &delivery{team: "acme", name: "orders", source: source, request: verify.Request{Header: http.Header{}, Body: body}}
			if header != "" {
				d.request.Header.Set("X-Signature", header)
			}
			start := time.Now()
			if _, ok := in.handler.authentic(d); ok {
				t.Fatal("authentic")
			}
			least = min(least, time.Since(start))
		}
		return least
	}
	mismatch := best(in.source, sign(nil))
	for name, took := range map[string]time.Duration{"missing": best(in.source, ""), "malformed": best(in.source, "zz"), "unknown": best(nil, "")} {
		if took < mismatch/2 || took > 2*mismatch {
			t.Errorf("%s took %v, a mismatch %v", name, took, mismatch)
		}
	}
	compared := &Source{Source: &provider.Source{Verifier: tokenVerifier{}}}
	if took := best(compared, "x"); took < mismatch/2 || took > 2*mismatch {
		t.Errorf("a wrong token took %v, a mismatch %v", took, mismatch)
	}
}

// tokenVerifier refuses without reading the body, as a comparison of tokens does.
type tokenVerifier struct{}

func (tokenVerifier) Verify(*verify.Request, time.Time) error {
	return &verify.Error{Reason: verify.Mismatch}
}
func (tokenVerifier) SecretHeaders() []string { return []string{"X-Token"} }

// A verifier that fails in another way refuses too.
func TestVerifierFails(t *testing.T) {
	t.Parallel()
	in := setup(t, func(_ *Config, s *Source) { s.Verifier = failing{} })
	if a := in.post("1"); a.status != 401 || in.count("refused", "internal") != 1 {
		t.Errorf("%+v", a)
	}
}

type failing struct{}

func (failing) Verify(*verify.Request, time.Time) error { return iotest.ErrTimeout }
