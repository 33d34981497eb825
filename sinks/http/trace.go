package httpsink

import (
	"crypto/rand"
	"encoding/hex"
	"net/http"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/trace"
)

// hop sets the trace context of this call: a child of the trace in which the event was created, with a span id of its
// own per attempt; a new trace, not sampled, where the event has none that is valid.
func hop(h http.Header, e *schemas.Event) {
	parent, ok := trace.Parse([]string{e.TraceParent})
	if !ok {
		h.Set("Traceparent", trace.New())
		return
	}
	if e.TraceState != "" && printable(e.TraceState) {
		h.Set("Tracestate", e.TraceState)
	}
	// version and trace id, a span id, the flags
	h.Set("Traceparent", parent[:36]+spanID()+parent[52:])
}

// spanID is 8 random bytes in hex, never all zero.
func spanID() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	b[7] |= 1
	return hex.EncodeToString(b[:])
}
