package verify

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"net/http"
	"time"

	"github.com/forebay-io/forebay/schemas"
)

// PublicKey is the scheme of senders that sign the time and the body, one behind the other, with a private key: Ed25519 (Discord) or ECDSA over
// P-256 (SendGrid). Nothing stands between the two, so a digit could move from one to the other: the time is digits only, and a JSON body does
// not begin with one. Safe for concurrent use. The zero value refuses everything.
type PublicKey struct {
	signatureHeader, timestampHeader string // canonical
	encoding                         string
	tolerance                        time.Duration
	keys                             []numbered[func(message, signature []byte) bool]
	sign                             func(message []byte) ([]byte, error) // nil: there are public keys only
}

// NewPublicKey builds the scheme ed25519 or sendgrid. A secret of ed25519 is a public key of 32 bytes in hex, or a private one of 64, which can
// sign, too. One of sendgrid is a public key as SendGrid shows it, base64 of its SPKI, or a private one in PKCS #8.
func NewPublicKey(params Params, secrets []schemas.Secret) (*PublicKey, error) {
	if err := params.Validate(); err != nil {
		return nil, err
	}
	b := builtIn(params)
	s := &PublicKey{signatureHeader: http.CanonicalHeaderKey(b.SignatureHeader), timestampHeader: http.CanonicalHeaderKey(b.TimestampHeader),
		encoding: b.Encoding, tolerance: b.Tolerance}
	if s.tolerance == 0 {
		s.tolerance = DefaultTolerance
	}
	if len(secrets) == 0 {
		return nil, refuse(BadKey, "secrets is empty: a source without a key would let everybody in")
	}
	if most := maxPairs / 2; len(secrets) > most {
		return nil, refuse(BadKey, "%d keys are more than %d: each signature is tried with each key", len(secrets), most)
	}
	for i, secret := range secrets {
		add, form := s.addEd25519, "32 bytes of an Ed25519 public key in hex"
		if params.Scheme == SchemeSendGrid {
			add, form = s.addP256, "base64 of a P-256 public key, as SendGrid shows it"
		}
		if !add(i+1, secret.Reveal()) {
			return nil, refuse(BadKey, "secret %d is not %s", i+1, form)
		}
	}
	return s, nil
}

func (s *PublicKey) addEd25519(number int, text string) bool {
	key, err := hex.DecodeString(text)
	if err == nil && len(key) == ed25519.PrivateKeySize {
		private := ed25519.PrivateKey(key)
		s.sign = func(message []byte) ([]byte, error) { return ed25519.Sign(private, message), nil }
		key = private.Public().(ed25519.PublicKey)
	}
	s.keys = append(s.keys, numbered[func(m, sig []byte) bool]{number, func(m, sig []byte) bool {
		return len(sig) == ed25519.SignatureSize && ed25519.Verify(key, m, sig)
	}})
	return err == nil && len(key) == ed25519.PublicKeySize
}

func (s *PublicKey) addP256(number int, text string) bool {
	der, ok := decodeBase64(text)
	if !ok {
		return false
	}
	parsed, err := x509.ParsePKIXPublicKey(der)
	public, ok := parsed.(*ecdsa.PublicKey)
	if err != nil {
		parsed, err = x509.ParsePKCS8PrivateKey(der)
		private, isPrivate := parsed.(*ecdsa.PrivateKey)
		if err != nil || !isPrivate {
			return false
		}
		s.sign = func(message []byte) ([]byte, error) {
			sum := sha256.Sum256(message)
			return ecdsa.SignASN1(rand.Reader, private, sum[:])
		}
		public, ok = &private.PublicKey, true
	}
	if !ok || public.Curve != elliptic.P256() {
		return false
	}
	s.keys = append(s.keys, numbered[func(m, sig []byte) bool]{number, func(m, sig []byte) bool {
		sum := sha256.Sum256(m)
		return ecdsa.VerifyASN1(public, sum[:], sig)
	}})
	return true
}

// Verify implements [Verifier].
func (s *PublicKey) Verify(r *Request, now time.Time) error {
	if len(s.keys) == 0 {
		return refuse(BadKey, "no key")
	}
	text, err := single(r.Header, s.signatureHeader)
	if err != nil {
		return err
	}
	if values := r.Header[s.timestampHeader]; len(values) == 1 && values[0] == "" {
		return refuse(MissingHeader, "%s is empty", s.timestampHeader)
	}
	timestamp, err := single(r.Header, s.timestampHeader)
	if err != nil {
		return err
	}
	stamp, err := readStamp("s", timestamp)
	if err != nil {
		return err
	}
	var buf [128]byte
	if len(text) > len(buf) {
		return refuse(Malformed, "%s is too long", s.signatureHeader)
	}
	signature, ok := decodeDigest(s.encoding, text, buf[:])
	if !ok {
		return refuse(Malformed, "%s is not %s", s.signatureHeader, s.encoding)
	}
	return fresh(r, stamp, s.tolerance, now, s.match(r, timestamp, signature))
}

// match returns nil, and sets which key it is, if one of them matches.
func (s *PublicKey) match(r *Request, timestamp string, signature []byte) error {
	message := append([]byte(timestamp), r.Body...)
	for _, k := range s.keys {
		if k.key(message, signature) {
			r.Secret = k.secret
			return nil
		}
	}
	return refuse(Mismatch, "%s", s.signatureHeader)
}

// Proof implements [Scheme].
func (s *PublicKey) Proof() Proof {
	return Proof{Headers: []string{s.signatureHeader, s.timestampHeader}}
}

// Sign implements [Signer], with the last private key.
func (s *PublicKey) Sign(r *Request, now time.Time) error {
	if s.sign == nil {
		return refuse(BadKey, "a public key cannot sign: give the private one")
	}
	timestamp := formatStamp("s", now)
	signature, err := s.sign(append([]byte(timestamp), r.Body...))
	if err != nil {
		return err
	}
	r.Header.Set(s.timestampHeader, timestamp)
	r.Header.Set(s.signatureHeader, encodeDigest(s.encoding, signature))
	return nil
}
