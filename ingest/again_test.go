package ingest

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/forebay-io/forebay/ingest/provider"
	"github.com/forebay-io/forebay/ingest/verify"
)

// What quarantine keeps can be verified again at the time of its receipt, whatever the proof's headers are called and
// whatever else the sender put beside them; and it holds no secret.
func TestQuarantineCanBeVerifiedAgain(t *testing.T) {
	t.Parallel()
	event := &provider.EventConfig{ID: "/id", Type: "/type", Entity: []string{}}
	for name, c := range map[string]provider.Config{
		"github": {Preset: "github"}, "stripe": {Preset: "stripe"}, "slack": {Preset: "slack"}, "standard-webhooks": {Preset: "standard-webhooks"},
		"a header that is called a token": {Preset: "generic", Event: event, Verify: &verify.Params{SignatureHeader: "X-Api-Key-Token"}},
		"the URL is signed":               {Preset: "generic", Event: event, Verify: &verify.Params{SignatureHeader: "Z-Signature", Signed: "{method}{url}{body}"}},
		"an id is signed":                 {Preset: "generic", Event: event, Verify: &verify.Params{SignatureHeader: "Z-Signature", IDHeader: "Z-Secret-Id", Signed: "{id}.{body}"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := setup(t, func(_ *Config, s *Source) { s.PublicURL = "https://hooks.example.com" + inPath })
			in.preset(c)
			const path = inPath + "?a=b"
			body := []byte("not JSON")
			r := verify.Request{Method: "POST", URL: "https://hooks.example.com" + path, Header: http.Header{}, Body: body}
			if err := in.source.Sign(&r, time.Now()); err != nil {
				t.Fatal(err)
			}
			header := []string{"Authorization", "Bearer tok-1", "X-Session-Token", "tok-2", "Cookie", "tok-3"}
			for name, values := range r.Header {
				header = append(header, name, values[0])
			}
			for i := range 40 { // more than is kept, before the proof by their names
				header = append(header, fmt.Sprintf("A-%02d", i), strings.Repeat("a", 1000))
			}
			if a := in.do("POST", path, strings.NewReader(string(body)), header...); a.status != 202 || len(in.log.deliveries) != 1 {
				t.Fatalf("%+v", a)
			}
			d := in.log.deliveries[0]
			again := verify.Request{Method: d.Method, URL: d.URL, Header: http.Header{}, Body: d.Body}
			bytes := 0
			for _, h := range d.Headers {
				again.Header.Add(h.Name, h.Value)
				bytes += len(h.Name) + len(h.Value)
			}
			if err := in.source.Verifier.Verify(&again, d.Received); err != nil {
				t.Errorf("the kept delivery does not verify: %v", err)
			}
			if text := fmt.Sprint(d.Headers); strings.Contains(text, "tok-") || strings.Contains(text, secret) {
				t.Errorf("a secret is kept: %.500s", text)
			}
			if bytes > maxKept || bytes < maxKept-2000 || (d.URL != "") != (name == "the URL is signed") {
				t.Errorf("%d bytes of headers and URL %q are kept", bytes, d.URL)
			}
		})
	}
}
