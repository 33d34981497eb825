package batch

import (
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/forebay-io/forebay/schemas/trace"
	"github.com/forebay-io/forebay/stream/ledger"
)

// trace makes a span of each event of a committed batch whose trace is sampled, from when the batch began: what was decided, and why.
func (l *Loop) trace(read *part, a ledger.Applied, began time.Time) {
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
		span := l.cfg.Tracer.Start(e.TraceParent, e.TraceState, "process "+topic, trace.Consumer, began, trace.Messaging("process", topic, e.ID)...)
		span.Set(attribute.Int64("messaging.kafka.offset", r.Offset), attribute.Int("messaging.destination.partition.id", int(read.of.at().Number)),
			attribute.String("messaging.consumer.group.name", l.cfg.Group), attribute.String("forebay.decision", string(o.Decision)), attribute.String("forebay.reason", string(o.Reason)))
		span.End("")
	}
}
