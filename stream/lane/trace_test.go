package lane

import (
	"testing"
	"time"

	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/trace"
	"github.com/forebay-io/forebay/stream/ledger"
)

// An attempt that is not traced costs no memory for it, with telemetry and without.
func TestNoTraceNoMemory(t *testing.T) {
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-"
	tracer := trace.NewTracer(tracenoop.NewTracerProvider().Tracer("test"), 1)
	for name, c := range map[string]struct {
		tracer *trace.Tracer
		flags  string
	}{"no telemetry": {nil, "01"}, "not sampled": {tracer, "00"}} {
		w := &workers{cfg: &Config{Tracer: c.tracer}}
		e, event, began := &entry{}, &schemas.Event{TraceParent: parent + c.flags}, time.Now()
		if n := testing.AllocsPerRun(100, func() {
			s := w.span(e, event, began)
			s.Context()
			endSpan(s, &ledger.Result{})
		}); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}
