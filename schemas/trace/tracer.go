package trace

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/forebay-io/forebay/schemas"
)

// Tracer makes spans inside the contexts that events carry as text. A nil Tracer makes none. Safe for concurrent use.
type Tracer struct {
	t    trace.Tracer
	part float64 // of new traces that are sampled
}

// NewTracer makes a Tracer of OpenTelemetry's, which is to sample what it is given: what is not sampled, all but a part of new traces, never comes there.
func NewTracer(t trace.Tracer, part float64) *Tracer { return &Tracer{t, part} }

// Messaging returns the attributes of a span about one message, by the messaging conventions of OpenTelemetry 1.45.0, and its CloudEvents id.
func Messaging(operation, topic, eventID string) []attribute.KeyValue {
	return []attribute.KeyValue{attribute.String("messaging.system", "kafka"), attribute.String("messaging.operation.name", operation),
		attribute.String("messaging.operation.type", operation), attribute.String("messaging.destination.name", topic),
		attribute.String("cloudevents.event_id", eventID)}
}

// Transaction returns the attributes of a span about one transaction of the ledger for so many events, by the database conventions of
// OpenTelemetry 1.45.0.
func Transaction(operation string, events int) []attribute.KeyValue {
	return []attribute.KeyValue{attribute.String("db.system.name", "postgresql"), attribute.String("db.operation.name", operation),
		attribute.Int("db.operation.batch.size", events)}
}

// Kinds of spans.
const (
	Internal = trace.SpanKindInternal
	Server   = trace.SpanKindServer
	Client   = trace.SpanKindClient
	Producer = trace.SpanKindProducer
	Consumer = trace.SpanKindConsumer
)

// Span is one span. A nil Span does nothing.
type Span struct{ s trace.Span }

// Accept begins a span for a request. A caller that is trusted is its parent, where the values of its headers are a context; another caller is
// only linked, in a new trace: it shall not choose what is sampled, nor whose trace it enters. The span is nil where its trace is not sampled. The
// context in which what is made of the request is created is returned too; without a Tracer it is that of [Accept].
func (t *Tracer) Accept(parents, states []string, trusted bool, name string, began time.Time) (s *Span, parent, state string) {
	caller, valid := Parse(parents)
	inside := valid && trusted
	switch {
	case t == nil, inside && !Sampled(caller):
		parent, state = Accept(parents, states, trusted)
		return nil, parent, state
	case !inside && rand.Float64() >= t.part:
		return nil, New(), ""
	}
	ctx, opts := context.Background(), []trace.SpanStartOption{trace.WithSpanKind(Server), trace.WithTimestamp(began)}
	switch {
	case inside:
		ctx = trace.ContextWithRemoteSpanContext(ctx, remote(parents, states))
	case valid:
		opts = append(opts, trace.WithLinks(trace.Link{SpanContext: remote(parents, states)}))
	}
	_, span := t.t.Start(ctx, name, opts...)
	s = &Span{span}
	parent, state = s.Context()
	return s, parent, state
}

// Start begins a span in the trace of parent. It returns nil where that is not sampled.
func (t *Tracer) Start(parent, state, name string, kind trace.SpanKind, began time.Time, with ...attribute.KeyValue) *Span {
	if t == nil || !Sampled(parent) {
		return nil
	}
	return t.start(trace.ContextWithRemoteSpanContext(context.Background(), remote([]string{parent}, []string{state})), name, kind, began, with)
}

// StartLinked begins a span of a new trace that is linked to parent: what runs again. It returns nil where parent is not sampled.
func (t *Tracer) StartLinked(parent, state, name string, kind trace.SpanKind, began time.Time, with ...attribute.KeyValue) *Span {
	if t == nil || !Sampled(parent) {
		return nil
	}
	return t.start(context.Background(), name, kind, began, with, trace.WithLinks(trace.Link{SpanContext: remote([]string{parent}, []string{state})}))
}

// maxLinks is how many links OpenTelemetry keeps of a span.
const maxLinks = 128

// StartShared begins a span of a new trace that is linked to the first 128 of parents, which are sampled: what is done for many at once.
func (t *Tracer) StartShared(parents []string, name string, kind trace.SpanKind, began time.Time, with ...attribute.KeyValue) *Span {
	links := make([]trace.Link, min(len(parents), maxLinks))
	for i := range links {
		links[i].SpanContext = remote(parents[i:i+1], nil)
	}
	return t.start(context.Background(), name, kind, began, with, trace.WithLinks(links...))
}

func (t *Tracer) start(ctx context.Context, name string, kind trace.SpanKind, began time.Time, with []attribute.KeyValue, opts ...trace.SpanStartOption) *Span {
	_, span := t.t.Start(ctx, name, append(opts, trace.WithSpanKind(kind), trace.WithTimestamp(began), trace.WithAttributes(with...))...)
	return &Span{span}
}

// Place is where a span is and when it began, for what is said of it later. The zero Place is that of no span.
type Place struct {
	Parent string // its context; sampled
	Began  time.Time
}

// placeSize is the length of a [Place] in bytes: trace id, span id, microseconds since 1970.
const placeSize = 16 + 8 + 8

// Append appends the place to b; nothing if it is no sampled span's.
func (p Place) Append(b []byte) []byte {
	if !Sampled(p.Parent) {
		return b
	}
	c := remote([]string{p.Parent}, nil)
	trace, span := c.TraceID(), c.SpanID()
	b = append(append(b, trace[:]...), span[:]...)
	return binary.BigEndian.AppendUint64(b, uint64(p.Began.UnixMicro()))
}

// ParsePlace reads what [Place.Append] has appended. ok is false where that is not b.
func ParsePlace(b []byte) (p Place, ok bool) {
	switch len(b) {
	case 0:
		return p, true
	case placeSize:
		p.Parent = "00-" + hex.EncodeToString(b[:16]) + "-" + hex.EncodeToString(b[16:24]) + "-01"
		p.Began = time.UnixMicro(int64(binary.BigEndian.Uint64(b[24:])))
		return p, true
	}
	return p, false
}

// Sampled reports whether a context has the flag "sampled".
func Sampled(parent string) bool {
	return len(parent) == length && strings.IndexByte("13579bdf", parent[length-1]) >= 0
}

// Context returns the span's own context, for what is done inside of it; empty if there is no span.
func (s *Span) Context() (parent, state string) {
	if s == nil {
		return "", ""
	}
	c := s.s.SpanContext()
	if !c.IsValid() {
		return "", ""
	}
	return "00-" + c.TraceID().String() + "-" + c.SpanID().String() + "-" + c.TraceFlags().String(), c.TraceState().String()
}

// Link links the span to another.
func (s *Span) Link(to *Span) {
	if s != nil && to != nil {
		s.s.AddLink(trace.Link{SpanContext: to.s.SpanContext()})
	}
}

// Set adds attributes.
func (s *Span) Set(with ...attribute.KeyValue) {
	if s != nil {
		s.s.SetAttributes(with...)
	}
}

// EndAt ends the span at a time.
func (s *Span) EndAt(at time.Time) {
	if s != nil {
		s.s.End(trace.WithTimestamp(at))
	}
}

// Failed notes that what the span is of went wrong: kind is one of few words, text says more. Neither is a secret.
func (s *Span) Failed(kind, text string) {
	if s != nil {
		s.s.SetStatus(codes.Error, text)
		s.s.SetAttributes(attribute.String("error.type", kind))
	}
}

// End ends the span now. A failure says what went wrong, in a word that is no secret; empty: nothing did.
func (s *Span) End(failure string) {
	if s == nil {
		return
	}
	if failure != "" {
		s.Failed(failure, failure)
	}
	s.s.End()
}

// EndWith ends the span now. Its failure, if there is one, is the error's kind.
func (s *Span) EndWith(err error) {
	if s == nil || err == nil {
		s.End("")
		return
	}
	s.End(string(schemas.KindOf(err)))
}

// remote reads a context; it is not valid where the values are not.
func remote(parents, states []string) trace.SpanContext {
	parent, ok := Parse(parents)
	if !ok {
		return trace.SpanContext{}
	}
	var c trace.SpanContextConfig
	_, _ = hex.Decode(c.TraceID[:], []byte(parent[3:35]))
	_, _ = hex.Decode(c.SpanID[:], []byte(parent[36:52]))
	var flags [1]byte
	_, _ = hex.Decode(flags[:], []byte(parent[53:]))
	c.TraceFlags, c.Remote = trace.TraceFlags(flags[0]), true
	c.TraceState, _ = trace.ParseTraceState(stateOf(states))
	return trace.NewSpanContext(c)
}
