package verify

import (
	"cmp"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"maps"
	"math/big"
	"slices"
	"time"

	"github.com/forebay-io/forebay/schemas"
)

// Signer makes the headers that the same secrets verify: for sending samples and for tests.
type Signer interface {
	// Sign sets the signature, timestamp and id headers on r.Header, which must not be nil.
	Sign(r *Request, now time.Time) error
}

// Proof is what a scheme reads of a request beside its body and method, without secrets. Kept with the body, it is enough to verify
// the delivery again.
type Proof struct {
	// Headers are canonical names.
	Headers []string
	// URL says that the public URL is signed.
	URL bool
	// Unpacked says that a compressed body is signed as it is without its compression.
	Unpacked bool
}

// Scheme verifies and signs. Safe for concurrent use.
type Scheme interface {
	Verifier
	Signer
	Proof() Proof
}

// Schemes lists the names that [New] knows, sorted.
func Schemes() []string { return slices.Sorted(maps.Keys(schemeFields)) }

// Around is what some schemes need beside params and secrets.
type Around struct {
	KeySets      *KeySets      // of issuers; nil: none is fetched
	Certificates *Certificates // of SNS; nil: each source fetches its own
	Used         *Used         // of this source; nil: each scheme remembers for itself
	// Agent returns whose key has a hash; its error is an *[Error]. nil: the keys are those of the secrets.
	Agent func(hash [sha256.Size]byte) (Caller, error)
}

// Used is with which bodies a source's tokens of one use have come, as far as this process knows: without it whoever has seen a token that signs no
// body could send another one with it. The zero value knows of none. Safe for concurrent use.
type Used struct {
	jwt     usedTokens
	mailgun mailgunSeen
}

// New is [NewIn] with nothing around.
func New(params Params, secrets []schemas.Secret) (Scheme, error) {
	return NewIn(params, secrets, Around{})
}

// NewIn builds the scheme that params names. The error uses the config's words. An error about a secret is an *[Error] with reason
// BadKey, and does not quote it.
func NewIn(params Params, secrets []schemas.Secret, around Around) (Scheme, error) {
	if err := params.Validate(); err != nil {
		return nil, err
	}
	if len(secrets) > maxKeys {
		return nil, refuse(BadKey, "%d secrets are more than %d: a forged delivery is hashed with every one of them", len(secrets), maxKeys)
	}
	switch params.Scheme {
	case SchemeStandardWebhooks:
		return scheme(NewStandardWebhooks(params, secrets))
	case SchemeGitHub:
		return scheme(NewGitHub(params, secrets))
	case SchemeToken:
		return scheme(NewToken(params, secrets))
	case SchemeEd25519, SchemeSendGrid:
		return scheme(NewPublicKey(params, secrets))
	case SchemeTwilio:
		return scheme(NewTwilio(params, secrets))
	case SchemeHubSpot:
		return scheme(NewHubSpot(params, secrets))
	case SchemeMailgun:
		return scheme(NewMailgun(params, secrets, around))
	case SchemeSNS:
		return scheme(NewSNS(params, secrets, around))
	case SchemeRFC9421:
		return scheme(NewMessageSignature(params, secrets))
	case SchemeJWT:
		return scheme(NewJWT(params, secrets, around))
	case SchemeA2A:
		return scheme(NewA2A(params, secrets, around))
	case SchemeAgentKey:
		return scheme(NewAgentKey(params, secrets, around))
	case SchemeStripe, SchemePaddle, SchemeWebSub:
		return scheme(newHMAC(builtIn(params), secrets))
	}
	return scheme(NewHMAC(params, secrets))
}

// ExampleSecret returns a secret of the form that a scheme takes, which can also sign: for samples and tests.
func ExampleSecret(scheme string) schemas.Secret {
	switch scheme {
	case SchemeEd25519:
		_, private, _ := ed25519.GenerateKey(nil) // never fails
		return schemas.NewSecret(hex.EncodeToString(private))
	case SchemeSNS:
		return schemas.NewSecret(exampleCertificate())
	case SchemeJWT:
		return schemas.NewSecret(exampleJWK())
	case SchemeAgentKey:
		return schemas.NewSecret("example:" + AgentKeyPrefix + "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	case SchemeSendGrid:
		private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		der, _ := x509.MarshalPKCS8PrivateKey(private)
		if err == nil {
			return schemas.NewSecret(base64.StdEncoding.EncodeToString(der))
		}
	}
	return schemas.NewSecret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
}

// exampleCertificate returns a certificate and its private key, in PEM.
func exampleCertificate() string {
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return ""
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"sns.amazonaws.com"}, NotAfter: time.Now().AddDate(100, 0, 0)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		return ""
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})) +
		string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(private)}))
}

// scheme returns a nil Scheme beside an error: a typed nil would not be nil.
func scheme[S Scheme](s S, err error) (Scheme, error) {
	if err != nil {
		return nil, err
	}
	return s, nil
}

// builtIn writes the schemes that are only a set of parameters.
func builtIn(p Params) Params {
	b := Params{KeyEncoding: p.KeyEncoding, KeyPrefix: p.KeyPrefix, Tolerance: p.Tolerance}
	switch p.Scheme {
	case SchemeStripe: // the key is the whole whsec_... text; v0 and unknown fields are ignored
		b.SignatureHeader, b.Field, b.TimestampField = "Stripe-Signature", "v1", "t"
		b.Signed = "{timestamp}.{body}"
	case SchemePaddle:
		b.SignatureHeader, b.Field, b.TimestampField, b.ItemSeparator = "Paddle-Signature", "h1", "ts", ";"
		b.Signed = "{timestamp}:{body}"
		if b.Tolerance == 0 {
			b.Tolerance = 5 * time.Second
		}
	case SchemeEd25519: // Discord's names, unless others are given
		b.SignatureHeader, b.TimestampHeader = cmp.Or(p.SignatureHeader, "X-Signature-Ed25519"), cmp.Or(p.TimestampHeader, "X-Signature-Timestamp")
		b.Encoding = cmp.Or(p.Encoding, "hex")
	case SchemeSendGrid:
		b.SignatureHeader, b.TimestampHeader = "X-Twilio-Email-Event-Webhook-Signature", "X-Twilio-Email-Event-Webhook-Timestamp"
		b.Encoding = "base64"
	case SchemeWebSub: // method=hex; only sha256 is taken, whatever method the value names
		b.SignatureHeader, b.Prefix = p.SignatureHeader, "sha256="
		if b.SignatureHeader == "" {
			b.SignatureHeader = "X-Hub-Signature"
		}
	}
	return b
}
