package pagerduty_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/sinks/api"
	"github.com/forebay-io/forebay/sinks/pagerduty"
	"github.com/forebay-io/forebay/sinks/spec"
	"github.com/forebay-io/forebay/sinks/template"
	"github.com/forebay-io/forebay/stream/sink"
	"github.com/forebay-io/forebay/stream/sink/sinktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}

const routingKey = "0123456789abcdef0123456789abcdef"

// fake is a service: alerts by their keys.
type fake struct {
	mu     sync.Mutex
	open   map[string]string // the state of what is open, by dedup_key
	opened int
	got    []map[string]any
}

func newFake() *fake { return &fake{open: map[string]string{}} }

// Done is how many alerts were opened.
func (f *fake) Done() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.opened
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	f.mu.Lock()
	defer f.mu.Unlock()
	var e map[string]any
	_ = json.Unmarshal(body, &e)
	key, _ := e["dedup_key"].(string)
	pay, _ := e["payload"].(map[string]any)
	summary, _ := pay["summary"].(string)
	switch {
	case r.Method != http.MethodPost || r.URL.Path != "/v2/enqueue":
		w.WriteHeader(404)
		return
	case e["routing_key"] != routingKey || key == "" || len(key) > 255 || summary == "" || utf8.RuneCountInString(summary) > 1024:
		w.WriteHeader(400)
		_, _ = io.WriteString(w, `{"status":"invalid event","message":"Event object is invalid","errors":["Length of 'routing_key' is incorrect"]}`)
		return
	}
	switch e["event_action"] {
	case "trigger":
		if f.open[key] == "" {
			f.opened++
			f.open[key] = "triggered"
		}
	case "acknowledge":
		if f.open[key] != "" {
			f.open[key] = "acknowledged"
		}
	case "resolve":
		delete(f.open, key)
	}
	f.got = append(f.got, e)
	w.WriteHeader(202)
	_ = json.NewEncoder(w).Encode(map[string]any{"status": "success", "message": "Event processed", "dedup_key": key})
}

func must(t testing.TB, url, key string, params map[string]any) *pagerduty.Sink {
	t.Helper()
	set, err := template.NewSet(pagerduty.Params(), params, nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := pagerduty.New(pagerduty.Config{RoutingKey: schemas.NewSecret(key), BaseURL: url, Common: spec.Common{Params: set, AllowNetworks: loopback}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close(context.Background()) })
	return s
}

func serve(t *testing.T, h http.Handler) string {
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return server.URL
}

func TestConformance(t *testing.T) {
	sinktest.Run(t, sinktest.Harness{
		Wait: api.LimitWait, Answer: func(int) string { return `{"status":"success"}` },
		Make: func(t testing.TB, d sinktest.Target) sink.Sink { return must(t, d.URL, d.Secret, nil) },
		Key: func(r *http.Request, body []byte) string {
			var e map[string]any
			if _ = json.Unmarshal(body, &e); e["dedup_key"] != "/acme/orders/orders/7" {
				return "" // what it is known by at PagerDuty
			}
			return r.Header.Get("Idempotency-Key")
		},
	})
}

func TestOnce(t *testing.T) {
	sinktest.Once(t, sinktest.Effect{
		Fake: func() sinktest.Fake { return newFake() }, Calls: 1,
		Make: func(t testing.TB, url string) sink.Sink { return must(t, url, routingKey, nil) },
	})
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	f := newFake()
	s := must(t, serve(t, f), routingKey, nil)
	if out, err := s.Do(t.Context(), sinktest.Action(1)); err != nil || out.Code != 202 || !strings.Contains(string(out.Response), "Event processed") {
		t.Fatalf("%+v, %v", out, err)
	}
	want := []map[string]any{{
		"routing_key": routingKey, "event_action": "trigger", "dedup_key": "/acme/orders/orders/7", "client": "Forebay",
		"payload": map[string]any{"summary": "com.example.order.changed orders/7", "source": "/acme/orders", "severity": "error", "timestamp": "2026-03-01T10:00:00Z"},
	}}
	if diff := cmp.Diff(want, f.got); diff != "" {
		t.Error(diff)
	}
	if s.Idempotency() != sink.Idempotent {
		t.Error("not idempotent")
	}
	if _, ok := any(s).(sink.Endpoint); ok {
		t.Error("a 404 would pause the destination")
	}
}

// One alert per entity: triggered, acknowledged and resolved by the events of its life, and opened again by the next.
func TestLifeOfAnAlert(t *testing.T) {
	t.Parallel()
	f := newFake()
	s := must(t, serve(t, f), routingKey, map[string]any{
		"event_action": "{{body.state == 'down' ? 'trigger' : body.state == 'seen' ? 'acknowledge' : 'resolve'}}",
		"severity":     "{{body.level}}", "summary": "{{body.name}} is {{body.state}}", "custom_details": map[string]any{"all": "{{body}}"},
		"links": []any{map[string]any{"href": "https://x.example/{{body.name}}", "text": "{{body.name}}"}},
	})
	for _, tt := range []struct{ state, want string }{{"down", "triggered"}, {"down", "triggered"}, {"seen", "acknowledged"}, {"down", "acknowledged"}, {"up", ""}, {"down", "triggered"}} {
		a := sinktest.Action(1)
		a.Event.Data = []byte(`{"state":"` + tt.state + `","level":"critical","name":"db"}`)
		if _, err := s.Do(t.Context(), a); err != nil {
			t.Fatal(err)
		}
		if got := f.open["/acme/orders/orders/7"]; got != tt.want {
			t.Errorf("after %s: %s, want %s", tt.state, got, tt.want)
		}
	}
	if f.Done() != 2 {
		t.Errorf("%d alerts were opened, want 2", f.Done())
	}
	want := map[string]any{"summary": "db is down", "source": "/acme/orders", "severity": "critical", "timestamp": "2026-03-01T10:00:00Z",
		"custom_details": map[string]any{"all": map[string]any{"state": "down", "level": "critical", "name": "db"}}}
	if diff := cmp.Diff(want, f.got[0]["payload"]); diff != "" {
		t.Error(diff)
	}
}

func TestLongTexts(t *testing.T) {
	t.Parallel()
	f := newFake()
	s := must(t, serve(t, f), routingKey, map[string]any{"dedup_key": "{{body.key}}", "summary": "{{body.summary}}"})
	long := strings.Repeat("é", 1000)
	for _, key := range []string{long, long, long + "x"} {
		a := sinktest.Action(1)
		a.Event.Data = []byte(`{"key":"` + key + `","summary":"` + long + long + `"}`)
		if _, err := s.Do(t.Context(), a); err != nil {
			t.Fatal(err)
		}
	}
	if f.Done() != 2 {
		t.Errorf("%d alerts for two keys", f.Done())
	}
}

// TestDetailsAreCut: however large an event is, its page goes out, with as much of it as PagerDuty takes.
func TestDetailsAreCut(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"a long text": `{"log":"` + strings.Repeat("é", 300_000) + `","name":"db"}`, "what JSON escapes": `{"log":"` + strings.Repeat("<", 250_000) + `","name":"db"}`,
		"many values": `{"log":[` + strings.Repeat("1,", 200_000) + `1],"name":"db"}`, "more values than are read": `{"log":[` + strings.Repeat("1,", 300_000) + `1],"name":"db"}`,
	} {
		for _, details := range []any{
			"{{body}}", map[string]any{"log": "{{body.log}}", "again": []any{"{{body.log}}", "{{body}}", "{{body}}", "{{body}}"}, "text": "{{event.id}} {{string(event.time)}}"},
			"{{body.log[0] ?? body.log}} {{body.log[0] ?? body.log}} {{body.name}}", map[string]any{"log": "{{body.log}}", "name": "{{body.name}}"},
		} {
			f := newFake()
			size := 0
			url := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				size = len(body)
				r.Body = io.NopCloser(bytes.NewReader(body))
				f.ServeHTTP(w, r)
			}))
			a := sinktest.Action(1)
			a.Event.Data = []byte(body)
			if _, err := must(t, url, routingKey, map[string]any{"summary": "{{body.name}} is down", "links": []any{map[string]any{"href": "https://{{body.name}}"}}, "custom_details": details}).Do(t.Context(), a); err != nil {
				t.Errorf("%s, %v: %v", name, details, err)
				continue
			}
			if pay := f.got[0]["payload"].(map[string]any); size > 512<<10 || pay["summary"] != "db is down" || pay["custom_details"] == nil || f.got[0]["links"] == nil {
				t.Errorf("%s, %v: %d bytes, summary %v", name, details, size, pay["summary"])
			}
		}
	}
}

func TestFailures(t *testing.T) {
	t.Parallel()
	f := newFake()
	url := serve(t, f)
	for _, tt := range []struct {
		key    string
		params map[string]any
		class  sink.Class
		want   string
	}{
		{"another", nil, sink.ClassRejected, "PagerDuty answered 400"},
		{routingKey, map[string]any{"severity": "{{event.type}}"}, sink.ClassTemplate, "params.severity is not one of critical, error, warning, info"},
		{routingKey, map[string]any{"event_action": "{{body.nope}}"}, sink.ClassTemplate, "params.event_action {{body.nope}} fails"},
		{routingKey, map[string]any{"dedup_key": "{{dyn(null)}}"}, sink.ClassTemplate, "params.dedup_key is null"},
	} {
		out, err := must(t, url, tt.key, tt.params).Do(t.Context(), sinktest.Action(1))
		if sink.ClassOf(err) != tt.class || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v: %+v, %v", tt.params, out, err)
		}
	}
	if f.Done() != 0 {
		t.Errorf("%d alerts", f.Done())
	}
}

// developer.pagerduty.com/docs/events-api-v2-overview: 429 is too many calls at a time, and names no time to wait.
func TestLimitHoldsTheDestination(t *testing.T) {
	t.Parallel()
	for after, want := range map[string]time.Duration{"": time.Minute, "7": 7 * time.Second} {
		url := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if after != "" {
				w.Header().Set("Retry-After", after)
			}
			w.WriteHeader(http.StatusTooManyRequests)
			_, _ = io.WriteString(w, `{"status":"throttle exceeded","message":"Requests for this service are arriving too quickly.  Please retry later."}`)
		}))
		out, err := must(t, url, routingKey, nil).Do(t.Context(), sinktest.Action(1))
		if class := sink.ClassOf(err); class != sink.ClassThrottled || out.RetryAfter != want || !sink.Holds(class, out.Code) {
			t.Errorf("Retry-After %q: %+v, %v", after, out, err)
		}
	}
}

// A proxy's login page is no alert.
func TestLoginPageIsNoSuccess(t *testing.T) {
	t.Parallel()
	url := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "<!DOCTYPE html><title>Log in</title>")
	}))
	if _, err := must(t, url, routingKey, nil).Do(t.Context(), sinktest.Action(1)); sink.ClassOf(err) != sink.ClassBusy || sink.Untouched(err) {
		t.Error(err)
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	set, err := template.NewSet(pagerduty.Params(), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, cfg := range map[string]pagerduty.Config{
		"no key": {Common: spec.Common{Params: set}}, "no params": {RoutingKey: schemas.NewSecret(routingKey)},
		"plain http": {Common: spec.Common{Params: set}, RoutingKey: schemas.NewSecret(routingKey), BaseURL: "http://10.0.0.1"},
	} {
		if s, err := pagerduty.New(cfg); err == nil || schemas.KindOf(err) != schemas.Invalid || strings.Contains(err.Error(), routingKey) {
			t.Errorf("%s: %v, %v", name, s, err)
		}
	}
}
