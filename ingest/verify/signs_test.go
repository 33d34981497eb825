package verify_test

import (
	"bytes"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas"
)

// TestSigns holds what Signs says of each scheme to what the scheme does: with a delivery that was signed, another body, another id or a
// time beyond the tolerance passes only where Signs says that it is not covered.
func TestSigns(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)
	for name, tt := range map[string]struct {
		params    verify.Params
		template  string
		tolerance time.Duration
		id        string // the header of {id}
	}{
		"hmac":       {verify.Params{SignatureHeader: "X-S"}, "{body}", 0, "X-Id"},
		"hmac+time":  {verify.Params{SignatureHeader: "X-S", TimestampHeader: "X-T", Signed: "v0:{timestamp}:{body}", Tolerance: time.Hour}, "v0:{timestamp}:{body}", time.Hour, "X-Id"},
		"github":     {verify.Params{Scheme: verify.SchemeGitHub}, "{body}", 0, "X-GitHub-Delivery"},
		"stripe":     {verify.Params{Scheme: verify.SchemeStripe}, "{timestamp}.{body}", 5 * time.Minute, "X-Id"},
		"paddle":     {verify.Params{Scheme: verify.SchemePaddle}, "{timestamp}:{body}", 5 * time.Second, "X-Id"},
		"websub":     {verify.Params{Scheme: verify.SchemeWebSub}, "{body}", 0, "X-Id"},
		"standard":   {verify.Params{Scheme: verify.SchemeStandardWebhooks}, "{id}.{timestamp}.{body}", 5 * time.Minute, "Webhook-Id"},
		"standard 1": {verify.Params{Scheme: verify.SchemeStandardWebhooks, Tolerance: time.Minute}, "{id}.{timestamp}.{body}", time.Minute, "Webhook-Id"},
		"ed25519":    {verify.Params{Scheme: verify.SchemeEd25519, Tolerance: time.Hour}, "{timestamp}{body}", time.Hour, "X-Id"},
		"sendgrid":   {verify.Params{Scheme: verify.SchemeSendGrid}, "{timestamp}{body}", 5 * time.Minute, "X-Id"},
		"twilio":     {verify.Params{Scheme: verify.SchemeTwilio}, "{url}{body}", 0, "X-Id"},
		"hubspot":    {verify.Params{Scheme: verify.SchemeHubSpot}, "{method}{url}{body}{timestamp}", 5 * time.Minute, "X-Id"},
		"hubspot v2": {verify.Params{Scheme: verify.SchemeHubSpot, Version: "v2"}, "{method}{url}{body}", 0, "X-Id"},
		"rfc9421":    {verify.Params{Scheme: verify.SchemeRFC9421, Alg: "hmac-sha256"}, "content-digest @method", 5 * time.Minute, "X-Id"},
		"token":      {verify.Params{Scheme: verify.SchemeToken, Header: "X-Token"}, "", 0, "X-Id"},
		"agent key":  {verify.Params{Scheme: verify.SchemeAgentKey}, "", 0, "X-Id"},
	} {
		template, tolerance := tt.params.Signs()
		if template != tt.template || tolerance != tt.tolerance {
			t.Errorf("%s: %q %s, want %q %s", name, template, tolerance, tt.template, tt.tolerance)
		}
		s, err := verify.New(tt.params, []schemas.Secret{verify.ExampleSecret(tt.params.Scheme)})
		if err != nil {
			t.Fatal(name, err)
		}
		signed := func() *verify.Request {
			r := &verify.Request{Method: http.MethodPost, URL: "https://example.com/in", Header: http.Header{tt.id: {"msg_1"}}, Body: []byte(`{"a":1}`)}
			if err := s.Sign(r, now); err != nil {
				t.Fatal(name, err)
			}
			return r
		}
		other, renamed := signed(), signed()
		other.Body = bytes.Replace(other.Body, []byte("1"), []byte("2"), 1)
		renamed.Header.Set(tt.id, "msg_2")
		for what, c := range map[string]struct {
			r    *verify.Request
			at   time.Time
			pass bool
		}{
			"as it was signed": {signed(), now, true},
			"another body":     {other, now, !strings.Contains(template, "{body}") && !strings.Contains(template, "content-digest")},
			"another id":       {renamed, now, !strings.Contains(template, "{id}")},
			"in time":          {signed(), now.Add(tolerance), true},
			"too late":         {signed(), now.Add(tolerance + time.Second), tolerance == 0},
			"a year later":     {signed(), now.AddDate(1, 0, 0), tolerance == 0},
		} {
			if err := s.Verify(c.r, c.at); (err == nil) != c.pass {
				t.Errorf("%s, %s: %v, want it accepted: %t", name, what, err, c.pass)
			}
		}
	}
}
