package record

import (
	"encoding/hex"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/schemas"
)

// Encode makes the record of e in binary mode. The record's value is e.Data itself: nobody may write to it until
// the record is acknowledged.
//
// [Decode] reads back an equal event if e passes [schemas.Event.Validate] and none of its Extensions has the name of a field. Any other
// event is written as it is, without losing a byte, and Decode refuses it. The trace context of the hop is the event's; see [SetHop].
func Encode(topic string, e *schemas.Event) *kgo.Record { return new(Encoder).Encode(topic, e) }

// Encoder makes one record after another in the same memory. The zero value is ready.
type Encoder struct {
	record  kgo.Record
	buf     []byte // the values of headers, and the key
	headers []kgo.RecordHeader
	names   []string // of the original headers of the last event, as record headers

	// SchemaID is the value of the records' [SchemaIDHeader]; nil: they have that of their event. Nobody may write to it.
	SchemaID []byte
}

// Encode is the package's function [Encode] in the encoder's memory. The record and all that belongs to it are valid until the next call.
func (w *Encoder) Encode(topic string, e *schemas.Event) *kgo.Record {
	return w.EncodeHop(topic, e, e.TraceParent, e.TraceState)
}

// EncodeHop is Encode with the trace context of the hop that produces the record; an empty parent leaves it out. See [SetHop].
func (w *Encoder) EncodeHop(topic string, e *schemas.Event, parent, state string) *kgo.Record {
	w.reset(e, len(parent)+len(state))
	w.text(attrSpecVersion, "1.0")
	w.text(attrID, e.ID)
	w.text(attrDeliveryID, e.DeliveryID)
	w.text(attrSource, e.Source)
	w.text(attrType, e.Type)
	w.text(attrSenderID, e.Sender.ID)
	w.text(attrSenderLogin, e.Sender.Login)
	w.text(attrSenderKind, string(e.Sender.Kind))
	w.text(attrSenderTrust, string(e.Sender.Trust))
	if e.Conversation {
		w.text(attrConversation, "true")
	}
	if !e.Chain.IsZero() {
		w.text(attrAgentChain, e.Chain.AgentsText())
		w.text(attrAgentDepth, strconv.Itoa(e.Chain.Depth))
		w.text(attrAgentTraceID, e.Chain.TraceID)
	}
	w.text(attrTitle, e.Title)
	w.time(attrTime, e.Time)
	w.text(attrSubject, string(e.Entity))
	w.text(attrPartitionKey, string(e.Entity))
	w.time(attrRecordedTime, e.RecordedTime)
	w.version(e)
	w.text(attrPayloadKind, string(e.Payload))
	if e.Deleted {
		w.text(attrEntityDeleted, "true")
	}
	if e.Backfill {
		w.text(attrBackfill, "true")
	}
	if e.Secret > 0 {
		w.text(attrSecret, strconv.Itoa(e.Secret))
	}
	start := len(w.buf)
	w.buf = hex.AppendEncode(w.buf, e.Hash[:])
	w.end(headerNames[attrBodyHash], start)
	w.text(attrDataSchema, e.DataSchema)
	w.text(attrTraceParent, e.TraceParent)
	w.text(attrTraceState, e.TraceState)
	w.contentType(e.DataContentType)
	if w.SchemaID != nil {
		w.headers = append(w.headers, kgo.RecordHeader{Key: SchemaIDHeader, Value: w.SchemaID})
	} else {
		w.header(SchemaIDHeader, e.SchemaID)
	}
	if parent != "" {
		w.header(hopParent, parent)
		w.header(hopState, state)
	}
	w.named(e)

	value := e.Data
	if value == nil {
		value = []byte{} // a null value is a tombstone
	}
	start = len(w.buf)
	w.buf = append(w.buf, e.Entity...)
	w.record = kgo.Record{Topic: topic, Key: w.buf[start:len(w.buf):len(w.buf)], Value: value, Headers: w.headers}
	return &w.record
}

// Forget drops the last record, so that its body can be freed.
func (w *Encoder) Forget() { w.record = kgo.Record{} }

// SetHop sets the trace context of the hop that produces r, in the headers traceparent and tracestate. It may differ from the one in which
// the event was created, which is in the event's attributes. An empty parent removes it.
func SetHop(r *kgo.Record, parent, state string) {
	r.Headers = slices.DeleteFunc(r.Headers, func(h kgo.RecordHeader) bool {
		return h.Key == hopParent || h.Key == hopState
	})
	if parent == "" {
		return
	}
	r.Headers = append(r.Headers, kgo.RecordHeader{Key: hopParent, Value: []byte(parent)})
	if state != "" {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: hopState, Value: []byte(state)})
	}
}

// SetPartitionKey gives r another key, and sets the attribute partitionkey to it. The result does not belong in a topic of events, where
// the key is the entity.
func SetPartitionKey(r *kgo.Record, key string) {
	r.Key = []byte(key)
	for i := range r.Headers {
		if r.Headers[i].Key == headerNames[attrPartitionKey] {
			r.Headers[i].Value = r.Key
		}
	}
}

// reset makes room for e and a hop: their values lie in one buffer, which does not grow while they are written.
func (w *Encoder) reset(e *schemas.Event, traceBytes int) {
	const fixed = 3*len("2006-01-02T15:04:05.000000000Z07:00") + 64 + 128 // times, hash, version and its parts, numbers
	n := fixed + len(e.ID) + len(e.DeliveryID) + len(e.Source) + len(e.Type) + 3*len(e.Entity) + len(e.Version.Clock) +
		len(e.Sender.ID) + len(e.Sender.Login) + len(e.Sender.Kind) + len(e.Title) +
		len(e.DataSchema) + len(e.SchemaID) + len(e.DataContentType) + len(e.TraceParent) + len(e.TraceState) + traceBytes
	for _, h := range e.Headers {
		n += len(h.Value)
	}
	for _, v := range e.Extensions {
		n += len(v)
	}
	w.buf, w.headers = w.buf[:0], w.headers[:0]
	if cap(w.buf) < n {
		w.buf = make([]byte, 0, n)
	}
	if cap(w.headers) == 0 {
		w.headers = make([]kgo.RecordHeader, 0, int(attrCount)+4+len(e.Headers)+len(e.Extensions))
	}
}

// end adds a header whose value is what the buffer has from start on. Its capacity is cut: appending to a value never writes another.
func (w *Encoder) end(name string, start int) {
	w.headers = append(w.headers, kgo.RecordHeader{Key: name, Value: w.buf[start:len(w.buf):len(w.buf)]})
}

// header adds a header unless its value is empty.
func (w *Encoder) header(name, value string) {
	if value == "" {
		return
	}
	w.anyHeader(name, value)
}

// anyHeader adds a header, with an empty value too.
func (w *Encoder) anyHeader(name, value string) {
	start := len(w.buf)
	w.buf = append(w.buf, value...)
	w.end(name, start)
}

// text adds an attribute unless it is empty.
func (w *Encoder) text(a attr, value string) { w.header(headerNames[a], value) }

// time adds an attribute unless it is the zero time.
func (w *Encoder) time(a attr, t time.Time) {
	if t.IsZero() {
		return
	}
	start := len(w.buf)
	w.buf = t.UTC().AppendFormat(w.buf, time.RFC3339Nano)
	w.end(headerNames[a], start)
}

// version adds the attributes of the event's version.
func (w *Encoder) version(e *schemas.Event) {
	start := len(w.buf)
	w.buf = e.Version.AppendText(w.buf)
	if len(w.buf) > start {
		w.end(headerNames[attrEntityVersion], start)
	}
	w.text(attrVersionKind, string(e.Version.Kind))
	w.text(attrVersionClock, e.Version.Clock)
	if e.First != nil {
		start = len(w.buf)
		w.buf = strconv.AppendInt(w.buf, *e.First, 10)
		w.end(headerNames[attrVersionFirst], start)
	}
}

// contentType adds the body's content type as the record's, as binary mode has it. Of a provider that sends CloudEvents itself
// (application/cloudevents+json), that would make the record look structured: then it is the attribute datacontenttype.
func (w *Encoder) contentType(value string) {
	if isCloudEvents(value) {
		w.text(attrDataContentType, value)
		return
	}
	w.header(contentType, value)
}

// named adds the original request headers and the extensions.
func (w *Encoder) named(e *schemas.Event) {
	for i, h := range e.Headers {
		w.anyHeader(w.name(i, h.Name), h.Value)
	}
	for name, value := range e.Extensions {
		w.anyHeader(prefix+name, value)
	}
}

// name returns the record header's name for the i-th original header. It is made again only if the event before had another one there:
// the events of a source mostly have the same headers.
func (w *Encoder) name(i int, name string) string {
	if i < len(w.names) {
		if last := w.names[i]; last[len(httpPrefix):] == name {
			return last
		}
		w.names[i] = httpPrefix + name
		return w.names[i]
	}
	w.names = append(w.names, httpPrefix+name)
	return w.names[i]
}
