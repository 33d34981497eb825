package verify

import (
	"time"

	"github.com/forebay-io/forebay/schemas"
)

// GitHub is X-Hub-Signature-256. The older SHA-1 header, which GitHub sends along, counts only where it is allowed
// and the new one is missing. Safe for concurrent use. The zero value refuses everything.
type GitHub struct {
	sha256, sha1 *HMAC
}

// NewGitHub builds the scheme; params.AllowSHA1 is its option.
func NewGitHub(params Params, secrets []schemas.Secret) (*GitHub, error) {
	params.Scheme = SchemeGitHub
	if err := params.Validate(); err != nil {
		return nil, err
	}
	now := Params{SignatureHeader: "X-Hub-Signature-256", Algorithm: "sha256", Prefix: "sha256=",
		KeyEncoding: params.KeyEncoding, KeyPrefix: params.KeyPrefix}
	g := &GitHub{}
	var err error
	if g.sha256, err = newHMAC(now, secrets); err != nil || !params.AllowSHA1 {
		return g, err
	}
	old := now
	old.SignatureHeader, old.Algorithm, old.Prefix = "X-Hub-Signature", "sha1", "sha1="
	g.sha1, err = newHMAC(old, secrets)
	return g, err
}

// Verify implements [Verifier].
func (g *GitHub) Verify(r *Request, now time.Time) error {
	if g.sha256 == nil {
		return refuse(BadKey, "no secret")
	}
	if g.sha1 != nil && r.Header[g.sha256.signatureHeader] == nil {
		return g.sha1.Verify(r, now)
	}
	return g.sha256.Verify(r, now)
}

// Proof implements [Scheme].
func (g *GitHub) Proof() Proof {
	return Proof{Headers: []string{"X-Hub-Signature-256", "X-Hub-Signature"}}
}

// Sign implements [Signer].
func (g *GitHub) Sign(r *Request, now time.Time) error {
	if g.sha256 == nil {
		return refuse(BadKey, "no secret")
	}
	return g.sha256.Sign(r, now)
}
