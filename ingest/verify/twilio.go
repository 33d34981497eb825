package verify

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/forebay-io/forebay/schemas"
)

const twilioHeader = "X-Twilio-Signature"

// Twilio is X-Twilio-Signature: HMAC-SHA1 over the URL and, of a form, its names and values, sorted by name, a name's values sorted and
// each once. Of another body the URL has the hash, in bodySHA256. Nothing stands between names and values, as Twilio has it. The URL is tried
// with and without its port. Safe for concurrent use. The zero value refuses everything.
//
// Source: twilio/twilio-python twilio/request_validator.py.
type Twilio struct{ keys []*macKey }

// NewTwilio builds the scheme. The secrets are auth tokens.
func NewTwilio(params Params, secrets []schemas.Secret) (*Twilio, error) {
	if err := params.Validate(); err != nil {
		return nil, err
	}
	keys, err := decodeKeys(secrets, "text", "")
	if err != nil {
		return nil, err
	}
	t := &Twilio{}
	for _, k := range keys {
		t.keys = append(t.keys, newMACKey("sha1", k))
	}
	return t, nil
}

// Verify implements [Verifier].
func (t *Twilio) Verify(r *Request, _ time.Time) error {
	if len(t.keys) == 0 {
		return refuse(BadKey, "no secret")
	}
	value, bad := single(r.Header, twilioHeader)
	if bad != nil {
		return bad
	}
	var buf [64]byte
	if len(value) > len(buf) {
		return refuse(Malformed, "%s is too long", twilioHeader)
	}
	got, ok := decodeDigest("base64", value, buf[:])
	if !ok {
		return refuse(Malformed, "%s is not base64", twilioHeader)
	}
	if r.URL == "" {
		return refuse(Malformed, "the URL is signed and not known: set the source's public_url")
	}
	rest, bad := twilioForm(r)
	if bad != nil {
		return bad
	}
	match := 0
	for _, called := range withAndWithoutPort(r.URL) {
		for n, k := range t.keys {
			m := k.get()
			m.write(called)
			m.write(rest)
			if hmac.Equal(got, m.digest()) {
				match = n + 1
			}
			k.put(m)
		}
	}
	if match == 0 {
		return refuse(Mismatch, "%s", twilioHeader)
	}
	r.Secret = match
	return nil
}

// twilioForm returns what is signed behind the URL. A body whose hash is in the URL must have that hash, and adds nothing.
func twilioForm(r *Request) (string, *Error) {
	_, query, _ := strings.Cut(r.URL, "?")
	if values, err := url.ParseQuery(query); err == nil && values.Has("bodySHA256") {
		sum := sha256.Sum256(r.Body)
		if want := hex.EncodeToString(sum[:]); subtle.ConstantTimeCompare([]byte(want), []byte(values.Get("bodySHA256"))) == 0 {
			return "", refuse(Mismatch, "bodySHA256")
		}
		return "", nil
	}
	form, err := url.ParseQuery(string(r.Body))
	if err != nil {
		return "", refuse(Malformed, "the body is no form, and its hash is not in the URL")
	}
	var b strings.Builder
	names := make([]string, 0, len(form))
	for name := range form {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		slices.Sort(form[name])
		for _, value := range slices.Compact(form[name]) {
			b.WriteString(name)
			b.WriteString(value)
		}
	}
	return b.String(), nil
}

// withAndWithoutPort returns a URL as it is, and without its port or, if it has none, with the usual one.
func withAndWithoutPort(called string) []string {
	scheme, rest, ok := strings.Cut(called, "://")
	if !ok {
		return []string{called}
	}
	end := strings.IndexAny(rest, "/?")
	if end < 0 {
		end = len(rest)
	}
	host, path := rest[:end], rest[end:]
	if colon := strings.LastIndexByte(host, ':'); colon > strings.LastIndexAny(host, "]@") {
		return []string{called, scheme + "://" + host[:colon] + path}
	}
	port := ":443"
	if scheme == "http" {
		port = ":80"
	}
	return []string{called, scheme + "://" + host + port + path}
}

// Proof implements [Scheme].
func (t *Twilio) Proof() Proof { return Proof{Headers: []string{twilioHeader}, URL: true} }

// Sign implements [Signer] with the first secret.
func (t *Twilio) Sign(r *Request, _ time.Time) error {
	if len(t.keys) == 0 {
		return refuse(BadKey, "no secret")
	}
	rest, bad := twilioForm(r)
	if bad != nil {
		return bad
	}
	m := t.keys[0].get()
	defer t.keys[0].put(m)
	m.write(r.URL)
	m.write(rest)
	r.Header.Set(twilioHeader, encodeDigest("base64", m.digest()))
	return nil
}
