package httpsink

import (
	"crypto/rand"
	"encoding/hex"
	"net/http"
	"strings"

	"github.com/forebay-io/forebay/schemas"
)

// hop sets the trace context of this call: a child of the trace in which the event was created, with a span id of its
// own per attempt; a new trace, not sampled, where the event has none that is valid.
func hop(h http.Header, e *schemas.Event) {
	trace, flags, ok := parent(e.TraceParent)
	if ok {
		if e.TraceState != "" && printable(e.TraceState) {
			h.Set("Tracestate", e.TraceState)
		}
	} else {
		trace, flags = randomHex(16), "00"
	}
	h.Set("Traceparent", "00-"+trace+"-"+randomHex(8)+"-"+flags)
}

// parent reads trace id and flags of a W3C traceparent.
func parent(text string) (trace, flags string, ok bool) {
	if len(text) < 55 || text[2] != '-' || text[35] != '-' || text[52] != '-' {
		return "", "", false
	}
	version, trace, span, flags := text[:2], text[3:35], text[36:52], text[53:55]
	if version == "ff" || version == "00" && len(text) != 55 || len(text) > 55 && text[55] != '-' {
		return "", "", false
	}
	for _, part := range []string{version, trace, span, flags} {
		if strings.Trim(part, "0123456789abcdef") != "" {
			return "", "", false
		}
	}
	if strings.Trim(trace, "0") == "" || strings.Trim(span, "0") == "" {
		return "", "", false
	}
	if version != "00" { // of a later version only the sampled bit is known
		flags = []string{"00", "01"}[hexDigit(flags[1])&1]
	}
	return trace, flags, true
}

func hexDigit(c byte) byte {
	if c >= 'a' {
		return c - 'a' + 10
	}
	return c - '0'
}

// randomHex is n random bytes in hex, never all zero in practice and in fact.
func randomHex(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails
	b[n-1] |= 1
	return hex.EncodeToString(b)
}
