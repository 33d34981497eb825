// Package redact takes a destination's secrets out of what is kept of an attempt: destinations echo what they are sent.
package redact

import (
	"bytes"
	"errors"
	"io"
	"net/url"
	"slices"
	"strings"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/sink"
)

// Redactor knows the secrets of one destination. Safe for concurrent use.
type Redactor struct {
	secrets []string // longest first
	longest int      // the length of the longest, in bytes
}

// minSecret is the length of the shortest secret, in bytes. A shorter text is a word that would be cut out everywhere.
const minSecret = 6

// New makes a redactor. Texts that are too short to be a secret are left out.
func New(secrets ...string) *Redactor {
	r := &Redactor{}
	for _, text := range secrets {
		if len(text) >= minSecret && !slices.Contains(r.secrets, text) {
			r.secrets = append(r.secrets, text)
		}
	}
	// The longest first, so that a secret that contains another one is replaced whole.
	slices.SortFunc(r.secrets, func(a, b string) int { return len(b) - len(a) })
	if len(r.secrets) > 0 {
		r.longest = len(r.secrets[0])
	}
	return r
}

// And returns r with one secret more, of a single call.
func (r *Redactor) And(secret schemas.Secret) *Redactor {
	return New(append(slices.Clone(r.secrets), secret.Reveal())...)
}

// Words returns the texts of secrets, and each of their words: the token behind "Bearer" is a secret, too.
func Words(secrets ...schemas.Secret) (texts []string) {
	for _, s := range secrets {
		texts = append(texts, s.Reveal())
		texts = slices.AppendSeq(texts, strings.FieldsSeq(s.Reveal()))
	}
	return texts
}

// Query returns the texts of a URL's query: what an address names there may be a token.
func Query(u *url.URL) []string {
	texts := []string{u.RawQuery}
	for _, values := range u.Query() {
		for _, v := range values {
			texts = append(texts, v, url.QueryEscape(v))
		}
	}
	return texts
}

// Bytes returns b without secrets.
func (r *Redactor) Bytes(b []byte) []byte {
	for _, s := range r.secrets {
		b = bytes.ReplaceAll(b, []byte(s), []byte("<redacted>"))
	}
	return b
}

// Err redacts the text of an error and keeps what it says to the lane. If nothing has to be taken out it stays as it is.
func (r *Redactor) Err(err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	clean := string(r.Bytes([]byte(text)))
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

// drain is how much of an answer beyond what is kept is read so that its connection can be used again.
const drain = 16 << 10

// Answer reads the head of an answer's body. What breaks off or hangs is kept as far as it came.
func (r *Redactor) Answer(body io.Reader) []byte {
	head, err := io.ReadAll(io.LimitReader(body, int64(r.Limit())))
	if err == nil {
		_, _ = io.CopyN(io.Discard, body, drain)
	}
	return r.Head(head)
}
