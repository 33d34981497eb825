package verify_test

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas"
)

// issuer signs tokens itself, with the standard library alone, and serves its keys.
type issuer struct {
	mu      sync.Mutex
	keys    map[string]crypto.Signer // published, by kid
	fetches int
	err     error
}

const (
	issuerURL = "https://issuer.example.com"
	audience  = "https://hooks.example.com/v1/in/acme/agents"
)

func (i *issuer) fetch(context.Context, string, []netip.Prefix) ([]byte, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.fetches++
	if i.err != nil {
		return nil, i.err
	}
	return i.set(), nil
}

// set is the JWK set of the keys; a key that cannot be used stands among them.
func (i *issuer) set() []byte {
	set := map[string][]any{"keys": {map[string]string{"kty": "oct", "kid": "shared", "k": "c2VjcmV0"}, map[string]string{"kty": "post-quantum", "kid": "new"}}}
	for kid, key := range i.keys {
		set["keys"] = append(set["keys"], jose.JSONWebKey{Key: key.Public(), KeyID: kid, Use: "sig"})
	}
	text, _ := json.Marshal(set)
	return text
}

func (i *issuer) change(f func()) {
	i.mu.Lock()
	defer i.mu.Unlock()
	f()
}

func (i *issuer) count() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.fetches
}

var (
	rsaKey, _       = rsa.GenerateKey(rand.Reader, 2048)
	otherRSA, _     = rsa.GenerateKey(rand.Reader, 2048)
	shortRSA, _     = rsa.GenerateKey(rand.Reader, 1024) // must be refused
	ecKey, _        = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	_, edKey, _     = ed25519.GenerateKey(rand.Reader)
	rsaPublicPEM, _ = x509.MarshalPKIXPublicKey(&rsaKey.PublicKey)
)

// good are claims that are taken at a time.
func good(at time.Time, more map[string]any) map[string]any {
	c := map[string]any{"iss": issuerURL, "aud": []string{"else", audience}, "sub": "planner", "iat": at.Unix(), "exp": at.Add(5 * time.Minute).Unix(), "jti": "t1"}
	maps.Copy(c, more)
	for k, v := range c {
		if v == nil {
			delete(c, k)
		}
	}
	return c
}

func part(v any) string {
	text, _ := json.Marshal(v)
	return base64.RawURLEncoding.EncodeToString(text)
}

// token makes a token of claims; header names alg and kid, and what else there is.
func token(key any, header map[string]any, claims any) string {
	text := part(header) + "." + part(claims)
	sum := sha256.Sum256([]byte(text))
	var signature []byte
	switch k := key.(type) {
	case *rsa.PrivateKey:
		if header["alg"] == "PS256" {
			signature, _ = rsa.SignPSS(rand.Reader, k, crypto.SHA256, sum[:], &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash})
		} else {
			signature, _ = rsa.SignPKCS1v15(rand.Reader, k, crypto.SHA256, sum[:])
		}
	case *ecdsa.PrivateKey:
		r, s, _ := ecdsa.Sign(rand.Reader, k, sum[:])
		signature = append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...)
	case ed25519.PrivateKey:
		signature = ed25519.Sign(k, []byte(text))
	case []byte:
		m := hmac.New(sha256.New, k)
		m.Write([]byte(text))
		signature = m.Sum(nil)
	}
	return text + "." + base64.RawURLEncoding.EncodeToString(signature)
}

func head(alg, kid string) map[string]any {
	return map[string]any{"alg": alg, "kid": kid, "typ": "JWT"}
}

func bearing(token string) *verify.Request {
	return &verify.Request{Method: "POST", URL: audience, Header: http.Header{"Authorization": {"Bearer " + token}}, Body: []byte(`{}`)}
}

// pinned is a source that knows the issuer's keys from its secrets.
func pinned(t *testing.T, i *issuer, p verify.Params) verify.Scheme {
	t.Helper()
	p.Scheme, p.Issuer = verify.SchemeJWT, issuerURL
	s, err := verify.New(p, []schemas.Secret{schemas.NewSecret(string(i.set()))})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// What is a token and what is none, case by case.
func TestJWT(t *testing.T) {
	t.Parallel()
	i := &issuer{keys: map[string]crypto.Signer{"rsa": rsaKey, "ec": ecKey, "ed": edKey, "short": shortRSA}}
	s := pinned(t, i, verify.Params{Audience: audience})
	publicPEM := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: rsaPublicPEM})
	jwk, _ := json.Marshal(jose.JSONWebKey{Key: otherRSA.Public(), KeyID: "rsa"})
	with := func(header map[string]any, name string, value any) map[string]any {
		header[name] = value
		return header
	}
	claims := func(more map[string]any) string { return token(ecKey, head("ES256", "ec"), good(now, more)) }
	bodySum := sha256.Sum256([]byte(`{}`))
	for name, c := range map[string]struct {
		token string
		want  verify.Reason
	}{
		"RS256": {token(rsaKey, head("RS256", "rsa"), good(now, nil)), ""},
		"PS256": {token(rsaKey, head("PS256", "rsa"), good(now, nil)), ""},
		"ES256": {claims(nil), ""},
		"EdDSA": {token(edKey, head("EdDSA", "ed"), good(now, nil)), ""},

		"none":                                {part(head("none", "rsa")) + "." + part(good(now, nil)) + ".", verify.Malformed},
		"None, in other letters":              {part(head("nOnE", "rsa")) + "." + part(good(now, nil)) + ".", verify.Malformed},
		"no alg":                              {part(map[string]any{"kid": "rsa"}) + "." + part(good(now, nil)) + ".", verify.Malformed},
		"HS256 with the public key in PEM":    {token(publicPEM, head("HS256", "rsa"), good(now, nil)), verify.Malformed},
		"HS256 with the public key in DER":    {token(rsaPublicPEM, head("HS256", "rsa"), good(now, nil)), verify.Malformed},
		"HS256 with a shared key of the set":  {token([]byte("secret"), head("HS256", "shared"), good(now, nil)), verify.Malformed},
		"RS384, which is not taken":           {token(rsaKey, head("RS384", "rsa"), good(now, nil)), verify.Malformed},
		"a key of 1024 bits":                  {token(shortRSA, head("RS256", "short"), good(now, nil)), verify.Mismatch},
		"a stranger's key":                    {token(otherRSA, head("RS256", "rsa"), good(now, nil)), verify.Mismatch},
		"a stranger's key, sent along":        {token(otherRSA, with(head("RS256", "rsa"), "jwk", json.RawMessage(jwk)), good(now, nil)), verify.Mismatch},
		"a key by its URL":                    {token(otherRSA, with(head("RS256", "rsa"), "jku", "https://evil.example.com/jwks.json"), good(now, nil)), verify.Mismatch},
		"a critical header that is not known": {token(ecKey, with(with(head("ES256", "ec"), "crit", []string{"b64x"}), "b64x", true), good(now, nil)), verify.Mismatch},
		"another algorithm than the key's":    {token(ecKey, head("ES256", "rsa"), good(now, nil)), verify.Mismatch},
		"an unknown kid":                      {token(ecKey, head("ES256", "other"), good(now, nil)), verify.Mismatch},
		"no kid":                              {token(ecKey, map[string]any{"alg": "ES256"}, good(now, nil)), verify.Malformed},
		"claims of another token":             {strings.Replace(claims(nil), part(good(now, nil)), part(good(now, map[string]any{"sub": "root"})), 1), verify.Mismatch},

		"another issuer":          {claims(map[string]any{"iss": issuerURL + "/"}), verify.Mismatch},
		"no issuer":               {claims(map[string]any{"iss": nil}), verify.Mismatch},
		"another audience":        {claims(map[string]any{"aud": "https://else.example.com"}), verify.Mismatch},
		"no audience":             {claims(map[string]any{"aud": nil}), verify.Mismatch},
		"the audience alone":      {claims(map[string]any{"aud": audience}), ""},
		"no exp":                  {claims(map[string]any{"exp": nil}), verify.Malformed},
		"no iat":                  {claims(map[string]any{"iat": nil}), verify.Malformed},
		"exp as text":             {claims(map[string]any{"exp": "tomorrow"}), verify.Malformed},
		"expired":                 {claims(map[string]any{"exp": now.Add(-time.Minute - time.Second).Unix()}), verify.TooOld},
		"expired within the skew": {claims(map[string]any{"exp": now.Add(-time.Minute).Unix()}), ""},
		"not valid yet":           {claims(map[string]any{"nbf": now.Add(time.Minute + time.Second).Unix()}), verify.TooNew},
		"valid within the skew":   {claims(map[string]any{"nbf": now.Add(time.Minute).Unix()}), ""},
		"of the future":           {claims(map[string]any{"iat": now.Add(time.Hour).Unix()}), verify.TooNew},
		"a jti without end":       {claims(map[string]any{"jti": strings.Repeat("j", 300)}), verify.Malformed},
		"of this body":            {claims(map[string]any{"request_body_sha256": hex.EncodeToString(bodySum[:])}), ""},
		"of another body":         {claims(map[string]any{"request_body_sha256": strings.Repeat("0", 64)}), verify.Mismatch},

		"types in one text":      {claims(map[string]any{"event_types": "com.acme.*"}), verify.Malformed},
		"types that are numbers": {claims(map[string]any{"event_types": []any{"com.acme.*", 7}}), verify.Malformed},
		"a type without a name":  {claims(map[string]any{"event_types": []any{""}}), verify.Malformed},

		"no token":         {"", verify.Malformed},
		"two parts":        {"a.b", verify.Malformed},
		"no base64":        {"%.%.%", verify.Malformed},
		"an encrypted one": {"a.b.c.d.e", verify.Malformed},
		"too long":         {claims(map[string]any{"x": strings.Repeat("x", 20<<10)}), verify.Malformed},
	} {
		r := bearing(c.token)
		if err := s.Verify(r, now); reason(err) != c.want || (err == nil) != (c.want == "") {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		} else if err == nil && (r.Caller.Name != "planner" || r.Secret != 1) {
			t.Errorf("%s: %+v, secret %d", name, r.Caller, r.Secret)
		}
	}
	e, _ := errors.AsType[*verify.Error](s.Verify(bearing(claims(map[string]any{"exp": now.Add(-time.Hour).Unix()})), now))
	if !e.Signed || e.Off != time.Hour {
		t.Errorf("a clock that is wrong is not told: %+v", e)
	}
	e, _ = errors.AsType[*verify.Error](s.Verify(bearing(token(otherRSA, head("RS256", "rsa"), good(now.Add(-time.Hour), nil))), now))
	if e.Reason != verify.TooOld || e.Signed {
		t.Errorf("whoever cannot sign says something of clocks: %+v", e)
	}
	twice := bearing(claims(nil))
	twice.Header["Authorization"] = append(twice.Header["Authorization"], "Bearer "+claims(nil))
	if err := s.Verify(twice, now); reason(err) != verify.Malformed {
		t.Errorf("two tokens: %v", err)
	}
	for _, scheme := range []verify.Scheme{&verify.JWT{}, &verify.A2A{}, &verify.AgentKey{}} {
		if err := scheme.Verify(bearing(claims(nil)), now); err == nil {
			t.Errorf("the zero %T opens", scheme)
		}
	}
}

// Without an audience of its own a source takes tokens for the URL that is called.
func TestJWTForTheURL(t *testing.T) {
	t.Parallel()
	i := &issuer{keys: map[string]crypto.Signer{"ec": ecKey}}
	s := pinned(t, i, verify.Params{})
	r := bearing(token(ecKey, head("ES256", "ec"), good(now, nil)))
	if err := s.Verify(r, now); err != nil || !s.Proof().URL {
		t.Error(err, s.Proof())
	}
	for _, url := range []string{"", "https://hooks.example.com/v1/in/acme/other"} {
		if r.URL = url; reason(s.Verify(r, now)) != verify.Mismatch {
			t.Errorf("at %q: %v", url, s.Verify(r, now))
		}
	}
}

// Of Google's tokens, which anybody can have made for any audience, only those of the accounts that are listed are taken.
func TestGoogleAccounts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const google, account = "https://accounts.google.com", "pusher@project.iam.gserviceaccount.com"
		i := &issuer{keys: map[string]crypto.Signer{"rsa": rsaKey}}
		sets := verify.NewKeySets(i.fetch)
		defer sets.Close()
		params := verify.Params{Scheme: verify.SchemeJWT, Issuer: google, Audience: audience, JWKSURL: "https://www.googleapis.com/oauth2/v3/certs"}
		if _, err := verify.NewIn(params, nil, verify.Around{KeySets: sets}); reason(err) != verify.BadKey {
			t.Error(err)
		}
		s, err := verify.NewIn(params, []schemas.Secret{schemas.NewSecret("other@project.iam.gserviceaccount.com"), schemas.NewSecret(account)}, verify.Around{KeySets: sets})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		for name, c := range map[string]struct {
			claims map[string]any
			want   verify.Reason
		}{
			"its account":         {map[string]any{"email": account, "email_verified": true}, ""},
			"not verified":        {map[string]any{"email": account, "email_verified": false}, verify.Mismatch},
			"nothing of that":     {map[string]any{"email": account}, verify.Mismatch},
			"somebody's account":  {map[string]any{"email": "x@evil.iam.gserviceaccount.com", "email_verified": true}, verify.Mismatch},
			"no account":          {nil, verify.Mismatch},
			"accounts.google.com": {map[string]any{"email": account, "email_verified": true, "iss": "accounts.google.com"}, verify.Mismatch},
		} {
			claims := good(time.Now(), map[string]any{"iss": google, "jti": nil})
			maps.Copy(claims, c.claims)
			r := bearing(token(rsaKey, head("RS256", "rsa"), claims))
			if err := s.Verify(r, time.Now()); reason(err) != c.want || err == nil && r.Secret != 2 {
				t.Errorf("%s: %v, secret %d", name, err, r.Secret)
			}
		}
	})
}

// byURL is a source whose keys are fetched; verifying with kid tells with what.
func byURL(t *testing.T, i *issuer) (with func(key crypto.Signer, alg, kid string) verify.Reason) {
	t.Helper()
	sets := verify.NewKeySets(i.fetch)
	t.Cleanup(sets.Close)
	s, err := verify.NewIn(verify.Params{Scheme: verify.SchemeJWT, Issuer: issuerURL, Audience: audience, JWKSURL: issuerURL + "/jwks.json"}, nil, verify.Around{KeySets: sets})
	if err != nil {
		t.Fatal(err)
	}
	return func(key crypto.Signer, alg, kid string) verify.Reason {
		err := s.Verify(bearing(token(key, head(alg, kid), good(time.Now(), nil))), time.Now())
		if err != nil && reason(err) == "" {
			t.Error(err)
		}
		return reason(err)
	}
}

// A flood of tokens of unknown keys causes a fetch every 30 s at most, one that names the same key fewer, and one whose claims are wrong none.
func TestFloodOfUnknownKeys(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		i := &issuer{keys: map[string]crypto.Signer{"ec": ecKey}}
		with := byURL(t, i)
		synctest.Wait()
		began := time.Now()
		for n := range 400 {
			with(edKey, "EdDSA", fmt.Sprintf("k%d", n))
			if got := with(ecKey, "ES256", "ec"); got != "" {
				t.Fatal(got)
			}
			time.Sleep(250 * time.Millisecond)
		}
		if most := 1 + int(time.Since(began)/(30*time.Second)); i.count() > most || i.count() < 2 {
			t.Errorf("%d fetches in %s of a flood, want %d at most", i.count(), time.Since(began), most)
		}
		time.Sleep(time.Minute)
		before := i.count()
		for range 400 {
			with(edKey, "EdDSA", "same")
			time.Sleep(250 * time.Millisecond)
		}
		if got := i.count() - before; got != 1 {
			t.Errorf("%d fetches for one unknown key in 100 s, want 1", got)
		}
		if got := with(edKey, "EdDSA", "same"); got != verify.Mismatch {
			t.Errorf("a key that was looked for: %q", got)
		}
	})
}

func TestNoKeyIsLookedForOnAccountOfATokenThatWouldNotBeTaken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		i := &issuer{keys: map[string]crypto.Signer{"ec": ecKey}}
		sets := verify.NewKeySets(i.fetch)
		defer sets.Close()
		s, err := verify.NewIn(verify.Params{Scheme: verify.SchemeJWT, Issuer: issuerURL, Audience: audience, JWKSURL: issuerURL}, nil, verify.Around{KeySets: sets})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		time.Sleep(time.Minute)
		for _, wrong := range []map[string]any{{"iss": "x"}, {"aud": "x"}, {"exp": time.Now().Add(-time.Hour).Unix()}, {"nbf": time.Now().Add(time.Hour).Unix()}} {
			if err := s.Verify(bearing(token(ecKey, head("ES256", "unknown"), good(time.Now(), wrong))), time.Now()); err == nil || reason(err) == verify.NotReady {
				t.Error(err)
			}
		}
		synctest.Wait()
		if i.count() != 1 {
			t.Errorf("%d fetches, want the first alone", i.count())
		}
	})
}

// A provider that has changed its keys is understood within 30 s; meanwhile, and while its keys cannot be had, nothing of its is refused once an
// hour has not passed.
func TestRotatedAndUnreachableKeys(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		i := &issuer{keys: map[string]crypto.Signer{"ec": ecKey}, err: errors.New("no route")}
		with := byURL(t, i)
		synctest.Wait()
		if got := with(ecKey, "ES256", "ec"); got != verify.NotReady {
			t.Errorf("keys that were never had: %q", got)
		}
		i.change(func() { i.err = nil })
		time.Sleep(30 * time.Second)
		with(ecKey, "ES256", "ec") // has them fetched
		synctest.Wait()
		if got := with(ecKey, "ES256", "ec"); got != "" {
			t.Errorf("keys that can be had again: %q", got)
		}

		i.change(func() { i.keys = map[string]crypto.Signer{"ec2": otherRSA} })
		rotated := time.Now()
		for got := with(otherRSA, "RS256", "ec2"); got != ""; got = with(otherRSA, "RS256", "ec2") {
			if got != verify.NotReady {
				t.Fatalf("a key that is newer than the last fetch: %q", got)
			}
			time.Sleep(time.Second)
			synctest.Wait()
		}
		if took := time.Since(rotated); took > 31*time.Second {
			t.Errorf("found after %s", took)
		}
		time.Sleep(30 * time.Second)
		with(ecKey, "ES256", "ec") // has it looked for
		synctest.Wait()
		if got := with(ecKey, "ES256", "ec"); got != verify.Mismatch {
			t.Errorf("the key that was taken away: %q", got)
		}

		i.change(func() { i.err = errors.New("no route") })
		gone := time.Now()
		for time.Since(gone) < 59*time.Minute {
			if got := with(otherRSA, "RS256", "ec2"); got != "" {
				t.Fatalf("%s after the keys went away: %q", time.Since(gone), got)
			}
			time.Sleep(time.Minute)
		}
		if got := with(ecKey, "ES256", "ec3"); got != verify.NotReady {
			t.Errorf("a key that may be new while keys cannot be had: %q", got)
		}
		time.Sleep(5 * time.Minute)
		if got := with(otherRSA, "RS256", "ec2"); got != verify.NotReady {
			t.Errorf("an hour without keys: %q", got)
		}
	})
}

// The first delivery after quiet hours finds keys that can be used, since they are fetched anew without one: some senders do not repeat. They are
// fetched no longer for sources that are gone, nor after Close.
func TestKeysAreFetchedInQuietHours(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		i := &issuer{keys: map[string]crypto.Signer{"ec": ecKey}}
		sets := verify.NewKeySets(i.fetch)
		compile := func() verify.Scheme {
			s, err := verify.NewIn(verify.Params{Scheme: verify.SchemeJWT, Issuer: issuerURL, Audience: audience, JWKSURL: issuerURL}, nil, verify.Around{KeySets: sets})
			if err != nil {
				t.Fatal(err)
			}
			sets.Sweep()
			return s
		}
		posted := func(s verify.Scheme) verify.Reason {
			return reason(s.Verify(bearing(token(ecKey, head("ES256", "ec"), good(time.Now(), nil))), time.Now()))
		}
		compile()
		s := compile() // of a reload
		time.Sleep(2 * time.Hour)
		if got := posted(s); got != "" || i.count() > 13 {
			t.Errorf("after two quiet hours: %q with %d fetches", got, i.count())
		}
		i.change(func() { i.err = errors.New("no route") })
		time.Sleep(2 * time.Hour)
		if got := posted(s); got != verify.NotReady {
			t.Errorf("after two hours in which the issuer was away: %q", got)
		}
		i.change(func() { i.err = nil })
		time.Sleep(11 * time.Minute)
		if got := posted(s); got != "" {
			t.Errorf("the issuer is back: %q", got)
		}
		for _, end := range []func(){sets.Sweep, sets.Close} {
			compile()
			synctest.Wait()
			end()
			before := i.count()
			time.Sleep(2 * time.Hour)
			if got := i.count() - before; got != 0 {
				t.Errorf("%d fetches for nobody", got)
			}
		}
	})
}

// Many that find the keys old cause one fetch, and an error page takes no keys away.
func TestOneFetchForMany(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		i := &issuer{keys: map[string]crypto.Signer{"ec": ecKey}}
		with := byURL(t, i)
		synctest.Wait()
		i.change(func() { i.keys = nil }) // a set without a key that could be used
		time.Sleep(11 * time.Minute)
		before := i.count()
		var all sync.WaitGroup
		for range 200 {
			all.Go(func() {
				if got := with(ecKey, "ES256", "ec"); got != "" {
					t.Error(got)
				}
			})
		}
		all.Wait()
		synctest.Wait()
		if got := i.count() - before; got != 1 {
			t.Errorf("%d fetches, want 1", got)
		}
	})
}

// notification is one of A2A, of a task.
func notification(headers http.Header, task string) *verify.Request {
	return &verify.Request{Method: "POST", URL: audience, Header: headers, Body: fmt.Appendf(nil, `{"statusUpdate":{"taskId":%q}}`, task)}
}

func TestA2A(t *testing.T) {
	t.Parallel()
	i := &issuer{keys: map[string]crypto.Signer{"ec": ecKey}}
	build := func(secrets ...string) verify.Scheme {
		var list []schemas.Secret
		for _, s := range secrets {
			list = append(list, schemas.NewSecret(s))
		}
		s, err := verify.New(verify.Params{Scheme: verify.SchemeA2A, Issuer: issuerURL, Audience: audience}, list)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	signed := func(more map[string]any) http.Header {
		return http.Header{"Authorization": {"Bearer " + token(ecKey, head("ES256", "ec"), good(now, more))}}
	}
	of := func(task string) map[string]any { return map[string]any{"taskId": task} }
	both := signed(of("task-1"))
	both["A2a-Notification-Token"] = []string{"the token of this task"}
	two := http.Header{"A2a-Notification-Token": {"the token of this task"}, "X-A2a-Notification-Token": {"the token of this task"}}
	differ := http.Header{"A2a-Notification-Token": {"the token of this task"}, "X-A2a-Notification-Token": {"another token"}}
	tokens, keys, all := []string{"another token", "the token of this task"}, []string{string(i.set())}, []string{"the token of this task", string(i.set())}
	for name, c := range map[string]struct {
		secrets []string
		headers http.Header
		task    string
		want    verify.Reason
	}{
		"the token":              {tokens, http.Header{"A2a-Notification-Token": {"the token of this task"}}, "task-1", ""},
		"the token, as SDKs do":  {tokens, http.Header{"X-A2a-Notification-Token": {"the token of this task"}}, "task-1", ""},
		"both headers":           {tokens, two, "task-1", ""},
		"headers that differ":    {tokens, differ, "task-1", verify.Malformed},
		"another token":          {tokens, http.Header{"A2a-Notification-Token": {"the token of this tasK"}}, "task-1", verify.Mismatch},
		"no token":               {tokens, http.Header{}, "task-1", verify.MissingHeader},
		"a JWT in its place":     {tokens, signed(of("task-1")), "task-1", verify.MissingHeader},
		"a JWT":                  {keys, signed(of("task-1")), "task-1", ""},
		"a JWT of another task":  {keys, signed(of("task-1")), "task-2", verify.Mismatch},
		"a JWT of no task":       {keys, signed(nil), "task-1", verify.Mismatch},
		"a JWT without jti":      {keys, signed(map[string]any{"taskId": "task-1", "jti": nil}), "task-1", verify.Malformed},
		"a token in its place":   {keys, http.Header{"A2a-Notification-Token": {"the token of this task"}}, "task-1", verify.MissingHeader},
		"both":                   {all, both, "task-1", ""},
		"one of both, the token": {all, http.Header{"A2a-Notification-Token": {"the token of this task"}}, "task-1", verify.MissingHeader},
		"one of both, the JWT":   {all, signed(of("task-1")), "task-1", verify.MissingHeader},
	} {
		r := notification(c.headers, c.task)
		if err := build(c.secrets...).Verify(r, now); reason(err) != c.want {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		} else if err == nil && r.Secret == 0 {
			t.Errorf("%s: no secret", name)
		}
	}
	s := build(keys...)
	first := notification(signed(of("task-1")), "task-1")
	other := notification(first.Header, "task-1")
	other.Body = []byte(`{"statusUpdate":{"taskId":"task-1","status":{"state":"TASK_STATE_COMPLETED"}}}`)
	for _, r := range []*verify.Request{first, first} {
		if err := s.Verify(r, now); err != nil {
			t.Errorf("a repeat: %v", err)
		}
	}
	if err := s.Verify(other, now); reason(err) != verify.Mismatch {
		t.Errorf("a captured token with another body: %v", err)
	}
	for name, body := range map[string]string{"no JSON": "x", "two tasks": `{"task":{"id":"task-1"},"statusUpdate":{"taskId":"task-2"}}`, "none": `{"message":{}}`, "too deep": strings.Repeat("[", 1<<20)} {
		r := notification(signed(of("task-1")), "")
		if r.Body = []byte(body); reason(s.Verify(r, now)) != verify.Mismatch {
			t.Errorf("%s: %v", name, s.Verify(r, now))
		}
	}
}

func TestAgentKeysOfTheFile(t *testing.T) {
	t.Parallel()
	s := build(t, verify.Params{Scheme: verify.SchemeAgentKey}, "planner:fbk_0123456789abcdef", "coder:fbk_fedcba9876543210")
	for key, want := range map[string]verify.Reason{"fbk_fedcba9876543210": "", "planner:fbk_0123456789abcdef": verify.Mismatch, "": verify.Mismatch, strings.Repeat("k", 600): verify.Malformed} {
		r := bearing(key)
		if err := s.Verify(r, now); reason(err) != want || err == nil && (r.Caller.Name != "coder" || r.Secret != 2) {
			t.Errorf("%q: %v %+v", key, err, r.Caller)
		}
	}
	for _, secret := range []string{"fbk_0123456789abcdef", "planner:short", "Planner:fbk_0123456789abcdef", ":fbk_0123456789abcdef"} {
		if _, err := verify.New(verify.Params{Scheme: verify.SchemeAgentKey}, []schemas.Secret{schemas.NewSecret(secret)}); reason(err) != verify.BadKey || strings.Contains(err.Error(), "0123456789") {
			t.Errorf("%s: %v", secret, err)
		}
	}
}

// A token may be for some types alone; whatever else it says of types is refused.
func TestTokenOfTypes(t *testing.T) {
	t.Parallel()
	i := &issuer{keys: map[string]crypto.Signer{"ec": ecKey}}
	s := pinned(t, i, verify.Params{Audience: audience})
	for name, c := range map[string]struct {
		claim map[string]any
		may   string
	}{
		"no claim":    {nil, "plan.made plan.dropped other"},
		"null":        {map[string]any{"event_types": nil}, "plan.made plan.dropped other"},
		"some":        {map[string]any{"event_types": []string{"plan.m*", "other"}}, "plan.made other"},
		"none at all": {map[string]any{"event_types": []string{}}, ""},
	} {
		r := bearing(token(ecKey, head("ES256", "ec"), good(now, c.claim)))
		if err := s.Verify(r, now); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		var may []string
		for _, kind := range []string{"plan.made", "plan.dropped", "other"} {
			if r.Caller.May(kind) {
				may = append(may, kind)
			}
		}
		if got := strings.Join(may, " "); got != c.may || r.Caller.Name != "planner" {
			t.Errorf("%s: %s may send %q, want %q", name, r.Caller.Name, got, c.may)
		}
	}
}

// A star in what an agent sends is a star.
func TestCallerMaySend(t *testing.T) {
	t.Parallel()
	c := verify.Caller{Types: []string{"com.acme.plan.*", "exact", "*.done"}}
	for eventType, want := range map[string]bool{
		"com.acme.plan.made": true, "com.acme.plan.": true, "com.acme.plan": false, "exact": true, "exactly": false, "x.done": true,
		"com.*": false, "*": false, "": false, "com.acme.*": false,
	} {
		if c.May(eventType) != want {
			t.Errorf("%q: %t", eventType, !want)
		}
	}
	if (verify.Caller{Types: []string{}}).May("x") || !(verify.Caller{}).May("x") {
		t.Error("no types are not all types")
	}
}
