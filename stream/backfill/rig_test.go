package backfill

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/sink"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// transport is a client on real sockets, as bare as the guard's: no redirects, nothing sent twice on its own.
type transport struct{ http.Transport }

func (c *transport) Do(r *http.Request) (*http.Response, error) { return c.RoundTrip(r) }

func newTransport(t testing.TB) *transport {
	t.Helper()
	c := &transport{http.Transport{DisableCompression: true}}
	t.Cleanup(c.CloseIdleConnections)
	return c
}

// api is a client without sockets, for simulated time: do answers.
type api struct {
	mu    sync.Mutex
	calls []time.Time
	urls  []string
	do    func(n int, r *http.Request) (*http.Response, error) // n counts from 1
}

func (a *api) Do(r *http.Request) (*http.Response, error) {
	a.mu.Lock()
	a.calls = append(a.calls, time.Now())
	a.urls = append(a.urls, r.URL.String())
	n := len(a.calls)
	a.mu.Unlock()
	return a.do(n, r)
}

func (a *api) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.calls)
}

// answerWith is a response; header is name, value, name, value.
func answerWith(code int, body string, header ...string) *http.Response {
	h := http.Header{}
	for i := 0; i+1 < len(header); i += 2 {
		h.Add(header[i], header[i+1])
	}
	return &http.Response{StatusCode: code, Header: h, Body: io.NopCloser(bytes.NewReader([]byte(body))), ContentLength: int64(len(body))}
}

// classOf and retryAfter are what the sinks' table says, in a few words; cmd injects the table itself.
func classOf(code int) sink.Class {
	switch {
	case 200 <= code && code <= 299:
		return sink.ClassOK
	case code == 401, code == 403:
		return sink.ClassDenied
	case code == 408, code == 425, 500 <= code && code <= 599:
		return sink.ClassBusy
	case code == 429:
		return sink.ClassThrottled
	}
	return sink.ClassRejected
}

func retryAfter(h http.Header, _ time.Time) time.Duration {
	n, _ := strconv.Atoi(h.Get("Retry-After"))
	return time.Duration(n) * time.Second
}

const sourceURI = "/acme/orders"

// fetcher is a fetcher of orders with a full jitter that is always its bound.
func fetcher(t testing.TB, use Use, client Client, change func(*FetcherConfig)) *Fetcher {
	t.Helper()
	cfg := FetcherConfig{
		Source: sourceURI, Use: use, URL: "https://api.example/orders/{entity.0}?key=" + urlSecret,
		Headers: map[string]schemas.Secret{"Authorization": schemas.NewSecret("Bearer " + headerSecret)},
		Client:  client, ClassOf: classOf, RetryAfter: retryAfter, Rand: func() float64 { return 1 },
		Retry: sink.RetryPolicy{Attempts: 4, Within: time.Minute, Min: time.Second, Max: 16 * time.Second},
	}
	if change != nil {
		change(&cfg)
	}
	f, err := NewFetcher(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

const urlSecret, headerSecret = "u-s3cr3t", "h-s3cr3t"

// order is an element as the tests' mapping reads it.
type order struct {
	ID     string `json:"id,omitempty"`
	Order  string `json:"order,omitempty"`
	Clock  string `json:"clock,omitempty"`
	Rev    *int64 `json:"rev"`
	Delta  bool   `json:"delta,omitempty"`
	Kind   string `json:"kind,omitempty"`
	Epoch  int64  `json:"epoch,omitempty"`
	Filler string `json:"filler,omitempty"`
}

// nameOrder is the mapping of the tests.
func nameOrder(element []byte) (*schemas.Event, error) {
	var o order
	if err := json.Unmarshal(element, &o); err != nil || o.Rev == nil {
		return nil, errors.New("missing_field: no /rev")
	}
	e := &schemas.Event{ID: o.ID, Type: "order", Entity: schemas.EntityKey(o.Order), Payload: schemas.Snapshot, Data: element,
		Hash: schemas.HashBody(element), Version: schemas.Version{Kind: schemas.Sequence, Clock: o.Clock, Epoch: o.Epoch, Value: *o.Rev}}
	if o.Delta {
		e.Payload = schemas.Delta
	}
	if o.Kind != "" {
		e.Version.Kind = schemas.VersionKind(o.Kind)
	}
	return e, nil
}

// memoryStore gives what is put, and keeps the outcomes.
type memoryStore struct {
	requests chan Request
	outcomes chan Outcome
	next     func() error      // fails Next where it says so
	done     func(n int) error // fails the n-th Done where it says so
	mu       sync.Mutex
	dones    int
	last     map[string]Outcome
}

func newStore() *memoryStore {
	return &memoryStore{requests: make(chan Request, 10_000), outcomes: make(chan Outcome, 10_000), last: map[string]Outcome{}}
}

func (s *memoryStore) Next(ctx context.Context) (Request, error) {
	if s.next != nil {
		if err := s.next(); err != nil {
			return Request{}, err
		}
	}
	select {
	case q := <-s.requests:
		return q, nil
	case <-ctx.Done():
		return Request{}, ctx.Err()
	}
}

func (s *memoryStore) Done(_ context.Context, id string, o Outcome) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dones++
	if s.done != nil {
		if err := s.done(s.dones); err != nil {
			return err
		}
	}
	if _, twice := s.last[id]; twice {
		return fmt.Errorf("request %s is done twice", id)
	}
	s.last[id] = o
	s.outcomes <- o
	return nil
}

// memoryLog keeps what is appended.
type memoryLog struct {
	mu     sync.Mutex
	events []*schemas.Event
	fail   func(n int, e *schemas.Event) error // of the n-th Append, from 1
	n      int
}

func (l *memoryLog) Append(_ context.Context, topic string, e *schemas.Event) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.n++
	if topic != "events.acme.orders" {
		return fmt.Errorf("topic %s", topic)
	}
	if l.fail != nil {
		if err := l.fail(l.n, e); err != nil {
			return err
		}
	}
	l.events = append(l.events, e)
	return nil
}

func (l *memoryLog) ids() (ids []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.events {
		ids = append(ids, e.ID)
	}
	return ids
}
