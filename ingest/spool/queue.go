package spool

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/ingest"
	"github.com/forebay-io/forebay/schemas"
)

// queue is what the spool has of one source.
type queue struct {
	s                 *Spool
	team, source, dir string
	turn              chan struct{} // a mutex that can be waited for with a context: held by whoever writes files, and for active and number
	active            *segment      // nil: none is written to
	number            int           // of the last segment

	mu      sync.Mutex
	lanes   map[string]*lane
	unknown bool     // nobody knows what its topic is now, or whether it is gone: nothing is tried, and lanes have no topic
	ready   []*lane  // that can be tried, in the order in which they became so
	batch   []*entry // to be written, in order
	records int      // on disk
	bytes   int64
	trying  int       // bursts
	away    bool      // nothing was acknowledged since a try failed: deliveries go to the disk at once, and one burst is tried at a time
	paused  bool      // after a try while away
	acked   time.Time // when something was acknowledged
	full    time.Time // when the last write failed; zero: it did not
	freed   int64     // what the spool's was then: a clock may be set back
	err     error     // of the last burst
	unread  int       // files that could not be opened or read at the start
	told    time.Time // when the log was told of it
}

// lane is an entity: what of it waits for the log, and what is on disk or about to be.
type lane struct {
	name    string  // as laneName makes it
	calls   []*call // in the order in which they came
	entries []*entry
	busy    bool // ready, being tried, or paused
	burst   int
	unread  int // how often its first entry could not be read
}

// call is a delivery that waits for the log, or for the disk: an event, or what goes to quarantine. One delivery may come to several.
type call struct {
	topic    string
	event    *schemas.Event
	delivery *ingest.Delivery
	cancel   context.CancelFunc // ends the wait for the log
	payload  []byte             // once it goes to the disk
	done     chan struct{}      // nil until then; closed when it is there, or err is set
	err      error
}

func (c *call) lane() string {
	if c.event != nil {
		return laneName(c.topic, string(c.event.Entity))
	}
	return laneName(c.topic, "")
}

func (c *call) record(p Producer) *kgo.Record {
	if c.event != nil {
		return p.Record(c.topic, c.event)
	}
	return p.QuarantineRecord(c.topic, c.delivery)
}

// entry is a record on disk, or about to be. There may be millions.
type entry struct {
	lane    *lane
	call    *call // nil once it is on disk, and synced
	segment *segment
	at      int64
	size    int64
	came    int64 // in nanoseconds
	damaged bool  // when it was loaded: not a record, but bytes for the quarantine
}

// enter says what of a delivery goes to the log, and what to the disk.
func (q *queue) enter(calls []*call) (toLog, toDisk []*call, err error) {
	spools := q.s.c.Spools(q.team, q.source)
	q.mu.Lock()
	defer q.mu.Unlock()
	started := q.s.started.Load()
	if q.unknown {
		return nil, nil, schemas.Errorf(schemas.Unavailable, "spool", "earlier deliveries of the source are on disk, and their topic is not known yet")
	}
	if !spools {
		if !started {
			return nil, nil, schemas.Errorf(schemas.Unavailable, "spool", "the brokers have not answered since the start")
		}
		for _, c := range calls {
			if l := q.lanes[c.lane()]; l != nil && len(l.entries) > 0 {
				return nil, nil, schemas.Errorf(schemas.Unavailable, "spool", "earlier deliveries of the entity are still on disk, and its source keeps no more there")
			}
		}
	}
	for _, c := range calls {
		l := q.lane(c.lane())
		l.calls = append(l.calls, c)
	}
	away := q.away || !started
	for _, c := range calls {
		if l := q.lanes[c.lane()]; spools && c.done == nil && (away || len(l.entries) > 0) {
			q.move(l)
		}
		if c.done != nil {
			toDisk = append(toDisk, c)
		} else {
			toLog = append(toLog, c)
		}
	}
	return toLog, toDisk, nil
}

// lane returns the lane of a name.
func (q *queue) lane(name string) *lane {
	l := q.lanes[name]
	if l == nil {
		l = &lane{name: name, burst: 1}
		q.lanes[name] = l
	}
	return l
}

// leave takes what the log has answered for calls that began at a time and had until another, or no end. It says which of them go to the disk.
func (q *queue) leave(ctx context.Context, calls []*call, began, until time.Time, failed error) (toDisk []*call, err error) {
	spools := q.s.c.Spools(q.team, q.source)
	q.mu.Lock()
	defer q.mu.Unlock()
	kind := schemas.KindOf(failed)
	moves := failed != nil && ctx.Err() == nil && spools && (kind == schemas.Unavailable || kind == schemas.Throttled)
	switch moved := slices.ContainsFunc(calls, func(c *call) bool { return c.done != nil }); {
	case failed == nil:
		q.acknowledged()
		if moved { // it is in the log, too; its body may still be written to the disk
			err = ingest.ErrSpooled
		}
	case kind == schemas.Unavailable && moves && !moved && !q.acked.After(began): // else it may be given up for an older one alone
		q.away = q.away || until.IsZero() || until.Sub(began) >= fairTry
	}
	for _, c := range calls {
		l := q.lanes[c.lane()] // nil: it was moved, and the lane is over
		switch {
		case c.done != nil && failed == nil:
			q.drop(c)
		case c.done == nil && !moves:
			if failed != nil {
				err = failed
			}
			l.calls = slices.DeleteFunc(l.calls, func(other *call) bool { return other == c })
			q.forget(l)
		default:
			if c.done == nil {
				q.move(l)
			}
			toDisk = append(toDisk, c)
		}
	}
	return toDisk, err
}

// move has all deliveries of an entity that wait for the log go to the disk, in order. Behind one for which there is no room none does.
func (q *queue) move(l *lane) {
	full := false
	for _, c := range l.calls {
		now := time.Now()
		c.payload, c.done = encode(now, c.record(q.s.c.Producer)), make(chan struct{})
		c.cancel()
		e := &entry{lane: l, call: c, came: now.UnixNano(), size: recordHead + int64(len(c.payload))}
		if used := q.s.size.Add(e.size); full || used > q.s.c.MaxSize {
			full = true
			q.s.size.Add(-e.size)
			q.refuse(e, schemas.Errorf(schemas.Throttled, "spool", "%d bytes are in %s, and intake.spool.max_size is %d", used-e.size, q.s.c.Dir, q.s.c.MaxSize))
			continue
		}
		l.entries = append(l.entries, e)
		q.batch = append(q.batch, e)
	}
	l.calls = nil
	q.forget(l)
}

// refuse ends an entry that is not on disk. The next delivery is given to the log: nothing else would find out that it answers again.
func (q *queue) refuse(e *entry, err error) {
	q.full, q.freed, q.away = time.Now(), q.s.freed.Load(), false
	e.call.err = err
	close(e.call.done)
}

// forget drops an entity of which nothing waits.
func (q *queue) forget(l *lane) {
	if len(l.calls) == 0 && len(l.entries) == 0 && !l.busy {
		delete(q.lanes, l.name)
	}
}

// commit waits until a delivery is on disk. Whoever has the turn writes what all of them wait for.
func (q *queue) commit(ctx context.Context, by time.Time, c *call) error {
	if !by.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, by)
		defer cancel()
	}
	for {
		select {
		case <-c.done:
			if c.err != nil {
				return c.err
			}
			return ingest.ErrSpooled
		case q.turn <- struct{}{}:
			q.write()
			<-q.turn
		case <-ctx.Done():
			q.mu.Lock()
			defer q.mu.Unlock()
			q.drop(c)
			return schemas.Errorf(schemas.Unavailable, "spool", "not on disk in time: %w", context.Cause(ctx))
		}
	}
}

// write writes the first entries of the batch with one sync. The caller has the turn.
func (q *queue) write() {
	q.mu.Lock()
	n, bytes := 0, int64(0)
	for n < len(q.batch) && (n == 0 || bytes+q.batch[n].size <= commitSize) {
		bytes += q.batch[n].size
		n++
	}
	batch := q.batch[:n:n]
	q.batch = q.batch[n:]
	q.mu.Unlock()
	var err error
	if n > 0 {
		err = q.store(batch)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, e := range batch {
		if err != nil {
			q.takeOut(e)
			q.refuse(e, schemas.Errorf(schemas.Unavailable, "spool", "%w", err))
			continue
		}
		q.full = time.Time{}
		close(e.call.done)
		q.written(e)
	}
	if s := q.active; s != nil && s.left == 0 && len(q.batch) == 0 {
		q.active = nil
		q.remove(s)
	}
}

// drop takes a delivery for whose writing nobody waits out of the batch: it was refused, or is in the log. What is being written already stays.
func (q *queue) drop(c *call) {
	if i := slices.IndexFunc(q.batch, func(e *entry) bool { return e.call == c }); i >= 0 {
		e := q.batch[i]
		q.batch = slices.Delete(q.batch, i, i+1)
		q.takeOut(e)
	}
}

// takeOut takes an entry that is not on disk out of its entity.
func (q *queue) takeOut(e *entry) {
	q.s.size.Add(-e.size)
	e.lane.entries = slices.DeleteFunc(e.lane.entries, func(other *entry) bool { return other == e })
	q.forget(e.lane)
}

// written counts an entry that is on disk, and has it tried.
func (q *queue) written(e *entry) {
	e.call = nil
	q.records++
	q.bytes += e.size
	q.makeReady(e.lane)
}

// store writes entries to the active segment and syncs it. One that could not be written is not used again: what a failed sync has left of it
// in memory is not what is on disk.
func (q *queue) store(batch []*entry) error {
	if s := q.active; s != nil && s.size >= segmentSize {
		q.seal(s)
	}
	if q.active == nil {
		if err := os.MkdirAll(q.dir, 0o700); err != nil {
			return err
		}
		if q.number == 0 { // the directory may be new
			if err := syncDir(q.s.c.Dir); err != nil {
				return err
			}
		}
		q.number++
		s, err := createSegment(filepath.Join(q.dir, fmt.Sprintf("%012d.spool", q.number)))
		if err != nil {
			return err
		}
		q.s.size.Add(s.size)
		q.active = s
	}
	s := q.active
	q.mu.Lock()
	s.left += len(batch)
	q.mu.Unlock()
	err := q.s.syncs(s, batch)
	if err != nil {
		q.mu.Lock()
		s.left -= len(batch)
		q.mu.Unlock()
		q.seal(s)
	}
	return err
}

// seal ends writing to the active segment.
func (q *queue) seal(s *segment) {
	q.mu.Lock()
	defer q.mu.Unlock()
	s.sealed, q.active = true, nil
	if s.left == 0 {
		q.remove(s)
	}
}

// remove deletes a segment whose records are all in the log, or were given up unread: then the file is kept.
func (q *queue) remove(s *segment) {
	switch err := s.remove(); {
	case err == nil && s.unread:
		q.s.c.Logger.Error("a file of the spool holds acknowledged deliveries that could not be read, and is kept: once its disk gives them, rename it without "+unreadFile+" and start again",
			"file", s.path+unreadFile)
	case s.unread:
		q.s.c.Logger.Error("a file of the spool holds acknowledged deliveries that could not be read, and cannot be renamed: its other records would be given to the log once more at the next start; copy it elsewhere",
			"file", s.path, "error", err)
	case err != nil:
		q.s.c.Logger.Error("a file of the spool cannot be deleted; its records would be given to the log once more at the next start", "file", s.path, "error", err)
	}
	q.s.size.Add(-s.size)
	q.s.freed.Add(1)
}

func (q *queue) acknowledged() { q.acked, q.away, q.full = time.Now(), false, time.Time{} }

// isFull reports whether the last delivery found no room, and nothing says that the next one would: another source's may have had it.
func (q *queue) isFull() bool {
	return !q.full.IsZero() && q.freed == q.s.freed.Load() && (q.s.size.Load() > 0 || time.Since(q.full) < time.Minute)
}

func (q *queue) stats() Stats {
	q.mu.Lock()
	defer q.mu.Unlock()
	st := Stats{Team: q.team, Source: q.source, Records: q.records, Bytes: q.bytes, Full: q.isFull(), Unread: q.unread, Err: q.err}
	for _, l := range q.lanes {
		if len(l.entries) == 0 || l.entries[0].call != nil {
			continue
		}
		if came := time.Unix(0, l.entries[0].came); st.Oldest.IsZero() || came.Before(st.Oldest) {
			st.Oldest = came
		}
	}
	return st
}

// load reads what a process before this one has left.
func (q *queue) load() error {
	files, err := filepath.Glob(filepath.Join(q.dir, "*.spool*"))
	if err != nil {
		return err
	}
	files = slices.DeleteFunc(files, func(path string) bool {
		var number int
		if _, err := fmt.Sscanf(filepath.Base(path), "%d.spool", &number); err == nil {
			q.number = max(q.number, number) // also of those that are kept: another one of that name would take their place
		}
		return filepath.Ext(path) != ".spool"
	})
	slices.Sort(files)
	topic, known := q.s.c.Topic(q.team, q.source)
	if q.unknown = !known && len(files) > 0; q.unknown {
		q.err = errors.New("the file of the team is left out, and nobody knows which topic the source has now: fix it (forebay config check)")
		q.s.c.Logger.Warn("deliveries that were acknowledged stay on this disk", "team", q.team, "source", q.source, "error", q.err)
	}
	for _, path := range files {
		q.loadSegment(path, topic)
	}
	return nil
}

const unreadAtStart = "this file of a spool may hold acknowledged deliveries, and cannot be read: it is left as it is; keep it, and start again once it can be read"

// loadSegment reads a file, as far as it can be read. Its events go to a topic; empty: that of then.
func (q *queue) loadSegment(path, topic string) {
	log := q.s.c.Logger.With("file", path)
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		log.Error(unreadAtStart, "error", err)
		q.unread++
		return
	}
	var data []byte
	info, err := f.Stat()
	if err == nil {
		data, err = q.s.reads(f, 0, info.Size())
		for ; err != nil && q.s.unread < unreadTries; q.s.unread++ { // the disk may be away for a moment
			<-time.After(drainPause)
			data, err = q.s.reads(f, 0, info.Size())
		}
	}
	if err != nil {
		log.Error("a part of this file of a spool cannot be read", "error", err)
	}
	pieces, torn, ok := scan(data)
	if !ok && err != nil {
		log.Error(unreadAtStart)
		q.unread++
		f.Close()
		return
	}
	if !ok && len(data) > headSize {
		log.Error("this file is no segment of a spool, and is left as it is: look what it is, and move it away")
		f.Close()
		return
	}
	s := &segment{path: path, file: f, marker: slices.Clone(markerOf(data)), size: int64(len(data)), sealed: true, left: len(pieces), faulty: err != nil}
	if torn > 0 {
		log.Warn("the last record of a spool was being written when its process ended; it was never acknowledged", "bytes", torn)
	}
	q.s.size.Add(s.size)
	for _, p := range pieces {
		e := &entry{segment: s, at: p.at, size: p.size, damaged: p.damaged, came: time.Now().UnixNano()}
		name := laneName("", "damaged")
		if !p.damaged {
			came, r, err := decode(data[p.at+recordHead : p.at+p.size])
			if e.damaged = err != nil; !e.damaged {
				to := r.Topic
				if to != q.s.c.QuarantineTopic(q.team, q.source) && (topic != "" || q.unknown) {
					to = topic
				}
				e.came, name = came.UnixNano(), laneName(to, string(r.Key))
				to = cmp.Or(to, r.Topic)
				q.s.largest[to] = max(q.s.largest[to], int64(len(r.Value)))
			}
		}
		if e.damaged {
			log.Error("a record of a spool is damaged; its bytes go to quarantine", "at", p.at, "bytes", p.size)
		}
		l := q.lane(name)
		e.lane = l
		l.entries = append(l.entries, e)
		q.away = true
		q.written(e)
	}
	if s.left == 0 {
		q.remove(s)
	}
}

// know has what is on disk tried, if its topic is known by now.
func (q *queue) know() {
	topic, known := q.s.c.Topic(q.team, q.source)
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.unknown || !known {
		return
	}
	q.unknown, q.err = false, nil
	lanes := make(map[string]*lane, len(q.lanes))
	for _, l := range q.lanes {
		if key, none := strings.CutPrefix(l.name, laneName("", "")); none {
			l.name = laneName(topic, key)
		}
		lanes[l.name] = l
	}
	q.lanes = lanes
}

// close closes the files, after what is being written.
func (q *queue) close() {
	q.turn <- struct{}{} // and never back
	q.mu.Lock()
	defer q.mu.Unlock()
	closed := map[*segment]bool{}
	for _, l := range q.lanes {
		for _, e := range l.entries {
			if s := e.segment; s != nil && !closed[s] {
				closed[s] = true
				_ = s.file.Close() // all that counts is synced
			}
		}
	}
	if s := q.active; s != nil && s.left == 0 {
		q.remove(s)
	}
}
