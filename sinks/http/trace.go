package httpsink

import (
	"net/http"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/trace"
)

// hop sets the trace context of this call: a child of the trace in which the event was created, with a span id of its
// own per attempt; a new trace, not sampled, where the event has none that is valid.
func hop(h http.Header, e *schemas.Event) {
	parent, state := trace.Child(e.TraceParent, e.TraceState)
	h.Set("Traceparent", parent)
	if state != "" {
		h.Set("Tracestate", state)
	}
}
