package openid

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"errors"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/forebay-io/forebay/cmd/internal/access"
	"github.com/forebay-io/forebay/cmd/internal/openid/openidtest"
	"github.com/forebay-io/forebay/schemas"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const back = "https://forebay.example.com/console/login/callback"

// setup returns a login at a provider, and its log.
func setup(t *testing.T) (*Login, *openidtest.Provider, *bytes.Buffer) {
	t.Helper()
	p := openidtest.New(t, back)
	var log bytes.Buffer
	l := New(Config{Issuer: p.URL, ClientID: openidtest.Client, ClientSecret: schemas.NewSecret(openidtest.Secret), Redirect: back, Logger: slog.New(slog.NewTextHandler(&log, nil)),
		Rules: []Rule{
			{Claim: "groups", Value: "oncall", Role: "responder", Teams: []string{"acme"}, Payloads: true},
			{Claim: "groups", Value: "everybody", Role: "viewer", Teams: []string{"acme", "pay"}},
			{Claim: "email", Value: "root@example.com", Role: "admin"},
			{Claim: "sub", Value: "bot", Role: "auditor"},
		}})
	t.Cleanup(l.http.CloseIdleConnections)
	return l, p, &log
}

// begin begins a login, and returns its secret and what the provider leads back with.
func begin(t *testing.T, l *Login, p *openidtest.Provider) (secret string, q url.Values) {
	t.Helper()
	to, secret, err := l.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return secret, p.LogIn(t, to).Query()
}

// TestLogin: what the provider claims of somebody gives them the role of the first grant that holds, and the name that the audit has.
func TestLogin(t *testing.T) {
	t.Parallel()
	l, p, log := setup(t)
	for _, tt := range []struct {
		name   string
		claims map[string]any
		want   *access.Who // nil: nobody
	}{
		{"by group", map[string]any{"sub": "u1", "email": "ann@example.com", "email_verified": true, "groups": []string{"x", "everybody", "oncall"}},
			&access.Who{Name: "oidc:ann@example.com", Role: "responder", Teams: []string{"acme"}, Sees: true}},
		{"a text", map[string]any{"sub": "u1", "groups": "everybody"}, &access.Who{Name: "oidc:u1", Role: "viewer", Teams: []string{"acme", "pay"}}},
		{"by email", map[string]any{"sub": "u1", "email": "root@example.com", "email_verified": true}, &access.Who{Name: "oidc:root@example.com", Role: "admin"}},
		{"by subject", map[string]any{"sub": "bot", "email": "bot@example.com"}, &access.Who{Name: "oidc:bot", Role: "auditor"}},
		{"an email of anybody", map[string]any{"sub": "u1", "email": "root@example.com", "email_verified": false}, nil},
		{"an email without a word", map[string]any{"sub": "u1", "email": "root@example.com"}, nil},
		{"other groups", map[string]any{"sub": "u1", "groups": []string{"oncall2", "Oncall"}}, nil},
		{"parts of a list", map[string]any{"sub": "u1", "groups": "oncall,everybody"}, nil},
		{"no claims", map[string]any{"sub": "u1"}, nil},
		{"numbers", map[string]any{"sub": "u1", "groups": []any{1, nil, map[string]any{"a": "oncall"}}}, nil},
	} {
		p.Knows(tt.claims)
		secret, q := begin(t, l, p)
		who, err := l.Finish(t.Context(), secret, q)
		if diff := cmp.Diff(tt.want, who); diff != "" {
			t.Errorf("%s: %v %s", tt.name, err, diff)
		}
		if none, ok := errors.AsType[*NoRole](err); tt.want == nil && (!ok || none.Name != "u1" && none.Name != "root@example.com") {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
	p.Knows(map[string]any{"sub": "u\n1", "groups": "oncall"})
	secret, q := begin(t, l, p)
	if _, err := l.Finish(t.Context(), secret, q); schemas.KindOf(err) != schemas.Unauthenticated {
		t.Errorf("a subject that the log cannot show: %v", err)
	}
	if p.DescriptionRequests() != 1 {
		t.Errorf("the provider was asked %d times for its description", p.DescriptionRequests())
	}
	if strings.Contains(log.String(), openidtest.Secret) {
		t.Error(log)
	}
}

// TestNoOtherAnswerIsTaken: only the provider's own answer to this browser's login, once, in time.
func TestNoOtherAnswerIsTaken(t *testing.T) {
	t.Parallel()
	l, p, log := setup(t)
	other, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	ann := map[string]any{"sub": "u1", "groups": "oncall"}
	refused := func(what string, kind schemas.Kind, secret string, q url.Values) {
		t.Helper()
		who, err := l.Finish(t.Context(), secret, q)
		if who != nil || schemas.KindOf(err) != kind {
			t.Errorf("%s: %+v %v", what, who, err)
		}
		if s := log.String(); strings.Contains(s, secret) && secret != "" || q.Get("code") != "" && strings.Contains(s, q.Get("code")) {
			t.Errorf("%s: the log has it: %s", what, s)
		}
	}
	with := func(q url.Values, name, value string) url.Values {
		q = url.Values{"code": q["code"], "state": q["state"], "iss": q["iss"]}
		q.Set(name, value)
		return q
	}
	p.Knows(ann)
	secret, q := begin(t, l, p)
	stolen, theirs := begin(t, l, p)
	refused("no state", schemas.Invalid, secret, with(q, "state", ""))
	refused("another state", schemas.Invalid, secret, with(q, "state", theirs.Get("state")))
	refused("no cookie", schemas.Invalid, "", q)
	refused("another browser's cookie", schemas.Invalid, stolen, q)
	refused("a code of another login, which PKCE tells", schemas.Unauthenticated, secret, with(q, "code", theirs.Get("code")))
	refused("another code", schemas.Unauthenticated, secret, with(q, "code", "x"))
	refused("another provider's answer", schemas.Unauthenticated, secret, with(q, "iss", "https://evil.example"))
	refused("an error", schemas.Unauthenticated, secret, with(q, "error", "access_denied"))
	if who, err := l.Finish(t.Context(), secret, q); err != nil || who.Name != "oidc:u1" {
		t.Fatalf("the login itself: %+v %v", who, err)
	}
	refused("its code once more", schemas.Unauthenticated, secret, q)
	for what, change := range map[string]func(header, claims map[string]any, key *rsa.PrivateKey) *rsa.PrivateKey{
		"another nonce": func(_, c map[string]any, key *rsa.PrivateKey) *rsa.PrivateKey { c["nonce"] = "x"; return key },
		"no nonce":      func(_, c map[string]any, key *rsa.PrivateKey) *rsa.PrivateKey { delete(c, "nonce"); return key },
		"expired": func(_, c map[string]any, key *rsa.PrivateKey) *rsa.PrivateKey {
			c["exp"] = time.Now().Add(-time.Minute).Unix()
			return key
		},
		"another client": func(_, c map[string]any, key *rsa.PrivateKey) *rsa.PrivateKey { c["aud"] = "billing"; return key },
		"another issuer": func(_, c map[string]any, key *rsa.PrivateKey) *rsa.PrivateKey {
			c["iss"] = "https://evil.example"
			return key
		},
		"another's key":   func(_, _ map[string]any, _ *rsa.PrivateKey) *rsa.PrivateKey { return other },
		"an unknown key":  func(h, _ map[string]any, _ *rsa.PrivateKey) *rsa.PrivateKey { h["kid"] = "2"; return other },
		"not signed":      func(h, _ map[string]any, _ *rsa.PrivateKey) *rsa.PrivateKey { h["alg"] = "none"; return nil },
		"by a shared key": func(h, _ map[string]any, key *rsa.PrivateKey) *rsa.PrivateKey { h["alg"] = "HS256"; return key },
	} {
		p.Forge(change)
		secret, q := begin(t, l, p)
		refused(what, schemas.Unauthenticated, secret, q)
	}
}

// TestProviderIsAway: who logs in is told so, and the provider is not asked by each.
func TestProviderIsAway(t *testing.T) {
	t.Parallel()
	l := New(Config{Issuer: "http://127.0.0.1:1", ClientID: "x", Redirect: back})
	for range 3 {
		if _, _, err := l.Begin(t.Context()); schemas.KindOf(err) != schemas.Unavailable {
			t.Error(err)
		}
	}
	first := l.failedAt
	if _, _, err := l.Begin(t.Context()); err == nil || l.failedAt != first {
		t.Error("it is asked each time")
	}
	l.failedAt = time.Now().Add(-retryAfter)
	if _, _, err := l.Begin(t.Context()); err == nil || l.failedAt == first {
		t.Error("it is never asked again")
	}
}

// TestProviderIsHalfAway: a provider that does not give tokens, or its keys, has refused nobody.
func TestProviderIsHalfAway(t *testing.T) {
	t.Parallel()
	l, p, log := setup(t)
	for _, path := range []string{"/token", "/keys"} {
		secret, back := begin(t, l, p)
		p.Down(path)
		if _, err := l.Finish(t.Context(), secret, back); schemas.KindOf(err) != schemas.Unavailable || strings.Contains(err.Error(), "secret words") {
			t.Errorf("%s answers 503: %v", path, err)
		}
		p.Down("")
	}
	if strings.Contains(log.String(), "refused") {
		t.Errorf("somebody is refused: %s", log)
	}
}

// TestFingerprint: other rules, and another provider, have another one.
func TestFingerprint(t *testing.T) {
	t.Parallel()
	cfg := Config{Issuer: "https://a", ClientID: "x", Rules: []Rule{{Claim: "groups", Value: "a", Role: "viewer", Teams: []string{"acme"}}}}
	seen := [][]byte{New(cfg).Fingerprint()}
	for _, change := range []func(*Config){
		func(c *Config) { c.Issuer = "https://b" }, func(c *Config) { c.ClientID = "y" }, func(c *Config) { c.Rules[0].Role = "admin" }, func(c *Config) { c.Rules[0].Teams = nil },
		func(c *Config) { c.Rules[0].Payloads = true }, func(c *Config) { c.Rules = nil },
	} {
		other := cfg
		other.Rules = slices.Clone(cfg.Rules)
		change(&other)
		got := New(other).Fingerprint()
		if len(got) != 32 || slices.ContainsFunc(seen, func(s []byte) bool { return bytes.Equal(s, got) }) {
			t.Errorf("%x is one of %x", got, seen)
		}
		seen = append(seen, got)
	}
	if !bytes.Equal(New(cfg).Fingerprint(), seen[0]) {
		t.Error("the same has another one")
	}
}
