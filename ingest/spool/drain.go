package spool

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/ingest"
	"github.com/forebay-io/forebay/schemas"
)

// errUnread is that of a burst whose first entry the disk does not give. After so many tries that is taken for damaged, and what is behind it that
// cannot be read, too, at once.
var errUnread = errors.New("bytes on this disk cannot be read")

const unreadTries = 20

// burst is what of an entity is given to the log at once.
type burst struct {
	lane    *lane
	entries []*entry
	size    int64
	began   time.Time
	unread  int // as in lane, 0 once an entry of it was read
}

func (q *queue) makeReady(l *lane) {
	if !l.busy && len(l.entries) > 0 && l.entries[0].call == nil {
		l.busy = true
		q.ready = append(q.ready, l)
		q.s.signal()
	}
}

// next returns the next burst; nil if nothing can be tried.
func (q *queue) next() *burst {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.unknown || len(q.ready) == 0 || q.away && (q.trying > 0 || q.paused) {
		return nil
	}
	b := &burst{lane: q.ready[0], began: time.Now(), unread: q.ready[0].unread}
	q.ready = q.ready[1:]
	for _, e := range b.lane.entries {
		if e.call != nil || len(b.entries) >= b.lane.burst || len(b.entries) > 0 && b.size+e.size > burstSize {
			break
		}
		b.entries = append(b.entries, e)
		b.size += e.size
	}
	q.trying++
	return b
}

// drain gives a burst to the log.
func (q *queue) drain(ctx context.Context, b *burst) {
	records := make([]*kgo.Record, 0, len(b.entries))
	var durable int
	var err error
	for _, e := range b.entries {
		bytes, whole, failed := e.segment.read(e.at, e.size)
		if failed != nil && (len(records) > 0 || b.unread < unreadTries) {
			err = fmt.Errorf("%w: %w", errUnread, failed)
			break
		}
		if failed == nil {
			b.unread = 0
		}
		if whole {
			if r := q.record(b.lane, e, bytes); r != nil {
				records = append(records, r)
				continue
			}
		}
		if len(records) == 0 {
			if err = q.quarantine(ctx, "spool_damaged", "an acknowledged delivery whose bytes on the intake's disk have changed or cannot be read; the body is what is there now, 0xff for what cannot be read", bytes, e.came); err == nil {
				durable = 1
				if failed != nil || e.damaged && e.segment.faulty {
					q.mu.Lock()
					e.segment.unread = true
					q.mu.Unlock()
				}
			}
		}
		break // those behind it come with the next burst
	}
	if len(records) > 0 {
		durable, err = q.s.c.Producer.ProduceAll(ctx, time.Now().Add(drainTry), records)
	}
	if refused(err) && len(records) == 1 { // its topic will never take it, and what is behind it waits
		if err = q.quarantine(ctx, "spool_too_large", "an acknowledged delivery that its topic does not take, since a record may not be so large there; the body is the event's",
			records[0].Value, b.entries[0].came); err == nil {
			durable = 1
		}
	}
	q.drained(ctx, b, durable, err)
}

// record returns the record of an entry's bytes, under the topic that it goes to; nil: they are none.
func (q *queue) record(l *lane, e *entry, bytes []byte) *kgo.Record {
	_, r, err := decode(bytes)
	if err != nil {
		return nil
	}
	topic, _, _ := strings.Cut(l.name, "\x00")
	if e.damaged { // the disk gives it now; its lane is none of an entity
		if topic = ""; r.Topic != q.s.c.QuarantineTopic(q.team, q.source) {
			topic, _ = q.s.c.Topic(q.team, q.source)
		}
	}
	r.Topic = cmp.Or(topic, r.Topic) // on disk is that of then
	return r
}

// refused reports whether the brokers do not take a record for its size. What this process does not send them for that, the next one may.
func refused(err error) bool {
	return errors.Is(err, kerr.MessageTooLarge) || errors.Is(err, kerr.RecordListTooLarge)
}

// quarantine keeps what cannot be given to the log as it was to be. What is more than a record of the topic may have is kept in parts.
func (q *queue) quarantine(ctx context.Context, reason, detail string, bytes []byte, came int64) error {
	d := &ingest.Delivery{Team: q.team, Source: q.source, Kind: ingest.KindUnusable, Reason: reason, Body: bytes, Received: time.Unix(0, came), Detail: detail}
	err := q.s.c.Log.Quarantine(ctx, time.Now().Add(drainTry), q.s.c.QuarantineTopic(q.team, q.source), d)
	if half := len(bytes) / 2; schemas.KindOf(err) == schemas.TooLarge && half > 0 {
		if err = q.quarantine(ctx, reason, detail, bytes[:half], came); err == nil {
			err = q.quarantine(ctx, reason, detail, bytes[half:], came)
		}
	}
	return err
}

// drained takes what came of a burst.
func (q *queue) drained(ctx context.Context, b *burst, durable int, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.trying--
	l := b.lane
	for _, e := range b.entries[:durable] {
		q.records--
		q.bytes -= e.size
		e.segment.left--
		if e.segment.left == 0 && e.segment.sealed {
			q.remove(e.segment)
		}
	}
	l.entries = l.entries[durable:]
	l.unread = b.unread
	if durable > 0 {
		q.acknowledged()
		q.s.freed.Add(1)
	}
	q.err = err
	defer q.s.signal()
	if err == nil {
		if q.records == 0 {
			q.s.c.Logger.Info("all deliveries of a source that waited on this disk are with the brokers", "team", q.team, "source", q.source)
		}
		l.burst = min(burstRecords, 2*l.burst)
		q.free(l)
		q.removeActive()
		return
	}
	if ctx.Err() != nil {
		return // stops
	}
	l.burst = 1
	if refused(err) && len(b.entries) > 1 { // one of the burst is: each alone from here on
		q.free(l)
		return
	}
	if errors.Is(err, errUnread) { // which says nothing of the brokers
		l.unread++
	} else if !q.acked.After(b.began) {
		q.away, q.paused = true, true
	}
	if time.Since(q.told) > time.Minute {
		q.told = time.Now()
		q.s.c.Logger.Warn("deliveries that were acknowledged wait on this disk: the brokers do not take them, or the disk does not give them; trying on", "team", q.team, "source", q.source, "records", q.records, "error", err)
	}
	time.AfterFunc(drainPause, func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.paused = false
		q.free(l)
		q.s.signal()
	})
}

// free has an entity tried again, or forgotten.
func (q *queue) free(l *lane) {
	l.busy = false
	q.makeReady(l)
	q.forget(l)
}

// removeActive deletes the segment that is written to, if all of it is in the log and nobody is writing.
func (q *queue) removeActive() {
	select {
	case q.turn <- struct{}{}:
		if s := q.active; s != nil && s.left == 0 && len(q.batch) == 0 {
			q.active = nil
			q.remove(s)
		}
		<-q.turn
	default: // whoever has the turn does it
	}
}
