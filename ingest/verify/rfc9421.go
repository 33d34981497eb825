package verify

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509"
	"encoding/base64"
	"math/big"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/forebay-io/forebay/schemas"
)

// MessageSignature is RFC 9421, HTTP Message Signatures. A signature must have been created within the tolerance, cover what Params.Components
// asks for, by default the body's digest (RFC 9530) and the method, and be made by the one algorithm that Params.Alg names: what a message
// says of its algorithm or its key counts for nothing. Parameters of components (;sf, ;bs, ;req) are not taken. Safe for concurrent use. The
// zero value refuses everything.
type MessageSignature struct {
	algorithm, label string
	components       []string
	tolerance        time.Duration
	keys             []func(base, signature []byte) bool
	sign             func(base []byte) []byte // hmac-sha256 alone
}

// messageAlgorithms are the values of Params.Alg.
var messageAlgorithms = []string{"hmac-sha256", "ed25519", "ecdsa-p256-sha256", "rsa-pss-sha512", "rsa-v1_5-sha256"}

// NewMessageSignature builds the scheme. A secret is a text (hex or base64 as key_encoding says) for hmac-sha256, else base64 of a public key's SPKI.
func NewMessageSignature(params Params, secrets []schemas.Secret) (*MessageSignature, error) {
	if err := params.Validate(); err != nil {
		return nil, err
	}
	m := &MessageSignature{algorithm: params.Alg, label: params.Label, tolerance: params.Tolerance, components: strings.Fields(params.Components)}
	if m.tolerance == 0 {
		m.tolerance = DefaultTolerance
	}
	if len(m.components) == 0 {
		m.components = []string{"content-digest", "@method"}
	}
	encoding := params.KeyEncoding
	if m.algorithm != "hmac-sha256" {
		encoding = "base64"
	}
	keys, err := decodeKeys(secrets, encoding, "")
	if err != nil {
		return nil, err
	}
	for i, k := range keys {
		if m.algorithm == "hmac-sha256" {
			digest := func(base []byte) []byte {
				h := hmac.New(sha256.New, k)
				h.Write(base)
				return h.Sum(nil)
			}
			m.keys = append(m.keys, func(base, signature []byte) bool { return hmac.Equal(signature, digest(base)) })
			if i == 0 {
				m.sign = digest
			}
			continue
		}
		check := publicCheck(m.algorithm, k)
		if check == nil {
			return nil, refuse(BadKey, "secret %d is not base64 of a public key for %s", i+1, m.algorithm)
		}
		m.keys = append(m.keys, check)
	}
	if most := maxPairs / 2; m.sign == nil && len(m.keys) > most {
		return nil, refuse(BadKey, "%d keys are more than %d", len(m.keys), most)
	}
	return m, nil
}

// publicCheck returns what checks a signature of an algorithm with a public key; nil if the key is of another algorithm.
func publicCheck(algorithm string, der []byte) func(base, signature []byte) bool {
	parsed, err := x509.ParsePKIXPublicKey(der)
	if err != nil {
		return nil
	}
	switch key := parsed.(type) {
	case ed25519.PublicKey:
		if algorithm == "ed25519" {
			return func(base, sig []byte) bool {
				return len(sig) == ed25519.SignatureSize && ed25519.Verify(key, base, sig)
			}
		}
	case *ecdsa.PublicKey:
		if algorithm == "ecdsa-p256-sha256" && key.Curve.Params().Name == "P-256" {
			return func(base, sig []byte) bool {
				sum := sha256.Sum256(base)
				return len(sig) == 64 && ecdsa.Verify(key, sum[:], new(big.Int).SetBytes(sig[:32]), new(big.Int).SetBytes(sig[32:]))
			}
		}
	case *rsa.PublicKey:
		switch algorithm {
		case "rsa-pss-sha512":
			return func(base, sig []byte) bool {
				sum := sha512.Sum512(base)
				return rsa.VerifyPSS(key, crypto.SHA512, sum[:], sig, &rsa.PSSOptions{SaltLength: 64}) == nil
			}
		case "rsa-v1_5-sha256":
			return func(base, sig []byte) bool {
				sum := sha256.Sum256(base)
				return rsa.VerifyPKCS1v15(key, crypto.SHA256, sum[:], sig) == nil
			}
		}
	}
	return nil
}

// Verify implements [Verifier].
func (m *MessageSignature) Verify(r *Request, now time.Time) error {
	if len(m.keys) == 0 {
		return refuse(BadKey, "no key")
	}
	inputs, bad := dictionary(r.Header, "Signature-Input")
	if bad != nil {
		return bad
	}
	signatures, bad := dictionary(r.Header, "Signature")
	if bad != nil {
		return bad
	}
	if len(inputs) > maxSignatures/4 {
		return refuse(Malformed, "Signature-Input has more than %d signatures", maxSignatures/4)
	}
	if bad := digestFits(r); bad != nil {
		return bad
	}
	refusal := error(refuse(MissingHeader, "no signature with the expected label"))
	for label, input := range inputs {
		if m.label != "" && label != m.label {
			continue
		}
		if refusal = m.one(r, input, signatures[label], now); refusal == nil {
			return nil
		}
	}
	return refusal
}

// one verifies one of a message's signatures.
func (m *MessageSignature) one(r *Request, input, signature string, now time.Time) error {
	covered, created, expires, bad := parseInput(input)
	if bad != nil {
		return bad
	}
	for _, name := range m.components {
		if !slices.Contains(covered, name) {
			return refuse(Malformed, "the signature does not cover %s", name)
		}
	}
	got, ok := strings.CutPrefix(signature, ":")
	raw, err := base64.StdEncoding.Strict().DecodeString(strings.TrimSuffix(got, ":"))
	if !ok || err != nil || len(raw) > 1024 {
		return refuse(Malformed, "Signature is not a byte sequence")
	}
	base, bad := signatureBase(r, covered, input)
	if bad != nil {
		return bad
	}
	stamp, bad := readStamp("s", created)
	if bad != nil {
		return bad
	}
	if expires != "" {
		if end, bad := readStamp("s", expires); bad != nil || now.After(end) {
			return refuse(TooOld, "the signature has expired")
		}
	}
	mismatch := error(refuse(Mismatch, "Signature"))
	for i, k := range m.keys {
		if k(base, raw) {
			r.Secret, mismatch = i+1, nil
			break
		}
	}
	return fresh(r, stamp, m.tolerance, now, mismatch)
}

// signatureBase is what is signed (RFC 9421, 2.5).
func signatureBase(r *Request, covered []string, input string) ([]byte, *Error) {
	var b bytes.Buffer
	for _, name := range covered {
		value, bad := component(r, name)
		if bad != nil {
			return nil, bad
		}
		b.WriteString(`"` + name + `": ` + value + "\n")
	}
	b.WriteString(`"@signature-params": ` + input)
	return b.Bytes(), nil
}

// component returns the value of a covered component (RFC 9421, 2.1 and 2.2).
func component(r *Request, name string) (string, *Error) {
	if !strings.HasPrefix(name, "@") {
		values := slices.Clone(r.Header[http.CanonicalHeaderKey(name)])
		if len(values) == 0 {
			return "", refuse(MissingHeader, "%s, which is signed", name)
		}
		for i, v := range values {
			values[i] = strings.TrimSpace(v)
		}
		return strings.Join(values, ", "), nil
	}
	if name == "@method" {
		return r.Method, nil
	}
	u, err := url.Parse(r.URL)
	if err != nil || r.URL == "" {
		return "", refuse(Malformed, "the URL is signed and not known: set the source's public_url")
	}
	path := u.EscapedPath()
	if path == "" {
		path = "/"
	}
	switch name {
	case "@target-uri":
		return r.URL, nil
	case "@authority":
		host := strings.ToLower(u.Host)
		if port := u.Port(); u.Scheme == "https" && port == "443" || u.Scheme == "http" && port == "80" {
			host = strings.TrimSuffix(host, ":"+port)
		}
		return host, nil
	case "@scheme":
		return u.Scheme, nil
	case "@path":
		return path, nil
	case "@query":
		return "?" + u.RawQuery, nil
	case "@request-target":
		if u.RawQuery != "" {
			path += "?" + u.RawQuery
		}
		return path, nil
	}
	return "", refuse(Malformed, "the component %s is not known", name)
}

// digestFits refuses a body that Content-Digest, where it is there, is not of. Digests by other algorithms do not count.
func digestFits(r *Request) *Error {
	if r.Header["Content-Digest"] == nil {
		return nil
	}
	digests, bad := dictionary(r.Header, "Content-Digest")
	if bad != nil {
		return bad
	}
	of256, of512 := sha256.Sum256(r.Body), sha512.Sum512(r.Body)
	known := 0
	for name, sum := range map[string][]byte{"sha-256": of256[:], "sha-512": of512[:]} {
		text, ok := digests[name]
		if !ok {
			continue
		}
		if known++; text != ":"+base64.StdEncoding.EncodeToString(sum)+":" {
			return refuse(DigestMismatch, "Content-Digest is of another body")
		}
	}
	if known == 0 {
		return refuse(Malformed, "Content-Digest has neither sha-256 nor sha-512")
	}
	return nil
}

// dictionary splits a header that is a dictionary of structured fields into its members, whose values stay as they are written.
func dictionary(h http.Header, name string) (map[string]string, *Error) {
	if len(h[name]) == 0 {
		return nil, refuse(MissingHeader, "%s", name)
	}
	members := map[string]string{}
	text, start, quoted := strings.Join(h[name], ","), 0, false
	for i := 0; i <= len(text); i++ {
		if i < len(text) && text[i] == '\\' && quoted {
			i++
			continue
		}
		if i < len(text) && text[i] == '"' {
			quoted = !quoted
		}
		if i < len(text) && (text[i] != ',' || quoted) {
			continue
		}
		key, value, ok := strings.Cut(strings.TrimSpace(text[start:min(i, len(text))]), "=")
		if _, twice := members[key]; !ok || twice || quoted {
			return nil, refuse(Malformed, "%s is no dictionary", name)
		}
		members[key], start = value, i+1
	}
	return members, nil
}

// parseInput reads a member of Signature-Input: the covered components in brackets, and parameters.
func parseInput(input string) (covered []string, created, expires string, bad *Error) {
	list, rest, ok := strings.Cut(strings.TrimPrefix(input, "("), ")")
	if !ok || !strings.HasPrefix(input, "(") {
		return nil, "", "", refuse(Malformed, "Signature-Input has no list of components")
	}
	for item := range strings.FieldsSeq(list) {
		name, err := strconv.Unquote(item)
		if err != nil || name != strings.ToLower(name) || name == "@signature-params" || slices.Contains(covered, name) {
			return nil, "", "", refuse(Malformed, "Signature-Input has a component of a form that is not taken")
		}
		covered = append(covered, name)
	}
	for parameter := range strings.SplitSeq(rest, ";") {
		switch name, value, _ := strings.Cut(parameter, "="); name {
		case "created":
			created = value
		case "expires":
			expires = value
		}
	}
	return covered, created, expires, nil
}

// Proof implements [Scheme].
func (m *MessageSignature) Proof() Proof {
	p := Proof{Headers: []string{"Signature-Input", "Signature", "Content-Digest"}, URL: true}
	for _, name := range m.components {
		if canonical := http.CanonicalHeaderKey(name); !strings.HasPrefix(name, "@") && !slices.Contains(p.Headers, canonical) {
			p.Headers = append(p.Headers, canonical)
		}
	}
	return p
}

// Sign implements [Signer] for hmac-sha256, with the first secret, over what must be covered.
func (m *MessageSignature) Sign(r *Request, now time.Time) error {
	if m.sign == nil {
		return refuse(BadKey, "a public key cannot sign")
	}
	sum := sha256.Sum256(r.Body)
	r.Header.Set("Content-Digest", "sha-256=:"+base64.StdEncoding.EncodeToString(sum[:])+":")
	input := `("` + strings.Join(m.components, `" "`) + `");created=` + formatStamp("s", now)
	base, bad := signatureBase(r, m.components, input)
	if bad != nil {
		return bad
	}
	label := m.label
	if label == "" {
		label = "sig"
	}
	r.Header.Set("Signature-Input", label+"="+input)
	r.Header.Set("Signature", label+"=:"+base64.StdEncoding.EncodeToString(m.sign(base))+":")
	return nil
}
