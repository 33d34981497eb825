package producer

import (
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/trace"
)

// sends begins the span of an event's record, until the brokers have it.
func (p *Producer) sends(topic string, e *schemas.Event) *trace.Span {
	if p.tracer == nil || !trace.Sampled(e.TraceParent) {
		return nil
	}
	return p.tracer.Start(e.TraceParent, e.TraceState, "send "+topic, trace.Producer, time.Now(), trace.Messaging("send", topic, e.ID)...)
}
