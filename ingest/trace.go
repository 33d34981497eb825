package ingest

import (
	"net/http"

	"go.opentelemetry.io/otel/attribute"

	"github.com/forebay-io/forebay/ingest/verify"
)

// traceOf returns the context in which an event of the delivery is created. The delivery's span begins with the first of them: what is not
// authentic makes no span, so that strangers cannot fill a collector.
func (h *Handler) traceOf(d *delivery, r *verify.Request) (parent, state string) {
	if d.traceParent != "" {
		return d.traceParent, d.traceState
	}
	agents := d.source.Source != nil && d.source.Chain() // they are ours: their trace goes on
	d.span, d.traceParent, d.traceState = h.c.Tracer.Accept(r.Header["Traceparent"], r.Header["Tracestate"], agents, "POST /v1/in/{team}/{source}", d.started)
	if d.span != nil { // asked first: attributes cost memory
		d.span.Set(attribute.String("http.request.method", http.MethodPost), attribute.String("http.route", "/v1/in/{team}/{source}"),
			attribute.String("forebay.source", "/"+d.team+"/"+d.name))
	}
	return d.traceParent, d.traceState
}

// failureOf is the word for a delivery that was not taken; empty if it was.
func failureOf(v verdict) string {
	if v.outcome == unavailable || v.outcome == broken {
		return v.reason
	}
	return ""
}
