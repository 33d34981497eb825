// Package provider is the catalogue: what each provider signs, names, keys and versions, as data.
//
// A preset is a file of its own (github.go, stripe.go, ...), and nothing outside it names its provider: CONTRIBUTING.md
// walks through a new one. It is a table of event types: where the dedupe id, the type, the entity and the
// version stand in a delivery. [Compile] joins it with a source's own settings; [Source.Event] then reads all of it in
// one pass over the body.
//
//	src, err := provider.Compile(provider.Config{Team: "acme", Name: "github", Preset: "github", Secrets: secrets})
//	err = src.Verifier.Verify(r, now)
//	event, err := src.Event(r, now)
//
// # Versions
//
// Where an entity's version stands is said per source or preset: a JSON pointer, header, form field, or a CEL expression over
// body, header and form ("cel:body.rev * 10 + body.minor").
//
//	numbers     a pointer gives the number's text. In CEL, JSON integers are ints and decimals doubles, which no place takes
//	as: text    kind monotonic: up to 64 bytes of ASCII without spaces, compared bytewise, "=" and the text on the wire
//	resolution  cuts the version's time, not the event's
//	rank        gives an order to what happens within one version, by a status. An unlisted one is unusable; in a preset it
//	            stands below the others
//	epoch       which incarnation of the provider's counter the value is of; required of every delivery where it is mapped
//
// A value that is missing or of another type, and an expression that fails or takes more than 100,000 steps, make the
// delivery unusable: it is kept in quarantine and answered 202.
//
// A mapping without expressions makes no tree of the body. One that reads body makes it once, and holds everything in it to
// what a pointer asks of its own way. The 28 KB of a GitHub pull request take 96 us then, and 17 with pointers.
package provider

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/jsonschema"
	"github.com/forebay-io/forebay/schemas/scan"
)

// Source is a configured intake endpoint, compiled from a preset and a source's own settings. Safe for concurrent
// use; built by [Compile].
type Source struct {
	Team, Name, Preset string
	Verifier           verify.Verifier
	// MaxBody is the largest body taken, in bytes.
	MaxBody int64
	// Deadline is how long the provider waits for an answer; intake answers before it.
	Deadline time.Duration

	signer   verify.Signer
	preset   preset
	uri      string // "/<team>/<source>"
	selects  []value
	names    *strings.Replacer // of types; nil: they are verbatim
	rules    map[string]*rule
	fields   map[string]*compiledFields // nil: the type is signed
	fallback *rule
	delivery *value      // where the provider's id of the delivery is, where it is not the event's; nil: nowhere
	set      *scan.Set   // nil when the source reads nothing of the body
	each     []*scan.Set // where the list of events is, and those in its elements; nil: a delivery is one event
	eachText string
	around   *scan.Set // in the elements with lists; nil: nothing
	forms    bool      // the source reads form bodies
	own      []string
	chain    bool
	headers  []header
	secret   []string // headers
	secrets  []schemas.Secret
	proof    verify.Proof
	check    string             // of SchemaChecks
	schema   *jsonschema.Schema // the source's own; nil: the catalogue's

	deliveries sync.Pool // of *delivery; without, ingest's BenchmarkHandler takes 10 % more processor
}

// header is an original request header that is kept.
type header struct{ lower, canonical string }

// Answer is a handshake's answer (Slack url_verification), given only to authentic requests.
type Answer struct {
	Status      int
	ContentType string // empty: none
	Header      http.Header
	Body        []byte
}

// Challenge returns the answer when r is a handshake and not an event. The signature of r holds, unless [Source.Asks] says otherwise.
func (s *Source) Challenge(r *verify.Request) (*Answer, bool) {
	if s.preset.challenge == nil {
		return nil, false
	}
	return s.preset.challenge(handshake{r, s.secrets, s.Verifier})
}

// Confirm does what a handshake wants beside its answer, such as a call of the provider's API. It is for whoever gives the answer: to look at a
// handshake is not to agree to it. After an error the provider has to ask again.
func (s *Source) Confirm(r *verify.Request) error {
	if s.preset.confirm == nil {
		return nil
	}
	return s.preset.confirm(handshake{r, s.secrets, s.Verifier})
}

// Asks reports whether the provider asks with a method beside POST, and whether such a request must be verified before [Source.Challenge].
func (s *Source) Asks(method string) (verified, asks bool) {
	verified, asks = s.preset.asks[method]
	return verified, asks
}

// Accepted returns the provider's own form of answer to r, once it is durable; nil: it takes any of the class 2xx.
func (s *Source) Accepted(r *verify.Request) *Answer {
	switch {
	case s.preset.accepted != nil:
		return s.preset.accepted(handshake{r, s.secrets, s.Verifier})
	case s.preset.emptyAnswer && mediaType(r) == mediaForm:
		return &Answer{Status: http.StatusOK}
	}
	return nil
}

// Sign sets on r the headers that make it a fresh delivery of this source: those that are signed, and a new dedupe id
// or id of the delivery where that is a header that r lacks. For `forebay send` and tests.
func (s *Source) Sign(r *verify.Request, now time.Time) error {
	if r.Header == nil {
		r.Header = http.Header{}
	}
	if err := s.signer.Sign(r, now); err != nil {
		return fmt.Errorf("sign for %s: %w", s.uri, err)
	}
	setID(r, s.fallback.id.refs)
	if s.delivery != nil {
		setID(r, s.delivery.refs)
	}
	return nil
}

// setID sets a new id on the first of the headers, unless r has one of them, or the id is not in a header.
func setID(r *verify.Request, refs []ref) {
	for _, ref := range refs {
		if ref.kind != refHeader || r.Header.Get(ref.name) != "" {
			return
		}
	}
	if len(refs) > 0 {
		r.Header.Set(refs[0].name, newUUID())
	}
}

// SecretHeaders lists the headers (canonical) that carry a secret itself: they must never be stored or logged.
func (s *Source) SecretHeaders() []string { return s.secret }

// Proof returns what has to be kept of a delivery beside its body and method so that it can be verified again.
func (s *Source) Proof() verify.Proof { return s.proof }

// Unusable says why an authentic delivery could not become an event.
type Unusable struct {
	// Reason is of [UnusableReasons]; a metric label.
	Reason string
	// Detail says where, without the value.
	Detail string
}

func (e *Unusable) Error() string { return fmt.Sprintf("%s: %s", e.Reason, e.Detail) }

// Forbidden says that who has sent an authentic delivery may not send events of its type.
type Forbidden struct{ Type string }

func (e *Forbidden) Error() string {
	return fmt.Sprintf("events of type %.80q are not among those that the key is for", e.Type)
}

// The closed list of what makes a delivery unusable.
const (
	NotJSON          = "not_json"
	DuplicateKey     = "duplicate_key"
	TooDeep          = "too_deep"
	BadString        = "bad_string"
	MissingField     = "missing_field"
	WrongType        = "wrong_type"
	TooLong          = "too_long"
	ControlCharacter = "control_character"
	BadVersion       = "bad_version"
	BadForm          = "bad_form"
	BadEncoding      = "bad_encoding"
	RepeatedHeader   = "repeated_header"
	TypeMismatch     = "type_mismatch"
	ExpressionFailed = "expression_failed"
	ExpressionCost   = "expression_cost"
	SchemaMisfit     = "schema_misfit"
)

// UnusableReasons lists every reason.
func UnusableReasons() []string {
	return []string{NotJSON, DuplicateKey, TooDeep, BadString, MissingField, WrongType, TooLong, ControlCharacter, BadVersion,
		BadForm, BadEncoding, RepeatedHeader, TypeMismatch, ExpressionFailed, ExpressionCost, SchemaMisfit}
}

func unusable(reason, format string, args ...any) *Unusable {
	return &Unusable{Reason: reason, Detail: fmt.Sprintf(format, args...)}
}

// Chain reports whether the senders are agents, whose headers say who called them.
func (s *Source) Chain() bool { return s.chain }
