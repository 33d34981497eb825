package ingest

import (
	"net/http"
	"testing"

	"github.com/forebay-io/forebay/ingest/verify"
)

// Without telemetry a delivery's context costs no memory.
func TestNoTraceNoMemory(t *testing.T) {
	h := &Handler{}
	d := &delivery{team: "acme", name: "orders", source: &Source{}}
	r := &verify.Request{Header: http.Header{"Traceparent": {"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}}}
	if n := testing.AllocsPerRun(100, func() { h.traceOf(d, r) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
