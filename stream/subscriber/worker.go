package subscriber

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
)

const (
	firstPause = 100 * time.Millisecond // between two attempts at first, doubled up to
	lastPause  = 30 * time.Second
)

func longer(wait time.Duration) time.Duration { return min(2*wait, lastPause) }

// worker decides one partition's records, from its claim to its end.
type worker struct {
	*session
	place
	epoch int64 // of the claim
	// next is the position that this worker knows of, and sent the one of its claim or last commit, of which no answer may have come.
	next, sent int64
	readIn     int32 // the leader epoch of the last record before the position of the claim; -1: not known
	waits      waits
	quit       chan struct{} // closed by the session: no more transactions
	done       chan struct{} // closed when the worker has ended
	wake       chan struct{} // one token: the queue has records; never closed

	mu     sync.Mutex
	queue  []*kgo.Record // read and not decided
	bytes  int           // of the queue
	paused bool          // the client fetches none of this partition until the queue is short again
}

func newWorker(m *session, at place) *worker {
	return &worker{session: m, place: at, readIn: -1, quit: make(chan struct{}), done: make(chan struct{}), wake: make(chan struct{}, 1)}
}

// add appends to the queue. A partition that is behind is not fetched any more, so that memory is bounded.
func (w *worker) add(records []*kgo.Record) {
	share := w.share()
	w.mu.Lock()
	w.queue = append(w.queue, records...)
	for _, r := range records {
		w.bytes += sizeOf(r)
	}
	if (len(w.queue) > 10*w.Batch || w.bytes > share) && !w.paused {
		w.paused = true
		w.client.PauseFetchPartitions(map[string][]int32{w.topic: {w.partition}})
	}
	w.mu.Unlock()
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// take removes the next batch from the queue: as many records as the bounds allow, and one at least.
func (w *worker) take() []*kgo.Record {
	share := w.share()
	w.mu.Lock()
	defer w.mu.Unlock()
	n, bytes := 0, 0
	for ; n < min(len(w.queue), w.Batch); n++ {
		size := sizeOf(w.queue[n])
		if n > 0 && bytes+size > share {
			break
		}
		bytes += size
	}
	records := slices.Clone(w.queue[:n])
	clear(w.queue[:n]) // or the array would keep them
	w.queue, w.bytes = w.queue[n:], w.bytes-bytes
	if w.paused && len(w.queue) <= w.Batch && w.bytes <= share/2 {
		w.paused = false
		w.resume()
	}
	return records
}

// share is this partition's part of QueueBytes.
func (w *worker) share() int {
	w.session.mu.Lock()
	defer w.session.mu.Unlock()
	return w.QueueBytes / max(1, len(w.workers))
}

// sizeOf is what a record takes of memory, about.
func sizeOf(r *kgo.Record) int {
	const itself = 300
	size := itself + len(r.Key) + len(r.Value)
	for _, h := range r.Headers {
		size += len(h.Key) + len(h.Value)
	}
	return size
}

// resume has the client fetch the partition again.
func (w *worker) resume() { w.client.ResumeFetchPartitions(map[string][]int32{w.topic: {w.partition}}) }

// run decides what comes until the worker is told to quit, or the session fails.
func (w *worker) run() {
	defer close(w.done)
	w.waits.due = time.Now() // what waits from before
	if err := w.endReleases(); err != nil {
		w.fail(err)
	}
	for {
		timer := time.NewTimer(w.waits.left())
		records := w.take()
		var err error
		switch {
		case len(records) > 0:
			err = w.untilDone(unit{records: records})
		default:
			select {
			case <-w.quit:
			case <-w.wake:
			case <-timer.C:
			}
		}
		timer.Stop()
		if err == nil && !w.quits() && w.waits.left() == 0 {
			err = w.sweep()
		}
		switch {
		case w.quits():
			return
		case err != nil:
			w.fail(err)
			<-w.quit // which the end of the session closes
			return
		}
	}
}

func (w *worker) quits() bool {
	select {
	case <-w.quit:
		return true
	default:
		return false
	}
}

// unit is what one transaction decides: records, or the ends of waits.
type unit struct {
	records []*kgo.Record
	ended   []gate.VersionLineKey
	asOf    time.Time                   // by the database's clock: what was overdue then ends
	givenUp map[schemas.EventKey]string // events whose handler failed too often, with its last error
	most    int                         // how many waiting events of a version line one transaction may release; 0: Batch
}

// untilDone has a unit decided, in as many transactions as it takes: long releases are cut, see [worker.decide]. What fails for a part of it is divided until the part is alone, and tried again for as long as it takes;
// an event whose handler goes on failing is given up after Attempts. It returns an error only where the session has to end.
func (w *worker) untilDone(u unit) error {
	failed := map[schemas.EventKey]int{}
	if u.most == 0 {
		u.most = w.Batch
	}
	for wait := firstPause; !w.quits(); wait = longer(wait) {
		d, err := w.transact(u)
		handlers, isHandlers := errors.AsType[*handlerError](err)
		switch {
		case err == nil && d.unfinished:
			wait = firstPause / 2
			continue
		case err == nil && !d.divide || errors.Is(err, errFenced):
			return err
		case !isHandlers && hopeless(err):
			return withAdvice(err)
		case d.divide || u.size() > 1 && dataMayBeWrong(err):
			first, second := u.divide()
			if err := w.untilDone(first); err != nil {
				return err
			}
			return w.untilDone(second)
		case len(d.ran) > 1 && u.most > 1 && dataMayBeWrong(err): // fewer of those that wait at a time
			u.most = max(1, min(u.most, len(d.ran))/2)
			continue
		case isHandlers && handlers.refused:
			failed[handlers.key]++
			if w.Attempts > 0 && failed[handlers.key] >= w.Attempts {
				u.giveUp(handlers)
				continue
			}
		}
		w.Logger.Error("transaction rolled back; trying again", "group", w.Group, "topic", w.topic, "partition", w.partition,
			"offset", u.offset(w.next), "wait", wait, "error", err)
		pause(w.quit, wait/2+rand.N(wait/2))
	}
	return nil
}

// handlerError is what a handler returned.
type handlerError struct {
	key     schemas.EventKey // of the event
	err     error
	refused bool // it counts as an attempt: the handler failed, not the database under it
}

func (e *handlerError) Error() string { return "handler: " + e.err.Error() }
func (e *handlerError) Unwrap() error { return e.err }

// giveUp has the unit's next transaction set an event aside instead of calling the handler.
func (u *unit) giveUp(e *handlerError) {
	if u.givenUp == nil {
		u.givenUp = map[schemas.EventKey]string{}
	}
	u.givenUp[e.key] = e.err.Error()
}

// dataMayBeWrong reports whether an error may be one event's: the handler's, one of the data, or time that was too short for all of them.
// Dividing does not help with others.
func dataMayBeWrong(err error) bool {
	if h, ok := errors.AsType[*handlerError](err); ok && h.refused || errors.Is(err, context.DeadlineExceeded) {
		return true
	}
	_, ok := errors.AsType[*pgconn.PgError](err)
	return ok && !nobodysFault(err)
}

// nobodysFault reports whether an error is one of Postgres that no event is to blame for: it passes, or somebody has to act.
func nobodysFault(err error) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	if !ok {
		return false
	}
	switch pg.Code {
	case "42P01", "42703", "3F000", "42501": // a table, column or schema is missing, or a right: a migration has not run
		return true
	case "25006": // read-only, which a server is that others have taken over from
		return true
	}
	switch pg.Code[:2] {
	case "08", "40", "53", "55", "57", "58", "XX": // connections, conflicts, lack of resources, locks, interventions, the server's own faults
		return true
	}
	return false
}

func (u unit) size() int { return len(u.records) + len(u.ended) }

func (u unit) divide() (first, second unit) {
	first, second = u, u
	if n := len(u.records) / 2; n > 0 {
		first.records, second.records = u.records[:n], u.records[n:]
	} else {
		n = len(u.ended) / 2
		first.ended, second.ended = u.ended[:n], u.ended[n:]
	}
	return first, second
}

// offset is where the unit begins, for a log line.
func (u unit) offset(next int64) int64 {
	if len(u.records) > 0 {
		return u.records[0].Offset
	}
	return next
}
