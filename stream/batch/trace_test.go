package batch

import (
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace/noop"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/trace"
	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/reader"
)

// A batch of which no event is traced costs no memory for it, with telemetry and without.
func TestNoTraceNoMemory(t *testing.T) {
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-"
	tracer := trace.NewTracer(noop.NewTracerProvider().Tracer("test"), 1)
	for name, c := range map[string]struct {
		tracer *trace.Tracer
		flags  string
	}{"no telemetry": {nil, "01"}, "not sampled": {tracer, "00"}} {
		l, began := &Loop{cfg: Config{Tracer: c.tracer}}, time.Now()
		read := &part{of: &Partition{Claim: &ledger.Claim{}}, Part: reader.Part{
			Events: []*schemas.Event{{TraceParent: parent + c.flags}, nil}, Records: make([]ledger.Record, 2),
		}}
		b := &batch{parts: []*part{read}, records: 2}
		applied := ledger.Applied{Outcomes: make([]gate.Outcome, 2)}
		applied.Outcomes[1].Record = 1
		if n := testing.AllocsPerRun(100, func() { l.trace(read, applied, began, l.transaction(b, began)) }); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}
