// Package provider is the catalogue: what each provider signs, names, keys and versions, as data.
package provider

import (
	"fmt"
	"time"

	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas"
)

// Source is a configured intake endpoint, compiled from a preset and a source's own settings. Safe for concurrent
// use; built by Compile.
type Source struct {
	Team, Name, Preset string
	Verifier           verify.Verifier
	// MaxBody is the largest body taken, in bytes.
	MaxBody int64
	// Deadline is how long the provider waits for an answer; intake answers before it.
	Deadline time.Duration
}

// Answer is a handshake's answer (Slack url_verification), given only to authentic requests.
type Answer struct {
	Status      int
	ContentType string
	Body        []byte
}

// Challenge returns the answer when r, whose signature holds, is a handshake and not an event.
func (s *Source) Challenge(r *verify.Request) (*Answer, bool) { panic("being written") }

// Event names, keys and versions a verified delivery. received is the intake's clock. An error is an *Unusable: the
// delivery is authentic and must be kept, not refused.
func (s *Source) Event(r *verify.Request, received time.Time) (*schemas.Event, error) {
	panic("being written")
}

// Unusable says why an authentic delivery could not become an event.
type Unusable struct {
	Reason string // closed list: not_json, duplicate_key, missing_field, wrong_type, too_long, control_character, too_deep, bad_version, bad_form
	Detail string // where, without the value
}

func (e *Unusable) Error() string { return fmt.Sprintf("%s: %s", e.Reason, e.Detail) }
