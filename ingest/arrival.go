package ingest

import (
	"net/http"
	"net/netip"
	"sync/atomic"
	"time"
)

// arrival is a body on its way in, as [room] knows it. All but got belongs to the room, under its lock.
type arrival struct {
	w      http.ResponseWriter // whose connection the body comes over
	ends   departure           // the same connection
	from   *sender             // nil: the body has arrived, or has ended
	own    int64               // bytes of memory that it holds beside a larger buffer
	held   int64               // bytes of memory, own among them
	there  bool                // the body is there, and is unpacked
	size   size
	since  time.Time
	got    atomic.Int64 // bytes of the body so far
	looked time.Time    // when the pace was looked at
	before int64        // what got was then
	err    error        // why the room has ended it
	links  [2]links     // in a queue of each kind
}

// has says how much of the body there is.
func (a *arrival) has(bytes int) { a.got.Store(int64(bytes)) }

// interrupt has the read that waits for the body return. What is left of the body is never read.
func (a *arrival) interrupt() {
	a.ends.leaves()
	_ = http.NewResponseController(a.w).SetReadDeadline(time.Unix(1, 0)) // where the server cannot, its read timeout ends the read
}

// size is small or large: what a body holds so far, not what was promised.
type size int

const (
	small size = iota
	large
)

// sender is the address that arrivals come from, while there are any.
type sender struct {
	addr  netip.Addr
	count int
	large int64 // bytes that its large bodies hold
	sizes [2]queue
}

// oldest returns the oldest arrival of both sizes.
func oldest(sizes *[2]queue) *arrival {
	a, b := sizes[small].oldest, sizes[large].oldest
	if a == nil || b != nil && b.since.Before(a.since) {
		return b
	}
	return a
}

// links are an arrival's neighbours in a queue.
type links struct{ older, newer *arrival }

// Kinds of queues.
const (
	bySize = iota
	bySender
)

// queue is a list of arrivals, the oldest first. It is linked through the arrivals themselves, so that a delivery that comes and goes
// allocates nothing.
type queue struct {
	kind           int
	oldest, newest *arrival
}

func (q *queue) add(a *arrival) {
	a.links[q.kind] = links{older: q.newest}
	if q.newest == nil {
		q.oldest = a
	} else {
		q.newest.links[q.kind].newer = a
	}
	q.newest = a
}

func (q *queue) remove(a *arrival) {
	l := &a.links[q.kind]
	if l.older == nil {
		q.oldest = l.newer
	} else {
		l.older.links[q.kind].newer = l.newer
	}
	if l.newer == nil {
		q.newest = l.older
	} else {
		l.newer.links[q.kind].older = l.older
	}
	*l = links{}
}
