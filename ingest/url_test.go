package ingest

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/forebay-io/forebay/ingest/provider"
	"github.com/forebay-io/forebay/ingest/verify"
)

// TestSignedURL: what is verified is the URL that the source is configured with, whatever Host a request has, and however it came
// through a proxy that ends TLS.
func TestSignedURL(t *testing.T) {
	t.Parallel()
	const public = "https://hooks.example.com/orders" // which a proxy sends on as inPath
	in := setup(t, func(_ *Config, s *Source) { s.PublicURL = public })
	in.preset(provider.Config{Preset: "generic", Event: &provider.EventConfig{ID: "/id", Type: "/type", Entity: []string{}},
		Verify: &verify.Params{SignatureHeader: "X-Signature", Signed: "{url}{body}"}})
	const body = `{"id":"1","type":"t"}`
	for _, tt := range []struct {
		name, signed, called, host string
		want                       int
	}{
		{"behind the proxy", public, inPath, "10.0.0.7:8080", 202},
		{"with a query", public + "?b=%2F&a=1", inPath + "?b=%2F&a=1", "10.0.0.7:8080", 202},
		{"another query", public + "?a=1", inPath + "?a=2", "10.0.0.7:8080", 401},
		{"the Host of a forwarder", "http://other.example" + inPath, inPath, "other.example", 401},
		{"its own address", "http://10.0.0.7:8080" + inPath, inPath, "10.0.0.7:8080", 401},
	} {
		r := verify.Request{Method: "POST", URL: tt.signed, Header: http.Header{}, Body: []byte(body)}
		if err := in.source.Sign(&r, time.Now()); err != nil {
			t.Fatal(err)
		}
		a := in.do("POST", tt.called, strings.NewReader(body), "X-Signature", r.Header.Get("X-Signature"), "Host", tt.host, "X-Forwarded-Host", tt.host)
		if a.status != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, a.status, tt.want)
		}
	}
	in.source.PublicURL = "" // which config check refuses
	r := verify.Request{Method: "POST", URL: "http://10.0.0.7:8080" + inPath, Header: http.Header{}, Body: []byte(body)}
	if err := in.source.Sign(&r, time.Now()); err != nil {
		t.Fatal(err)
	}
	if a := in.do("POST", inPath, strings.NewReader(body), "X-Signature", r.Header.Get("X-Signature"), "Host", "10.0.0.7:8080"); a.status != 401 {
		t.Errorf("without a public URL: %d", a.status)
	}
}
