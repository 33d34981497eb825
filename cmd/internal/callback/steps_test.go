package callback

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/forebay-io/forebay/schemas/trace"
	"github.com/forebay-io/forebay/stream/inbox/reports"
	"github.com/forebay-io/forebay/stream/ledger"
)

const spanOfAttempt = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// traced has the desk make spans, and returns what sets the token of an attempt with a span that began at a time.
func (d *desk) traced(began time.Time) (*tracetest.InMemoryExporter, func(*http.Request)) {
	d.t.Helper()
	spans := tracetest.NewInMemoryExporter()
	p := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
	d.t.Cleanup(func() { _ = p.Shutdown(d.t.Context()) })
	h, err := New(Config{Keys: d.keys, Ledger: d.fake, Tracer: trace.NewTracer(p.Tracer("test"), 1)})
	if err != nil {
		d.t.Fatal(err)
	}
	d.h = h
	token := d.keys.Action(ours, attempt, actionID, trace.Place{Parent: spanOfAttempt, Began: began}).Reveal()
	return spans, func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) }
}

// Steps are spans below their attempt's, between its begin and now whatever the agent's clock says; a result that was recorded before, or comes
// too late, makes none, and neither does an attempt without a span.
func TestStepsAreSpans(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	began := time.Now().Add(-time.Hour).Truncate(time.Microsecond)
	after := func(minutes int) time.Time { return began.Add(time.Duration(minutes) * time.Minute) }
	at := func(minutes int) string { return after(minutes).Format(time.RFC3339Nano) }
	body := fmt.Sprintf(`{"status":"done","steps":[
		{"name":"search","started_at":%q,"ended_at":%q,"attributes":{"query":"a b","hits":3,"share":0.5,"cached":true,
			"gen_ai.tool.call.id":"c-1","gen_ai.tool.name":"x"}},
		{"name":"write","started_at":%q,"ended_at":%q,"error":"conflict"},
		{"name":"before","started_at":"0001-01-01T00:00:01Z","ended_at":%q},
		{"name":"ends before it begins","started_at":%q,"ended_at":%q}]}`, at(1), at(2), at(3), "9999-12-31T23:59:59Z", at(-1), at(5), at(4))
	spans, auth := d.traced(began)
	if w := d.ask("POST", resultPath, body, auth); w.Code != http.StatusAccepted || strings.Contains(w.Body.String(), "steps_refused") {
		t.Fatal(w.Code, w.Body)
	}
	list := spans.GetSpans()
	if len(list) != 5 {
		t.Fatalf("spans %+v", list)
	}
	for i := range list {
		s := &list[i]
		inside := s.Parent.SpanID().String() == spanOfAttempt[36:52] && s.SpanContext.TraceID().String() == spanOfAttempt[3:35]
		if !inside || s.EndTime.After(time.Now()) {
			t.Errorf("span %s is in %+v, to %s", s.Name, s.Parent, s.EndTime)
		}
	}
	attributes := map[string]any{}
	for _, a := range list[0].Attributes {
		attributes[string(a.Key)] = a.Value.AsInterface()
	}
	want := map[string]any{"query": "a b", "hits": int64(3), "share": 0.5, "cached": true, "gen_ai.tool.call.id": "c-1", "gen_ai.tool.name": "search",
		"gen_ai.operation.name": "execute_tool"}
	if diff := cmp.Diff(want, attributes); diff != "" || list[0].Name != "execute_tool search" {
		t.Error(list[0].Name, diff)
	}
	if s := list[1].Status; s.Code != codes.Error || s.Description != "conflict" || list[0].Status.Code == codes.Error {
		t.Errorf("status %+v", s)
	}
	for i, want := range [][2]time.Time{{after(1), after(2)}, {after(3)}, {began, began}, {after(5), after(5)}} {
		if s := &list[i]; !s.StartTime.Equal(want[0]) || !want[1].IsZero() && !s.EndTime.Equal(want[1]) {
			t.Errorf("span %s is from %s to %s", s.Name, s.StartTime, s.EndTime)
		}
	}
	if list[4].Name != "result run" {
		t.Error(list[4].Name)
	}
	for _, state := range []reports.State{reports.Repeated, reports.Late, reports.Differs} {
		d.as = state
		d.ask("POST", resultPath, body, auth)
	}
	d.as = reports.Recorded
	d.ask("POST", resultPath, body)
	if n := len(spans.GetSpans()); n != 5 {
		t.Errorf("%d spans, want no more", n)
	}
}

// What is wrong with steps costs their spans and says so; the result counts.
func TestStepsAreRefused(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	spans, auth := d.traced(time.Now())
	const times = `"started_at":"2026-11-29T10:00:00Z","ended_at":"2026-11-29T10:00:01Z"`
	step := func(more string) string { return `[{"name":"a",` + times + more + `}]` }
	var attributes []string
	for i := range maxAttributes + 1 {
		attributes = append(attributes, fmt.Sprintf(`"k%d":1`, i))
	}
	long := strings.Repeat("x", maxStepText+1)
	for name, c := range map[string]struct{ steps, words string }{
		"a text":             {`"search"`, "steps: "},
		"an object":          {`{}`, "steps: "},
		"a number in it":     {`[1]`, "steps: "},
		"nothing in it":      {`[null]`, "steps[0]: name must have 1 to 128 bytes"},
		"too many":           {"[" + strings.TrimSuffix(strings.Repeat("{},", maxSteps+1), ",") + "]", "there are 101, and a result may have 100"},
		"no name":            {`[{` + times + `}]`, "steps[0]: name"},
		"a long name":        {`[{"name":"` + long + `",` + times + `}]`, "steps[0]: name"},
		"no times":           {`[{"name":"a"}]`, "steps[0]: started_at and ended_at must be times"},
		"another time":       {`[{"name":"a","started_at":"yesterday","ended_at":"now"}]`, "started_at and ended_at must be times"},
		"a slip":             {step(`,"errors":"x"`), `unknown field "errors"`},
		"a long error":       {step(`,"error":"` + long + `"`), "error must have at most 1024 bytes"},
		"a long attribute":   {step(`,"attributes":{"k":"` + long + `"}`), `attribute "k" must have at most`},
		"a list in it":       {step(`,"attributes":{"k":["v"]}`), `attribute "k" must be a text, a number or a boolean`},
		"a long key":         {step(`,"attributes":{"` + long + `":1}`), "the key of an attribute"},
		"many attributes":    {step(`,"attributes":{` + strings.Join(attributes, ",") + `}`), "33 attributes"},
		"the second is none": {strings.TrimSuffix(step(""), "]") + `,{}]`, "steps[1]: name"},
	} {
		d.said = nil
		spans.Reset()
		w := d.ask("POST", resultPath, `{"status":"done","steps":`+c.steps+`}`, auth)
		var item ResultItem
		if err := json.Unmarshal(w.Body.Bytes(), &item); err != nil || w.Code != http.StatusAccepted || len(d.said) != 1 || d.said[0].Status != ledger.Done {
			t.Errorf("%s: %d %s, recorded %+v", name, w.Code, w.Body, d.said)
		}
		if list := spans.GetSpans(); !strings.Contains(item.StepsRefused, c.words) || len(list) != 1 || list[0].Name != "result run" {
			t.Errorf("%s: %q, want %q; spans %+v", name, item.StepsRefused, c.words, list)
		}
	}
	d.said = nil
	d.refused("no JSON at all", d.ask("POST", resultPath, `{"status":"done","steps":[}`, auth), 400, "no result")
	d.as = reports.Repeated
	if w := d.ask("POST", resultPath, `{"status":"done","steps":{}}`, auth); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "steps_refused") {
		t.Error(w.Code, w.Body)
	}
}

// The token with which a result comes is in no span, whatever the agent writes.
func TestStepsHideTheToken(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	spans, auth := d.traced(time.Now())
	r := &http.Request{Header: http.Header{}}
	auth(r)
	token := bearer(r)
	d.ask("POST", resultPath, strings.ReplaceAll(`{"status":"done","steps":[{"name":"a","started_at":"2026-11-29T10:00:00Z","ended_at":"2026-11-29T10:00:01Z",
		"error":"called with TOKEN","attributes":{"k":"TOKEN"}}]}`, "TOKEN", token), auth)
	list := spans.GetSpans()
	if text := fmt.Sprintf("%+v", list); len(list) != 2 || strings.Contains(text, token[5:20]) || list[0].Status.Description != "called with <redacted>" {
		t.Errorf("spans %s", text)
	}
}

// The example of the documentation is taken as it is.
func TestStepsOfTheDocs(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../deploy/examples/long-work.md")
	if err != nil {
		t.Fatal(err)
	}
	_, example, _ := strings.Cut(string(text), "```json\n")
	example, _, ok := strings.Cut(example, "```")
	d := newDesk(t)
	spans, auth := d.traced(time.Now())
	w := d.ask("POST", resultPath, example, auth)
	if !ok || w.Code != http.StatusAccepted || strings.Contains(w.Body.String(), "steps_refused") || len(spans.GetSpans()) != 3 {
		t.Errorf("%s: %d %s", example, w.Code, w.Body)
	}
}
