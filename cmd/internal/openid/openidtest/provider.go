// Package openidtest is an OpenID provider on loopback, for tests: with discovery, RSA-signed ID tokens, PKCE and codes that are good once. It
// takes everybody for who the test says, and can be told to answer wrongly.
package openidtest

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"maps"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"
)

// Client is as whom Forebay is registered.
const (
	Client = "forebay"
	Secret = "5ecret-of-the-client"
)

// Provider is a provider. Its methods may be called at any time.
type Provider struct {
	URL string
	key *rsa.PrivateKey

	mu                  sync.Mutex
	redirect            string
	claims              map[string]any                                                           // of whoever logs in
	forge               func(header, claims map[string]any, key *rsa.PrivateKey) *rsa.PrivateKey // changes an ID token, and returns what signs it; nil: as it is
	codes               map[string]url.Values
	descriptionRequests int
	down                string
}

// New starts a provider that leads back to redirect alone; empty: to nowhere, until LeadsTo says where.
func New(t testing.TB, redirect string) *Provider {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	p := &Provider{redirect: redirect, key: key, codes: map[string]url.Values{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", p.describe)
	mux.HandleFunc("GET /authorize", p.authorize)
	mux.HandleFunc("POST /token", p.token)
	mux.HandleFunc("GET /keys", p.keys)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		down := p.down == r.URL.Path
		p.mu.Unlock()
		if down {
			http.Error(w, "the provider's own secret words", http.StatusServiceUnavailable)
			return
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	p.URL = server.URL
	return p
}

// LeadsTo has the provider lead back to a URL that was not known when it was started.
func (p *Provider) LeadsTo(redirect string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.redirect = redirect
}

// Knows has the provider take whoever comes for somebody.
func (p *Provider) Knows(claims map[string]any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.claims, p.forge = claims, nil
}

// Forge has the provider change each ID token before it is signed, with the key that is returned.
func (p *Provider) Forge(change func(header, claims map[string]any, key *rsa.PrivateKey) *rsa.PrivateKey) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.forge = change
}

// Down has the provider answer 503 at a path; empty: at none.
func (p *Provider) Down(path string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = path
}

// DescriptionRequests returns how often the provider was asked for its description.
func (p *Provider) DescriptionRequests() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.descriptionRequests
}

// LogIn is what a browser does that is led to the provider: it returns where it is led back, with a code and the state.
func (p *Provider) LogIn(t testing.TB, to string) *url.URL {
	t.Helper()
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Get(to)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	back, err := resp.Location()
	if err != nil {
		t.Fatalf("the provider answers %s to %s", resp.Status, to)
	}
	return back
}

func (p *Provider) describe(w http.ResponseWriter, _ *http.Request) {
	p.mu.Lock()
	p.descriptionRequests++
	p.mu.Unlock()
	answer(w, http.StatusOK, map[string]any{"issuer": p.URL, "authorization_endpoint": p.URL + "/authorize", "token_endpoint": p.URL + "/token", "jwks_uri": p.URL + "/keys",
		"id_token_signing_alg_values_supported": []string{"RS256"}})
}

// authorize gives a code to a login with PKCE, and to no other.
func (p *Provider) authorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	p.mu.Lock()
	defer p.mu.Unlock()
	if q.Get("client_id") != Client || q.Get("response_type") != "code" || q.Get("redirect_uri") != p.redirect || q.Get("code_challenge_method") != "S256" ||
		len(q.Get("code_challenge")) != 43 || len(q.Get("state")) != 43 || len(q.Get("nonce")) != 43 || !strings.Contains(" "+q.Get("scope")+" ", " openid ") {
		http.Error(w, "the login is none", http.StatusBadRequest)
		return
	}
	code := rand.Text()
	p.codes[code] = q
	http.Redirect(w, r, p.redirect+"?"+url.Values{"code": {code}, "state": {q.Get("state")}}.Encode(), http.StatusFound)
}

// token gives an ID token for a code, once, to the client that proves to have begun the login.
func (p *Provider) token(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	id, secret, _ := r.BasicAuth()
	begun, ok := p.codes[r.PostFormValue("code")]
	delete(p.codes, r.PostFormValue("code"))
	sum := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
	switch {
	case id != Client || secret != Secret:
		answer(w, http.StatusUnauthorized, map[string]any{"error": "invalid_client"})
	case !ok || base64.RawURLEncoding.EncodeToString(sum[:]) != begun.Get("code_challenge") || r.PostFormValue("redirect_uri") != p.redirect:
		answer(w, http.StatusBadRequest, map[string]any{"error": "invalid_grant"})
	default:
		answer(w, http.StatusOK, map[string]any{"access_token": rand.Text(), "token_type": "Bearer", "expires_in": 60, "id_token": p.sign(begun.Get("nonce"))})
	}
}

// sign makes an ID token.
func (p *Provider) sign(nonce string) string {
	header, key := map[string]any{"alg": "RS256", "kid": "1"}, p.key
	claims := map[string]any{"iss": p.URL, "aud": Client, "nonce": nonce, "iat": time.Now().Unix(), "exp": time.Now().Add(time.Minute).Unix()}
	maps.Copy(claims, p.claims)
	if p.forge != nil {
		key = p.forge(header, claims, key)
	}
	signed := part(header) + "." + part(claims)
	if key == nil {
		return signed + "."
	}
	sum := sha256.Sum256([]byte(signed))
	signature, err := rsa.SignPKCS1v15(nil, key, crypto.SHA256, sum[:])
	if err != nil {
		panic(err)
	}
	return signed + "." + base64.RawURLEncoding.EncodeToString(signature)
}

func part(v map[string]any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return base64.RawURLEncoding.EncodeToString(text)
}

func (p *Provider) keys(w http.ResponseWriter, _ *http.Request) {
	encode := base64.RawURLEncoding.EncodeToString
	answer(w, http.StatusOK, map[string]any{"keys": []any{map[string]any{"kty": "RSA", "use": "sig", "alg": "RS256", "kid": "1",
		"n": encode(p.key.N.Bytes()), "e": encode(big.NewInt(int64(p.key.E)).Bytes())}}})
}

func answer(w http.ResponseWriter, status int, body map[string]any) {
	w.Header().Set("Content-Type", "application/json")
	text, err := json.Marshal(body)
	if err != nil {
		panic(err)
	}
	w.WriteHeader(status)
	_, _ = w.Write(text)
}
