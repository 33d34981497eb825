package verify_test

import (
	"net/http"
	"testing"

	"github.com/forebay-io/forebay/ingest/verify"
)

// fuzzScheme feeds a scheme with headers and bodies of an attacker who knows neither secret nor our samples: nothing
// may be accepted but what the scheme itself signs, and nothing may panic.
func fuzzScheme(f *testing.F, name string, headers ...string) {
	c := schemes[name]
	s := build(f, c.params, c.secret)
	r := signed(f, s)
	value := func(i int) string {
		if i < len(headers) {
			return r.Header.Get(headers[i])
		}
		return ""
	}
	f.Add([]byte(body), value(0), value(1), value(2))
	f.Add([]byte(body), value(0)+",", value(1), value(2))
	f.Add([]byte(`{}`), "v1,", "1785000000", "msg_1")
	f.Add([]byte(`{"t":"1785000000"}`), "t=1785000000,v1=,v1", "0", ".")
	for _, q := range published(f) {
		if h := q.Header.Get(headers[0]); h != "" && len(q.Body) < 4096 {
			second, third := "", ""
			if len(headers) > 2 {
				second, third = q.Header.Get(headers[1]), q.Header.Get(headers[2])
			}
			f.Add(q.Body, h, second, third)
		}
	}
	f.Fuzz(func(t *testing.T, payload []byte, h0, h1, h2 string) {
		q := &verify.Request{Method: "POST", URL: r.URL, Header: http.Header{}, Body: payload}
		for i, h := range []string{h0, h1, h2} {
			if i < len(headers) {
				q.Header[http.CanonicalHeaderKey(headers[i])] = []string{h}
			}
		}
		err := s.Verify(q, now)
		if err != nil {
			if reason(err) == "" {
				t.Fatalf("error without a reason: %v", err)
			}
			return
		}
		if c.params.Scheme != "token" && string(payload) != body {
			t.Fatalf("accepted a body that was never signed: %q with %q", payload, q.Header)
		}
	})
}

func FuzzHMAC(f *testing.F)        { fuzzScheme(f, "slack", "X-Slack-Signature", "X-Slack-Request-Timestamp") }
func FuzzHMACList(f *testing.F)    { fuzzScheme(f, "list", "X-Signature") }
func FuzzHMACPointer(f *testing.F) { fuzzScheme(f, "pointer signed", "X-Signature") }
func FuzzGitHub(f *testing.F)      { fuzzScheme(f, "github", "X-Hub-Signature-256", "X-Hub-Signature") }
func FuzzStripe(f *testing.F)      { fuzzScheme(f, "stripe", "Stripe-Signature") }
func FuzzPaddle(f *testing.F)      { fuzzScheme(f, "paddle", "Paddle-Signature") }
func FuzzWebSub(f *testing.F)      { fuzzScheme(f, "websub", "X-Hub-Signature") }
func FuzzToken(f *testing.F)       { fuzzScheme(f, "token", "X-Gitlab-Token") }
func FuzzStandardWebhooks(f *testing.F) {
	fuzzScheme(f, "v1", "Webhook-Signature", "Webhook-Timestamp", "Webhook-Id")
}
func FuzzStandardWebhooksEd25519(f *testing.F) {
	fuzzScheme(f, "v1a", "Webhook-Signature", "Webhook-Timestamp", "Webhook-Id")
}

func BenchmarkVerify(b *testing.B) {
	for _, name := range []string{"github", "stripe", "slack", "v1", "v1a", "token"} {
		s := build(b, schemes[name].params, schemes[name].secret)
		r := &verify.Request{Header: http.Header{}, Body: make([]byte, 1024)}
		if err := s.Sign(r, now); err != nil {
			b.Fatal(err)
		}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := s.Verify(r, now); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
