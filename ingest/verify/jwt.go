package verify

import (
	"cmp"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/scan"
)

// JWT is a bearer token of an issuer, whose keys are at a URL. Of the secrets, which are none, some are accounts that alone may send (email of a
// token, verified by the issuer), others are the issuer's keys, as JWK or JWK set, so that nothing is fetched. Safe for concurrent use. The zero
// value refuses everything.
//
// A token is signed with RS256, PS256, ES256 or EdDSA; `none` and shared keys are not known here. iss must be the one configured, aud as well, or the
// URL that is called; exp and iat must be there; exp, iat and nbf may be off by the tolerance. kid chooses the key, jwk, jku and x5u are not read.
//
// event_types of a token lists the types that its subject may send, as globs in which * crosses dots; without it, the subject may send all.
//
// A token does not sign the body, unless it has request_body_sha256. Whoever has seen one can send other bodies with it until it expires.
type JWT struct {
	header, prefix   string
	issuer, audience string // an empty audience is the URL that is called
	tolerance        time.Duration
	accounts         map[string]int // numbers of secrets by email; empty: whoever the issuer gives a token
	pinned           []numbered[jose.JSONWebKey]
	set              *keySet
	task             *scan.Set // where the body names its task; nil: tokens are of no task
	used             *usedTokens
}

var jwtAlgorithms = []jose.SignatureAlgorithm{jose.RS256, jose.PS256, jose.ES256, jose.EdDSA}

const (
	defaultSkew = time.Minute
	maxToken    = 16 << 10
	maxClaim    = 255
)

// NewJWT builds the scheme. Without a URL for keys there must be secrets.
func NewJWT(params Params, secrets []schemas.Secret, around Around) (*JWT, error) {
	if err := params.Validate(); err != nil {
		return nil, err
	}
	j := &JWT{header: http.CanonicalHeaderKey(cmp.Or(params.Header, "Authorization")), prefix: params.Prefix, issuer: params.Issuer, audience: params.Audience,
		accounts: map[string]int{}, tolerance: cmp.Or(params.Tolerance, defaultSkew), used: &cmp.Or(around.Used, new(Used)).jwt}
	if j.header == "Authorization" && j.prefix == "" {
		j.prefix = bearer
	}
	for i, secret := range secrets {
		text := secret.Reveal()
		if strings.Contains(text, "@") && !strings.ContainsAny(text, "{ ") {
			j.accounts[text] = i + 1
			continue
		}
		keys, err := parseKeys([]byte(text))
		if err != nil {
			return nil, refuse(BadKey, "secret %d is neither an account that may send, such as pusher@project.iam.gserviceaccount.com, nor a JWK or JWK set with a key for RS256, PS256, ES256 or EdDSA", i+1)
		}
		for _, of := range keys {
			for _, key := range of {
				j.pinned = append(j.pinned, numbered[jose.JSONWebKey]{i + 1, key})
			}
		}
	}
	if params.JWKSURL != "" && around.KeySets != nil {
		j.set = around.KeySets.of(params.JWKSURL, params.AllowNetworks)
	}
	switch {
	case len(j.pinned) > 0:
	case params.JWKSURL == "":
		return nil, refuse(BadKey, "secrets has no JWK and verify.jwks_url is not given: there is no key that a token could be checked with")
	case params.Issuer == issuerGoogle && len(j.accounts) == 0:
		return nil, refuse(BadKey, "secrets is empty: list the service accounts that may send, since anybody can have Google make a token for any audience")
	}
	return j, nil
}

const issuerGoogle = "https://accounts.google.com"

// bearer stands before a token in the header Authorization.
const bearer = "Bearer "

// claims are what is read of a token.
type claims struct {
	jwt.Claims
	Email         string `json:"email"`
	EmailVerified any    `json:"email_verified"` // Google has a bool, others its text
	Task          string `json:"taskId"`
	BodySum       string `json:"request_body_sha256"`
	EventTypes    any    `json:"event_types"` // of what the token is for, as globs; none: all
}

// types returns the globs of the event types that a token is for, nil if it is for all; false if they are no list of texts.
func (c *claims) types() (globs []string, ok bool) {
	list, ok := c.EventTypes.([]any)
	if c.EventTypes == nil || !ok {
		return nil, c.EventTypes == nil
	}
	globs = []string{} // an empty list is for none
	for _, v := range list {
		glob, is := v.(string)
		if !is || glob == "" {
			return nil, false
		}
		globs = append(globs, glob)
	}
	return globs, true
}

// Verify implements [Verifier]. What the token claims is looked at first, so that no key is looked for on account of a token that would not be taken.
func (j *JWT) Verify(r *Request, now time.Time) error {
	value, bad := single(r.Header, j.header)
	if bad != nil {
		return bad
	}
	text, ok := strings.CutPrefix(value, j.prefix)
	if !ok || len(text) > maxToken {
		return refuse(Malformed, "%s does not begin with %q, or is longer than %d bytes", j.header, j.prefix, maxToken)
	}
	token, err := jwt.ParseSigned(text, jwtAlgorithms)
	if err != nil || len(token.Headers) != 1 {
		return refuse(Malformed, "%s is no JWT signed with RS256, PS256, ES256 or EdDSA", j.header)
	}
	var c claims
	if err := token.UnsafeClaimsWithoutVerification(&c); err != nil {
		return refuse(Malformed, "the token's claims cannot be read")
	}
	if bad := j.wanted(&c, r); bad != nil {
		return bad
	}
	untimely := j.timely(&c, now)
	number, bad := j.signed(token, &c, untimely == nil)
	switch {
	case bad != nil && untimely != nil:
		return untimely
	case bad != nil:
		return bad
	case untimely != nil:
		untimely.Signed = true
		return untimely
	}
	if j.task != nil && !j.used.take(&c, r.Body, now, j.tolerance) {
		return refuse(Mismatch, "the token (jti) has come with another body before")
	}
	r.Secret, r.Caller = number, Caller{Name: c.Subject}
	r.Caller.Types, _ = c.types() // wanted has looked at them
	return nil
}

// wanted returns what is wrong with a token's claims, times aside.
func (j *JWT) wanted(c *claims, r *Request) *Error {
	_, typed := c.types()
	switch {
	case c.Issuer == "" || c.Issuer != j.issuer:
		return refuse(Mismatch, "the token is of another issuer (iss)")
	case !c.Audience.Contains(cmp.Or(j.audience, r.URL)) || j.audience == "" && r.URL == "":
		return refuse(Mismatch, "the token is for another audience (aud)")
	case c.Expiry == nil || c.IssuedAt == nil:
		return refuse(Malformed, "the token has no exp or no iat")
	case len(c.ID) > maxClaim || len(c.Subject) > maxClaim:
		return refuse(Malformed, "the token's jti or sub is longer than %d bytes", maxClaim)
	case !typed:
		return refuse(Malformed, "the token's event_types is no list of texts")
	case c.BodySum != "" && !isSum(c.BodySum, r.Body):
		return refuse(Mismatch, "the token is of another body (request_body_sha256)")
	case j.task != nil:
		return j.ofTask(c, r)
	}
	return nil
}

// ofTask returns what is wrong with the token of a task: it must be of one use, and of the body's task or of the body itself.
func (j *JWT) ofTask(c *claims, r *Request) *Error {
	if c.ID == "" {
		return refuse(Malformed, "the token has no jti")
	}
	if c.Task == "" {
		if c.BodySum == "" {
			return refuse(Mismatch, "the token is of no task (taskId), nor of this body (request_body_sha256)")
		}
		return nil
	}
	values, err := j.task.Scan(r.Body, nil)
	if err != nil {
		return refuse(Mismatch, "the token is of a task (taskId), and the body names none")
	}
	named := false
	for _, v := range values {
		if v.Kind == scan.String {
			if named = true; v.Text() != c.Task {
				return refuse(Mismatch, "the token is of another task (taskId)")
			}
		}
	}
	if !named {
		return refuse(Mismatch, "the token is of a task (taskId), and the body names none")
	}
	return nil
}

func isSum(text string, body []byte) bool {
	sum := sha256.Sum256(body)
	return subtle.ConstantTimeCompare([]byte(strings.ToLower(text)), []byte(hex.EncodeToString(sum[:]))) == 1
}

// timely returns what is wrong with a token's times.
func (j *JWT) timely(c *claims, now time.Time) *Error {
	late, early := now.Sub(c.Expiry.Time()), c.IssuedAt.Time().Sub(now)
	if c.NotBefore != nil {
		early = max(early, c.NotBefore.Time().Sub(now))
	}
	var err *Error
	switch {
	case late > j.tolerance:
		err = refuse(TooOld, "the token expired %s before this machine's clock, where %s is allowed", late.Round(time.Second), j.tolerance)
		err.Off = late
	case early > j.tolerance:
		err = refuse(TooNew, "the token is valid (iat, nbf) only %s after this machine's clock, where %s is allowed", early.Round(time.Second), j.tolerance)
		err.Off = -early
	}
	return err
}

// signed returns the number of the secret that the signature is taken by: a key, or an account of the issuer's; 0: whoever the issuer signs for.
// With look, a key that is not known is looked for.
func (j *JWT) signed(token *jwt.JSONWebToken, c *claims, look bool) (number int, bad *Error) {
	id := token.Headers[0].KeyID
	if id == "" || len(id) > maxClaim {
		return 0, refuse(Malformed, "the token does not name its key (kid)")
	}
	number = j.accounts[c.Email]
	if len(j.accounts) > 0 && (number == 0 || c.EmailVerified != true && c.EmailVerified != "true") {
		return 0, refuse(Mismatch, "the token is of another account (email, email_verified)")
	}
	for _, p := range j.pinned {
		if p.key.KeyID == id && matches(token, p.key) {
			return cmp.Or(number, p.secret), nil
		}
	}
	switch {
	case j.set == nil && len(j.pinned) == 0:
		return 0, refuse(NotReady, "the issuer's keys are not fetched here")
	case j.set == nil:
		return 0, refuse(Mismatch, "no key with this kid has made the signature")
	}
	keys, bad := j.set.find(id, look)
	if bad != nil {
		return 0, bad
	}
	if !slices.ContainsFunc(keys, func(k jose.JSONWebKey) bool { return matches(token, k) }) {
		return 0, refuse(Mismatch, "the key with this kid has not made the signature")
	}
	return number, nil
}

// matches reports whether a key has made a token's signature, by an algorithm that is the key's.
func matches(token *jwt.JSONWebToken, key jose.JSONWebKey) bool {
	return slices.Contains(algorithmsOf(key), jose.SignatureAlgorithm(token.Headers[0].Algorithm)) && token.Claims(publicOf(key)) == nil
}

// publicOf returns the public part of a key; nil: a shared secret.
func publicOf(key jose.JSONWebKey) any {
	return key.Public().Key
}

// curveOf returns the curve of a public key; empty: another one than P-256 and Ed25519.
func curveOf(public any) string {
	switch key := public.(type) {
	case *ecdsa.PublicKey:
		if key.Curve == elliptic.P256() {
			return "P-256"
		}
	case ed25519.PublicKey:
		return "Ed25519"
	}
	return ""
}

// Proof implements [Scheme]: the token opens the door until it expires, so nothing of it is kept.
func (j *JWT) Proof() Proof { return Proof{URL: j.audience == ""} }

// Sign implements [Signer], for a secret that is a private JWK: with a token that is valid for five minutes.
func (j *JWT) Sign(r *Request, now time.Time) error {
	at := slices.IndexFunc(j.pinned, func(p numbered[jose.JSONWebKey]) bool { return !p.key.IsPublic() })
	if at < 0 {
		return refuse(BadKey, "only the issuer can sign: no secret is a private JWK")
	}
	key := j.pinned[at].key
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: algorithmsOf(key)[0], Key: key}, nil)
	if err != nil {
		return err
	}
	var id [16]byte
	rand.Read(id[:]) // never fails
	c := map[string]any{"iss": j.issuer, "aud": cmp.Or(j.audience, r.URL), "sub": exampleSubject, "iat": now.Unix(), "exp": now.Add(5 * time.Minute).Unix(), "jti": hex.EncodeToString(id[:])}
	if j.task != nil {
		sum := sha256.Sum256(r.Body)
		c["request_body_sha256"] = hex.EncodeToString(sum[:])
	}
	text, err := jwt.Signed(signer).Claims(c).Serialize()
	if err == nil {
		r.Header.Set(j.header, j.prefix+text)
		r.Caller = Caller{Name: exampleSubject}
	}
	return err
}

// exampleSubject is whom Sign names.
const exampleSubject = "forebay"

// exampleJWK returns a private key of P-256 as a JWK.
func exampleJWK() string {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return ""
	}
	text, err := json.Marshal(jose.JSONWebKey{Key: private, KeyID: "example", Algorithm: string(jose.ES256), Use: "sig"})
	if err != nil {
		return ""
	}
	return string(text)
}

// usedTokens remembers with which body a token of one use has come, until it expires: a repeat has the same body. It knows those of this process.
type usedTokens struct {
	mu     sync.Mutex
	bodies map[string]usedToken
}

type usedToken struct {
	body [sha256.Size]byte
	ends time.Time
}

// mostUsed bounds what is remembered. Whoever has so many tokens signed has the issuer's key.
const mostUsed = 100_000

// take reports whether a token may come with a body.
func (u *usedTokens) take(c *claims, body []byte, now time.Time, tolerance time.Duration) bool {
	sum, id := sha256.Sum256(body), fmt.Sprintf("%q %q", c.Issuer, c.ID)
	u.mu.Lock()
	defer u.mu.Unlock()
	if before, ok := u.bodies[id]; ok && now.Before(before.ends) {
		return before.body == sum
	}
	if len(u.bodies) >= mostUsed {
		for id, t := range u.bodies {
			if !now.Before(t.ends) {
				delete(u.bodies, id)
			}
		}
	}
	if len(u.bodies) >= mostUsed {
		clear(u.bodies)
	}
	if u.bodies == nil {
		u.bodies = map[string]usedToken{}
	}
	u.bodies[id] = usedToken{sum, c.Expiry.Time().Add(tolerance)}
	return true
}
