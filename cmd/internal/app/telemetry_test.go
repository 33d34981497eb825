package app

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/cmd/internal/rig"
)

// spanCollector is a collector that takes OTLP over HTTP.
type spanCollector struct {
	*httptest.Server
	mu   sync.Mutex
	list []*otlp.Span
}

func newCollector(t *testing.T) *spanCollector {
	c := &spanCollector{}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var sent collector.ExportTraceServiceRequest
		if err := proto.Unmarshal(body, &sent); err != nil || r.URL.Path != "/v1/traces" {
			t.Errorf("the collector got %s: %v", r.URL.Path, err)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, rs := range sent.ResourceSpans {
			for _, ss := range rs.ScopeSpans {
				c.list = append(c.list, ss.Spans...)
			}
		}
	}))
	t.Cleanup(c.Close)
	return c
}

// tree returns the spans of a trace, indented below their parents, by name.
func (c *spanCollector) tree(trace string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	of := slices.DeleteFunc(slices.Clone(c.list), func(s *otlp.Span) bool { return hex.EncodeToString(s.TraceId) != trace })
	slices.SortStableFunc(of, func(a, b *otlp.Span) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), int(int64(a.StartTimeUnixNano)-int64(b.StartTimeUnixNano)))
	})
	var text strings.Builder
	var below func(parent []byte, indent string)
	below = func(parent []byte, indent string) {
		for _, s := range of {
			if string(s.ParentSpanId) != string(parent) {
				continue
			}
			fmt.Fprintf(&text, "%s%s", indent, s.Name)
			for _, a := range s.Attributes {
				switch a.Key {
				case "forebay.status", "forebay.decision":
					text.WriteString(" " + a.Value.GetStringValue())
				case "forebay.attempt":
					fmt.Fprintf(&text, " %d", a.Value.GetIntValue())
				}
			}
			text.WriteString("\n")
			below(s.SpanId, indent+"  ")
		}
	}
	below(nil, "")
	return text.String()
}

// One trace leads from a delivery to its effect, over a failed attempt and over a process that ended between. The trace of a stranger who sent the
// delivery is linked to it and not entered, though it says "sampled". What is forged makes no span.
func TestOneTraceFromDeliveryToEffect(t *testing.T) {
	t.Parallel()
	c := newCollector(t)
	var works atomic.Bool
	called := make(chan string, 100)
	agent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		called <- r.Header.Get("Traceparent")
		if !works.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	t.Cleanup(agent.Close)
	r := deploy(t, agent.URL, newLedger(t), false)
	r.text = strings.Replace(r.text, "retry: {min: 10ms, max: 100ms}", "retry: {attempts: 1000, min: 1s, max: 1s}", 1)
	r.text += "telemetry: {endpoint: '" + c.URL + "'}\n"
	const of = "event: {id: header:X-Event-Id, type: /type, entity: [/order]"
	r.text = strings.Replace(r.text, "    destinations:\n", "      planner: {preset: generic, secrets: [planner-secret], verify: {signature_header: X-Signature}, "+of+", chain: true}}\n    destinations:\n", 1)
	r.createTopics()
	p := r.run(config.RoleIntake, config.RoleStream)

	const stranger = "0af7651916cd43dd8448eb211c80319c"
	sent := order("o-1", 1)
	sent.Header.Set("Traceparent", "00-"+stranger+"-b7ad6b7169203331-01")
	if status := p.send("orders", "another-secret", sent); status != http.StatusUnauthorized {
		t.Fatalf("a forged delivery was answered %d", status)
	}
	if status := p.send("orders", "orders-secret", sent); status != http.StatusAccepted {
		t.Fatalf("answered %d", status)
	}
	planned, ours := order("o-2", 1), "4bf92f3577b34da6a3ce929d0e0e4736"
	planned.Header.Set("Traceparent", "00-"+ours+"-00f067aa0ba902b7-01")
	if status := p.send("planner", "planner-secret", planned); status != http.StatusAccepted {
		t.Fatalf("an agent's is answered %d", status)
	}
	first := <-called
	id := first[3:35]
	if id == stranger || !strings.HasSuffix(first, "-01") {
		t.Fatalf("the agent was called in the trace %s", first)
	}
	p.end(nil)
	attempts := 1 + len(called) // what else was made before it ended
	for range attempts - 1 {
		<-called
	}
	works.Store(true)
	p = r.run(config.RoleIntake, config.RoleStream)
	if last := <-called; last[3:35] != id || last == first {
		t.Fatalf("the last attempt has %s, the first %s", last, first)
	}
	p.end(nil)
	want := "POST /v1/in/{team}/{source}\n"
	for n := range attempts {
		want += fmt.Sprintf("  attempt run %d failed\n", n+1)
	}
	want += fmt.Sprintf("  attempt run %d done\n  process events.acme.orders applied\n  send events.acme.orders\n  wait run\n", attempts+1)
	if !rig.Until(10*time.Second, func() bool { return c.tree(id) == want }) {
		t.Errorf("the trace is\n%s\nwant\n%s", c.tree(id), want)
	}
	if got := c.tree(stranger); got != "" {
		t.Errorf("the stranger's trace has\n%s", got)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !slices.ContainsFunc(c.list, func(s *otlp.Span) bool {
		return hex.EncodeToString(s.TraceId) == ours && s.Kind == otlp.Span_SPAN_KIND_SERVER
	}) {
		t.Error("the trace of an agent of ours does not go on")
	}
	linked := 0
	for _, s := range c.list {
		if s.Kind == otlp.Span_SPAN_KIND_SERVER && len(s.Links) == 1 && hex.EncodeToString(s.Links[0].TraceId) == stranger {
			linked++
		}
	}
	if linked != 1 {
		t.Errorf("%d deliveries are linked to the stranger's trace, want 1", linked)
	}
	c.transactions(t, id)
}

// transactions looks that the transactions of a trace's event are spans of traces of their own that are linked to it: the one that decided it, to
// which its span is linked too, and those that recorded its attempts. The caller holds mu.
func (c *spanCollector) transactions(t *testing.T, id string) {
	t.Helper()
	linked := func(s *otlp.Span, to []byte) bool {
		return slices.ContainsFunc(s.Links, func(l *otlp.Span_Link) bool { return string(l.TraceId) == string(to) })
	}
	trace, _ := hex.DecodeString(id)
	var decided *otlp.Span
	recorded := 0
	for _, s := range c.list {
		switch {
		case !linked(s, trace):
		case s.Name == "ledger apply":
			decided = s
		case s.Name == "ledger record":
			recorded++
		}
	}
	if decided == nil || hex.EncodeToString(decided.TraceId) == id || !slices.ContainsFunc(decided.Attributes, func(a *common.KeyValue) bool {
		return a.Key == "db.operation.batch.size" && a.Value.GetIntValue() >= 1
	}) {
		t.Fatalf("the transaction that decided the event has the span %v", decided)
	}
	if !slices.ContainsFunc(c.list, func(s *otlp.Span) bool {
		return s.Name == "process events.acme.orders" && hex.EncodeToString(s.TraceId) == id && linked(s, decided.TraceId)
	}) {
		t.Error("the event's span is not linked to its transaction's")
	}
	if recorded == 0 {
		t.Error("no transaction recorded its attempts")
	}
}

// What an agent did on the way to its result is below the attempt that it was called by, whichever process gets the result.
func TestStepsOfAResultAreInItsTrace(t *testing.T) {
	t.Parallel()
	c, agent := newCollector(t), newTaker(t)
	r := deploy(t, agent.URL, newLedger(t), true)
	withAgents(t, r, "{deadline: 10m}")
	r.text += "telemetry: {endpoint: '" + c.URL + "'}\n"
	p := r.run(config.RoleIntake, config.RoleStream)
	p.accepted("orders", "orders-secret", order("o", 1))
	call := agent.wait(t, "o-1", 1)[0]
	url, token := call.Get("Forebay-Result-Url"), call.Get("Forebay-Action-Token")
	getUntil(t, strings.TrimSuffix(url, "/result"), token, func(body string) bool { return strings.Contains(body, `"status":"processing"`) })
	p.end(nil)
	p = r.run(config.RoleIntake, config.RoleStream)
	result := `{"status": "done", "steps": [
		{"name": "search", "started_at": "` + time.Now().Format(time.RFC3339Nano) + `", "ended_at": "2999-01-01T00:00:00Z", "attributes": {"hits": 3}},
		{"name": "write", "started_at": "1970-01-01T00:00:00Z", "ended_at": "` + time.Now().Format(time.RFC3339Nano) + `", "error": "conflict"}]}`
	if status, body := ask(t, "POST", url, token, result); status != http.StatusAccepted || strings.Contains(body, "steps_refused") {
		t.Fatalf("answered %d %s", status, body)
	}
	if status, body := ask(t, "POST", url, token, result); status != http.StatusOK { // no second spans
		t.Fatalf("answered %d %s", status, body)
	}
	p.end(nil)
	want := `POST /v1/in/{team}/{source}
  attempt run 1 processing
    execute_tool search
    execute_tool write
    result run 1 done
  process events.acme.orders applied
  send events.acme.orders
  wait run
`
	id := call.Get("Traceparent")[3:35]
	if !rig.Until(10*time.Second, func() bool { return c.tree(id) == want }) {
		t.Errorf("the trace is\n%s\nwant\n%s", c.tree(id), want)
	}
}

// A collector that is away is said once a minute, and not with each batch, nor with all of the page that it answers.
func TestSpansNotSent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		handle := (&App{log: slog.New(slog.NewJSONHandler(&out, nil))}).spansNotSent()
		for range 20 {
			handle(errors.New("401: " + strings.Repeat("<p>", 4000)))
		}
		if n := strings.Count(out.String(), "\n"); n != 1 || out.Len() > 1000 || !strings.Contains(out.String(), "401") {
			t.Errorf("%d lines, %d bytes", n, out.Len())
		}
		time.Sleep(time.Minute)
		handle(errors.New("404"))
		if n := strings.Count(out.String(), "\n"); n != 2 {
			t.Errorf("%d lines a minute later", n)
		}
	})
}
