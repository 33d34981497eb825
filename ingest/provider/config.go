package provider

import (
	"time"

	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas"
)

// Config is one source of the config file. The zero value of a field takes the preset's.
type Config struct {
	Team, Name string
	// Preset is a name that [Presets] lists; required.
	Preset string
	// Secrets are the keys, any of which may match; at least one, none empty.
	Secrets []schemas.Secret
	// Until is until when each of the secrets is taken; a zero time, and what it lacks, is for ever.
	Until []time.Time
	// KeyEncoding is the encoding of the secrets: text, hex or base64; empty is the scheme's default.
	KeyEncoding string
	// Verify replaces single parameters of the preset's scheme, or all of them if it names another scheme.
	Verify *verify.Params
	// Around is what schemes with keys of issuers and agents need; the zero value knows of none.
	Around verify.Around
	// Event replaces single parts of the preset's mapping, for every event type.
	Event *EventConfig
	// Each is where a delivery has its list of events: a JSON Pointer, "/" where the body is the list, or /entry/*/changes for the lists in
	// the elements of one. Each element is an event, and what Event says is read inside it.
	Each string
	// Own are the ids of senders who are we ourselves: users, app/ID, bot/ID, or marked/ID of a sender whose texts with our mark are ours.
	Own []string
	// MaxBody is in bytes; zero is the preset's.
	MaxBody int64
	// Deadline is how long the provider waits; zero is the preset's.
	Deadline time.Duration
	// Schema says which schema bodies are held against; the zero value is none.
	Schema SchemaConfig
}

// EventConfig is a source's `event:`. Every `from` is a JSON Pointer into the body, header:<name>, form:<field>,
// cel:<expression> or (id only) sha256:body.
//
// An expression is CEL with its standard library, over body (the JSON text), header (lower-case names to first values, without
// secrets) and form (names to values). It is type-checked when the source is compiled. JSON integers are exact in it; decimals are
// doubles, which no key accepts. A delivery is unusable if the expression fails on it, runs too long or has a type that its key does
// not accept. It is also unusable if the expression reads body, and the body has a key twice or a string that is not valid text.
type EventConfig struct {
	// ID is the dedupe id.
	ID string `yaml:"id,omitempty" json:"id,omitempty"`
	// DeliveryID is the provider's own id of a delivery, where it cannot be the event's because it is not signed. Events are found
	// by it. A delivery need not have it.
	DeliveryID string `yaml:"delivery_id,omitempty" json:"delivery_id,omitempty"`
	// Type is the event type, taken verbatim.
	Type string `yaml:"type,omitempty" json:"type,omitempty"`
	// Entity lists the values that name what the event is about. An empty list that is written out means the source itself: all its
	// events are then about one entity.
	Entity []string `yaml:"entity,omitempty" json:"entity,omitempty"`
	// Version orders the events of an entity.
	Version *VersionConfig `yaml:"version,omitempty" json:"version,omitempty"`
	// Payload is snapshot or delta.
	Payload string `yaml:"payload,omitempty" json:"payload,omitempty"`
	// Deleted says which events end their entity.
	Deleted *DeletedConfig `yaml:"deleted,omitempty" json:"deleted,omitempty"`
	// First is the version of an entity's first event (kind sequence only).
	First *int64 `yaml:"first,omitempty" json:"first,omitempty"`
	// Volatile lists JSON Pointers whose values change from one retry of an event to the next.
	Volatile []string `yaml:"volatile,omitempty" json:"volatile,omitempty"`
	// Chain says that the senders are agents, whose headers X-Agent-Call-Chain, -Depth and X-Agent-Trace-Id say who called them.
	Chain bool `yaml:"chain,omitempty" json:"chain,omitempty"`
	// Headers lists original request headers to keep on the event.
	KeepHeaders []string `yaml:"keep_headers,omitempty" json:"keep_headers,omitempty"`
}

// VersionConfig is a source's `event.version`.
type VersionConfig struct {
	From string `yaml:"from,omitempty" json:"from,omitempty"`
	// Kind is sequence, monotonic, timestamp or none.
	Kind string `yaml:"kind,omitempty" json:"kind,omitempty"`
	// As says what values of kind monotonic are: integer, or text, which compares bytewise (see [schemas.IsVersionText]). Empty
	// is integer.
	As string `yaml:"as,omitempty" json:"as,omitempty"`
	// Clock names the version line, if an entity has several.
	Clock string `yaml:"clock,omitempty" json:"clock,omitempty"`
	// Epoch is where the provider says to which run of its counter the value belongs: an integer from 1 to [schemas.MaxEpoch] that
	// grows whenever the counter starts again. A delivery without it is unusable.
	Epoch string `yaml:"epoch,omitempty" json:"epoch,omitempty"`
	// Resolution is the unit of a timestamp: 1s, 1ms, 1us or 1ns. Finer digits are cut off, and a bare number is in this unit. With zero
	// all digits count, and bare numbers are seconds.
	Resolution time.Duration `yaml:"resolution,omitempty" json:"resolution,omitempty"`
	// Missing says what becomes of a delivery without the value. Empty: it is unusable; arrival: it has no version, and goes as it arrives.
	Missing string `yaml:"missing,omitempty" json:"missing,omitempty"`
	// Rank breaks ties of one version.
	Rank *RankConfig `yaml:"rank,omitempty" json:"rank,omitempty"`
}

// MissingArrival is the value of VersionConfig.Missing.
const MissingArrival = "arrival"

// The values of VersionConfig.As.
const (
	asInteger = "integer"
	asText    = "text"
)

// DeletedConfig is a source's `event.deleted`.
type DeletedConfig struct {
	From string `yaml:"from,omitempty" json:"from,omitempty"`
	// Is lists the values that mean deletion; default ["true"].
	Is []string `yaml:"is,omitempty" json:"is,omitempty"`
}
