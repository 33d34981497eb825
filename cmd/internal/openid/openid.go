// Package openid logs people in by an OpenID provider: authorization code with PKCE, state and nonce. What the provider claims of somebody
// becomes a role by rules.
//
//	browser           Forebay                        provider
//	   |  log in        |                               |
//	   |--------------->|  Begin: a secret, in a cookie |
//	   |<---------------|  state, nonce, PKCE of it     |
//	   |------------------------------------------------>|  who are you?
//	   |<------------------------------------------------|  code, state
//	   |--------------->|  Finish: state               |
//	   |                |------------------------------>|  code, PKCE
//	   |                |<------------------------------|  ID token: nonce, claims
//	   |<---------------|  a session, or why there is none
package openid

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/forebay-io/forebay/cmd/internal/access"
	"github.com/forebay-io/forebay/schemas"
)

// Config is what a Login is made of. All of it but Scopes and Logger is required.
type Config struct {
	Issuer       string
	ClientID     string
	ClientSecret schemas.Secret
	Scopes       []string // openid is one of them; default openid and email
	Rules        []Rule
	Redirect     string       // URL to which the provider leads back
	Logger       *slog.Logger // nil logs nothing
}

// Rule gives a role to whom a claim of the ID token has a value: is it, or is a list with it. The first that holds is taken.
type Rule struct {
	Claim, Value string
	Role         string
	Teams        []string // nil: all
	Payloads     bool
}

// Login logs people in. Safe for concurrent use.
type Login struct {
	cfg  Config
	http *http.Client

	turn     chan struct{} // a mutex that can be waited for with a context; never closed
	found    *oidc.Provider
	failedAt time.Time // when the provider's description could not be had the last time
	failure  error     // why
}

const (
	askWithin  = 10 * time.Second // how long one answer of the provider may take
	retryAfter = 5 * time.Second  // how long it is not asked for its description, after it did not answer
)

// New returns a login. The provider is asked with the first that logs in.
func New(cfg Config) *Login {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if len(cfg.Scopes) == 0 {
		cfg.Scopes = []string{oidc.ScopeOpenID, "email"}
	}
	return &Login{cfg: cfg, http: &http.Client{Timeout: askWithin}, turn: make(chan struct{}, 1)}
}

// Fingerprint returns 32 bytes that are others when the provider or the rules are: sessions that were made by them have ended then.
func (l *Login) Fingerprint() []byte {
	text, err := json.Marshal([]any{l.cfg.Issuer, l.cfg.ClientID, l.cfg.Rules})
	if err != nil {
		panic(err) // texts alone
	}
	sum := sha256.Sum256(text)
	return sum[:]
}

// Begin returns where the browser goes to, and a secret of 256 random bits that it keeps in a cookie until it comes back. All that a login has
// of its own is derived from that: no process has to remember it.
func (l *Login) Begin(ctx context.Context) (to, secret string, err error) {
	client, _, err := l.client(ctx)
	if err != nil {
		return "", "", err
	}
	secret = access.RandomText()
	return client.AuthCodeURL(derived(secret, "state"), oidc.Nonce(derived(secret, "nonce")), oauth2.S256ChallengeOption(derived(secret, "verifier"))), secret, nil
}

// Finish returns who has come back, with the secret of the cookie. Kinds: Invalid if the login was not begun in this browser, Unauthenticated
// if the provider's answer is none, Unavailable if the provider does not answer. It is a *[NoRole] if no rule gives somebody a role.
func (l *Login) Finish(ctx context.Context, secret string, q url.Values) (*access.Who, error) {
	if secret == "" || subtle.ConstantTimeCompare([]byte(q.Get("state")), []byte(derived(secret, "state"))) == 0 {
		return nil, schemas.Errorf(schemas.Invalid, "", "this login was not begun in this browser, or too long ago: begin again")
	}
	if code := q.Get("error"); code != "" {
		return nil, l.distrusted("the provider has let nobody in", fmt.Errorf("error %.100q", code))
	}
	if from := q.Get("iss"); from != "" && from != l.cfg.Issuer { // RFC 9207
		return nil, l.distrusted("the answer is not the provider's", fmt.Errorf("issuer %.200q", from))
	}
	client, provider, err := l.client(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(oidc.ClientContext(ctx, l.http), 2*askWithin)
	defer cancel()
	token, err := client.Exchange(ctx, q.Get("code"), oauth2.VerifierOption(derived(secret, "verifier")))
	refused, ok := errors.AsType[*oauth2.RetrieveError](err)
	switch {
	case ok && (refused.Response.StatusCode >= http.StatusInternalServerError || refused.Response.StatusCode == http.StatusTooManyRequests):
		return nil, schemas.Errorf(schemas.Unavailable, "ask the provider", "it answers %s", refused.Response.Status)
	case ok:
		return nil, l.distrusted("the provider does not take its own answer", fmt.Errorf("%s: error %.100q", refused.Response.Status, refused.ErrorCode))
	case err != nil:
		return nil, schemas.Errorf(schemas.Unavailable, "ask the provider", "%w", err)
	}
	raw, _ := token.Extra("id_token").(string)
	id, err := provider.Verifier(&oidc.Config{ClientID: l.cfg.ClientID}).Verify(ctx, raw)
	if err != nil && strings.Contains(err.Error(), "fetching keys") { // which go-oidc wraps no further
		l.cfg.Logger.Warn("the OIDC provider does not give its keys", "error", err)
		return nil, schemas.Errorf(schemas.Unavailable, "ask the provider", "it does not give its keys; the log of this process says more")
	}
	if err != nil {
		return nil, l.distrusted("the provider's answer cannot be trusted", err)
	}
	if subtle.ConstantTimeCompare([]byte(id.Nonce), []byte(derived(secret, "nonce"))) == 0 {
		return nil, l.distrusted("the provider's answer is of another login", errors.New("the nonce is another one"))
	}
	var claims map[string]any
	if err := id.Claims(&claims); err != nil {
		return nil, l.distrusted("the provider's answer cannot be read", err)
	}
	return l.who(id.Subject, claims)
}

// distrusted logs why an answer is not taken, and returns what somebody is told.
func (l *Login) distrusted(reason string, why error) error {
	l.cfg.Logger.Warn("a login by the OIDC provider is refused", "reason", reason, "error", why)
	return schemas.Errorf(schemas.Unauthenticated, "", "%s: log in again; the log of this process says more", reason)
}

// who returns whom claims are of, with the role that a rule gives them.
func (l *Login) who(subject string, claims map[string]any) (*access.Who, error) {
	name := subject
	if email, ok := claims["email"].(string); ok && verified(claims) && shown(email) {
		name = email
	}
	if !shown(name) {
		return nil, l.distrusted("the provider's answer cannot be read", fmt.Errorf("subject %.100q", subject))
	}
	for _, r := range l.cfg.Rules {
		if r.Claim == "email" && !verified(claims) { // or whoever may change it there writes another's
			continue
		}
		if has(claims[r.Claim], r.Value) {
			return &access.Who{Name: access.Provided + name, Role: r.Role, Teams: r.Teams, Sees: r.Payloads}, nil
		}
	}
	return nil, &NoRole{name}
}

// NoRole is the error of somebody whom the provider knows, and to whom no rule gives a role.
type NoRole struct{ Name string }

func (e *NoRole) Error() string {
	return fmt.Sprintf("the provider knows you as %s, but none of operator.oidc.grants is for you: ask those who run this Forebay for one", e.Name)
}

// Unwrap returns an error of the kind that package schemas has for it.
func (e *NoRole) Unwrap() error { return schemas.Errorf(schemas.Unauthenticated, "", "%s", e.Error()) }

// has reports whether a claim is a value, or a list with it.
func has(claim any, value string) bool {
	switch c := claim.(type) {
	case string:
		return c == value
	case bool:
		return fmt.Sprint(c) == value
	case []any:
		return slices.ContainsFunc(c, func(one any) bool { return one == value })
	}
	return false
}

func verified(claims map[string]any) bool { return has(claims["email_verified"], "true") }

// shown reports whether a name can stand in logs and in the audit.
func shown(name string) bool {
	return name != "" && len(name) <= 255 && !strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsGraphic(r) || unicode.IsSpace(r) })
}

// client returns the OAuth client for the provider. It reads the provider's discovery document once; if that fails, it returns the same error
// for retryAfter. The read does not end with the request that begins it: others wait for it.
func (l *Login) client(ctx context.Context) (*oauth2.Config, *oidc.Provider, error) {
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-ctx.Done():
		return nil, nil, schemas.Errorf(schemas.Unavailable, "ask the provider", "%w", context.Cause(ctx))
	}
	if l.found == nil {
		if l.failure == nil || time.Since(l.failedAt) >= retryAfter {
			l.found, l.failure = oidc.NewProvider(oidc.ClientContext(context.WithoutCancel(ctx), l.http), l.cfg.Issuer)
			l.failedAt = time.Now()
		}
		if l.failure != nil {
			return nil, nil, schemas.Errorf(schemas.Unavailable, "ask the provider "+l.cfg.Issuer, "%w", l.failure)
		}
	}
	return &oauth2.Config{ClientID: l.cfg.ClientID, ClientSecret: l.cfg.ClientSecret.Reveal(), Endpoint: l.found.Endpoint(), RedirectURL: l.cfg.Redirect, Scopes: l.cfg.Scopes}, l.found, nil
}

// derived derives a secret from a random one; neither the random one nor the other derived ones can be computed from it.
func derived(secret, purpose string) string {
	sum := sha256.Sum256([]byte("forebay login " + purpose + "\x00" + secret))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}
