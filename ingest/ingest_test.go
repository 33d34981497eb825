package ingest

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"

	"github.com/forebay-io/forebay/ingest/provider"
	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/jsonschema"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const secret = "hunter2hunter2"

// hmacVerifier is the fake scheme: X-Signature is the HMAC of the body in hex.
type hmacVerifier struct{}

func (hmacVerifier) Verify(r *verify.Request, _ time.Time) error {
	values := r.Header["X-Signature"]
	if len(values) == 0 {
		return &verify.Error{Reason: verify.MissingHeader}
	}
	got, err := hex.DecodeString(values[0])
	if err != nil || len(values) > 1 {
		return &verify.Error{Reason: verify.Malformed}
	}
	if !hmac.Equal(got, mac(r.Body)) {
		return &verify.Error{Reason: verify.Mismatch}
	}
	r.Secret = 1
	return nil
}

func mac(body []byte) []byte {
	m := hmac.New(sha256.New, []byte(secret))
	m.Write(body)
	return m.Sum(nil)
}

func sign(body []byte) string { return hex.EncodeToString(mac(body)) }

// fakeMapping names every body by its text, and obeys some.
type fakeMapping struct {
	secrets []string
	proof   verify.Proof
}

func (m fakeMapping) Proof() verify.Proof { return m.proof }

func (fakeMapping) Accepted(*verify.Request) *provider.Answer { return nil }

func (m fakeMapping) SecretHeaders() []string { return m.secrets }

func (fakeMapping) Confirm(*verify.Request) error { return nil }

func (fakeMapping) Challenge(r *verify.Request) (*provider.Answer, bool) {
	if c, ok := bytes.CutPrefix(r.Body, []byte("challenge ")); ok {
		return &provider.Answer{Status: 200, ContentType: "text/plain", Body: c}, true
	}
	return nil, false
}

func (fakeMapping) Asks(string) (verified, asks bool) { return false, false }

func (fakeMapping) Several() bool { return false }

func (fakeMapping) Split(*verify.Request) ([]verify.Request, error) { return nil, nil }

func (fakeMapping) Read(r *verify.Request, received time.Time, e *schemas.Event) error {
	switch string(r.Body) {
	case "unusable":
		return &provider.Unusable{Reason: "missing_field", Detail: "/id"}
	case "panic":
		panic("a mapping's bug about " + secret)
	}
	id := string(r.Body)
	if len(id) > 600 {
		id = "large"
	}
	*e = schemas.Event{ID: id, Source: "/acme/orders", Type: "t", Entity: "e", Time: received, RecordedTime: received,
		Payload: schemas.Delta, Version: schemas.Version{Kind: schemas.None}, Data: r.Body}
	return nil
}

func (fakeMapping) CheckSchema(*schemas.Event) (jsonschema.Verdict, string, error) {
	return "", "", nil
}

// fakeLog remembers a copy of what it took; answer, where set, decides.
type fakeLog struct {
	answer func(ctx context.Context) error

	mu         sync.Mutex
	events     []*schemas.Event
	deliveries []*Delivery
	topics     []string
}

func (l *fakeLog) done(ctx context.Context, by time.Time) error {
	if l.answer == nil {
		return nil
	}
	ctx, cancel := context.WithDeadline(ctx, by)
	defer cancel()
	return l.answer(ctx)
}

func (l *fakeLog) Append(ctx context.Context, by time.Time, topic string, e *schemas.Event) error {
	if err := l.done(ctx, by); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	kept := *e
	kept.Data = bytes.Clone(e.Data)
	l.events, l.topics = append(l.events, &kept), append(l.topics, topic)
	return nil
}

func (l *fakeLog) AppendAll(ctx context.Context, by time.Time, topic string, events []*schemas.Event, quarantine string, rest []*Delivery) error {
	for _, e := range events {
		if err := l.Append(ctx, by, topic, e); err != nil {
			return err
		}
	}
	for _, d := range rest {
		if err := l.Quarantine(ctx, by, quarantine, d); err != nil {
			return err
		}
	}
	return nil
}

func (l *fakeLog) Quarantine(ctx context.Context, by time.Time, topic string, d *Delivery) error {
	if err := l.done(ctx, by); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	kept := *d
	kept.Body = bytes.Clone(d.Body)
	l.deliveries, l.topics = append(l.deliveries, &kept), append(l.topics, topic)
	return nil
}

// safeBuffer is a bytes.Buffer that handlers may write to at once.
type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// intake is a handler behind a real server on loopback.
type intake struct {
	t       *testing.T
	server  *httptest.Server
	handler *Handler
	log     *fakeLog
	source  *Source
	lines   *safeBuffer
	metrics *prometheus.Registry
}

const ceiling = 4096

// patience is how long a test waits for an answer: what hangs fails, and does not hang the run.
const patience = time.Minute

// newIntake makes a handler without a server.
func newIntake(t *testing.T, change func(*Config, *Source)) *intake {
	t.Helper()
	in := &intake{t: t, log: &fakeLog{}, lines: &safeBuffer{}, metrics: prometheus.NewRegistry()}
	in.source = &Source{
		Source: &provider.Source{Team: "acme", Name: "orders", Verifier: hmacVerifier{}, MaxBody: 1024, Deadline: 5 * time.Second},
		Topic:  "events.acme.orders", QuarantineTopic: "quarantine.acme.orders", mapping: fakeMapping{},
	}
	c := Config{
		Sources: func(team, name string) (*Source, bool) { return in.source, team == "acme" && name == "orders" },
		Log:     in.log, MaxBody: ceiling, Registerer: in.metrics,
		Now:    func() time.Time { return time.Unix(1_700_000_000, 0) },
		Logger: slog.New(slog.NewTextHandler(in.lines, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	if change != nil {
		change(&c, in.source)
	}
	var err error
	if in.handler, err = New(c); err != nil {
		t.Fatal(err)
	}
	return in
}

func setup(t *testing.T, change func(*Config, *Source)) *intake {
	t.Helper()
	in := newIntake(t, change)
	in.server = httptest.NewUnstartedServer(in.handler)
	in.server.Config.ReadTimeout, in.server.Config.ReadHeaderTimeout = in.handler.c.ReadTimeout, patience // a busy machine's headers come late
	in.server.Start()
	in.server.Client().Timeout = patience
	t.Cleanup(in.server.Close)
	return in
}

const inPath = "/v1/in/acme/orders"

type answer struct {
	status int
	header http.Header
	body   string
}

func (in *intake) do(method, path string, body io.Reader, header ...string) answer {
	in.t.Helper()
	r, err := http.NewRequestWithContext(in.t.Context(), method, in.server.URL+path, body)
	if err != nil {
		in.t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	r.Host = r.Header.Get("Host")
	resp, err := in.server.Client().Do(r)
	if err != nil {
		in.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		in.t.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header, string(b)}
}

// post sends body with its signature.
func (in *intake) post(body string, header ...string) answer {
	in.t.Helper()
	return in.do("POST", inPath, strings.NewReader(body), append([]string{"X-Signature", sign([]byte(body))}, header...)...)
}

// count is the number of deliveries with an outcome and a reason.
func (in *intake) count(outcome, reason string) float64 {
	return testutil.ToFloat64(in.handler.metrics.deliveries.WithLabelValues("acme", "orders", outcome, reason))
}
