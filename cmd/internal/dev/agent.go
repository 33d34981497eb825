package dev

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// call is what the sample agent saw of one action.
type call struct {
	Key     string    `json:"key"`
	Source  string    `json:"source"`
	Type    string    `json:"type"`
	Entity  string    `json:"entity"`
	Version string    `json:"version"`
	EventID string    `json:"event_id"`
	At      time.Time `json:"at"`
}

// agent is the sample agent: an HTTP server that remembers its calls in order, the last maxCalls of them. A call under an
// Idempotency-Key that it remembers is counted and does nothing, as at any good destination. A call that it refuses it does not remember.
type agent struct {
	server   *http.Server
	listener net.Listener

	mu      sync.Mutex
	calls   []call
	keys    map[string]bool // of calls
	repeats int             // calls under a key that was there already
	refuses string          // the id of the event whose next call is refused; empty: none is
	grew    chan struct{}   // add closes and replaces it when calls grows
}

// maxCalls is how many calls the agent remembers.
const maxCalls = 10_000

// newAgent binds the agent's address. Run serves.
func newAgent(addr string) (*agent, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("start the sample agent: %w", err)
	}
	a := &agent{listener: l, keys: map[string]bool{}, grew: make(chan struct{})}
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+samplePath, a.run)
	mux.HandleFunc("GET /calls", a.list)
	a.server = &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 30 * time.Second}
	return a, nil
}

func (a *agent) url() string { return "http://" + a.listener.Addr().String() }

// Run serves until ctx is done.
func (a *agent) Run(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { a.server.Close() })
	defer stop()
	if err := a.server.Serve(a.listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// run answers POST /sample-agent, which the destination calls.
func (a *agent) run(w http.ResponseWriter, r *http.Request) {
	if _, err := io.Copy(io.Discard, http.MaxBytesReader(w, r.Body, 32<<20)); err != nil {
		http.Error(w, "too large", http.StatusRequestEntityTooLarge)
		return
	}
	h := r.Header
	if a.refused(h.Get("Ce-Id")) {
		http.Error(w, refusal, http.StatusUnprocessableEntity)
		return
	}
	a.add(call{
		Key: h.Get("Idempotency-Key"), Source: h.Get("Ce-Source"), Type: h.Get("Ce-Type"), Entity: h.Get("Ce-Partitionkey"),
		Version: h.Get("Ce-Entityversion"), EventID: h.Get("Ce-Id"), At: time.Now().UTC(),
	})
	w.Header().Set("Content-Type", "application/json")
	io.WriteString(w, `{"ok":true}`)
}

// refusal is what the agent answers to the one call that it refuses.
const refusal = "this order has an article without a price"

// refuseOnce has the agent refuse the next call for an event, for good: what is tried later it takes, as an agent that was mended.
func (a *agent) refuseOnce(id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.refuses = id
}

// refused tells whether a call for an event is the one to refuse.
func (a *agent) refused(id string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.refuses == "" || a.refuses != id {
		return false
	}
	a.refuses = ""
	return true
}

// add remembers a call, unless its key is known.
func (a *agent) add(c call) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.keys[c.Key] {
		a.repeats++
		return
	}
	if len(a.calls) == maxCalls {
		delete(a.keys, a.calls[0].Key)
		a.calls = a.calls[1:]
	}
	a.keys[c.Key] = true
	a.calls = append(a.calls, c)
	close(a.grew)
	a.grew = make(chan struct{})
}

// list answers GET /calls.
func (a *agent) list(w http.ResponseWriter, _ *http.Request) {
	calls, _ := a.seen()
	text, err := json.Marshal(struct {
		Items []call `json:"items"`
		Next  string `json:"next"`
	}{Items: calls})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Write(text)
}

// seen returns the calls that the agent remembers, and how many more came under a known key.
func (a *agent) seen() ([]call, int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]call{}, a.calls...), a.repeats
}

// wait waits until the agent remembers n calls.
func (a *agent) wait(ctx context.Context, n int) error {
	for {
		a.mu.Lock()
		have, grew := len(a.calls), a.grew
		a.mu.Unlock()
		if have >= n {
			return nil
		}
		select {
		case <-grew:
		case <-ctx.Done():
			return fmt.Errorf("the agent did %d of %d things: %w", have, n, context.Cause(ctx))
		}
	}
}
