package bench

import (
	"encoding/json"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

// countingDestination is a destination that answers every call at once, and counts the calls for each event.
type countingDestination struct {
	url    string
	server *http.Server

	mu    sync.Mutex
	times []uint8 // by the event's number
	calls int
}

// startCountingDestination starts one for events 0 to n-1.
func startCountingDestination(n int) (*countingDestination, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	d := &countingDestination{url: "http://" + l.Addr().String() + "/run", times: make([]uint8, n)}
	d.server = &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: d}
	go func() { _ = d.server.Serve(l) }()
	return d, nil
}

func (d *countingDestination) close() { d.server.Close() }

func (d *countingDestination) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	var body struct {
		N int `json:"n"`
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil || body.N < 0 || body.N >= len(d.times) {
		panic(http.ErrAbortHandler) // the bench makes no such body
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calls++
	d.times[body.N] = min(d.times[body.N], 254) + 1
}

// total is how many calls have come.
func (d *countingDestination) total() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.calls
}

// counts returns how many calls have come for each event.
func (d *countingDestination) counts() []uint8 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.times)
}
