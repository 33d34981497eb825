package verify

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/scan"
)

// A2A is how an A2A server proves its push notifications: with the token that it was given with the webhook's URL, which are secrets; with
// a [JWT] of one use, where a URL or secrets that begin with a brace give the issuer's keys; with both, where there are both. Safe for concurrent use. The zero value refuses
// everything.
type A2A struct {
	tokens  *Token // nil: none is asked for
	numbers []int  // of the tokens among the secrets
	jwt     *JWT   // nil: likewise
}

// The headers that carry the token: of A2A 1.0, and of its Python SDK.
const (
	a2aToken    = "A2a-Notification-Token"
	a2aTokenSDK = "X-A2a-Notification-Token"
)

// a2aTasks are where a notification names its task.
var a2aTasks, _ = scan.Compile("/task/id", "/statusUpdate/taskId", "/artifactUpdate/taskId", "/message/taskId")

// NewA2A builds the scheme.
func NewA2A(params Params, secrets []schemas.Secret, around Around) (a *A2A, err error) {
	if err := params.Validate(); err != nil {
		return nil, err
	}
	a = &A2A{}
	var tokens, keys []schemas.Secret
	for i, secret := range secrets {
		if strings.HasPrefix(secret.Reveal(), "{") {
			keys = append(keys, secret)
		} else {
			tokens, a.numbers = append(tokens, secret), append(a.numbers, i+1)
		}
	}
	if len(tokens) > 0 {
		if a.tokens, err = NewToken(Params{Header: a2aToken}, tokens); err != nil {
			return nil, err
		}
	}
	if params.JWKSURL != "" || len(keys) > 0 {
		if a.jwt, err = NewJWT(params, keys, around); err != nil {
			return nil, err
		}
		a.jwt.task = a2aTasks
	}
	if a.tokens == nil && a.jwt == nil {
		return nil, refuse(BadKey, "secrets is empty and verify.jwks_url not given: give the notification tokens, or where the server's keys are")
	}
	return a, nil
}

// Verify implements [Verifier].
func (a *A2A) Verify(r *Request, now time.Time) (err error) {
	if a.tokens == nil && a.jwt == nil {
		return refuse(BadKey, "no token and no issuer")
	}
	if a.tokens != nil {
		in := Request{Header: http.Header{}}
		for _, name := range []string{a2aToken, a2aTokenSDK} {
			if values := r.Header[name]; !slices.Equal(values, in.Header[a2aToken]) { // some servers send one token under both
				in.Header[a2aToken] = append(in.Header[a2aToken], values...)
			}
		}
		if err := a.tokens.Verify(&in, now); err != nil {
			return err
		}
		r.Secret = a.numbers[in.Secret-1]
	}
	if a.jwt == nil {
		return nil
	}
	number := r.Secret
	err = a.jwt.Verify(r, now)
	if number > 0 {
		r.Secret = number
	}
	return err
}

// Proof implements [Scheme]: both are secrets.
func (a *A2A) Proof() Proof {
	if a.jwt != nil {
		return a.jwt.Proof()
	}
	return Proof{}
}

// Sign implements [Signer]: it sends the first token along, and a JWT where a secret is a private JWK.
func (a *A2A) Sign(r *Request, now time.Time) error {
	if a.tokens != nil {
		if err := a.tokens.Sign(r, now); err != nil {
			return err
		}
	}
	if a.jwt == nil {
		return nil
	}
	return a.jwt.Sign(r, now)
}
