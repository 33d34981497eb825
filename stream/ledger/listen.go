package ledger

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/forebay-io/forebay/stream/ledger/internal/pg"
)

// listeners are notified of new commands through one connection of the process, which is open while there are listeners. A
// notification is a hint: it may be lost with the connection, or by a pooler that does not pass it on, and commands from before the
// connection give none. Listeners look for commands by themselves as well.
type listeners struct {
	mu   sync.Mutex
	next int // the id of the next listener
	byID map[int]listener
	stop func() // ends the connection and waits; nil: there is none
}

// listener is one call of Listen.
type listener struct {
	subscription int32
	notify       func()
}

// Listen calls notify whenever a command was written for the namespace's subscription, and after every reconnection, until
// stop is called; after stop it is not called any more. notify must not wait.
func (n *Namespace) Listen(notify func()) (stop func()) {
	s := &n.ledger.listeners
	s.mu.Lock()
	defer s.mu.Unlock()
	id := s.next
	s.next++
	if s.byID == nil {
		s.byID = map[int]listener{}
	}
	s.byID[id] = listener{n.id, notify}
	if s.stop == nil {
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan struct{})
		go func() { defer close(ended); n.ledger.listen(ctx) }()
		s.stop = func() { cancel(); <-ended }
	}
	return func() { s.remove(id) }
}

// remove takes a listener out. With the last one it closes the connection, and waits until that has ended.
func (s *listeners) remove(id int) {
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

// notify calls the listeners of a subscription, by its id as text; all listeners if subscription is empty.
func (s *listeners) notify(subscription string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.byID {
		if subscription == "" || subscription == strconv.Itoa(int(l.subscription)) {
			l.notify()
		}
	}
}

// listen keeps a connection that listens until ctx ends, and makes it again when it breaks.
func (l *Ledger) listen(ctx context.Context) {
	for try := 0; ctx.Err() == nil; try++ {
		if try > 0 {
			select {
			case <-time.After(min(time.Duration(try)*100*time.Millisecond, 5*time.Second)):
			case <-ctx.Done():
				return
			}
		}
		err := l.hot.Listen(ctx, "forebay_commands_"+l.cfg.Schema, func() { try = 0; l.listeners.notify("") }, l.listeners.notify)
		if err != nil && ctx.Err() == nil {
			l.cfg.Logger.WarnContext(ctx, "new commands are not announced, only polled for; listening again in a moment", "error", pg.Redact(err))
		}
	}
}
