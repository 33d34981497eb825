package bench

import (
	"encoding/json"
	"net"
	"net/http"
	"sync"
	"time"
)

// door is a destination that holds every call until it is opened. What it lets through it answers with 200, and looks at
// whether the versions of each entity come one by one.
type door struct {
	url    string
	server *http.Server

	mu     sync.Mutex
	open   bool
	held   chan struct{} // closed when those who wait may pass
	last   map[string]int64
	came   int   // actions that came for the first time
	twice  int   // that came again
	missed int64 // versions that were left out, or came later than others of their entity
}

func newDoor() (*door, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	d := &door{url: "http://" + l.Addr().String() + "/run", held: make(chan struct{}), last: map[string]int64{}}
	d.server = &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: d}
	go func() { _ = d.server.Serve(l) }()
	return d, nil
}

func (d *door) close() { d.server.Close() }

// let lets those through who wait; from then on everybody, where open says so.
func (d *door) let(open bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.open = open
	close(d.held)
	d.held = make(chan struct{})
}

func (d *door) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
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
	open, held := d.open, d.held
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
	d.note(body.Order.ID, body.Order.Rev)
}

func (d *door) note(entity string, rev int64) {
	last := d.last[entity]
	if rev <= last {
		d.twice++
		return
	}
	d.came++
	d.missed += rev - last - 1
	d.last[entity] = rev
}

// passed is what has come so far.
func (d *door) passed() (came, twice int, missed int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.came, d.twice, d.missed
}
