package ingest

import (
	"net/http"
	"testing"

	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas/trace"
)

// Without telemetry, and where it is not sampled, a delivery's context costs no memory but its own text.
func TestNoTraceNoMemory(t *testing.T) {
	h := &Handler{}
	d := &delivery{team: "acme", name: "orders", source: &Source{}}
	r := &verify.Request{Header: http.Header{"Traceparent": {"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}}}
	if n := testing.AllocsPerRun(100, func() { d.traceParent = ""; h.traceOf(d, r) }); n > 1 {
		t.Errorf("%v allocations", n)
	}
	h.c.Tracer = trace.NewTracer(nil, 0)
	parent, _ := h.traceOf(&delivery{source: &Source{}}, r)
	if n := testing.AllocsPerRun(100, func() { d.traceParent = ""; h.traceOf(d, r) }); n > 1 || trace.Sampled(parent) {
		t.Errorf("%v allocations of a delivery that is not sampled, in %s", n, parent)
	}
}
