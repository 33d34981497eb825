package httpsink

import (
	"bytes"
	"errors"
	"net/url"
	"slices"
	"strings"

	"github.com/forebay-io/forebay/stream"
)

// redactor takes the destination's secrets out of what is kept of an attempt: destinations echo what they are sent.
type redactor struct {
	secrets []string // longest first
	longest int
}

// tooShort is a length below which a value is no secret but a word that would be cut out everywhere.
const tooShort = 6

func newRedactor(cfg Config, target *url.URL) *redactor {
	r := &redactor{}
	add := func(text string) {
		if len(text) >= tooShort && !slices.Contains(r.secrets, text) {
			r.secrets = append(r.secrets, text)
		}
	}
	for _, s := range cfg.Secrets {
		add(s.Reveal())
		add(strings.TrimPrefix(s.Reveal(), "whsec_"))
	}
	for _, s := range cfg.Headers {
		add(s.Reveal())
		for word := range strings.FieldsSeq(s.Reveal()) { // the token behind "Bearer"
			add(word)
		}
	}
	for segment := range strings.SplitSeq(target.Path, "/") { // chat services put the token into the path
		if len(segment) >= 16 {
			add(segment)
		}
	}
	add(target.RawQuery)
	for _, values := range target.Query() {
		for _, v := range values {
			add(v)
			add(url.QueryEscape(v))
		}
	}
	slices.SortFunc(r.secrets, func(a, b string) int { return len(b) - len(a) })
	if len(r.secrets) > 0 {
		r.longest = len(r.secrets[0])
	}
	return r
}

func (r *redactor) bytes(b []byte) []byte {
	for _, s := range r.secrets {
		b = bytes.ReplaceAll(b, []byte(s), []byte("<redacted>"))
	}
	return b
}

// err redacts the text of an error and keeps its class. Where nothing has to be taken out it stays as it is.
func (r *redactor) err(err error) error {
	text := err.Error()
	clean := string(r.bytes([]byte(text)))
	if clean == text {
		return err
	}
	return &stream.AttemptError{Class: stream.ClassOf(err), Err: errors.New(clean)}
}
