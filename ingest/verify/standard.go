package verify

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/rand"
	"encoding/base64"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/forebay-io/forebay/schemas"
)

// StandardWebhooks is the scheme of standardwebhooks.com, v1 (HMAC-SHA256) and v1a (Ed25519), with its own header
// names or Svix's. Safe for concurrent use. The zero value refuses everything.
type StandardWebhooks struct {
	families  []family
	tolerance time.Duration
	symmetric []numbered[*macKey]
	public    []numbered[ed25519.PublicKey]
	private   []ed25519.PrivateKey
}

// family is one set of header names, canonical.
type family struct{ id, timestamp, signature string }

func newFamily(prefix string) family {
	return family{http.CanonicalHeaderKey(prefix + "id"), http.CanonicalHeaderKey(prefix + "timestamp"),
		http.CanonicalHeaderKey(prefix + "signature")}
}

// NewStandardWebhooks builds the scheme. A secret is whsec_ and base64 of 24 to 64 bytes (the prefix may be missing),
// whpk_ and base64 of an Ed25519 public key, or whsk_ and that of a private key, which can also sign. The version of the
// signatures may stand before it, as Supabase shows it ("v1,whsec_..."). With key_encoding text, hex or base64 a secret is a
// symmetric key of any length in that form.
func NewStandardWebhooks(params Params, secrets []schemas.Secret) (*StandardWebhooks, error) {
	params.Scheme = SchemeStandardWebhooks
	if err := params.Validate(); err != nil {
		return nil, err
	}
	s := &StandardWebhooks{tolerance: params.Tolerance}
	if s.tolerance == 0 {
		s.tolerance = DefaultTolerance
	}
	for _, p := range params.prefixes() {
		s.families = append(s.families, newFamily(p))
	}
	if len(secrets) == 0 || params.KeyEncoding != "" {
		keys, err := decodeKeys(secrets, params.KeyEncoding, "whsec_")
		if err != nil {
			return nil, err
		}
		for i, k := range keys {
			s.symmetric = append(s.symmetric, numbered[*macKey]{i + 1, newMACKey("sha256", k)})
		}
		return s, nil
	}
	for i, secret := range secrets {
		if err := s.addKey(i+1, secret.Reveal()); err != nil {
			return nil, refuse(BadKey, "secret %d %s", i+1, err.Detail)
		}
	}
	if most := maxPairs / 2; len(s.public) > most {
		return nil, refuse(BadKey, "%d Ed25519 keys are more than %d: a sender that rotates its key signs twice, and each signature is tried with each key", len(s.public), most)
	}
	return s, nil
}

// prefixes are those of the names of the scheme's headers.
func (p Params) prefixes() []string {
	if p.HeaderPrefix != "" {
		return []string{p.HeaderPrefix}
	}
	return []string{"webhook-", "svix-"}
}

// numbered is a key with the number of its secret, counted from 1.
type numbered[K any] struct {
	secret int
	key    K
}

// addKey adds the key of a secret in its text form: whpk_ and whsk_ are Ed25519 keys, whsec_ or nothing is an HMAC key. number is the place
// of the secret in the source's list.
func (s *StandardWebhooks) addKey(number int, text string) *Error {
	if version, secret, ok := strings.Cut(text, ","); ok && (version == "v1" || version == "v1a") {
		text = secret
	}
	if public, ok := strings.CutPrefix(text, "whpk_"); ok {
		key, ok := decodeBase64(public)
		if !ok || len(key) != ed25519.PublicKeySize {
			return refuse(BadKey, "begins with whpk_ but is not base64 of a 32-byte Ed25519 public key")
		}
		s.public = append(s.public, numbered[ed25519.PublicKey]{number, key})
		return nil
	}
	if private, ok := strings.CutPrefix(text, "whsk_"); ok {
		key, ok := decodeBase64(private)
		switch {
		case ok && len(key) == ed25519.SeedSize:
			key = ed25519.NewKeyFromSeed(key)
		case !ok || len(key) != ed25519.PrivateKeySize:
			return refuse(BadKey, "begins with whsk_ but is not base64 of an Ed25519 private key")
		}
		s.private = append(s.private, key)
		s.public = append(s.public, numbered[ed25519.PublicKey]{number, ed25519.PrivateKey(key).Public().(ed25519.PublicKey)})
		return nil
	}
	key, ok := decodeBase64(strings.TrimPrefix(text, "whsec_"))
	if !ok {
		return refuse(BadKey, "is not base64 after whsec_: for a secret that is plain text set key_encoding: text")
	}
	if len(key) < 24 || len(key) > 64 {
		return refuse(BadKey, "is %d bytes, the specification wants 24 to 64: for a secret that is plain text set key_encoding: text", len(key))
	}
	s.symmetric = append(s.symmetric, numbered[*macKey]{number, newMACKey("sha256", key)})
	return nil
}

// Verify implements [Verifier].
func (s *StandardWebhooks) Verify(r *Request, now time.Time) error {
	if len(s.symmetric)+len(s.public) == 0 {
		return refuse(BadKey, "no secret")
	}
	f := s.family(r.Header)
	id, err := single(r.Header, f.id)
	if err != nil {
		return err
	}
	timestamp, err := single(r.Header, f.timestamp)
	if err != nil {
		return err
	}
	signature, err := single(r.Header, f.signature)
	if err != nil {
		return err
	}
	if s.contradicted(r.Header, id, timestamp) {
		return refuse(Malformed, "the id or the time of one family of headers is not that of the other")
	}
	if strings.IndexByte(id, '.') >= 0 {
		return refuse(Malformed, "%s contains a dot", f.id) // it separates the signed parts
	}
	stamp, bad := readStamp("s", timestamp)
	if bad != nil {
		return bad
	}
	return fresh(r, stamp, s.tolerance, now, s.compare(r, f, id, timestamp, signature))
}

// family returns the family of header names that the request uses; the signature is never of names of two.
func (s *StandardWebhooks) family(h http.Header) family {
	for _, f := range s.families {
		if h[f.id] != nil || h[f.timestamp] != nil || h[f.signature] != nil {
			return f
		}
	}
	return s.families[0]
}

// contradicted reports whether a header of either family has another id or time than those that are signed: an event's may be read from it,
// and whoever has seen a delivery could have it acted on again under new ids.
func (s *StandardWebhooks) contradicted(h http.Header, id, timestamp string) bool {
	return slices.ContainsFunc(s.families, func(f family) bool {
		return slices.ContainsFunc(h[f.id], func(v string) bool { return v != id }) ||
			slices.ContainsFunc(h[f.timestamp], func(v string) bool { return v != timestamp })
	})
}

// compare refuses a request of which no signature in the list matches a key.
func (s *StandardWebhooks) compare(r *Request, f family, id, timestamp, list string) error {
	var v1, v1a []string
	for item := range strings.FieldsSeq(list) {
		version, signature, _ := strings.Cut(item, ",")
		switch version {
		case "v1":
			v1 = append(v1, signature)
		case "v1a":
			v1a = append(v1a, signature)
		}
		if len(v1)+len(v1a) > maxSignatures {
			return refuse(Malformed, "%s has more than %d signatures", f.signature, maxSignatures)
		}
	}
	if len(v1a)*len(s.public) > maxPairs {
		return refuse(Malformed, "%s has %d v1a signatures for %d keys", f.signature, len(v1a), len(s.public))
	}
	if s.matchHMAC(r, id, timestamp, v1) || s.matchEd25519(r, id, timestamp, v1a) {
		return nil
	}
	return refuse(Mismatch, "%s", f.signature)
}

// matchHMAC reports whether a v1 signature matches a symmetric key, and sets which secret that is of.
func (s *StandardWebhooks) matchHMAC(r *Request, id, timestamp string, signatures []string) bool {
	if len(signatures) == 0 {
		return false
	}
	var buf [96]byte
	for _, k := range s.symmetric {
		m := k.key.get()
		want := standardDigest(m, r, id, timestamp)
		for _, text := range signatures {
			if got, ok := decodeDigest("base64", text, buf[:]); ok && hmac.Equal(got, want) {
				k.key.put(m)
				r.Secret = k.secret
				return true
			}
		}
		k.key.put(m)
	}
	return false
}

func standardDigest(m *mac, r *Request, id, timestamp string) []byte {
	m.write(id)
	m.write(".")
	m.write(timestamp)
	m.write(".")
	m.Write(r.Body)
	return m.digest()
}

// matchEd25519 reports whether a v1a signature matches a public key, and sets which secret that is of.
func (s *StandardWebhooks) matchEd25519(r *Request, id, timestamp string, signatures []string) bool {
	if len(signatures) == 0 || len(s.public) == 0 {
		return false
	}
	message := standardMessage(r, id, timestamp)
	var buf [96]byte
	for _, text := range signatures {
		got, ok := decodeDigest("base64", text, buf[:])
		if !ok || len(got) != ed25519.SignatureSize {
			continue
		}
		for _, k := range s.public {
			if ed25519.Verify(k.key, message, got) {
				r.Secret = k.secret
				return true
			}
		}
	}
	return false
}

func standardMessage(r *Request, id, timestamp string) []byte {
	message := make([]byte, 0, len(id)+len(timestamp)+2+len(r.Body))
	message = append(append(message, id...), '.')
	message = append(append(message, timestamp...), '.')
	return append(message, r.Body...)
}

// Proof implements [Scheme].
func (s *StandardWebhooks) Proof() Proof {
	var p Proof
	for _, f := range s.families {
		p.Headers = append(p.Headers, f.id, f.timestamp, f.signature)
	}
	return p
}

// Sign implements [Signer]: with the first symmetric secret, else with the first private key. An id that r carries is kept.
func (s *StandardWebhooks) Sign(r *Request, now time.Time) error {
	if len(s.symmetric)+len(s.private) == 0 {
		return refuse(BadKey, "a public key cannot sign: give a whsec_ or whsk_ secret")
	}
	f := s.family(r.Header)
	id := r.Header.Get(f.id)
	if id == "" {
		id = "msg_" + rand.Text()
	}
	timestamp := formatStamp("s", now)
	signature := "v1a,"
	if len(s.symmetric) > 0 {
		m := s.symmetric[0].key.get()
		defer s.symmetric[0].key.put(m)
		signature = "v1," + base64.StdEncoding.EncodeToString(standardDigest(m, r, id, timestamp))
	} else {
		signature += base64.StdEncoding.EncodeToString(ed25519.Sign(s.private[0], standardMessage(r, id, timestamp)))
	}
	r.Header.Set(f.id, id)
	r.Header.Set(f.timestamp, timestamp)
	r.Header.Set(f.signature, signature)
	return nil
}
