package bench

import (
	"encoding/json"
	"net"
	"net/http"
	"sync"
	"time"
)

// blockingDestination is a destination that leaves every call without an answer until release is called; then it answers 200. It counts
// the actions that it answers, and whether each entity's versions come one by one.
type blockingDestination struct {
	url    string
	server *http.Server

	mu         sync.Mutex
	open       bool
	released   chan struct{} // closed when the calls that wait are to be answered
	last       map[string]int64
	first      int   // actions answered for the first time
	repeated   int   // actions that came again
	outOfOrder int64 // versions that were left out, or came later than others of their entity
}

func startBlockingDestination() (*blockingDestination, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	d := &blockingDestination{url: "http://" + l.Addr().String() + "/run", released: make(chan struct{}), last: map[string]int64{}}
	d.server = &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: d}
	go func() { _ = d.server.Serve(l) }()
	return d, nil
}

func (d *blockingDestination) close() { d.server.Close() }

// release has the calls that wait answered. With open, all later calls are answered at once; without, they wait for the next release.
func (d *blockingDestination) release(open bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.open = open
	close(d.released)
	d.released = make(chan struct{})
}

func (d *blockingDestination) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	var body struct {
		Order struct {
			ID  string `json:"id"`
			Rev int64  `json:"rev"`
		} `json:"order"`
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		panic(http.ErrAbortHandler) // the bench makes no such body
	}
	d.mu.Lock()
	open, held := d.open, d.released
	d.mu.Unlock()
	if !open {
		select {
		case <-held:
		case <-r.Context().Done():
			return
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.count(body.Order.ID, body.Order.Rev)
}

func (d *blockingDestination) count(entity string, rev int64) {
	last := d.last[entity]
	if rev <= last {
		d.repeated++
		return
	}
	d.first++
	d.outOfOrder += rev - last - 1
	d.last[entity] = rev
}

// counts returns the counts so far.
func (d *blockingDestination) counts() (came, twice int, missed int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.first, d.repeated, d.outOfOrder
}
