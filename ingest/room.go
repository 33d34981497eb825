package ingest

import (
	"net/http"
	"net/netip"
	"sync"
	"time"
)

// bodyRefusal is why a body is not taken. The text is for the log.
type bodyRefusal struct {
	outcome      outcome
	reason, text string
}

func (t *bodyRefusal) Error() string { return t.text }

var (
	errFull        = &bodyRefusal{unavailable, "in_flight", "no room: too many bytes are being read or produced"}
	errDisplaced   = &bodyRefusal{unavailable, "displaced", "made room for newer ones: the body had been on its way for too long"}
	errCrowded     = &bodyRefusal{unavailable, "connections", "made room for newer ones: half of all connections had bodies on their way"}
	errConnections = &bodyRefusal{throttled, "address_connections", "too many bodies on their way from one address"}
	errBytes       = &bodyRefusal{throttled, "address_bytes", "too many bytes from one address"}
	errStood       = &bodyRefusal{unavailable, "stood_still", "this process stood still while the body was on its way"}
	errPace        = &bodyRefusal{slow, "pace", "the body comes too slowly"}
)

// connectionMemory is what a connection takes beside the delivery's buffer, measured: its goroutine, the server's buffers, the request.
const connectionMemory = 24 << 10

// ownMemory is what a delivery with usual headers holds as long as it is there.
const ownMemory = smallBuffer + connectionMemory

// Of headers, connectionMemory has usualHeaders bytes. A line takes headerLine bytes beside its text, measured.
const (
	usualHeaders = 4 << 10
	headerLine   = 96
)

// ownMemoryOf is ownMemory with what the headers take beyond the usual.
func ownMemoryOf(h http.Header) int64 {
	taken := 0
	for name, values := range h {
		taken += len(name)
		for _, v := range values {
			taken += len(v) + headerLine
		}
	}
	return ownMemory + int64(max(0, taken-usualHeaders))
}

// room is the memory of all deliveries, from their first byte to their answer. It holds what has arrived, not what was promised.
//
// Whose body has not arrived has shown no signature yet. So that strangers cannot shut others out,
//
//   - a part of the memory is for small bodies alone; what they have beyond it gives way to large ones, too;
//   - one address has a part of it only, and so many connections; its small bodies count by number;
//   - a body that does not keep the pace is ended (pace.go);
//   - where there is no room for a newer body, the oldest one that has been on its way for longer than limits.YieldAfter gives way to it;
//   - where bodies on their way have half of all connections, the oldest gives way, however young: else connections would be closed
//     that have not been heard yet.
//
// Once a body has arrived, and is unpacked where that is what is signed, it keeps what it holds until its delivery is answered. Safe for concurrent use.
type room struct {
	limits Limits

	mu      sync.Mutex
	used    int64
	large   int64    // of used, by large bodies
	sizes   [2]queue // what arrives
	count   int      // of what arrives
	senders map[netip.Addr]*sender
	looks   bool      // whether a look at the pace is due
	due     time.Time // when it is
	stood   time.Time // when it came late last: this process had stood still
}

func newRoom(l Limits) *room {
	return &room{limits: l, sizes: [2]queue{{kind: bySize}, {kind: bySize}}, senders: map[netip.Addr]*sender{}}
}

// enter lets the body of a request begin to arrive. If it returns an error, the delivery ends.
func (r *room) enter(a *arrival, w http.ResponseWriter, headers http.Header, from netip.Addr, now time.Time) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.senders[from]
	if s == nil {
		s = &sender{addr: from, sizes: [2]queue{{kind: bySender}, {kind: bySender}}}
		r.senders[from] = s
	}
	a.w, a.from, a.since, a.looked, a.own = w, s, now, now, ownMemoryOf(headers)
	s.count++
	r.count++
	if old := oldest(&r.sizes); r.count > r.limits.Connections/2 {
		_ = r.end(old, errCrowded)
		old.interrupt()
	}
	r.queue(a, small)
	r.lookSoon(now)
	if s.count > r.limits.AddressConnections && !r.evict(oldest(&s.sizes), a, errConnections) {
		return r.end(a, errConnections)
	}
	return r.hold(a, a.own)
}

// queue puts an arrival among those of its size.
func (r *room) queue(a *arrival, s size) {
	a.size = s
	r.sizes[s].add(a)
	a.from.sizes[s].add(a)
}

func (r *room) unqueue(a *arrival) {
	r.sizes[a.size].remove(a)
	a.from.sizes[a.size].remove(a)
}

// grow has an arrival hold a new buffer of n bytes, beside the one that it has.
func (r *room) grow(a *arrival, n int64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if a.err != nil {
		return a.err
	}
	if a.size == small && n > r.limits.SmallBody+1 {
		r.unqueue(a)
		r.queue(a, large)
		r.large += a.held
		a.from.large += a.held
	}
	return r.hold(a, n)
}

// moved says that an arrival's body is in its new buffer of n bytes, and holds the one before no longer.
func (r *room) moved(a *arrival, n int64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if a.err != nil {
		return a.err
	}
	before := a.held - a.own - n // held counts both buffers until now
	a.held -= before
	r.used -= before
	if a.size == large {
		r.large -= before
		a.from.large -= before
	}
	return nil
}

// hold has an arrival hold so many bytes more. Where there is no room it has others give way, or ends.
func (r *room) hold(a *arrival, more int64) error {
	// One body that is unpacked may need more than an address has: it is taken where there is no other.
	for a.size == large && a.from.large > a.held && a.from.large+more > r.limits.AddressBytes {
		if !r.evict(a.from.sizes[large].oldest, a, errBytes) {
			return r.end(a, errBytes)
		}
	}
	for r.used+more > r.limits.Memory || r.overflows(a, more) {
		// Where the part of large bodies is not full, small ones have more than theirs, and give way to both.
		if (r.overflows(a, more) || !r.evict(r.sizes[small].oldest, a, errDisplaced)) && !r.evict(r.sizes[large].oldest, a, errDisplaced) {
			return r.end(a, errFull)
		}
	}
	a.held += more
	r.used += more
	if a.size == large {
		r.large += more
		a.from.large += more
	}
	return nil
}

// overflows says whether large bodies would have more than their part if a held so much more.
func (r *room) overflows(a *arrival, more int64) bool {
	return a.size == large && r.large+more > r.limits.Memory-r.limits.SmallMemory
}

// evict makes room for a: it ends the oldest arrival of a queue with err, frees what it held and has its read return. It returns false,
// and does nothing, if that is a itself or began to arrive less than YieldAfter ago, or a is being unpacked. The caller holds mu.
func (r *room) evict(oldest, a *arrival, err error) bool {
	if oldest == nil || oldest == a || a.there || time.Since(oldest.since) < r.limits.YieldAfter {
		return false
	}
	_ = r.end(oldest, err)
	oldest.interrupt()
	return true
}

// end ends an arrival and frees what it holds. It returns err.
func (r *room) end(a *arrival, err error) error {
	a.err = err
	r.forget(a)
	r.free(a)
	return err
}

// forget removes an arrival from the queues. It keeps what it holds.
func (r *room) forget(a *arrival) {
	s := a.from
	if s == nil {
		return
	}
	r.unqueue(a)
	a.from = nil
	if a.size == large {
		s.large -= a.held
	}
	r.count--
	if s.count--; s.count == 0 {
		delete(r.senders, s.addr)
	}
}

func (r *room) free(a *arrival) {
	r.used -= a.held
	if a.size == large {
		r.large -= a.held
	}
	a.held = 0
}

// arrived says that the body is there. It returns why the room has ended it, if it has.
func (r *room) arrived(a *arrival) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forget(a)
	return a.err
}

// ended returns why the room has ended an arrival whose read failed; else the error of the read. What was not read in time because this process
// stood still is no fault of its sender's: many send nothing again after a 4xx.
func (r *room) ended(a *arrival, read error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if a.err != nil {
		return a.err
	}
	if timedOut(read) && (time.Since(r.due) > lookEvery || r.stood.After(a.since)) {
		return errStood
	}
	return read
}

// unpacks says that a body is there, and that what grows and moves from now on is what it is without its compression, beside it. Nobody gives
// way to that: a stranger's 25 KiB may be 25 MiB.
func (r *room) unpacks(a *arrival) {
	r.mu.Lock()
	defer r.mu.Unlock()
	a.own, a.there = a.held, true
}

// leave frees what a delivery holds.
func (r *room) leave(a *arrival) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forget(a)
	r.free(a)
}

// usage returns how many bytes are held, how many of them by large bodies, and how many bodies are on their way.
func (r *room) usage() (used, large int64, arriving int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.used, r.large, r.count
}
