package producer

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas/record"
	"github.com/forebay-io/forebay/schemas/trace"
)

// TestHopIsAChild: the record's hop is a span of the intake's own in the caller's trace, and the event keeps the caller's.
func TestHopIsAChild(t *testing.T) {
	t.Parallel()
	in := newIntake(t, 20*time.Second, nil)
	const caller = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for n, header := range []http.Header{{"Traceparent": {caller}, "Tracestate": {"vendor=1"}}, {}} {
		r := verify.Request{Method: "POST", Header: header, Body: []byte(`{"id":"` + string(rune('a'+n)) + `","type":"t"}`)}
		if err := in.source.Sign(&r, time.Now()); err != nil {
			t.Fatal(err)
		}
		req, err := http.NewRequestWithContext(t.Context(), "POST", in.server.URL+"/v1/in/acme/orders", strings.NewReader(string(r.Body)))
		if err != nil {
			t.Fatal(err)
		}
		req.Header = r.Header
		resp, err := in.server.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
	}
	spans := map[string]bool{}
	for _, r := range read(t, in.cluster, topic, 2) {
		e, err := record.Decode(r)
		if err != nil {
			t.Fatal(err)
		}
		hop, state := headerOf(r, "traceparent"), headerOf(r, "tracestate")
		if _, ok := trace.Parse([]string{hop}); !ok || hop[:36] != e.TraceParent[:36] || hop[36:52] == e.TraceParent[36:52] || hop[52:] != e.TraceParent[52:] {
			t.Errorf("hop %s of %s", hop, e.TraceParent)
		}
		if e.ID == "a" && (e.TraceParent != caller || e.TraceState != "vendor=1" || state != "vendor=1") || e.ID == "b" && state != "" {
			t.Errorf("%s: event %s %q, hop's state %q", e.ID, e.TraceParent, e.TraceState, state)
		}
		spans[hop[36:52]] = true
	}
	if len(spans) != 2 {
		t.Errorf("spans %v", spans)
	}
}

func headerOf(r *kgo.Record, name string) string {
	for _, h := range r.Headers {
		if h.Key == name {
			return string(h.Value)
		}
	}
	return ""
}
