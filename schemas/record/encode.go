package record

import (
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/schemas"
)

// Encode makes the record of e in binary mode. The record's value is e.Data itself: nobody may write to it until
// the record is acknowledged.
//
// Every event that passes [schemas.Event.Validate] is read back equal by [Decode]. Another one is written as it is,
// without losing a byte, and refused by Decode. The hop's traceparent is the event's; see [SetHop].
func Encode(topic string, e *schemas.Event) *kgo.Record {
	w := newWriter(e)
	w.text(attrSpecVersion, "1.0")
	w.text(attrID, e.ID)
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
	w.header(hopParent, e.TraceParent)
	if e.TraceParent != "" {
		w.header(hopState, e.TraceState)
	}
	w.named(e)

	value := e.Data
	if value == nil {
		value = []byte{} // a null value is a tombstone
	}
	at = len(w.buf)
	w.buf = append(w.buf, e.Entity...)
	return &kgo.Record{Topic: topic, Key: w.buf[at:], Value: value, Headers: w.headers}
}

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

// writer collects headers whose values lie in one buffer: an event costs four allocations, not forty.
type writer struct {
	buf     []byte
	headers []kgo.RecordHeader
}

func newWriter(e *schemas.Event) *writer {
	const fixed = 3*len("2006-01-02T15:04:05.000000000Z07:00") + 64 + 128 // times, hash, version and its parts
	n := fixed + len(e.ID) + len(e.Source) + len(e.Type) + 3*len(e.Entity) + len(e.Version.Clock) +
		len(e.DataSchema) + len(e.DataContentType) + 2*(len(e.TraceParent)+len(e.TraceState))
	for _, h := range e.Headers {
		n += len(h.Value)
	}
	for _, v := range e.Extensions {
		n += len(v)
	}
	return &writer{
		buf:     make([]byte, 0, n),
		headers: make([]kgo.RecordHeader, 0, int(attrCount)+3+len(e.Headers)+len(e.Extensions)),
	}
}

// end makes everything behind at the value of a header. Values are clipped: appending to one never writes another.
func (w *writer) end(name string, at int) {
	w.headers = append(w.headers, kgo.RecordHeader{Key: name, Value: w.buf[at:len(w.buf):len(w.buf)]})
}

// header writes a header unless it is empty.
func (w *writer) header(name, value string) {
	if value == "" {
		return
	}
	w.keep(name, value)
}

func (w *writer) keep(name, value string) {
	at := len(w.buf)
	w.buf = append(w.buf, value...)
	w.end(name, at)
}

func (w *writer) text(a attr, value string) { w.header(headerNames[a], value) }

func (w *writer) time(a attr, t time.Time) {
	if t.IsZero() {
		return
	}
	at := len(w.buf)
	w.buf = t.UTC().AppendFormat(w.buf, time.RFC3339Nano)
	w.end(headerNames[a], at)
}

func (w *writer) version(e *schemas.Event) {
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
func (w *writer) contentType(value string) {
	if isCloudEvents(value) {
		w.text(attrDataContentType, value)
		return
	}
	w.header(contentType, value)
}

// named writes what has no fixed name; the names lie in one string.
func (w *writer) named(e *schemas.Event) {
	n := 0
	for _, h := range e.Headers {
		n += len(httpPrefix) + len(h.Name)
	}
	for name := range e.Extensions {
		n += len(prefix) + len(name)
	}
	if n == 0 {
		return
	}
	var names strings.Builder
	names.Grow(n)
	join := func(prefix, name string) string {
		at := names.Len()
		names.WriteString(prefix)
		names.WriteString(name)
		return names.String()[at:]
	}
	for _, h := range e.Headers {
		w.keep(join(httpPrefix, h.Name), h.Value)
	}
	for name, value := range e.Extensions {
		w.keep(join(prefix, name), value)
	}
}
