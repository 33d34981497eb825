package ingest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"golang.org/x/time/rate"

	"github.com/forebay-io/forebay/ingest/provider"
	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/trace"
)

func TestAccepted(t *testing.T) {
	t.Parallel()
	in := setup(t, nil)
	for _, test := range []struct{ body, want string }{
		{"1", `{"id":"1"}`},
		{`a"b\c`, `{"id":"a\"b\\c"}`},
		{"ü语😀", `{"id":"ü语😀"}`},
	} {
		a := in.post(test.body)
		if a.status != 202 || a.body != test.want || a.header.Get("Content-Type") != "application/json" {
			t.Errorf("%s: %+v, want %s", test.body, a, test.want)
		}
	}
	if len(in.log.events) != 3 || in.log.topics[0] != "events.acme.orders" || string(in.log.events[2].Data) != "ü语😀" {
		t.Errorf("the log has %d events in %v", len(in.log.events), in.log.topics)
	}
	if got := in.count("accepted", ""); got != 3 {
		t.Errorf("%v counted", got)
	}
	for _, want := range []string{"level=DEBUG", "outcome=accepted", "team=acme", "source=orders", "event_id=1", "type=t", "entity=e", "bytes=1", "latency="} {
		if line, _, _ := strings.Cut(in.lines.String(), "\n"); !strings.Contains(line, want) {
			t.Errorf("%s is not in %s", want, line)
		}
	}
}

// What is durable on disk is acknowledged, and counted apart. Its body is not used again: the log may still have it.
func TestOnDisk(t *testing.T) {
	t.Parallel()
	var bodies [][]byte
	in := setup(t, func(c *Config, _ *Source) {
		c.Log = disk(func(body []byte) error { bodies = append(bodies, body); return ErrSpooled })
	})
	for _, body := range []string{"1", "2", "3"} {
		if a := in.post(body); a.status != 202 || a.body != `{"id":"`+body+`"}` {
			t.Errorf("%s: %+v", body, a)
		}
	}
	if got := string(bytes.Join(bodies, nil)); got != "123" {
		t.Errorf("the bodies are %q by now", got)
	}
	if got := in.count("accepted", "spooled"); got != 3 {
		t.Errorf("%v counted", got)
	}
	cfg := ordersMapping
	cfg.Each = "/"
	in.preset(cfg)
	bodies = nil
	for _, order := range []string{"a", "b"} {
		list := `[{"id":1,"type":"t","order":"` + order + `","rev":1}, 5]`
		if a := in.signed([]byte(list), "Content-Type", "application/json"); a.status != 202 || a.body != `{"id":null,"events":1,"quarantined":1}` {
			t.Errorf("%s: %+v", list, a)
		}
	}
	if got, want := string(bytes.Join(bodies, nil)), `{"id":1,"type":"t","order":"a","rev":1}5{"id":1,"type":"t","order":"b","rev":1}5`; got != want {
		t.Errorf("the bodies are %q by now", got)
	}
}

// disk is a log that keeps bodies as they are.
type disk func(body []byte) error

func (k disk) Append(_ context.Context, _ time.Time, _ string, e *schemas.Event) error {
	return k(e.Data)
}

func (k disk) AppendAll(_ context.Context, _ time.Time, _ string, events []*schemas.Event, _ string, rest []*Delivery) error {
	var err error
	for _, e := range events {
		err = k(e.Data)
	}
	for _, d := range rest {
		err = k(d.Body)
	}
	return err
}

func (k disk) Quarantine(_ context.Context, _ time.Time, _ string, d *Delivery) error {
	return k(d.Body)
}

func TestTrace(t *testing.T) {
	t.Parallel()
	const parent = "00-12345678901234567890123456789012-1234567890123456-01"
	for _, test := range []struct {
		name          string
		agent         bool
		header        []string
		parent, state string
	}{
		{"an agent's is kept", true, []string{"traceparent", parent, "tracestate", "a=1", "tracestate", "b=2"}, parent, "a=1,b=2"},
		{"a stranger's is not", false, []string{"traceparent", parent, "tracestate", "a=1"}, "", ""},
		{"none", true, nil, "", ""},
		{"invalid drops its state", true, []string{"traceparent", "x", "tracestate", "a=1"}, "", ""},
		{"twice", true, []string{"traceparent", parent, "traceparent", parent}, "", ""},
	} {
		in := setup(t, func(_ *Config, s *Source) {
			if test.agent {
				s.Source = agentSource(t)
			}
		})
		if a := in.post("1", test.header...); a.status != 202 {
			t.Fatalf("%s: %+v", test.name, a)
		}
		e := in.log.events[0]
		if test.parent != "" && e.TraceParent != test.parent || test.parent == "" && (len(e.TraceParent) != 55 || e.TraceParent[3:35] == parent[3:35] || trace.Sampled(e.TraceParent)) || e.TraceState != test.state {
			t.Errorf("%s: %q %q", test.name, e.TraceParent, e.TraceState)
		}
	}
}

// agentSource is the source of tests as one of agents, whose traces go on.
func agentSource(t *testing.T) *provider.Source {
	t.Helper()
	s, err := provider.Compile(provider.Config{Team: "acme", Name: "orders", Preset: "generic", Secrets: []schemas.Secret{schemas.NewSecret("secret")}, Verify: &verify.Params{SignatureHeader: "X-Signature"},
		Event: &provider.EventConfig{ID: "/id", Type: "/type", Entity: []string{"/id"}, Chain: true}})
	if err != nil {
		t.Fatal(err)
	}
	s.Verifier, s.MaxBody = hmacVerifier{}, 1024
	return s
}

func TestRoutes(t *testing.T) {
	t.Parallel()
	in := setup(t, nil)
	for _, method := range []string{"GET", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH"} {
		a := in.do(method, inPath, nil)
		if a.status != 405 || a.header.Get("Allow") != "POST" {
			t.Errorf("%s: %+v", method, a)
		}
	}
	for _, p := range []string{"/", "/v1/in/acme", "/v1/in/acme/orders/", "/v1/in/acme//orders", "/v1/in/../in/acme/orders", "/v1/in/acme/orders/x", "//v1/in/acme/orders"} {
		if a := in.do("POST", p, nil); a.status != 404 || a.header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: %+v, want 404 and never a redirect", p, a)
		}
	}
}

func TestHandshake(t *testing.T) {
	t.Parallel()
	in := setup(t, nil)
	if a := in.post("challenge xyz"); a.status != 200 || a.body != "xyz" || a.header.Get("Content-Type") != "text/plain" {
		t.Errorf("%+v", a)
	}
	if a := in.do("POST", inPath, strings.NewReader("challenge xyz")); a.status != 401 || strings.Contains(a.body, "xyz") {
		t.Errorf("a stranger's handshake: %+v", a)
	}
	if len(in.log.events) != 0 || in.count("handshake", "") != 1 {
		t.Error("a handshake is an event")
	}
}

func TestQuarantine(t *testing.T) {
	t.Parallel()
	in := setup(t, func(_ *Config, s *Source) { s.mapping = fakeMapping{secrets: []string{"X-Own"}} })
	a := in.post("unusable", "Authorization", "Bearer tok-1", "Cookie", "tok-2", "X-Gitlab-Token", "tok-3", "X-Own", "tok-4",
		"X-Request-Id", "b", "X-Request-Id", "a")
	if a.status != 202 || a.body != `{"id":null}` {
		t.Fatalf("%+v", a)
	}
	d := in.log.deliveries[0]
	want := &Delivery{Team: "acme", Source: "orders", Kind: "unusable", Reason: "missing_field", Detail: "/id", Method: "POST", Secret: 1,
		Body: []byte("unusable"), Received: time.Unix(1_700_000_000, 0)}
	headers := d.Headers
	got := *d
	got.Headers = nil
	if diff := cmp.Diff(want, &got); diff != "" {
		t.Error(diff)
	}
	if in.log.topics[0] != "quarantine.acme.orders" {
		t.Errorf("topic %s", in.log.topics[0])
	}
	text := fmt.Sprint(headers)
	if strings.Contains(text, "tok-") || !strings.Contains(text, "{x-signature "+sign(want.Body)+"}") ||
		!strings.Contains(text, "{x-request-id b} {x-request-id a}") || !strings.Contains(text, "{host 127.0.0.1:") {
		t.Errorf("headers kept: %s", text)
	}
	if in.count("quarantined", "missing_field") != 1 || !strings.Contains(in.lines.String(), "level=WARN msg=delivery outcome=quarantined") ||
		!strings.Contains(in.lines.String(), "detail=/id") {
		t.Errorf("counter or line is missing: %s", in.lines)
	}
}

// What a mapping gets wrong is kept: its panics and the events that no record can carry.
func TestQuarantineOfMappingFaults(t *testing.T) {
	t.Parallel()
	in := setup(t, nil)
	for _, test := range []struct{ body, reason string }{
		{"panic", "internal"}, {"a\nb", "control_character"}, {strings.Repeat("x", 513), "too_long"}, {"", "missing_field"}, {"\xff", "control_character"},
	} {
		a := in.post(test.body)
		if a.status != 202 || len(in.log.deliveries) == 0 {
			t.Fatalf("%.20q: %+v", test.body, a)
		}
		d := in.log.deliveries[len(in.log.deliveries)-1]
		if d.Reason != test.reason || string(d.Body) != test.body || d.Body == nil {
			t.Errorf("%.20q: kept %q for %s", test.body, d.Body, d.Reason)
		}
	}
	if len(in.log.events) != 0 {
		t.Error("an event of these")
	}
	if !strings.Contains(in.lines.String(), "mapping panicked") || strings.Contains(in.lines.String(), secret) {
		t.Errorf("lines: %s", in.lines)
	}
}

// What is not kept in quarantine either is answered 503, never 4xx; that of events is in waysOut. What an operator has to mend is loud.
func TestUndurable(t *testing.T) {
	t.Parallel()
	for kind, outcome := range map[schemas.Kind]string{schemas.Throttled: "unavailable", schemas.TooLarge: "broken"} {
		in := setup(t, nil)
		in.log.answer = func(context.Context) error { return schemas.Errorf(kind, "produce", "no") }
		if a := in.post("unusable"); a.status != 503 || in.count(outcome, string(kind)) != 1 || strings.Contains(in.lines.String(), "level=ERROR") != (outcome == "broken") {
			t.Errorf("%s: %+v, %s", kind, a, in.lines)
		}
	}
}

func TestPatience(t *testing.T) {
	t.Parallel()
	for deadline, want := range map[time.Duration]time.Duration{
		time.Second: 800 * time.Millisecond, 10 * time.Second: 9 * time.Second, 0: 9 * time.Second, 30 * time.Second: 29 * time.Second,
	} {
		s := &Source{Source: &provider.Source{Deadline: deadline}}
		if got := s.patience(); got != want {
			t.Errorf("deadline %v: intake takes %v, want %v", deadline, got, want)
		}
	}
}

func TestRateLimits(t *testing.T) {
	t.Parallel()
	in := setup(t, func(_ *Config, s *Source) { s.Limiter = rate.NewLimiter(0.5, 2) })
	for i := range 5 { // forged ones do not use the source's limit up, and are not limited by it
		if a := in.do("POST", inPath, strings.NewReader("1")); a.status != 401 {
			t.Errorf("forged %d: %+v", i, a)
		}
	}
	for i, want := range []int{202, 202, 429} {
		if a := in.post("1"); a.status != want || want == 429 && a.header.Get("Retry-After") != "2" {
			t.Errorf("delivery %d: %+v, want %d", i, a, want)
		}
	}
	if in.count("throttled", "source") != 1 {
		t.Error("not counted")
	}
	team := rate.NewLimiter(0.5, 2)
	in = setup(t, func(_ *Config, s *Source) { s.Limiter, s.TeamLimiter = rate.NewLimiter(0, 1), team })
	for i, want := range []int{202, 429, 429} { // by the source's own, which takes nothing from the team
		if a := in.post("1"); a.status != want {
			t.Errorf("delivery %d: %+v, want %d", i, a, want)
		}
	}
	in = setup(t, func(_ *Config, s *Source) { s.TeamLimiter = team })
	for i, want := range []int{202, 429} {
		if a := in.post("1"); a.status != want || want == 429 && a.header.Get("Retry-After") != "2" {
			t.Errorf("delivery %d of another source of the team: %+v, want %d", i, a, want)
		}
	}
	if in.count("throttled", "team") != 1 || in.count("throttled", "source") != 0 {
		t.Error("not counted as the team's")
	}
	in = setup(t, func(_ *Config, s *Source) { s.Limiter = rate.NewLimiter(0, 1) })
	for i, want := range []int{202, 429} {
		if a := in.post("1"); a.status != want || want == 429 && a.header.Get("Retry-After") != "60" {
			t.Errorf("delivery %d: %+v, want %d", i, a, want)
		}
	}
}

// A delivery counts when its body is there: one that began before others, and ends after them, gives back nothing of what they took.
func TestRateOfBodiesThatOverlap(t *testing.T) {
	t.Parallel()
	for name, limit := range map[string]func(*Source, *rate.Limiter){
		"source": func(s *Source, l *rate.Limiter) { s.Limiter = l },
		"team":   func(s *Source, l *rate.Limiter) { s.TeamLimiter = l },
	} {
		synctest.Test(t, func(t *testing.T) {
			in := newIntake(t, func(_ *Config, s *Source) { limit(s, rate.NewLimiter(1, 2)) })
			send := func(body io.Reader) int {
				r, w := httptest.NewRequest("POST", inPath, body), httptest.NewRecorder()
				r.Header.Set("X-Signature", sign([]byte("1")))
				in.handler.ServeHTTP(w, r)
				return w.Code
			}
			slow := io.MultiReader(meanwhile(func() {
				<-time.After(2 * time.Second)
				if status := send(strings.NewReader("1")); status != 202 {
					t.Errorf("%s: the one that overtakes is answered %d", name, status)
				}
			}), strings.NewReader("1"))
			if status := send(slow); status != 202 {
				t.Errorf("%s: the slow one is answered %d", name, status)
			}
			if status := send(strings.NewReader("1")); status != 429 {
				t.Errorf("%s: one more than the rate allows is answered %d", name, status)
			}
		})
	}
}

// meanwhile is a part of a body without a byte, which comes when something else was done.
type meanwhile func()

func (m meanwhile) Read([]byte) (int, error) { m(); return 0, io.EOF }

// No secret, no signature and no header's value is ever in a line, and labels stay bounded.
func TestLinesAndLabels(t *testing.T) {
	t.Parallel()
	in := setup(t, nil)
	for i := range 20 {
		in.do("POST", fmt.Sprintf("/v1/in/team%d/%s", i, strings.Repeat("x", 100)), strings.NewReader("1"), "X-Signature", sign([]byte("1")))
	}
	in.post("1", "Authorization", "Bearer "+secret)
	in.do("POST", inPath, strings.NewReader("1"), "X-Signature", sign([]byte("2")))
	for _, leak := range []string{secret, sign([]byte("1")), sign([]byte("2")), strings.Repeat("x", 41)} {
		if strings.Contains(in.lines.String(), leak) {
			t.Errorf("%s in %s", leak, in.lines)
		}
	}
	if n := testutil.CollectAndCount(in.handler.metrics.deliveries); n != 3 {
		t.Errorf("%d series for 22 deliveries to 21 sources, one of which exists", n)
	}
	if got := testutil.ToFloat64(in.handler.metrics.deliveries.WithLabelValues(unknown, unknown, "refused", "unknown_source")); got != 20 {
		t.Errorf("%v unknown ones counted", got)
	}
	if knownReason("anything a provider invents") != "other" {
		t.Error("reasons are not bounded")
	}
}

// A source's counters are those of the handler that serves it, the first of several and the next.
func TestCountsOfASharedSource(t *testing.T) {
	t.Parallel()
	first := setup(t, nil)
	second := setup(t, nil)
	second.source = first.source
	for i, in := range []*intake{first, second, second, first, second} {
		if a := in.post(fmt.Sprint(i)); a.status != 202 {
			t.Fatalf("%+v", a)
		}
	}
	for in, want := range map[*intake]float64{first: 2, second: 3} {
		if got := in.count("accepted", ""); got != want {
			t.Errorf("%v accepted, want %v", got, want)
		}
		if got := testutil.ToFloat64(in.handler.metrics.bytes.WithLabelValues("acme", "orders")); got != want {
			t.Errorf("%v bytes, want %v", got, want)
		}
	}
}

// Nobody fills the log, whether by what is refused or by what is kept aside: of each kind so many lines are written, the number of the
// others is told, and a flood of one kind hides no other.
func TestLinesAreBounded(t *testing.T) {
	t.Parallel()
	said := &safeBuffer{}
	in := setup(t, func(c *Config, s *Source) {
		c.Logger = slog.New(slog.NewTextHandler(said, nil))
		s.Limiter = rate.NewLimiter(0, 21)
	})
	in.handler.lines.limit, in.handler.lines.burst = 0, 5
	for range 20 {
		in.do("POST", inPath, strings.NewReader("1"), "X-Signature", sign([]byte("2")))
		in.post("panic")
	}
	for range 2 { // the second is over the source's rate
		in.post("1")
	}
	in.do("GET", "/nowhere?secret=x", nil)
	in.handler.lines.left.flush() // as a timer does in a minute
	for want, n := range map[string]int{
		"level=INFO msg=delivery outcome=refused":     5,
		"level=WARN msg=delivery outcome=quarantined": 5,
		"level=ERROR msg=\"mapping panicked\"":        5,
		"level=INFO msg=\"deliveries left out of this log\" outcome=refused reason=mismatch count=15 within=1m0s":     1,
		"level=WARN msg=\"deliveries left out of this log\" outcome=quarantined reason=internal count=15 within=1m0s": 1,
		"level=ERROR msg=\"deliveries left out of this log\" outcome=broken reason=panic count=15 within=1m0s":        1,
		"level=INFO msg=delivery outcome=throttled team=acme source=orders reason=source":                             1,
		"outcome=misdirected team=\"\" source=\"\" reason=path detail=\"GET /nowhere\" address=127.0.0.1":             1,
	} {
		if got := strings.Count(said.String(), want); got != n {
			t.Errorf("%d lines have %s, want %d", got, want, n)
		}
	}
	if in.count("refused", "mismatch") != 20 || strings.Contains(said.String(), "secret=x") {
		t.Errorf("not all are counted, or a query is shown:\n%s", said)
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	sources := func(string, string) (*Source, bool) { return nil, false }
	for name, c := range map[string]Config{
		"no sources": {Log: &fakeLog{}}, "no log": {Sources: sources},
		"negative body": {Sources: sources, Log: &fakeLog{}, MaxBody: -1},
		"small memory":  {Sources: sources, Log: &fakeLog{}, MaxBody: 10, Limits: Limits{Memory: 5}},
	} {
		if _, err := New(c); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// TestStatusURL: the answer says where to ask, where that is known, and stays JSON whatever the id is.
func TestStatusURL(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"https://a.example/v1/events/acme/orders/%22?token=x&y": `{"id":"o\"1","status_url":"https://a.example/v1/events/acme/orders/%22?token=x\u0026y"}`,
		"": `{"id":"o\"1"}`,
	} {
		in := setup(t, func(c *Config, _ *Source) {
			c.StatusURL = func(team, source, id string) string {
				if team != "acme" || source != "orders" || id != `o"1` {
					t.Errorf("%s %s %s", team, source, id)
				}
				return url
			}
		})
		if a := in.post(`o"1`); a.status != 202 || a.body != want {
			t.Errorf("%d %s, want %s", a.status, a.body, want)
		}
		if a := in.post("unusable"); a.status != 202 || a.body != `{"id":null}` {
			t.Errorf("quarantined: %d %s", a.status, a.body)
		}
	}
}
