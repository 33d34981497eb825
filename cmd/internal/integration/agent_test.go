package integration

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// call is one request that the agent saw.
type call struct {
	path    string // of the URL
	key     string // Idempotency-Key
	source  string // ce-source
	event   string // ce-id
	sentAs  string // ce-deliveryid
	typ     string // ce-type
	late    bool   // forebay-late
	entity  string // ce-partitionkey
	version string // ce-entityversion
	result  string // forebay-result-url, and its token
	token   string
	begin   time.Time
	end     time.Time // zero: never answered
	status  int       // of the answer
}

// agent is the destination: it records every call in the order in which the calls began.
type agent struct {
	*httptest.Server
	latency time.Duration
	// answer decides the status; nil is 200.
	answer func(c call) int
	// reply gives the answer a header and a body; nil: it has none of its own.
	reply func(c call, status int, h http.Header) (body string)

	mu       sync.Mutex
	calls    []call
	answered map[string]bool // by source and event
	ended    int             // calls that were answered
	grew     chan struct{}   // closed and replaced at every finished call

	inFlight, most atomic.Int64
}

func newAgent(t *testing.T, latency time.Duration) *agent {
	a := &agent{latency: latency, answered: map[string]bool{}, grew: make(chan struct{})}
	a.Server = httptest.NewServer(a)
	t.Cleanup(a.Close)
	return a
}

// answers has it answer with a status while a condition holds, and otherwise with 200.
func (a *agent) answers(status int, while func(call) bool) {
	a.answer = func(c call) int {
		if while(c) {
			return status
		}
		return http.StatusOK
	}
}

func (a *agent) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if n := a.inFlight.Add(1); n > a.most.Load() {
		a.most.Store(n)
	}
	defer a.inFlight.Add(-1)
	c := call{
		path: r.URL.Path, key: r.Header.Get("Idempotency-Key"), source: r.Header.Get("ce-source"), event: r.Header.Get("ce-id"), sentAs: r.Header.Get("ce-deliveryid"),
		entity: r.Header.Get("ce-partitionkey"), version: r.Header.Get("ce-entityversion"), begin: time.Now(),
		typ: r.Header.Get("ce-type"), late: r.Header.Get("forebay-late") == "true",
		result: r.Header.Get("forebay-result-url"), token: r.Header.Get("forebay-action-token"),
	}
	a.mu.Lock()
	at := len(a.calls)
	a.calls = append(a.calls, c)
	a.mu.Unlock()

	io.Copy(io.Discard, r.Body)
	select {
	case <-time.After(a.latency):
	case <-r.Context().Done(): // the caller was killed
		return
	}
	status := http.StatusOK
	if a.answer != nil {
		status = a.answer(c)
	}
	body := ""
	if a.reply != nil {
		body = a.reply(c, status, w.Header())
	}
	w.WriteHeader(status)
	io.WriteString(w, body)
	a.mu.Lock()
	a.calls[at].end, a.calls[at].status = time.Now(), status
	a.answered[c.source+" "+c.event] = true
	a.ended++
	close(a.grew)
	a.grew = make(chan struct{})
	a.mu.Unlock()
}

// snapshot is a copy of the calls so far.
func (a *agent) snapshot() []call {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]call(nil), a.calls...)
}

// acted is how many different events were answered.
func (a *agent) acted() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.answered)
}

// waitActed waits until n different events were answered.
func (a *agent) waitActed(t *testing.T, n int, within time.Duration) {
	t.Helper()
	deadline := time.After(within)
	for {
		a.mu.Lock()
		grew, acted := a.grew, len(a.answered)
		a.mu.Unlock()
		if acted >= n {
			return
		}
		select {
		case <-grew:
		case <-deadline:
			t.Fatalf("after %s the agent acted on %d events, want %d", within, a.acted(), n)
		}
	}
}

// waitQuiet waits until n different events were answered, or nothing was for a while.
func (a *agent) waitQuiet(n int, quiet time.Duration) {
	for {
		a.mu.Lock()
		grew, acted := a.grew, len(a.answered)
		a.mu.Unlock()
		if acted >= n {
			return
		}
		select {
		case <-grew:
		case <-time.After(quiet):
			return
		}
	}
}

// seen is how often the agent was called for an event.
func (a *agent) seen(event string) int {
	n := 0
	for _, c := range a.snapshot() {
		if c.event == event {
			n++
		}
	}
	return n
}
