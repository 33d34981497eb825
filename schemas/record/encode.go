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
// Every event that passes [schemas.Event.Validate], and none of whose Extensions has the name of a field, is read back
// equal by [Decode]. Another one is written as it is, without losing a byte, and refused by Decode. The hop's traceparent is the event's; see [SetHop].
func Encode(topic string, e *schemas.Event) *kgo.Record { return new(Encoder).Encode(topic, e) }

// Encoder makes one record after another in the same memory. The zero value is ready.
type Encoder struct {
	record  kgo.Record
	buf     []byte // the values of headers, and the key
	headers []kgo.RecordHeader
	names   []string // of the kept headers of the last event, as a record has them
}

// Encode is the function of that name. Its record and all that belongs to it are valid until the next call.
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
	at := len(w.buf)
	w.buf = hex.AppendEncode(w.buf, e.Hash[:])
	w.end(headerNames[attrBodyHash], at)
	w.text(attrDataSchema, e.DataSchema)
	w.text(attrTraceParent, e.TraceParent)
	w.text(attrTraceState, e.TraceState)
	w.contentType(e.DataContentType)
	if parent != "" {
		w.header(hopParent, parent)
		w.header(hopState, state)
	}
	w.named(e)

	value := e.Data
	if value == nil {
		value = []byte{} // a null value is a tombstone
	}
	at = len(w.buf)
	w.buf = append(w.buf, e.Entity...)
	w.record = kgo.Record{Topic: topic, Key: w.buf[at:len(w.buf):len(w.buf)], Value: value, Headers: w.headers}
	return &w.record
}

// Forget lets go of the last record's body.
func (w *Encoder) Forget() { w.record = kgo.Record{} }

// SetHop sets the trace context of the hop that produces r, which may differ from the one in which the event was
// created. An empty parent removes it.
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

// SetPartitionKey gives r another key, and says so where CloudEvents does. The result is no record of a topic of events:
// there the key is the entity.
func SetPartitionKey(r *kgo.Record, key string) {
	r.Key = []byte(key)
	for i := range r.Headers {
		if r.Headers[i].Key == headerNames[attrPartitionKey] {
			r.Headers[i].Value = r.Key
		}
	}
}

// reset makes room for e and a hop: their values lie in one buffer, which does not grow while they are written.
func (w *Encoder) reset(e *schemas.Event, hop int) {
	const fixed = 3*len("2006-01-02T15:04:05.000000000Z07:00") + 64 + 128 // times, hash, version and its parts
	n := fixed + len(e.ID) + len(e.DeliveryID) + len(e.Source) + len(e.Type) + 3*len(e.Entity) + len(e.Version.Clock) +
		len(e.DataSchema) + len(e.DataContentType) + len(e.TraceParent) + len(e.TraceState) + hop
	for _, h := range e.Headers {
		n += len(h.Value)
	}
	for _, v := range e.Extensions {
		n += len(v)
	}
	if w.buf = w.buf[:0]; cap(w.buf) < n {
		w.buf = make([]byte, 0, n)
	}
	if w.headers = w.headers[:0]; cap(w.headers) == 0 {
		w.headers = make([]kgo.RecordHeader, 0, int(attrCount)+3+len(e.Headers)+len(e.Extensions))
	}
}

// end makes everything behind at the value of a header. Values are clipped: appending to one never writes another.
func (w *Encoder) end(name string, at int) {
	w.headers = append(w.headers, kgo.RecordHeader{Key: name, Value: w.buf[at:len(w.buf):len(w.buf)]})
}

// header writes a header unless it is empty.
func (w *Encoder) header(name, value string) {
	if value == "" {
		return
	}
	w.keep(name, value)
}

func (w *Encoder) keep(name, value string) {
	at := len(w.buf)
	w.buf = append(w.buf, value...)
	w.end(name, at)
}

func (w *Encoder) text(a attr, value string) { w.header(headerNames[a], value) }

func (w *Encoder) time(a attr, t time.Time) {
	if t.IsZero() {
		return
	}
	at := len(w.buf)
	w.buf = t.UTC().AppendFormat(w.buf, time.RFC3339Nano)
	w.end(headerNames[a], at)
}

func (w *Encoder) version(e *schemas.Event) {
	at := len(w.buf)
	if w.buf = e.Version.AppendText(w.buf); len(w.buf) > at {
		w.end(headerNames[attrEntityVersion], at)
	}
	w.text(attrVersionKind, string(e.Version.Kind))
	w.text(attrVersionClock, e.Version.Clock)
	if e.First != nil {
		at = len(w.buf)
		w.buf = strconv.AppendInt(w.buf, *e.First, 10)
		w.end(headerNames[attrVersionFirst], at)
	}
}

// contentType writes the body's type where binary mode has it, unless it would make the record look structured: a
// provider that sends CloudEvents itself has the type application/cloudevents+json.
func (w *Encoder) contentType(value string) {
	if isCloudEvents(value) {
		w.text(attrDataContentType, value)
		return
	}
	w.header(contentType, value)
}

// named writes what has no fixed name.
func (w *Encoder) named(e *schemas.Event) {
	for i, h := range e.Headers {
		w.keep(w.name(i, h.Name), h.Value)
	}
	for name, value := range e.Extensions {
		w.keep(prefix+name, value)
	}
}

// name returns the record header's name for the i-th kept header. The events of a source mostly keep the same headers.
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
