package trace_test

import (
	"slices"
	"testing"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/forebay-io/forebay/schemas/trace"
)

const (
	caller   = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	callerID = "0af7651916cd43dd8448eb211c80319c"
)

func tracer(t *testing.T, part float64) (*trace.Tracer, *tracetest.InMemoryExporter) {
	spans := tracetest.NewInMemoryExporter()
	p := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans), sdktrace.WithSampler(sdktrace.AlwaysSample()))
	t.Cleanup(func() { _ = p.Shutdown(t.Context()) })
	return trace.NewTracer(p.Tracer("test"), part), spans
}

// A stranger decides neither whose trace its delivery is in nor whether that is sampled; one of ours decides both.
func TestAccept(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		trusted        bool
		part           float64
		parents        []string
		inside, linked bool
		sampled        bool
	}{
		"a stranger":                 {part: 1, parents: []string{caller}, linked: true, sampled: true},
		"a stranger, none sampled":   {part: 0, parents: []string{caller}},
		"one of ours":                {trusted: true, part: 0, parents: []string{caller}, inside: true, sampled: true},
		"one of ours, not sampled":   {trusted: true, part: 1, parents: []string{caller[:53] + "00"}, inside: true},
		"one of ours, without any":   {trusted: true, part: 1, sampled: true},
		"one of ours, not a context": {trusted: true, part: 1, parents: []string{caller, caller}, sampled: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tr, spans := tracer(t, c.part)
			s, parent, _ := tr.Accept(c.parents, nil, c.trusted, "POST", time.Now())
			s.End("")
			if _, ok := trace.Parse([]string{parent}); !ok || (parent[3:35] == callerID) != c.inside || trace.Sampled(parent) != c.sampled {
				t.Errorf("created in %q; inside %v, sampled %v", parent, c.inside, c.sampled)
			}
			if got := spans.GetSpans(); (len(got) == 1) != c.sampled || c.sampled && (len(got[0].Links) == 1) != c.linked {
				t.Errorf("spans %+v, want linked %v", got, c.linked)
			}
		})
	}
}

// What is inside of a trace that is not sampled makes no span, and neither does anything without a Tracer; contexts go on all the same.
func TestNoSpan(t *testing.T) {
	t.Parallel()
	tr, spans := tracer(t, 1)
	var none *trace.Tracer
	for _, s := range []*trace.Span{
		tr.Start(caller[:53]+"00", "", "not sampled", trace.Client, time.Now()), tr.Start("", "", "no context", trace.Client, time.Now()),
		none.Start(caller, "", "no telemetry", trace.Client, time.Now()), none.StartLinked(caller, "", "no telemetry", trace.Client, time.Now()),
	} {
		s.Set()
		s.EndAt(time.Now())
		s.End("failed")
		if parent, state := s.Context(); s != nil || parent+state != "" {
			t.Errorf("a span in %q", parent)
		}
	}
	s, parent, state := none.Accept([]string{caller}, []string{"a=b"}, true, "POST", time.Now())
	if s != nil || parent != caller || state != "a=b" {
		t.Errorf("without a tracer: %q %q", parent, state)
	}
	s, parent, state = none.Accept([]string{caller}, []string{"a=b"}, false, "POST", time.Now())
	if s != nil || parent[3:35] == callerID || trace.Sampled(parent) || state != "" {
		t.Errorf("a stranger without a tracer: %q %q", parent, state)
	}
	if got := spans.GetSpans(); len(got) != 0 {
		t.Errorf("spans %+v", got)
	}
}

// A span inside of a trace carries its state on; one that is linked is a trace of its own.
func TestStart(t *testing.T) {
	t.Parallel()
	tr, spans := tracer(t, 1)
	inside, linked := tr.Start(caller, "a=b", "inside", trace.Client, time.Now()), tr.StartLinked(caller, "", "linked", trace.Client, time.Now())
	parent, state := inside.Context()
	if parent[3:35] != callerID || parent[36:52] == caller[36:52] || !trace.Sampled(parent) || state != "a=b" {
		t.Errorf("inside: %q %q", parent, state)
	}
	if parent, _ := linked.Context(); parent[3:35] == callerID {
		t.Errorf("linked: %q", parent)
	}
	inside.End("timeout")
	linked.End("")
	got := spans.GetSpans()
	if len(got) != 2 || got[0].Status.Description != "timeout" || len(got[1].Links) != 1 || got[1].Links[0].SpanContext.TraceID().String() != callerID {
		t.Errorf("spans %+v", got)
	}
}

// What is done with an event that is sampled is sampled, in a trace of its own too, however small the part of new traces is; of those, as many are as
// the part says.
func TestPart(t *testing.T) {
	t.Parallel()
	tr, spans := tracer(t, 0)
	tr.StartLinked(caller, "", "replayed", trace.Client, time.Now()).End("")
	tr.StartShared(slices.Repeat([]string{caller}, 200), "shared", trace.Client, time.Now()).End("")
	if list := spans.GetSpans(); len(list) != 2 || len(list[0].Links) != 1 || len(list[1].Links) != 128 {
		t.Errorf("%d spans %+v", len(list), list)
	}
	tr, spans = tracer(t, 0.25)
	sampled := 0
	for range 10_000 {
		s, parent, _ := tr.Accept(nil, nil, false, "POST", time.Now())
		s.End("")
		if trace.Sampled(parent) {
			sampled++
		}
	}
	if got := len(spans.GetSpans()); got != sampled || sampled < 2000 || sampled > 3000 {
		t.Errorf("%d spans, %d of 10000 sampled", got, sampled)
	}
}

func TestSampled(t *testing.T) {
	t.Parallel()
	for flags, want := range map[string]bool{"00": false, "01": true, "02": false, "03": true, "0a": false, "0b": true, "fe": false, "ff": true} {
		if got := trace.Sampled(caller[:53] + flags); got != want {
			t.Errorf("flags %s: %v", flags, got)
		}
	}
	if trace.Sampled("") || trace.Sampled(caller[1:]) {
		t.Error("what is no context is sampled")
	}
}

// The place of a span outlives the process in a few bytes; what is no place is none, and a span that is not sampled has none.
func TestPlace(t *testing.T) {
	t.Parallel()
	want := trace.Place{Parent: caller, Began: time.Date(2026, 11, 29, 10, 0, 0, 123_000, time.UTC)}
	b := want.Append([]byte("before"))
	got, ok := trace.ParsePlace(b[len("before"):])
	if !ok || got.Parent != want.Parent || !got.Began.Equal(want.Began) || string(b[:6]) != "before" {
		t.Errorf("%+v, %v of %x", got, ok, b)
	}
	if _, ok := trace.ParsePlace(b); ok {
		t.Error("what is too long is a place")
	}
	for _, none := range []trace.Place{{}, {Parent: caller[:53] + "00", Began: want.Began}} {
		b := none.Append(nil)
		if got, ok := trace.ParsePlace(b); len(b) != 0 || !ok || got != (trace.Place{}) {
			t.Errorf("%+v came to %x, and that to %+v, %v", none, b, got, ok)
		}
	}
}
