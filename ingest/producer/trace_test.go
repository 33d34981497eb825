package producer

import (
	"testing"

	"go.opentelemetry.io/otel/trace/noop"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/trace"
)

// An event that is not traced costs no memory for it, with telemetry and without.
func TestNoTraceNoMemory(t *testing.T) {
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-"
	tracer := trace.NewTracer(noop.NewTracerProvider().Tracer("test"), 1)
	for name, c := range map[string]struct {
		tracer *trace.Tracer
		flags  string
	}{"no telemetry": {nil, "01"}, "not sampled": {tracer, "00"}} {
		p, e := &Producer{tracer: c.tracer}, &schemas.Event{ID: "e-1", TraceParent: parent + c.flags}
		if n := testing.AllocsPerRun(100, func() { p.sends("events.acme.orders", e) }); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}
