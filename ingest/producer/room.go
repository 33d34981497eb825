package producer

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/schemas"
)

// room bounds the memory of the records that wait for their ack. A partition without a leader keeps its records until it has one, so a topic
// that stands still must not keep the others out. It is known by its late bytes. Safe for concurrent use.
type room struct {
	most   int64
	taken  atomic.Int64
	topics sync.Map // of *topicBytes
}

// topicBytes is what a topic has of the room.
type topicBytes struct {
	taken atomic.Int64
	late  atomic.Int64 // of those, what has waited longer than lateAfter, or than its caller
}

// lateAfter is how long a record may wait until its bytes are late. A healthy cluster takes milliseconds.
const lateAfter = time.Second

// take takes n bytes for a topic and returns what it has, for give; nil if there is no room:
//
//   - The first half of the room is for all topics.
//   - Of the second half, a topic with late bytes gets nothing.
//   - Others get of it only while they have less than a sixteenth of what is left, and a record no more than half of what is left. So topics of
//     which nobody knows yet that they stand still leave some: ten of them, all at once, a quarter of the room.
//
// The first record is always taken, as long as it fits at all.
func (r *room) take(topic string, n int64) *topicBytes {
	of, ok := r.topics.Load(topic)
	if !ok {
		of, _ = r.topics.LoadOrStore(topic, new(topicBytes))
	}
	has := of.(*topicBytes)
	for {
		taken := r.taken.Load()
		all, left := taken+n, r.most-taken
		if all > r.most || (taken > 0 && all > r.most/2 && (has.late.Load() > 0 || 16*has.taken.Load()+2*n > left)) {
			return nil
		}
		if r.taken.CompareAndSwap(taken, all) {
			has.taken.Add(n)
			return has
		}
	}
}

func (r *room) give(has *topicBytes, n int64) {
	has.taken.Add(-n)
	r.taken.Add(-n)
}

// recordOverhead is a record's memory beside its bytes: encoder, place in the client, caller.
const recordOverhead = 2 << 10

// weight returns the memory that a record holds until its ack, in bytes. It counts the capacity of the value, not its length.
func weight(r *kgo.Record) int64 {
	n := recordOverhead + cap(r.Value) + len(r.Key)
	for i := range r.Headers {
		n += len(r.Headers[i].Value)
	}
	return int64(n)
}

// sizeOf returns what a record takes in a request of its own, at most.
func sizeOf(r *kgo.Record) int64 {
	n := 128 + len(r.Value) + len(r.Key)
	for i := range r.Headers {
		n += 10 + len(r.Headers[i].Key) + len(r.Headers[i].Value)
	}
	return int64(n)
}

// full returns the error for a record for which there is no room.
func full(topic string) error {
	return schemas.Errorf(schemas.Throttled, "produce to "+topic,
		"too many bytes wait for their acks, of this topic or of all: the brokers are slow, or away")
}
