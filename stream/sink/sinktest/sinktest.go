// Package sinktest is the conformance suite that every sink passes. The sink supplies a [Harness], the suite supplies
// the tests and, for sinks that speak HTTP, a destination on loopback that does what each test scripts.
package sinktest

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/sink"
)

// Target is what a sink under test is pointed at.
type Target struct {
	URL    string       // of the scripted destination, plain http on 127.0.0.1; empty for sinks without HTTP
	Secret string       // to be configured wherever the sink takes secrets; it must never come back
	Logger *slog.Logger // where the sink may log
}

// Harness makes a sink for the suite.
type Harness struct {
	// Make gives a sink of its own to each call. It must not register anything global. Its templates must not need the
	// event's body: one of the actions has none.
	Make func(t testing.TB, target Target) sink.Sink
	// Key finds the action's id in a request that acts: the idempotency key, or the marker that a look finds. What it gives
	// holds the id. nil for sinks that do not speak HTTP, which the tests of the wire leave out.
	Key func(r *http.Request, body []byte) string
	// Answer is the body of the destination's answers to requests that act, for sinks that read it; nil: text that means nothing.
	Answer func(code int) string
	// Lookup answers a request that only looks for what an earlier attempt did, as if there were nothing to find, and
	// reports whether r is one. Those requests do not count. nil: the sink makes none.
	Lookup func(w http.ResponseWriter, r *http.Request) bool
	// Whole says that the sink has an answer when that has ended, whatever it keeps of it: its destination may work until then.
	Whole bool
	// Wait is what the sink makes of a 429 that does not say how long to wait.
	Wait time.Duration
}

// Run runs the suite.
func Run(t *testing.T, h Harness) {
	t.Run("DoesWhatItIsTold", h.testDo)
	t.Run("ConcurrentDo", h.testConcurrent)
	t.Run("EndedContext", h.testEnded)
	t.Run("IdempotencyIsConstant", h.testIdempotency)
	t.Run("CloseAfterDo", h.testClose)
	if h.Key == nil {
		return
	}
	t.Run("SameKeyOnEveryAttempt", h.testKey)
	t.Run("OneAttemptOnReset", h.testReset)
	t.Run("OneAttemptOnFailure", h.testOneAttempt)
	t.Run("HangingDestination", h.testHang)
	t.Run("HangingAnswer", h.testHangingAnswer)
	t.Run("ResponseIsBounded", h.testLargeResponse)
	t.Run("EndlessAnswer", h.testEndless)
	t.Run("StatusTable", h.testStatuses)
	t.Run("RedirectIsNotFollowed", h.testRedirect)
	t.Run("RetryAfter", h.testRetryAfter)
	t.Run("NoSecretLeaks", h.testLeaks)
}

// Action returns a well-formed action; n tells actions apart.
func Action(n int) sink.Action {
	e := &schemas.Event{
		ID: fmt.Sprintf("delivery-%d", n), Source: "/acme/orders", Type: "com.example.order.changed", Entity: "orders/7",
		Time: time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC), RecordedTime: time.Date(2026, 3, 1, 10, 0, 1, 0, time.UTC),
		DataContentType: "application/json", Version: schemas.Version{Kind: schemas.Sequence, Value: int64(n)},
		Payload: schemas.Snapshot, TraceParent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
		Data: fmt.Appendf(nil, `{"order":7,"rev":%d}`, n),
	}
	return sink.Action{
		ID: schemas.NewActionID("acme.triage", 0, e.Source, e.ID, "run"), Name: "run", Subscription: "acme.triage",
		Destination: "acme/agent", Attempt: 1, Epoch: 4, Event: e,
	}
}

// bench is one test's sink with what it logs and, for HTTP, its destination.
type bench struct {
	sink sink.Sink
	dest *destination
	logs *logs
}

const secret = "c2lua3Rlc3Qtc2VjcmV0LXRoYXQtbmV2ZXItbGVha3M=" // base64, as some sinks want it decodable

// newBench makes a sink for one test, with a destination if the sink speaks HTTP, and lets the test run in parallel with others.
func (h Harness) newBench(t *testing.T) *bench {
	t.Helper()
	t.Parallel()
	b := &bench{logs: &logs{}}
	target := Target{Secret: secret, Logger: slog.New(slog.NewJSONHandler(b.logs, &slog.HandlerOptions{Level: slog.LevelDebug}))}
	if h.Key != nil {
		b.dest = newDestination(t, h)
		target.URL = b.dest.URL
	}
	b.sink = h.Make(t, target)
	t.Cleanup(func() { _ = b.sink.Close(context.Background()) })
	return b
}

// testDo makes an attempt at a destination that works, also with an empty body.
func (h Harness) testDo(t *testing.T) {
	b := h.newBench(t)
	if _, err := b.sink.Do(t.Context(), Action(1)); err != nil {
		t.Fatalf("a working destination: %v", err)
	}
	if b.dest != nil && b.dest.count() != 1 {
		t.Errorf("%d requests, want 1", b.dest.count())
	}
	empty := Action(2)
	empty.Event.Data = []byte{}
	if _, err := b.sink.Do(t.Context(), empty); err != nil {
		t.Errorf("an empty body: %v", err)
	}
}

// testConcurrent makes attempts of many actions at a time: each succeeds, and each has the key of its own action.
func (h Harness) testConcurrent(t *testing.T) {
	b := h.newBench(t)
	var wg sync.WaitGroup
	const n = 16
	for i := range n {
		wg.Go(func() {
			if _, err := b.sink.Do(t.Context(), Action(i)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if b.dest == nil {
		return
	}
	keys := map[string]bool{}
	for _, r := range b.dest.all() {
		keys[h.Key(r.req, r.body)] = true
	}
	if len(keys) != n {
		t.Errorf("%d keys for %d actions", len(keys), n)
	}
}

// testEnded makes an attempt whose context has ended: it fails at once, does nothing, says so, and may be tried again.
func (h Harness) testEnded(t *testing.T) {
	b := h.newBench(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	begin := time.Now()
	_, err := b.sink.Do(ctx, Action(1))
	switch {
	case err == nil:
		t.Error("an ended context: no error")
	case !sink.ClassOf(err).Retried():
		t.Errorf("class %q would not be retried", sink.ClassOf(err))
	case !sink.Untouched(err):
		t.Errorf("nothing can have been done, and the error does not say so: %v", err)
	}
	if took := time.Since(begin); took > patience {
		t.Errorf("it took %s", took)
	}
	if b.dest != nil && b.dest.count() != 0 {
		t.Errorf("%d requests of an attempt that was over before it began", b.dest.count())
	}
}

// testIdempotency checks that the sink declares its idempotency, and that attempts do not change it.
func (h Harness) testIdempotency(t *testing.T) {
	b := h.newBench(t)
	kind := b.sink.Idempotency()
	switch kind {
	case sink.Idempotent, sink.Fenced, sink.Unsafe:
	default:
		t.Fatalf("idempotency %q is not declared", kind)
	}
	_, _ = b.sink.Do(t.Context(), Action(1))
	if b.dest != nil {
		b.dest.script(b.dest.status(500, nil))
		_, _ = b.sink.Do(t.Context(), Action(1))
	}
	if got := b.sink.Idempotency(); got != kind {
		t.Errorf("idempotency changed from %q to %q", kind, got)
	}
}

// testClose closes a sink twice: the second time is no error either.
func (h Harness) testClose(t *testing.T) {
	b := h.newBench(t)
	if _, err := b.sink.Do(t.Context(), Action(1)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := b.sink.Close(t.Context()); err != nil {
			t.Errorf("close: %v", err)
		}
	}
}

// logs keeps what a sink logs.
type logs struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logs) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// assertNoSecret fails where a kept text shows the secret.
func assertNoSecret(t *testing.T, what, text string) {
	t.Helper()
	if strings.Contains(text, secret) {
		t.Errorf("%s shows the secret: %s", what, text)
	}
}
