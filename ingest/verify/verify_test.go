package verify_test

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas"
)

const (
	plain      = "correct horse battery staple"
	whsec      = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	whsk       = "whsk_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
	otherPlain = "another secret that signs nothing"
)

var now = time.Unix(1785000000, 0)

// schemes has one working source per scheme and form of parameters.
var schemes = map[string]struct {
	params verify.Params
	secret string
}{
	"github":   {verify.Params{Scheme: "github"}, plain},
	"stripe":   {verify.Params{Scheme: "stripe"}, plain},
	"paddle":   {verify.Params{Scheme: "paddle"}, plain},
	"websub":   {verify.Params{Scheme: "websub"}, plain},
	"token":    {verify.Params{Scheme: "token", Header: "X-Gitlab-Token"}, plain},
	"bearer":   {verify.Params{Scheme: "token", Header: "Authorization", Prefix: "Bearer "}, plain},
	"v1":       {verify.Params{Scheme: "standard_webhooks"}, whsec},
	"v1 text":  {verify.Params{Scheme: "standard_webhooks", KeyEncoding: "text"}, plain},
	"v1 svix":  {verify.Params{Scheme: "standard_webhooks", HeaderPrefix: "svix-"}, whsec},
	"v1a":      {verify.Params{Scheme: "standard_webhooks"}, whsk},
	"body":     {verify.Params{SignatureHeader: "X-Signature"}, plain},
	"sha512":   {verify.Params{SignatureHeader: "X-Signature", Algorithm: "sha512", Encoding: "base64"}, plain},
	"sha1 url": {verify.Params{SignatureHeader: "X-Signature", Algorithm: "sha1", Encoding: "base64url", Signed: "{method} {url}\n{body}"}, plain},
	"hex key":  {verify.Params{SignatureHeader: "X-Signature", KeyEncoding: "hex", KeyPrefix: "key_"}, "key_00ff10"},
	"list":     {verify.Params{SignatureHeader: "X-Signature", Prefix: "v1=", Separator: ","}, plain},
	"slack": {verify.Params{SignatureHeader: "X-Slack-Signature", Prefix: "v0=", Signed: "v0:{timestamp}:{body}",
		TimestampHeader: "X-Slack-Request-Timestamp"}, plain},
	"ms": {verify.Params{SignatureHeader: "X-Retell-Signature", Field: "d", TimestampField: "v", TimestampUnit: "ms",
		Signed: "{body}{timestamp}"}, plain},
	"rfc3339 id": {verify.Params{SignatureHeader: "X-Signature", TimestampHeader: "X-Time", TimestampUnit: "rfc3339",
		IDHeader: "X-Id", Signed: "{id}.{timestamp}.{body}"}, plain},
	"pointer": {verify.Params{SignatureHeader: "Linear-Signature", TimestampPointer: "/webhookTimestamp", TimestampUnit: "ms",
		Tolerance: time.Minute}, plain},
	"pointer signed": {verify.Params{SignatureHeader: "X-Signature", TimestampPointer: "/t", Signed: "{timestamp}.{body}"}, plain},
}

const body = `{"webhookTimestamp":1785000000000,"t":"1785000000","n":1}`

func build(t testing.TB, p verify.Params, secrets ...string) verify.Scheme {
	t.Helper()
	var list []schemas.Secret
	for _, s := range secrets {
		list = append(list, schemas.NewSecret(s))
	}
	s, err := verify.New(p, list)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func signed(t testing.TB, s verify.Scheme) *verify.Request {
	t.Helper()
	r := &verify.Request{Method: "POST", URL: "https://example.com/in?a=%27", Header: http.Header{}, Body: []byte(body)}
	if err := s.Sign(r, now); err != nil || len(r.Header) == 0 {
		t.Fatal(r.Header, err)
	}
	return r
}

func reason(err error) verify.Reason {
	if e, ok := errors.AsType[*verify.Error](err); ok {
		return e.Reason
	}
	return ""
}

func each(t *testing.T, f func(t *testing.T, s verify.Scheme, secret string, p verify.Params)) {
	for name, c := range schemes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f(t, build(t, c.params, c.secret), c.secret, c.params)
		})
	}
}

func TestSignedIsAccepted(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s verify.Scheme, secret string, p verify.Params) {
		if err := s.Verify(signed(t, s), now); err != nil {
			t.Error(err)
		}
	})
}

func TestAnyKeyMayMatch(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s verify.Scheme, secret string, p verify.Params) {
		other := otherPlain
		switch {
		case p.KeyEncoding == "hex":
			other = "key_ffff"
		case p.Scheme == "standard_webhooks" && p.KeyEncoding == "":
			other = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
		}
		r := signed(t, s)
		if err := build(t, p, other, secret).Verify(r, now); err != nil || r.Secret != 2 {
			t.Errorf("second key: %v, said to be of secret %d", err, r.Secret)
		}
		if err := build(t, p, secret, other).Verify(r, now); err != nil || r.Secret != 1 {
			t.Errorf("first key: %v, said to be of secret %d", err, r.Secret)
		}
		if got := reason(build(t, p, other).Verify(r, now)); got != verify.Mismatch {
			t.Errorf("wrong key: %q", got)
		}
	})
}

func TestRepeatedHeaderIsMalformed(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s verify.Scheme, secret string, p verify.Params) {
		names := signed(t, s).Header
		for name := range names {
			r := signed(t, s)
			r.Header.Add(name, r.Header.Get(name))
			if got := reason(s.Verify(r, now)); got != verify.Malformed {
				t.Errorf("%s twice: %q", name, got)
			}
			r.Header[name] = []string{""}
			if got := reason(s.Verify(r, now)); got != verify.Malformed {
				t.Errorf("%s empty: %q", name, got)
			}
			r.Header.Del(name)
			if got := reason(s.Verify(r, now)); got != verify.MissingHeader {
				t.Errorf("no %s: %q", name, got)
			}
		}
	})
}

// TestHeaderNameCase sends the names in capitals through net/http, as intake receives them.
func TestHeaderNameCase(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s verify.Scheme, secret string, p verify.Params) {
		r := signed(t, s)
		wire := "POST /in HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n"
		for name, values := range r.Header {
			wire += strings.ToUpper(name) + ": " + values[0] + "\r\n"
		}
		received, err := http.ReadRequest(bufio.NewReader(strings.NewReader(wire + "\r\n")))
		if err != nil {
			t.Fatal(err)
		}
		r.Header = received.Header
		if err := s.Verify(r, now); err != nil {
			t.Error(err)
		}
	})
}

func TestTolerance(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s verify.Scheme, secret string, p verify.Params) {
		window := p.Tolerance
		switch {
		case p.Scheme == "paddle":
			window = 5 * time.Second
		case window == 0:
			window = verify.DefaultTolerance
		}
		stamped := p.TimestampHeader+p.TimestampField+p.TimestampPointer != "" || p.Scheme == "stripe" || p.Scheme == "paddle" ||
			p.Scheme == "standard_webhooks"
		r := signed(t, s)
		for _, c := range []struct {
			now  time.Time
			want verify.Reason
		}{
			{now.Add(window), ""}, {now.Add(window + time.Millisecond), verify.TooOld},
			{now.Add(-window), ""}, {now.Add(-window - time.Millisecond), verify.TooNew},
			{time.Unix(1<<40, 0), verify.TooOld}, {time.Time{}, verify.TooNew},
		} {
			if !stamped {
				c.want = ""
			}
			err := s.Verify(r, c.now)
			if got := reason(err); got != c.want {
				t.Errorf("at %s: %q, want %q", c.now.Sub(now), got, c.want)
			}
			if e, ok := errors.AsType[*verify.Error](err); ok && (!e.Signed || (e.Off > 0) != (e.Reason == verify.TooOld)) {
				t.Errorf("at %s: %+v, and the signature is right", c.now.Sub(now), e)
			}
		}
		if !stamped || p.TimestampPointer != "" { // of one in the body nothing is believed before the digest
			return
		}
		forged := *r
		forged.Body = []byte(body + " ")
		for late, want := range map[time.Duration]verify.Reason{0: verify.Mismatch, time.Hour: verify.TooOld, -time.Hour: verify.TooNew} {
			if e, ok := errors.AsType[*verify.Error](s.Verify(&forged, now.Add(late))); !ok || e.Reason != want || e.Signed {
				t.Errorf("forged, at %s: %+v, want %s", late, e, want)
			}
		}
	})
}

// TestOneBitFlipped changes one bit of the body or of a header that was signed along.
func TestOneBitFlipped(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s verify.Scheme, secret string, p verify.Params) {
		rapid.Check(t, func(rt *rapid.T) {
			r := signed(t, s)
			if p.Scheme != "token" && rapid.Bool().Draw(rt, "body") {
				bit := rapid.IntRange(0, len(r.Body)*8-1).Draw(rt, "bit")
				r.Body[bit/8] ^= 1 << (bit % 8)
			} else {
				var names []string
				for name := range r.Header {
					names = append(names, name)
				}
				name := rapid.SampledFrom(names).Draw(rt, "name")
				value := []byte(r.Header.Get(name))
				bit := rapid.IntRange(0, len(value)*8-1).Draw(rt, "bit")
				value[bit/8] ^= 1 << (bit % 8)
				hex := p.Scheme != "token" && p.Scheme != "standard_webhooks" && p.Encoding == ""
				if hex && strings.EqualFold(string(value), r.Header.Get(name)) {
					return // hex digits in upper case say the same
				}
				r.Header[name] = []string{string(value)}
			}
			if s.Verify(r, now) == nil {
				rt.Fatalf("accepted %q over %q", r.Header, r.Body)
			}
		})
	})
}

func TestErrorsNameNoSecret(t *testing.T) {
	t.Parallel()
	leaks := func(t *testing.T, err error, texts ...string) {
		t.Helper()
		for _, text := range texts {
			if err == nil || strings.Contains(fmt.Sprintf("%v %+v %#v", err, err, err), text) {
				t.Errorf("%v says %q", err, text)
			}
		}
	}
	each(t, func(t *testing.T, s verify.Scheme, secret string, p verify.Params) {
		r := signed(t, s)
		for name, values := range r.Header {
			if strings.Contains(strings.ToLower(name), "time") {
				continue
			}
			broken := &verify.Request{Method: r.Method, URL: r.URL, Header: r.Header.Clone(), Body: []byte(`{"private":1}`)}
			broken.Header[name] = []string{"x" + values[0] + "y"}
			leaks(t, s.Verify(broken, now), secret, values[0], "private")
		}
	})
	for _, c := range []struct {
		params verify.Params
		secret string
	}{
		{verify.Params{Scheme: "standard_webhooks"}, "whsec_short"}, {verify.Params{Scheme: "standard_webhooks"}, "whsec_!!!not base64"},
		{verify.Params{Scheme: "standard_webhooks"}, "whpk_AAEC"}, {verify.Params{Scheme: "standard_webhooks"}, "whsk_AAEC"},
		{verify.Params{SignatureHeader: "X", KeyEncoding: "hex"}, "zz not hex"},
		{verify.Params{SignatureHeader: "X", KeyEncoding: "base64"}, "zz\nnot"},
		{verify.Params{SignatureHeader: "X", KeyEncoding: "base64"}, "QQ==="},
	} {
		_, err := verify.New(c.params, []schemas.Secret{schemas.NewSecret(c.secret)})
		leaks(t, err, c.secret, strings.TrimPrefix(c.secret, "whsec_"))
		if reason(err) != verify.BadKey {
			t.Errorf("%q: %v", c.secret, err)
		}
	}
}

func TestNoSecretNoEntry(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s verify.Scheme, secret string, p verify.Params) {
		for _, secrets := range [][]schemas.Secret{nil, {schemas.NewSecret("")}, {schemas.NewSecret(secret), {}}} {
			if s, err := verify.New(p, secrets); reason(err) != verify.BadKey || s != nil {
				t.Errorf("%d secrets: %v %v", len(secrets), s, err)
			}
		}
	})
	for n, want := range map[int]verify.Reason{4: "", 5: verify.BadKey} {
		if _, err := verify.New(verify.Params{Scheme: "standard_webhooks"}, slices.Repeat([]schemas.Secret{schemas.NewSecret(whsk)}, n)); reason(err) != want {
			t.Errorf("%d Ed25519 keys: %v, want %q", n, err, want)
		}
	}
	for n, want := range map[int]verify.Reason{8: "", 9: verify.BadKey} {
		if _, err := verify.New(verify.Params{Scheme: "github"}, slices.Repeat([]schemas.Secret{schemas.NewSecret(plain)}, n)); reason(err) != want {
			t.Errorf("%d secrets: %v, want %q", n, err, want)
		}
	}
	r := signed(t, build(t, verify.Params{Scheme: "github"}, plain))
	for _, s := range []verify.Scheme{&verify.HMAC{}, &verify.GitHub{}, &verify.StandardWebhooks{}, &verify.Token{}} {
		if got := reason(s.Verify(r, now)); got != verify.BadKey {
			t.Errorf("%T without a secret: %q", s, got)
		}
		if s.Sign(r, now) == nil {
			t.Errorf("%T signs without a secret", s)
		}
	}
}

func TestHeaderForms(t *testing.T) {
	t.Parallel()
	set := func(name string, value func(old string) string) func(*verify.Request) {
		return func(r *verify.Request) { r.Header.Set(name, value(r.Header.Get(name))) }
	}
	many := func(item, sep string) func(string) string {
		return func(old string) string { return strings.Repeat(item+sep, 40) + old }
	}
	tests := []struct {
		name, scheme string
		change       func(*verify.Request)
		want         verify.Reason
	}{
		{"rotation list", "list", set("X-Signature", func(s string) string { return "v1=00,v0=zz, " + s }), ""},
		{"list without ours", "list", set("X-Signature", func(string) string { return "v2=00,v3=00" }), verify.Malformed},
		{"endless list", "list", set("X-Signature", many("v1=00", ",")), verify.Malformed},
		{"endless standard list", "v1a", set("Webhook-Signature", many("v1a,00", " ")), verify.Malformed},
		{"as many signatures as are verified", "v1a", set("Webhook-Signature", func(s string) string { return strings.Repeat("v1a,00 ", 7) + s }), ""},
		{"more signatures than are verified", "v1a", set("Webhook-Signature", func(s string) string { return strings.Repeat("v1a,00 ", 8) + s }), verify.Malformed},
		{"endless fields", "stripe", set("Stripe-Signature", many("v1=00", ",")), verify.Malformed},
		{"two timestamps", "stripe", set("Stripe-Signature", func(s string) string { return s + ",t=1785000000" }), verify.Malformed},
		{"upper-case hex", "body", set("X-Signature", strings.ToUpper), ""},
		{"half a byte", "body", set("X-Signature", func(s string) string { return s[1:] }), verify.Malformed},
		{"truncated", "body", set("X-Signature", func(s string) string { return s[2:] }), verify.Mismatch},
		{"longer", "body", set("X-Signature", func(s string) string { return s + "00" }), verify.Mismatch},
		{"line break in base64", "sha512", set("X-Signature", func(s string) string { return s[:4] + "\n" + s[4:] }), verify.Malformed},
		{"no padding", "sha512", set("X-Signature", func(s string) string { return strings.TrimRight(s, "=") }), verify.Malformed},
		{"base64url without padding", "sha1 url", set("X-Signature", func(s string) string { return strings.TrimRight(s, "=") }), ""},
		{"unknown URL", "sha1 url", func(r *verify.Request) { r.URL = "" }, verify.Malformed},
		{"other method", "sha1 url", func(r *verify.Request) { r.Method = "PUT" }, verify.Mismatch},
		{"sha1 method", "websub", set("X-Hub-Signature", func(s string) string { return "sha1=" + s[7:] }), verify.Malformed},
		{"sign in timestamp", "slack", set("X-Slack-Request-Timestamp", func(s string) string { return "+" + s }), verify.Malformed},
		{"17 digits", "slack", set("X-Slack-Request-Timestamp", func(s string) string { return "0000000" + s }), verify.Malformed},
		{"leading zero", "slack", set("X-Slack-Request-Timestamp", func(s string) string { return "0" + s }), verify.Malformed},
		{"not RFC 3339", "rfc3339 id", set("X-Time", func(string) string { return "yesterday" }), verify.Malformed},
		{"dot in id", "v1", set("Webhook-Id", func(s string) string { return s + ".1" }), verify.Malformed},
		{"families are not mixed", "v1", func(r *verify.Request) {
			r.Header.Set("Svix-Id", r.Header.Get("Webhook-Id"))
			r.Header.Del("Webhook-Id")
		}, verify.MissingHeader},
		{"tabs between signatures", "v1", set("Webhook-Signature", func(s string) string { return "v1,AAAA\tv9,x  " + s }), ""},
		{"body without timestamp", "pointer signed", func(r *verify.Request) { r.Body = []byte(`{}`) }, verify.Malformed},
		{"timestamp is an object", "pointer signed", func(r *verify.Request) { r.Body = []byte(`{"t":{}}`) }, verify.Malformed},
		{"body is not JSON", "pointer signed", func(r *verify.Request) { r.Body = []byte(`t=1`) }, verify.Malformed},
		{"signature before timestamp in body", "pointer", func(r *verify.Request) { r.Body = []byte(`{"webhookTimestamp":1}`) }, verify.Mismatch},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := build(t, schemes[tt.scheme].params, schemes[tt.scheme].secret)
			r := signed(t, s)
			tt.change(r)
			if err := s.Verify(r, now); reason(err) != tt.want {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
}

// TestBodyWithoutTimestamp signs a body that lacks what the source is told to find there.
func TestBodyWithoutTimestamp(t *testing.T) {
	t.Parallel()
	s := build(t, schemes["pointer"].params, plain)
	r := &verify.Request{Header: http.Header{}, Body: []byte(`{"a":1}`)}
	if err := s.Sign(r, now); err != nil {
		t.Fatal(err)
	}
	if got := reason(s.Verify(r, now)); got != verify.Malformed {
		t.Errorf("got %q", got)
	}
}

func TestSHA1OnlyWhereAllowedAndNothingBetter(t *testing.T) {
	t.Parallel()
	old := build(t, verify.Params{SignatureHeader: "X-Hub-Signature", Algorithm: "sha1", Prefix: "sha1="}, plain)
	r := signed(t, old)
	strict, lenient := build(t, verify.Params{Scheme: "github"}, plain), build(t, verify.Params{Scheme: "github", AllowSHA1: true}, plain)
	if got := reason(strict.Verify(r, now)); got != verify.MissingHeader {
		t.Errorf("strict: %q", got)
	}
	if err := lenient.Verify(r, now); err != nil {
		t.Errorf("allowed: %v", err)
	}
	r.Header.Set("X-Hub-Signature-256", "sha256=00")
	if got := reason(lenient.Verify(r, now)); got != verify.Mismatch {
		t.Errorf("a wrong SHA-256 beside a right SHA-1: %q", got)
	}
}

// TestIDEndsAtItsLiteral: with a literal inside the id, what is signed could be read in two ways: an id "7" before the body "8.{}", and an id
// "7.8" before the body "{}".
func TestIDEndsAtItsLiteral(t *testing.T) {
	t.Parallel()
	scheme, err := verify.New(verify.Params{SignatureHeader: "X-Signature", IDHeader: "X-Id", Signed: "{id}.{body}"}, []schemas.Secret{schemas.NewSecret("secret")})
	if err != nil {
		t.Fatal(err)
	}
	request := &verify.Request{Method: "POST", Header: http.Header{"X-Id": {"7"}}, Body: []byte("8.{}")}
	if err := scheme.Sign(request, now); err != nil {
		t.Fatal(err)
	}
	if err := scheme.Verify(request, now); err != nil {
		t.Error(err)
	}
	moved := &verify.Request{Method: "POST", Header: http.Header{"X-Id": {"7.8"}, "X-Signature": request.Header["X-Signature"]}, Body: []byte("{}")}
	if err := scheme.Verify(moved, now); reason(err) != verify.Malformed {
		t.Errorf("%v, want malformed", err)
	}
}

// Mailgun signs no event: a token that has come is taken again with the same body alone.
func TestMailgunTokenIsOfOneBody(t *testing.T) {
	t.Parallel()
	s, err := verify.New(verify.Params{Scheme: verify.SchemeMailgun}, []schemas.Secret{schemas.NewSecret("key")})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(1751430074, 0)
	r := &verify.Request{Header: http.Header{}, Body: []byte(`{"event-data":{"id":"1"}}`)}
	if err := s.Sign(r, now); err != nil {
		t.Fatal(err)
	}
	other := &verify.Request{Header: http.Header{}, Body: bytes.Replace(r.Body, []byte(`"1"`), []byte(`"2"`), 1)}
	for i, want := range []verify.Reason{"", "", verify.Mismatch, ""} {
		one := r
		if i == 2 {
			one = other
		}
		var got verify.Reason
		if e, ok := errors.AsType[*verify.Error](s.Verify(one, now)); ok {
			got = e.Reason
		}
		if got != want {
			t.Errorf("delivery %d: %q, want %q", i+1, got, want)
		}
	}
}

// Twilio: whose body's hash is in the URL is held against it; the address of an IPv6 host is not taken for one with a port.
func TestTwilioBodies(t *testing.T) {
	t.Parallel()
	s, err := verify.New(verify.Params{Scheme: verify.SchemeTwilio}, []schemas.Secret{schemas.NewSecret("12345")})
	if err != nil {
		t.Fatal(err)
	}
	for called, rewritten := range map[string]string{"https://[::1]/in": "https://[::1]:443/in", "https://u:p@example.com/in": "https://u:p@example.com:443/in",
		"http://example.com:80/in?a=b:c": "http://example.com/in?a=b:c", "https://example.com": "https://example.com:443"} {
		r := &verify.Request{URL: called, Header: http.Header{}, Body: []byte("a=1")}
		if err := s.Sign(r, time.Time{}); err != nil {
			t.Fatal(err)
		}
		r.URL = rewritten
		if err := s.Verify(r, time.Time{}); err != nil {
			t.Errorf("%s as %s: %v", called, rewritten, err)
		}
	}
	r := &verify.Request{URL: "https://example.com/in?bodySHA256=" + fmt.Sprintf("%x", sha256.Sum256([]byte(`{}`))), Header: http.Header{}, Body: []byte(`{}`)}
	if err := s.Sign(r, time.Time{}); err != nil {
		t.Fatal(err)
	}
	for body, ok := range map[string]bool{`{}`: true, `{ }`: false, ``: false, `a=1`: false} {
		r.Body = []byte(body)
		if err := s.Verify(r, time.Time{}); (err == nil) != ok {
			t.Errorf("%s: %v", body, err)
		}
	}
}

// RFC 9421, appendix B.2.6: Ed25519, with the key of B.1.4.
func TestMessageSignatureOfTheRFC(t *testing.T) {
	t.Parallel()
	request := func() *verify.Request {
		return &verify.Request{Method: "POST", URL: "https://example.com/foo?param=Value&Pet=dog", Body: []byte(`{"hello": "world"}`), Header: http.Header{
			"Date": {"Tue, 20 Apr 2021 02:07:55 GMT"}, "Content-Type": {"application/json"}, "Content-Length": {"18"},
			"Content-Digest":  {"sha-512=:WZDPaVn/7XgHaAy8pmojAkGWoRx2UFChF41A2svX+TaPm+AbwAgBWnrIiYllu7BNNyealdVLvRwEmTHWXvJwew==:"},
			"Signature-Input": {`sig-b26=("date" "@method" "@path" "@authority" "content-type" "content-length");created=1618884473;keyid="test-key-ed25519"`},
			"Signature":       {"sig-b26=:wqcAqbmYJ2ji2glfAMaRy4gruYYnx2nEFN2HN6jrnDnQCK1u02Gb04v9EDgwUPiu4A0w6vuQv5lIp5WPpBKRCw==:"}}}
	}
	now := time.Unix(1618884473, 0)
	s, err := verify.New(verify.Params{Scheme: verify.SchemeRFC9421, Alg: "ed25519", Components: "@method @path"},
		[]schemas.Secret{schemas.NewSecret("MCowBQYDK2VwAyEAJrQLj5P/89iXES9+vFgrIy29clF9CC/oPPsw3c5D0bs=")})
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		edit func(r *verify.Request)
		at   time.Time
		want verify.Reason
	}{
		"as published":      {func(*verify.Request) {}, now, ""},
		"another method":    {func(r *verify.Request) { r.Method = "PUT" }, now, verify.Mismatch},
		"another path":      {func(r *verify.Request) { r.URL = "https://example.com/bar" }, now, verify.Mismatch},
		"the usual port":    {func(r *verify.Request) { r.URL = "https://EXAMPLE.com:443/foo" }, now, ""},
		"another body":      {func(r *verify.Request) { r.Body = []byte("{}") }, now, verify.DigestMismatch},
		"no input":          {func(r *verify.Request) { delete(r.Header, "Signature-Input") }, now, verify.MissingHeader},
		"a component twice": {func(r *verify.Request) { r.Header.Set("Signature-Input", `sig-b26=("date" "date");created=1618884473`) }, now, verify.Malformed},
		"parameters": {func(r *verify.Request) {
			r.Header.Set("Signature-Input", `sig-b26=("@method" "@path" "date";sf);created=1618884473`)
		}, now, verify.Malformed},
		"not what must be":      {func(r *verify.Request) { r.Header.Set("Signature-Input", `sig-b26=("date");created=1618884473`) }, now, verify.Malformed},
		"not created":           {func(r *verify.Request) { r.Header.Set("Signature-Input", `sig-b26=("@method" "@path");keyid="x"`) }, now, verify.Malformed},
		"an open string":        {func(r *verify.Request) { r.Header.Set("Signature-Input", `sig-b26=("date`) }, now, verify.Malformed},
		"six minutes later":     {func(*verify.Request) {}, now.Add(6 * time.Minute), verify.TooOld},
		"a signature beside it": {func(r *verify.Request) { r.Header.Add("Signature-Input", `x=("a, b")`) }, now, ""},
	} {
		r := request()
		test.edit(r)
		var got verify.Reason
		err := s.Verify(r, test.at)
		if e, ok := errors.AsType[*verify.Error](err); ok {
			got = e.Reason
		}
		if got != test.want {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
}
