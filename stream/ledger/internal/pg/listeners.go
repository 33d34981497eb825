package pg

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// Listeners are notified through one connection of the process, which is open while there are listeners. A notification is a hint: it may
// be lost with the connection, or by a pooler that does not pass it on, and what was written before the connection gives none. So all are
// notified with each new connection, and as often as one cannot be made.
type Listeners struct {
	pool    *Pool
	channel string
	beat    Beat
	log     *slog.Logger

	mu   sync.Mutex
	next int // the id of the next listener
	byID map[int]listener
	stop func() // ends the connection and waits; nil: there is none
}

// listener is one call of Add.
type listener struct {
	payload string
	notify  func()
}

// NewListeners returns the listeners of a channel. It opens no connection.
func NewListeners(p *Pool, channel string, beat Beat, log *slog.Logger) *Listeners {
	return &Listeners{pool: p, channel: channel, beat: beat, log: log, byID: map[int]listener{}}
}

// Add calls notify for each notification with a payload, after every reconnection and with every try at one that fails, until stop is
// called; after stop it is not called any more. notify must not wait.
func (s *Listeners) Add(payload string, notify func()) (stop func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := s.next
	s.next++
	s.byID[id] = listener{payload, notify}
	if s.stop == nil {
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan struct{})
		go func() { defer close(ended); s.run(ctx) }()
		s.stop = func() { cancel(); <-ended }
	}
	return func() { s.remove(id) }
}

// remove takes a listener out. With the last one it closes the connection, and waits until that has ended.
func (s *Listeners) remove(id int) {
	s.mu.Lock()
	delete(s.byID, id)
	var stop func()
	if len(s.byID) == 0 {
		stop, s.stop = s.stop, nil
	}
	s.mu.Unlock()
	if stop != nil {
		stop()
	}
}

// Notify calls the listeners for a payload; all listeners if it is empty.
func (s *Listeners) Notify(payload string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.byID {
		if payload == "" || payload == l.payload {
			l.notify()
		}
	}
}

// run keeps a connection that listens until ctx ends, and makes it again when it breaks.
func (s *Listeners) run(ctx context.Context) {
	for try := 0; ctx.Err() == nil; try++ {
		if try > 0 {
			select {
			case <-time.After(min(time.Duration(try)*100*time.Millisecond, time.Second)):
			case <-ctx.Done():
				return
			}
		}
		err := s.pool.listen(ctx, s.channel, s.beat, func() { try = 0; s.Notify("") }, s.Notify)
		if err != nil && ctx.Err() == nil {
			s.log.WarnContext(ctx, "postgres does not notify this process, which polls meanwhile; listening again in a moment", "channel", s.channel, "error", Redact(err))
			s.Notify("")
		}
	}
}
