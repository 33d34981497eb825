package verify_test

import (
	"crypto"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas"
)

// secrets makes secrets of texts.
func secrets(texts ...string) (list []schemas.Secret) {
	for _, text := range texts {
		list = append(list, schemas.NewSecret(text))
	}
	return list
}

// Accounts alone may send, also where the issuer's keys are written in the file: anybody can have the issuer make a token.
func TestAccountsBesidePinnedKeys(t *testing.T) {
	t.Parallel()
	i := &issuer{keys: map[string]crypto.Signer{"ec": ecKey}}
	s, err := verify.New(verify.Params{Scheme: verify.SchemeJWT, Issuer: issuerURL, Audience: audience}, secrets(string(i.set()), "pusher@example.com"))
	if err != nil {
		t.Fatal(err)
	}
	for email, want := range map[string]verify.Reason{"pusher@example.com": "", "stranger@example.com": verify.Mismatch} {
		r := bearing(token(ecKey, head("ES256", "ec"), good(now, map[string]any{"email": email, "email_verified": true})))
		if err := s.Verify(r, now); reason(err) != want || err == nil && r.Secret != 2 {
			t.Errorf("%s: %v, secret %d", email, err, r.Secret)
		}
	}
}

// Where a delivery is proven with two secrets, both must not have expired; and what is left asks for as much as before.
func TestSecretsExpireOfWhichSeveralProve(t *testing.T) {
	t.Parallel()
	old, ec := &issuer{keys: map[string]crypto.Signer{"rsa": rsaKey}}, &issuer{keys: map[string]crypto.Signer{"ec": ecKey}}
	end := now.Add(-time.Second)
	tokenOf := func(key any, alg, kid string) string {
		return token(key, head(alg, kid), good(now, map[string]any{"taskId": "task-1", "email": "pusher@example.com", "email_verified": true}))
	}
	for name, c := range map[string]struct {
		scheme  string
		secrets []schemas.Secret
		until   []time.Time
		token   string // of A2A
		jwt     string
		want    verify.Reason
	}{
		"the key":               {verify.SchemeA2A, secrets("the token", string(old.set()), string(ec.set())), []time.Time{{}, end}, "the token", tokenOf(rsaKey, "RS256", "rsa"), verify.Mismatch},
		"another key":           {verify.SchemeA2A, secrets("the token", string(old.set()), string(ec.set())), []time.Time{{}, end}, "the token", tokenOf(ecKey, "ES256", "ec"), ""},
		"the last key":          {verify.SchemeA2A, secrets("the token", string(ec.set())), []time.Time{{}, end}, "the token", tokenOf(ecKey, "ES256", "ec"), verify.Mismatch},
		"the last token":        {verify.SchemeA2A, secrets("the token", string(ec.set())), []time.Time{end}, "the token", tokenOf(ecKey, "ES256", "ec"), verify.Mismatch},
		"another token":         {verify.SchemeA2A, secrets("an old token", "the token", string(ec.set())), []time.Time{end}, "the token", tokenOf(ecKey, "ES256", "ec"), ""},
		"the last account":      {verify.SchemeJWT, secrets("pusher@example.com", string(ec.set())), []time.Time{end}, "", tokenOf(ecKey, "ES256", "ec"), verify.Mismatch},
		"another account":       {verify.SchemeJWT, secrets("pusher@example.com", "other@example.com", string(ec.set())), []time.Time{{}, end}, "", tokenOf(ecKey, "ES256", "ec"), ""},
		"the key of an account": {verify.SchemeJWT, secrets("pusher@example.com", string(ec.set()), string(old.set())), []time.Time{{}, end}, "", tokenOf(ecKey, "ES256", "ec"), verify.Mismatch},
	} {
		s, err := verify.NewExpiring(verify.Params{Scheme: c.scheme, Issuer: issuerURL, Audience: audience}, c.secrets, verify.Around{}, c.until)
		if err != nil {
			t.Fatal(err)
		}
		r := notification(http.Header{"Authorization": {"Bearer " + c.jwt}}, "task-1")
		if c.token != "" {
			r.Header.Set("A2A-Notification-Token", c.token)
		}
		if err := s.Verify(r, now); reason(err) != c.want || (err == nil) != (r.Secret > 0) {
			t.Errorf("%s: %v, secret %d, want %q", name, err, r.Secret, c.want)
		}
	}
}

// A key that has expired among the secrets is taken as long as the issuer publishes it: then it is the issuer's word, and no secret's.
func TestSecretExpiresThatTheIssuerPublishes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		i, other := &issuer{keys: map[string]crypto.Signer{"rsa": rsaKey}}, &issuer{keys: map[string]crypto.Signer{"ec": ecKey}}
		sets := verify.NewKeySets(i.fetch)
		defer sets.Close()
		s, err := verify.NewExpiring(verify.Params{Scheme: verify.SchemeJWT, Issuer: issuerURL, Audience: audience, JWKSURL: issuerURL + "/keys"},
			secrets(string(i.set()), string(other.set())), verify.Around{KeySets: sets}, []time.Time{time.Now()})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		r := bearing(token(rsaKey, head("RS256", "rsa"), good(time.Now(), nil)))
		if err := s.Verify(r, time.Now()); err != nil || r.Secret != 0 {
			t.Errorf("%v, secret %d", err, r.Secret)
		}
	})
}
