package verify

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/forebay-io/forebay/schemas"
)

// Token is a shared secret sent along in a header, or in the URL; nothing is signed. Safe for concurrent use. The zero value refuses
// everything.
type Token struct {
	header, prefix, query string
	secrets               []schemas.Secret
	sums                  [][sha256.Size]byte
}

// NewToken compares params.Header, after params.Prefix ("Bearer "), with the secrets as text.
func NewToken(params Params, secrets []schemas.Secret) (*Token, error) {
	params.Scheme = SchemeToken
	if err := params.Validate(); err != nil {
		return nil, err
	}
	keys, err := decodeKeys(secrets, "text", "")
	if err != nil {
		return nil, err
	}
	t := &Token{header: http.CanonicalHeaderKey(params.Header), prefix: params.Prefix, query: params.Query, secrets: secrets}
	for _, k := range keys {
		t.sums = append(t.sums, sha256.Sum256(k))
	}
	return t, nil
}

// Verify implements [Verifier]. Hashes are compared, so that the time tells not even the secret's length.
func (t *Token) Verify(r *Request, _ time.Time) error {
	if len(t.sums) == 0 {
		return refuse(BadKey, "no secret")
	}
	token, err := t.read(r)
	if err != nil {
		return err
	}
	got, match := sha256.Sum256([]byte(token)), 0
	for n, want := range t.sums {
		match = subtle.ConstantTimeSelect(subtle.ConstantTimeCompare(got[:], want[:]), n+1, match)
	}
	if match == 0 {
		return refuse(Mismatch, "the token")
	}
	r.Secret = match
	return nil
}

// read returns what a request has for a token: in the header, else in the URL.
func (t *Token) read(r *Request) (string, *Error) {
	if t.query != "" && (t.header == "" || r.Header[t.header] == nil) {
		values, err := url.ParseQuery(r.Query)
		switch n := len(values[t.query]); {
		case err != nil || n > 1:
			return "", refuse(Malformed, "the URL's parameter %s", t.query)
		case n == 0:
			return "", refuse(MissingHeader, "the URL's parameter %s", t.query)
		}
		return values.Get(t.query), nil
	}
	value, err := single(r.Header, t.header)
	if err != nil {
		return "", err
	}
	token, ok := strings.CutPrefix(value, t.prefix)
	if !ok {
		return "", refuse(Malformed, "%s does not begin with the configured prefix", t.header)
	}
	return token, nil
}

// Proof implements [Scheme]: the token is a secret, so nothing of it is kept.
func (t *Token) Proof() Proof { return Proof{} }

// Sign implements [Signer]: it sends the first secret along.
func (t *Token) Sign(r *Request, _ time.Time) error {
	if len(t.secrets) == 0 {
		return refuse(BadKey, "no secret")
	}
	if t.header == "" {
		r.Query = url.Values{t.query: {t.secrets[0].Reveal()}}.Encode()
		return nil
	}
	r.Header.Set(t.header, t.prefix+t.secrets[0].Reveal())
	return nil
}
