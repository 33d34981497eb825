package lane

import (
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/trace"
	"github.com/forebay-io/forebay/stream/ledger"
)

// span begins the span of an attempt. The first attempt of an action gets one for its wait in the lane before. An event that a replay runs again
// is a trace of its own, linked to the one in which it was created.
func (w *workers) span(e *entry, event *schemas.Event, began time.Time) *trace.Span {
	if w.cfg.Tracer == nil || !trace.Sampled(event.TraceParent) {
		return nil
	}
	with := []attribute.KeyValue{
		attribute.String("forebay.subscription", w.cfg.Subscription), attribute.String("forebay.action", e.Name),
		attribute.String("forebay.action_id", string(e.ID)), attribute.String("forebay.destination", e.Destination),
		attribute.Int("forebay.attempt", e.Attempts+1), attribute.String("forebay.entity", string(e.Entity)),
		attribute.String("cloudevents.event_id", e.EventID), attribute.String("cloudevents.event_source", e.Source),
		attribute.String("cloudevents.event_type", e.EventType),
	}
	start := w.cfg.Tracer.Start
	if e.Generation != 0 {
		start = w.cfg.Tracer.StartLinked
	} else if e.Attempts == 0 && !e.Since.IsZero() && e.Since.Before(began) {
		start(event.TraceParent, event.TraceState, "wait "+e.Name, trace.Internal, e.Since, with[:4]...).EndAt(began)
	}
	return start(event.TraceParent, event.TraceState, "attempt "+e.Name, trace.Client, began, with...)
}

// endSpan ends an attempt's span with what came of it.
func endSpan(s *trace.Span, r *ledger.Result) {
	if s == nil {
		return
	}
	with := []attribute.KeyValue{attribute.String("forebay.status", string(r.Status)), attribute.Int("http.response.status_code", r.Code)}
	if r.Code == 0 {
		with = with[:1]
	}
	s.Set(with...)
	s.End(r.Class)
}

// transaction begins the span of the transaction of a group of results, which is shared by the attempts that have one; nil where none has.
func transaction(t *trace.Tracer, group []completion, began time.Time, results int) *trace.Span {
	if t == nil {
		return nil
	}
	var sampled []string
	for i := range group {
		if span := group[i].e.span; span != "" {
			sampled = append(sampled, span)
		}
	}
	if len(sampled) == 0 {
		return nil
	}
	return t.StartShared(sampled, "ledger record", trace.Client, began, trace.Transaction("record", results)...)
}
