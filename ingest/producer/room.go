package producer

import (
	"sync"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/schemas"
)

// room bounds the memory of the records that wait for their ack. A topic that takes nothing (a partition without a
// leader keeps what may be in the log already for as long as it has none) fills half of it at most, or it would keep the
// other topics out. Safe for concurrent use.
type room struct {
	most   int64
	taken  atomic.Int64
	topics sync.Map // of *atomic.Int64, what each topic has of it
}

// take takes n bytes for a topic and gives what they are to be given back to; nil where there is no room. Concurrent
// callers together may pass a topic's bound by what each of them takes, and never that of all.
func (r *room) take(topic string, n int64) *atomic.Int64 {
	of, ok := r.topics.Load(topic)
	if !ok {
		of, _ = r.topics.LoadOrStore(topic, new(atomic.Int64))
	}
	has := of.(*atomic.Int64)
	all := r.taken.Add(n)
	if all > r.most || all > r.most/2 && has.Load() > r.most/4 {
		r.taken.Add(-n)
		return nil
	}
	has.Add(n)
	return has
}

func (r *room) give(has *atomic.Int64, n int64) {
	has.Add(-n)
	r.taken.Add(-n)
}

// recordOverhead is a record's memory beside its bytes: encoder, place in the client, caller.
const recordOverhead = 2 << 10

// weight is the memory that a record holds until its ack, in bytes. Its value may lie in more than it needs.
func weight(r *kgo.Record) int64 {
	n := recordOverhead + cap(r.Value) + len(r.Key)
	for i := range r.Headers {
		n += len(r.Headers[i].Value)
	}
	return int64(n)
}

// full is the error of a record for which there is no room.
func full(topic string) error {
	return schemas.Errorf(schemas.Throttled, "produce to "+topic, "too many bytes wait for their acks: the brokers are slow, or away")
}
