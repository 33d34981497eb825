package producer

import (
	"sync"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/schemas"
)

// room bounds the memory of the records that wait for their ack. One topic may use at most half of it: a topic that takes no records
// would otherwise keep the others out, since a partition without a leader keeps its records until it has one. Safe for concurrent use.
type room struct {
	most   int64
	taken  atomic.Int64
	topics sync.Map // of *atomic.Int64, what each topic has of it
}

// take takes n bytes for a topic and returns the topic's counter, to which give returns them; nil if there is no room. Once more than half of
// the room is taken, a topic that has more than a quarter of it gets no more: what it takes last may go beyond that, but never beyond the
// total.
func (r *room) take(topic string, n int64) *atomic.Int64 {
	of, ok := r.topics.Load(topic)
	if !ok {
		of, _ = r.topics.LoadOrStore(topic, new(atomic.Int64))
	}
	has := of.(*atomic.Int64)
	for {
		taken := r.taken.Load()
		all := taken + n
		if all > r.most || (all > r.most/2 && has.Load() > r.most/4) {
			return nil
		}
		if r.taken.CompareAndSwap(taken, all) {
			has.Add(n)
			return has
		}
	}
}

func (r *room) give(has *atomic.Int64, n int64) {
	has.Add(-n)
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

// full returns the error for a record for which there is no room.
func full(topic string) error {
	return schemas.Errorf(schemas.Throttled, "produce to "+topic, "too many bytes wait for their acks: the brokers are slow, or away")
}
