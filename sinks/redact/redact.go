// Package redact takes a destination's secrets out of what is kept of an attempt: destinations echo what they are sent, as it
// was or encoded.
package redact

import (
	"errors"
	"io"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/sink"
)

// Redactor knows the secrets of one destination. Safe for concurrent use.
type Redactor struct {
	names map[string]string // of each secret: what stands in its place
	forms forms
	// longest is the length of the longest secret in its longest encoding, in bytes.
	longest int
}

// minSecret is the length of the shortest secret, in bytes. A shorter text is a word that would be cut out everywhere.
const minSecret = 6

// redacted stands in the place of a secret that has no name.
const redacted = "<redacted>"

// New makes a redactor. Texts that are too short to be a secret are left out.
func New(secrets ...string) *Redactor {
	names := make(map[string]string, len(secrets))
	for _, text := range secrets {
		names[text] = redacted
	}
	return Named(names)
}

// Named makes a redactor that puts something else into the place of each secret: names has it by the secret.
func Named(names map[string]string) *Redactor {
	r := &Redactor{names: names, forms: forms{by: map[[minSecret]byte][]form{}}}
	for text, name := range names {
		if len(text) >= minSecret {
			r.forms.add(text, name)
			r.longest = max(r.longest, longestByte*len(text))
		}
	}
	r.forms.sort()
	return r
}

// And returns r with one secret more, of a single call.
func (r *Redactor) And(secret schemas.Secret) *Redactor {
	names := map[string]string{secret.Reveal(): redacted}
	maps.Copy(names, r.names)
	return Named(names)
}

// schemes are words in front of tokens that are in no way secret, and in many an answer.
var schemes = []string{"bearer", "digest", "apikey"}

// Words returns the texts of secrets, and each of their words: the token behind "Bearer" is a secret, too. Of one that is a URL
// it returns what [URL] does.
func Words(secrets ...schemas.Secret) (texts []string) {
	for _, s := range secrets {
		texts = append(texts, s.Reveal())
		for word := range strings.FieldsSeq(s.Reveal()) {
			if !slices.Contains(schemes, strings.ToLower(word)) {
				texts = append(texts, word)
			}
		}
		if u, err := url.Parse(s.Reveal()); err == nil && u.Host != "" {
			texts = append(texts, URL(u)...)
		}
	}
	return texts
}

// URL returns what is secret in a URL: its password, its query, and of its path what may be a token. Chat services put theirs there.
func URL(u *url.URL) (texts []string) {
	if password, ok := u.User.Password(); ok {
		texts = append(texts, password)
	}
	for segment := range strings.SplitSeq(u.Path, "/") {
		if len(segment) >= 16 || len(segment) >= 8 && strings.ContainsAny(segment, "0123456789") {
			texts = append(texts, segment)
		}
	}
	texts = append(texts, u.RawQuery)
	for _, values := range u.Query() {
		texts = append(texts, values...)
	}
	return texts
}

// Bytes returns b without secrets.
func (r *Redactor) Bytes(b []byte) []byte {
	found := r.forms.find(b)
	if len(found) == 0 {
		return b
	}
	clean, from := make([]byte, 0, len(b)), 0
	for _, s := range found {
		clean = append(append(clean, b[from:s.from]...), s.name...)
		from = s.to
	}
	return append(clean, b[from:]...)
}

// Text returns s without secrets.
func (r *Redactor) Text(s string) string { return string(r.Bytes([]byte(s))) }

// Err redacts the text of an error and keeps what it says to the lane. If nothing has to be taken out it stays as it is.
func (r *Redactor) Err(err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	clean := r.Text(text)
	if clean == text {
		return err
	}
	class := sink.ClassOf(err)
	return &sink.AttemptError{
		Class: class, Err: errors.New(strings.TrimPrefix(clean, string(class)+": ")), Untouched: sink.Untouched(err),
	}
}

// Limit returns how much of an answer is read for Head to have what it needs.
func (r *Redactor) Limit() int { return sink.MaxResponse + r.longest }

// Head returns what is kept of an answer of which the first Limit bytes were read: no more than MaxResponse, no secret, and no
// part of one.
func (r *Redactor) Head(b []byte) []byte {
	whole := len(b) < r.Limit()
	if b = r.Bytes(b); !whole { // what was cut off may have cut a secret in two
		b = b[:max(0, len(b)-r.longest)]
	}
	return b[:min(len(b), sink.MaxResponse)]
}

// Drain is how much of an answer beyond what is kept may be read so that its connection can be used again.
const Drain = 16 << 10

// Answer reads the head of an answer's body, and no more unless it announces a length that is little more: what streams for ever is not
// waited for. What breaks off or hangs is kept as far as it came.
func (r *Redactor) Answer(body io.Reader, length int64) []byte {
	head, err := io.ReadAll(io.LimitReader(body, int64(r.Limit())))
	if err == nil && int64(len(head)) < length && length <= int64(r.Limit()+Drain) {
		_, _ = io.CopyN(io.Discard, body, length)
	}
	return r.Head(head)
}
