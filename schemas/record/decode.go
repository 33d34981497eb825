package record

import (
	"encoding/hex"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/schemas"
)

// Decode reads a record in binary or structured mode. The event shares the record's bytes.
//
// A record of another CloudEvents producer lacks our extensions. Then the entity is partitionkey, else subject, else the key (a subject
// beside a partitionkey is not read); there is no version, the payload is a delta, the hash is that of the data, and a missing time is
// the record's timestamp. Errors are *schemas.Error of kind Invalid and name the attribute, never its value.
func Decode(r *kgo.Record) (*schemas.Event, error) {
	if r.Value == nil {
		return nil, invalid("value is null")
	}
	ctype, structured, err := mode(r)
	if err != nil {
		return nil, err
	}
	e := &schemas.Event{}
	var a attributes
	if structured {
		if e.Data, err = readStructured(r.Value, &a); err != nil {
			return nil, err
		}
	} else {
		if err := a.readHeaders(r.Headers, ctype); err != nil {
			return nil, err
		}
		e.Data = r.Value
	}
	if err := fill(e, r, &a); err != nil {
		return nil, err
	}
	if err := e.Validate(); err != nil {
		return nil, invalid("%w", err)
	}
	return e, nil
}

// DeliveryID returns the attribute deliveryid of a record in binary mode, without reading the rest; empty where it has none.
func DeliveryID(r *kgo.Record) string { return headerOf(r, attrDeliveryID) }

// EventID is DeliveryID for the attribute id.
func EventID(r *kgo.Record) string { return headerOf(r, attrID) }

func headerOf(r *kgo.Record, a attr) string {
	for i := range r.Headers {
		if r.Headers[i].Key == headerNames[a] {
			return string(r.Headers[i].Value)
		}
	}
	return ""
}

// invalid returns an error of kind Invalid.
func invalid(format string, args ...any) error {
	return schemas.Errorf(schemas.Invalid, "read record", format, args...)
}

// mode returns the content type, nil if there is none, and whether the record is in structured mode.
func mode(r *kgo.Record) (ctype []byte, structured bool, err error) {
	for i := range r.Headers {
		if r.Headers[i].Key != contentType {
			continue
		}
		if ctype != nil {
			return nil, false, invalid("header content-type is there twice")
		}
		if ctype = r.Headers[i].Value; ctype == nil {
			return nil, false, invalid("header content-type is null")
		}
	}
	if !isCloudEvents(string(ctype)) {
		return ctype, false, nil
	}
	return ctype, true, checkStructuredType(string(ctype))
}

// isCloudEvents reports whether a content type says that the body is a CloudEvent.
func isCloudEvents(ctype string) bool {
	const media = "application/cloudevents"
	ctype = strings.TrimSpace(ctype)
	return len(ctype) >= len(media) && strings.EqualFold(ctype[:len(media)], media)
}

// readHeaders stores the attributes of a record in binary mode, which are headers; ctype is its content type.
func (a *attributes) readHeaders(headers []kgo.RecordHeader, ctype []byte) error {
	for _, h := range headers {
		name, ok := strings.CutPrefix(h.Key, prefix)
		if !ok {
			continue
		}
		if h.Value == nil {
			return invalid("attribute %s is null", safe(name))
		}
		if err := a.set(name, h.Value); err != nil {
			return err
		}
	}
	if len(ctype) > 0 {
		if a.known[attrDataContentType] != nil {
			return invalid("datacontenttype is there twice")
		}
		a.known[attrDataContentType] = ctype
	}
	return nil
}

// set stores one attribute. value is not nil.
func (a *attributes) set(name string, value []byte) error {
	if known, ok := attrsByName[name]; ok {
		if a.known[known] != nil {
			return invalid("attribute %s is there twice", name)
		}
		if len(value) == 0 {
			return invalid("attribute %s is empty", name)
		}
		a.known[known] = value
		return nil
	}
	if !schemas.IsAttributeName(name) {
		return invalid("%s does not name an attribute", safe(name))
	}
	if _, ok := a.extensions[name]; ok {
		return invalid("attribute %s is there twice", name)
	}
	if a.extensions == nil {
		a.extensions = make(map[string]string)
	}
	a.extensions[name] = string(value)
	return nil
}

// safe returns a name from outside for an error's text: at most 40 bytes, quoted, in ASCII.
func safe(name string) string {
	if len(name) > 40 {
		name = name[:40]
	}
	return strconv.QuoteToASCII(name)
}

// fill sets the event's fields, apart from Data, from the attributes and the record.
func fill(e *schemas.Event, r *kgo.Record, a *attributes) error {
	if version := a.known[attrSpecVersion]; string(version) != "1.0" {
		if version == nil {
			return invalid("attribute specversion is missing: not a CloudEvent")
		}
		return invalid("specversion is not 1.0")
	}
	e.ID = string(a.known[attrID])
	e.DeliveryID = string(a.known[attrDeliveryID])
	e.Source = string(a.known[attrSource])
	e.Type = string(a.known[attrType])
	e.Sender = schemas.Sender{ID: string(a.known[attrSenderID]), Login: string(a.known[attrSenderLogin]), Kind: senderKind(a.known[attrSenderKind]),
		Trust: trust(a.known[attrSenderTrust])}
	e.Title = string(a.known[attrTitle])
	e.DataContentType = string(a.known[attrDataContentType])
	e.DataSchema = string(a.known[attrDataSchema])
	e.TraceParent = string(a.known[attrTraceParent])
	e.TraceState = string(a.known[attrTraceState])
	e.Extensions = a.extensions
	for _, step := range [...]func(*schemas.Event, *kgo.Record, *attributes) error{
		fillEntity, fillTimes, fillVersion, fillPayload, fillChain, fillHeaders,
	} {
		if err := step(e, r, a); err != nil {
			return err
		}
	}
	return nil
}

// fillEntity sets the entity; see [Decode].
func fillEntity(e *schemas.Event, r *kgo.Record, a *attributes) error {
	partitionKey, subject := a.known[attrPartitionKey], a.known[attrSubject]
	switch {
	case partitionKey != nil:
		if r.Key == nil {
			return invalid("key is missing")
		}
		if string(partitionKey) != string(r.Key) {
			return invalid("key is not the partitionkey")
		}
		e.Entity = schemas.EntityKey(partitionKey)
	case subject != nil:
		e.Entity = schemas.EntityKey(subject)
	case len(r.Key) > 0:
		e.Entity = schemas.EntityKey(r.Key)
	default:
		return invalid("no entity: partitionkey, subject and key are missing")
	}
	return nil
}

func fillTimes(e *schemas.Event, r *kgo.Record, a *attributes) (err error) {
	e.Time = r.Timestamp.UTC()
	if text := a.known[attrTime]; text != nil {
		if e.Time, err = parseTime(attrTime, text); err != nil {
			return err
		}
	}
	if text := a.known[attrRecordedTime]; text != nil {
		e.RecordedTime, err = parseTime(attrRecordedTime, text)
	}
	return err
}

func parseTime(name attr, text []byte) (time.Time, error) {
	t, err := time.Parse(time.RFC3339Nano, string(text))
	if err != nil || !strictTime(text) {
		return t, invalid("attribute %s is not an RFC 3339 time", name)
	}
	return t.UTC(), nil
}

// strictTime refuses what time.Parse takes beyond RFC 3339: hours of one digit, a comma before the fraction, offsets
// past 23:59.
func strictTime(text []byte) bool {
	if len(text) < len("2006-01-02T15:04:05Z") || text[13] != ':' || text[19] == ',' {
		return false
	}
	if text[len(text)-1] == 'Z' {
		return true
	}
	offset := string(text[len(text)-len("07:00"):])
	return offset[:2] < "24" && offset[3:] < "60"
}

func fillVersion(e *schemas.Event, _ *kgo.Record, a *attributes) (err error) {
	kind := schemas.None
	if text := a.known[attrVersionKind]; text != nil {
		kind = versionKind(text)
	}
	clock := string(a.known[attrVersionClock])
	if e.Version, err = schemas.ParseVersion(clock, kind, string(a.known[attrEntityVersion])); err != nil {
		return invalid("%w", &schemas.FieldError{Field: "entityversion", Reason: "bad_version", Detail: "not the text of its versionkind"})
	}
	if text := a.known[attrVersionFirst]; text != nil {
		first, err := strconv.ParseUint(string(text), 10, 63)
		if err != nil {
			return invalid("attribute versionfirst is not a counter")
		}
		e.First = new(int64(first))
	}
	return nil
}

// versionKind returns text as a kind, without an allocation for the kinds that exist.
func versionKind(text []byte) schemas.VersionKind {
	switch string(text) {
	case string(schemas.Sequence):
		return schemas.Sequence
	case string(schemas.Monotonic):
		return schemas.Monotonic
	case string(schemas.Timestamp):
		return schemas.Timestamp
	case string(schemas.None):
		return schemas.None
	}
	return schemas.VersionKind(text)
}

// senderKind returns text as a kind, without an allocation for those that exist. Another producer's is no kind, and keeps no event back.
func senderKind(text []byte) schemas.SenderKind {
	switch string(text) {
	case string(schemas.Human):
		return schemas.Human
	case string(schemas.Automation):
		return schemas.Automation
	case string(schemas.Own):
		return schemas.Own
	}
	return ""
}

// trust is senderKind for what a provider says of a sender's part.
func trust(text []byte) schemas.Trust {
	if t := schemas.Trust(text); t.Valid() {
		return t
	}
	return ""
}

// fillChain sets the chain of calls, which is nobody else's attribute.
func fillChain(e *schemas.Event, _ *kgo.Record, a *attributes) (err error) {
	if a.known[attrAgentChain] == nil && a.known[attrAgentDepth] == nil && a.known[attrAgentTraceID] == nil {
		return nil
	}
	if e.Chain, err = schemas.ParseChain(string(a.known[attrAgentChain]), string(a.known[attrAgentDepth]), string(a.known[attrAgentTraceID])); err != nil {
		return invalid("%w", err)
	}
	return nil
}

func fillPayload(e *schemas.Event, _ *kgo.Record, a *attributes) (err error) {
	switch text := a.known[attrPayloadKind]; string(text) {
	case "", string(schemas.Delta):
		e.Payload = schemas.Delta
	case string(schemas.Snapshot):
		e.Payload = schemas.Snapshot
	default:
		return invalid("attribute payloadkind is neither snapshot nor delta")
	}
	if e.Deleted, err = a.boolean(attrEntityDeleted); err != nil {
		return err
	}
	if e.Backfill, err = a.boolean(attrBackfill); err != nil {
		return err
	}
	if e.Conversation, err = a.boolean(attrConversation); err != nil {
		return err
	}
	if n, err := strconv.Atoi(string(a.known[attrSecret])); err == nil && n > 0 {
		e.Secret = n // told to operators and used for nothing, so that a wrong one keeps no event back
	}
	text := a.known[attrBodyHash]
	if text == nil {
		e.Hash = schemas.HashBody(e.Data)
		return nil
	}
	if len(text) != hex.EncodedLen(len(e.Hash)) {
		return invalid("attribute bodyhash is not 32 hex digits")
	}
	if _, err := hex.Decode(e.Hash[:], text); err != nil {
		return invalid("attribute bodyhash is not 32 hex digits")
	}
	return nil
}

// boolean reads an attribute of type Boolean; false if it is absent.
func (a *attributes) boolean(name attr) (bool, error) {
	switch text := a.known[name]; string(text) {
	case "", "false":
		return false, nil
	case "true":
		return true, nil
	}
	return false, invalid("attribute %s is not a Boolean", name)
}

func fillHeaders(e *schemas.Event, r *kgo.Record, _ *attributes) error {
	for _, h := range r.Headers {
		if name, ok := strings.CutPrefix(h.Key, httpPrefix); ok {
			e.Headers = append(e.Headers, schemas.Header{Name: name, Value: string(h.Value)})
		} else if strings.HasPrefix(h.Key, redrivenPrefix) {
			readRedriven(e, h.Key, h.Value)
		} else if h.Key == SchemaIDHeader {
			e.SchemaID = string(h.Value)
		}
	}
	return nil
}
