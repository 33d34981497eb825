package ingest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

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

// The work is the same too: one hash over the whole body, whatever refuses.
func TestRefusalsDoTheSameWork(t *testing.T) {
	t.Parallel()
	var hashed atomic.Int64
	in := setup(t, func(_ *Config, s *Source) { s.Verifier = counting{&hashed} })
	work := in.handler.hashDummy
	in.handler.hashDummy = func(body []byte) { hashed.Add(int64(len(body))); work(body) }
	for _, test := range []struct {
		name, path, signature string
		mapping               fakeMapping
	}{
		{"mismatch", inPath, sign(nil), fakeMapping{}},
		{"missing", inPath, "", fakeMapping{}},
		{"malformed", inPath, "zz", fakeMapping{}},
		{"unknown", "/v1/in/acme/other", sign(nil), fakeMapping{}},
		{"too old", inPath, "old", fakeMapping{}},
		{"wrong token, which hashes nothing", inPath, "token", fakeMapping{secrets: []string{"X-Signature"}}},
	} {
		hashed.Store(0)
		in.source.mapping = test.mapping
		header := []string{"X-Signature", test.signature}
		if test.signature == "" {
			header = nil
		}
		if a := in.do("POST", test.path, bytes.NewReader(make([]byte, 3000)), header...); a.status != 401 {
			t.Errorf("%s: %+v", test.name, a)
		}
		if got := hashed.Load(); got != 3000 {
			t.Errorf("%s: %d bytes hashed, want 3000", test.name, got)
		}
	}
}

// counting counts the bytes that it hashes.
type counting struct{ hashed *atomic.Int64 }

func (c counting) Verify(r *verify.Request, now time.Time) error {
	if r.Header.Get("X-Signature") == "token" {
		return &verify.Error{Reason: verify.Mismatch}
	}
	if r.Header.Get("X-Signature") == "old" { // as the schemes do, it compares before it looks at the time
		c.hashed.Add(int64(len(r.Body)))
		return &verify.Error{Reason: verify.TooOld, Off: time.Hour}
	}
	err := hmacVerifier{}.Verify(r, now)
	if e, ok := errors.AsType[*verify.Error](err); ok && e.Reason == verify.Mismatch {
		c.hashed.Add(int64(len(r.Body)))
	}
	return err
}

// What a refusal took to find shows in nothing: from the end of the body to the answer it is the same time, whatever the check took; and
// whoever is gone is not waited for. How long checks take, and what that shows from outside, is measured in refuse_soak_test.go.
func TestRefusalsAreAnsweredAtOneTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		in := newIntake(t, nil)
		r := httptest.NewRequest("POST", inPath, bytes.NewReader(make([]byte, 3000)))
		refused := func(path string, check time.Duration) time.Duration {
			t.Helper()
			begin := time.Now()
			in.source.Verifier = slowly{check}
			in.handler.hashDummy = func([]byte) { <-time.After(check) }
			w := httptest.NewRecorder()
			r.URL.Path, r.Body = path, io.NopCloser(bytes.NewReader(make([]byte, 3000)))
			if in.handler.ServeHTTP(w, r); w.Code != 401 {
				t.Errorf("%s: %d", path, w.Code)
			}
			return time.Since(begin)
		}
		const least = refusalFloor + 3000*refusalPerByte
		for _, check := range []time.Duration{0, time.Millisecond, least} {
			for _, path := range []string{inPath, "/v1/in/acme/other"} {
				if took := refused(path, check); took < least || took > least+refusalSpread {
					t.Errorf("%s, with a check of %v: answered after %v, want %v to %v", path, check, took, least, least+refusalSpread)
				}
			}
		}
		// Of what is compressed a source may have had to hash all that it is unpacked; no provider gives up for that.
		packed := append([]byte{0x1f, 0x8b}, make([]byte, 200_000)...)
		for maxBody, least := range map[int64]time.Duration{1 << 20: refusalFloor + 1<<20*refusalPerByte, 100 << 20: refusalFloor + time.Second} {
			in := newIntake(t, func(c *Config, _ *Source) { c.MaxBody = maxBody })
			for _, path := range []string{inPath, "/v1/in/acme/other"} {
				begin := time.Now()
				in.handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("POST", path, bytes.NewReader(packed)))
				if took := time.Since(begin); took < least-time.Microsecond || took > least+refusalSpread {
					t.Errorf("%s, compressed, at most %d bytes: answered after %v, want %v", path, maxBody, took, least)
				}
			}
		}
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		r = r.WithContext(gone)
		if took := refused(inPath, 0); took != 0 {
			t.Errorf("a sender that is gone is waited for: %v", took)
		}
		<-time.After(lookEvery) // no timer is left
	})
}

// slowly refuses after a time.
type slowly struct{ check time.Duration }

func (s slowly) Verify(*verify.Request, time.Time) error {
	<-time.After(s.check)
	return &verify.Error{Reason: verify.Mismatch}
}
