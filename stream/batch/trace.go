package batch

import (
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/forebay-io/forebay/schemas/trace"
	"github.com/forebay-io/forebay/stream/ledger"
)

// transaction begins the span of a batch's transaction, which is shared by those of its events whose trace is sampled; nil where there are none.
func (l *Loop) transaction(b *batch, began time.Time) *trace.Span {
	if l.cfg.Tracer == nil {
		return nil
	}
	var sampled []string
	for _, p := range b.parts {
		for _, e := range p.Events {
			if e != nil && trace.Sampled(e.TraceParent) {
				sampled = append(sampled, e.TraceParent)
			}
		}
	}
	if len(sampled) == 0 {
		return nil
	}
	return l.cfg.Tracer.StartShared(sampled, "ledger apply", trace.Client, began, trace.Transaction("apply", b.records)...)
}

// trace makes a span of each event of a committed batch whose trace is sampled, from when the batch began: what was decided, and why.
func (l *Loop) trace(read *part, a ledger.Applied, began time.Time, transaction *trace.Span) {
	if l.cfg.Tracer == nil {
		return
	}
	topic := read.of.at().Topic
	for i := range a.Outcomes {
		o := &a.Outcomes[i]
		if o.Record < 0 || o.Record >= len(read.Events) || read.Events[o.Record] == nil || !trace.Sampled(read.Events[o.Record].TraceParent) {
			continue
		}
		e, r := read.Events[o.Record], &read.Records[o.Record]
		span := l.cfg.Tracer.Start(e.TraceParent, e.TraceState, "process "+topic, trace.Consumer, began, append(trace.Messaging("process", topic, e.ID),
			attribute.Int64("messaging.kafka.offset", r.Offset), attribute.Int("messaging.destination.partition.id", int(read.of.at().Number)),
			attribute.String("messaging.consumer.group.name", l.cfg.Group), attribute.String("forebay.decision", string(o.Decision)), attribute.String("forebay.reason", string(o.Reason)))...)
		span.Link(transaction)
		span.End("")
	}
}
