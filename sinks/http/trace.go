package httpsink

import (
	"net/http"

	"github.com/forebay-io/forebay/stream/sink"
)

// hop sets the trace context of this call: the attempt's span, or a child of the trace in which the event was created, with a span id of its
// own per attempt; a new trace, not sampled, where the event has none that is valid.
func hop(h http.Header, a sink.Action) {
	parent, state := a.Hop()
	h.Set("Traceparent", parent)
	if state != "" {
		h.Set("Tracestate", state)
	}
}
