// Package verify checks webhook signatures over the raw body, in constant time, one file per scheme.
//
// The rules that hold for every scheme are those of the providers' facts, section 2: raw bytes, the route names the
// scheme, no secret no entry, one header value, timestamps are text, tolerance in both directions, several keys.
package verify

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Request is a delivery as received. Header names are canonical ([http.Header]); Body is the raw body.
type Request struct {
	Method string
	// URL is the public URL as the provider called it, for schemes that sign it.
	URL string
	// Query is that of the request's URL, undecoded. Some senders have a secret in it, so it is never stored or logged.
	Query  string
	Header http.Header
	Body   []byte
	// Secret is which of the source's secrets the signature is made with, counted from 1. Verify sets it.
	Secret int
	// SignedAt is the time that the signature covers, by the sender's clock; zero: it covers none. Verify sets it where it returns nil.
	SignedAt time.Time
	// Caller is whom the signature names, where one of several could have made it. Verify sets it.
	Caller Caller
}

// Caller is who has proven itself: an agent by its key or token.
type Caller struct {
	Name string `json:"name"` // of the agent, or the subject of its token; empty: the scheme names nobody
	// Types are globs of the event types that it may send, in which * crosses dots; nil: all.
	Types []string `json:"types,omitempty"`
}

// Verifier checks one source's deliveries. Safe for concurrent use.
type Verifier interface {
	// Verify returns nil, and sets the request's Secret and SignedAt, or an *Error. now is the intake's clock.
	Verify(r *Request, now time.Time) error
}

// Reason is the closed list of refusals; a metric label, never shown to the sender.
type Reason string

const (
	MissingHeader Reason = "missing_header"
	Malformed     Reason = "malformed"
	Mismatch      Reason = "mismatch"
	TooOld        Reason = "too_old"
	TooNew        Reason = "too_new"
	BadKey        Reason = "bad_key"
	BadCertURL    Reason = "bad_cert_url"
	// DigestMismatch says that the body is not the one that Content-Digest is of.
	DigestMismatch Reason = "digest_mismatch"
	// NotReady says that the sender's key could not be found out. The delivery is not refused, so that it is repeated.
	NotReady Reason = "key_not_ready"
)

// Error is a refusal. Its text names no secret, no signature and no body.
type Error struct {
	Reason Reason
	Detail string
	// Off and Signed are of TooOld and TooNew: how far the time of signing is behind now, below zero ahead of it, and whether the signature
	// is right apart from that.
	Off    time.Duration
	Signed bool
}

func (e *Error) Error() string {
	if e.Detail == "" {
		return string(e.Reason)
	}
	return fmt.Sprintf("%s: %s", e.Reason, e.Detail)
}

func refuse(reason Reason, format string, args ...any) *Error {
	return &Error{Reason: reason, Detail: fmt.Sprintf(format, args...)}
}

// May reports whether the caller may send events of a type.
func (c Caller) May(eventType string) bool {
	return c.Types == nil || slices.ContainsFunc(c.Types, func(glob string) bool { return fits(glob, eventType) })
}

// fits reports whether a text is of a glob's form. A star in the text is a star.
func fits(glob, text string) bool {
	parts := strings.Split(glob, "*")
	if len(parts) == 1 {
		return glob == text
	}
	text, ok := strings.CutPrefix(text, parts[0])
	if ok {
		text, ok = strings.CutSuffix(text, parts[len(parts)-1])
	}
	for _, part := range parts[1 : len(parts)-1] {
		if ok {
			_, text, ok = strings.Cut(text, part)
		}
	}
	return ok
}
