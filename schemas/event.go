package schemas

import "time"

// PayloadKind says what a body is: the state of the entity after the event, or a piece of news about it.
type PayloadKind string

const (
	// Snapshot bodies hold the entity's whole state: once a newer one has run, acting on an older one is pointless.
	Snapshot PayloadKind = "snapshot"
	// Delta bodies hold news: an older one is still wanted after a newer one.
	Delta PayloadKind = "delta"
)

// Valid reports whether k is one of the declared kinds.
func (k PayloadKind) Valid() bool { return k == Snapshot || k == Delta }

// Header is one original request header kept on the event, with its name in lower case.
type Header struct {
	Name, Value string
}

// Event is the CloudEvent made from a verified delivery. Its identity is (Source, ID), never a Kafka offset.
//
// An Event is immutable once built: it may be shared between goroutines as long as nobody writes to it. Data is the
// raw body byte for byte and is never nil on a record (an empty body is a zero-length value).
type Event struct {
	// ID is the provider's dedupe id, stable over its retries, or the hash of the body; 1 to 512 bytes without control characters.
	ID string
	// DeliveryID is the provider's own id of the delivery, where that is not the event's; may be empty. It is not signed: nothing may
	// be decided by it.
	DeliveryID string
	// Source is "/<team>/<source>".
	Source string
	// Type is what the mapping gives, verbatim, for example "com.github.issues.labeled".
	Type string
	// Entity is the Kafka key, ce_subject and ce_partitionkey.
	Entity EntityKey
	// Sender is who made the event happen, as its provider says; empty where the provider does not. Title is what the entity is called, an
	// issue's title or an invoice's number, for people's lists; may be empty. Both are other people's words.
	Sender Sender
	Title  string
	// Time is the provider's event time, else the intake time.
	Time time.Time
	// RecordedTime is the intake time.
	RecordedTime time.Time
	// DataContentType is the body's content type as received; may be empty.
	DataContentType string
	// DataSchema is an absolute URI or empty.
	DataSchema string
	// SchemaID is under what a schema registry has that schema, as the record's header __value_schema_id has it; empty where the record in the log
	// has none. Records that are made of the event elsewhere (dead letters, what is published) have it, too.
	SchemaID string
	// Version orders the event on its version line; kind none orders by arrival.
	Version Version
	// First is the value of the first event of its version line, if the provider promises one (1, Twilio 0); nil if not. Only kind
	// sequence has it.
	First *int64
	// Payload says what the body is, and by that whether a stale one may be dropped.
	Payload PayloadKind
	// Deleted marks the event that ends the entity; its version lines stay.
	Deleted bool
	// Conversation marks what somebody says to others: a comment, a message, a review, and never what a program reports, such as a check.
	Conversation bool
	// Chain is which agents' calls led to the event; empty where its source is no agent.
	Chain Chain
	// Backfill marks a synthetic event: made of what a backfill fetched, not of a delivery.
	Backfill bool
	// Secret is which of its source's secrets a delivery was verified with, counted from 1 in the file of then; 0: the event is no delivery.
	// Only operators read it.
	Secret int
	// Redriven says that an operator has had what was set aside produced as this event's record; nil: it came by the intake. It is a note on
	// the record in the log, and nowhere else. Only operators read it.
	Redriven *Redriven
	// Hash is the body's hash without the volatile pointers of its preset; see [HashBody].
	Hash BodyHash
	// TraceParent and TraceState are the W3C trace in which the event was created; empty if there is none.
	TraceParent, TraceState string
	// Headers are the allow-listed original request headers.
	Headers []Header
	// Extensions are CloudEvents attributes that this package has no field for; kept as they came.
	Extensions map[string]string
	// Data is the raw body.
	Data []byte
}

// Sender is a person or a program, by the provider's own id. ID is empty if the provider names nobody.
type Sender struct {
	// ID stays when a name is changed; Login is the name.
	ID, Login string
	// Kind is [Human], [Automation] or [Own]; empty where the provider does not tell them apart.
	Kind SenderKind
	// Trust is what the provider says of the sender's part in the project; empty where it does not say.
	Trust Trust
}

// SenderKind tells people from programs, as the provider's field says it and never the shape of a name.
type SenderKind string

// The kinds of senders.
const (
	Human      SenderKind = "human"
	Automation SenderKind = "automation"
	Own        SenderKind = "own" // we ourselves: one of the source's `own` ids, or a program that wrote a text with our mark
)

// Valid reports whether k is one of the declared kinds.
func (k SenderKind) Valid() bool { return k == Human || k == Automation || k == Own }

// Trust is what a provider says of a sender's part in the project, from the most to the least.
type Trust string

// The parts that senders have.
const (
	Owner        Trust = "owner"
	Member       Trust = "member"
	Collaborator Trust = "collaborator"
	Contributor  Trust = "contributor"
	FirstTime    Trust = "first_time"
	NoPart       Trust = "none"
)

// Valid reports whether t is one of the declared parts.
func (t Trust) Valid() bool {
	switch t {
	case Owner, Member, Collaborator, Contributor, FirstTime, NoPart:
		return true
	}
	return false
}

// Redriven says when, by whom and why an event was produced of what had been set aside, and where that is.
type Redriven struct {
	At               time.Time
	By, Reason, From string // From is topic/partition@offset
}

// Key returns the dedupe key of the event.
func (e *Event) Key() EventKey { return NewEventKey(e.Source, e.ID) }
