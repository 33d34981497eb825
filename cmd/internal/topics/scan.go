package topics

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// scanner reads spans of a topic once, from their starts to their ends. It belongs to one goroutine.
type scanner struct {
	cl    *kgo.Client
	topic string
	left  map[int32]span // what is not read yet; a partition goes when nothing is
}

func newScanner(r Rekey, topic string, all map[int32]span) (*scanner, error) {
	s := &scanner{topic: topic, left: map[int32]span{}}
	at := map[int32]kgo.Offset{}
	for p, one := range all {
		if one.start < one.end {
			s.left[p], at[p] = one, kgo.NewOffset().At(one.start)
		}
	}
	var err error
	s.cl, err = kgo.NewClient(append(append([]kgo.Opt{}, r.Client...),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: at}), kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(), kgo.FetchMaxPartitionBytes(1<<20),
		kgo.BrokerMaxReadBytes(max(4*r.RecordBytes, 100<<20)))...)
	return s, err
}

func (s *scanner) done() bool { return len(s.left) == 0 }

// poll calls each with the next records, without control records.
func (s *scanner) poll(ctx context.Context, each func(*kgo.Record)) error {
	fetches := s.cl.PollRecords(ctx, 10_000)
	for _, e := range fetches.Errors() {
		switch {
		case errors.Is(e.Err, kerr.OffsetOutOfRange):
			return fmt.Errorf("read %s/%d: %w", e.Topic, e.Partition, errEnded)
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case !kerr.IsRetriable(e.Err):
			return fmt.Errorf("read %s/%d: %w", e.Topic, e.Partition, e.Err)
		}
	}
	fetches.EachPartition(func(tp kgo.FetchTopicPartition) {
		one, wanted := s.left[tp.Partition]
		for _, rec := range tp.Records {
			if !wanted || rec.Offset < one.start || rec.Offset >= one.end {
				continue
			}
			one.start = rec.Offset + 1
			if !rec.Attrs.IsControl() {
				each(rec)
			}
		}
		if n := len(tp.Records); n > 0 { // the end may be one that no record has
			one.start = max(one.start, tp.Records[n-1].Offset+1)
		}
		if wanted {
			s.left[tp.Partition] = one
		}
		if wanted && one.start >= one.end {
			delete(s.left, tp.Partition)
			s.cl.PauseFetchPartitions(map[string][]int32{s.topic: {tp.Partition}})
		}
	})
	return ctx.Err()
}

// queue has records of one partition that wait for their turn.
type queue struct {
	number  int32
	records []*kgo.Record
	bytes   int
	time    int64 // of the newest that has had its turn, in milliseconds: a partition's order wins over its clock
	paused  bool
}

// turn returns the time that orders the queue's first record among those of other queues.
func (q *queue) turn() int64 { return max(q.time, q.records[0].Timestamp.UnixMilli()) }

// waitingBytes bounds what waits for its turn, over all partitions; each may hold one fetch more.
const waitingBytes = 64 << 20

// merged calls each with every record of the topic's spans: in the order of its partition and, across partitions, of timestamps. So the
// records of a key that is in two partitions, because the topic has grown, come in order.
func (r Rekey) merged(ctx context.Context, all map[int32]span, each func(*kgo.Record)) error {
	s, err := newScanner(r, r.From, all)
	if err != nil {
		return err
	}
	defer s.cl.Close()
	queues := map[int32]*queue{}
	for p := range s.left {
		queues[p] = &queue{number: p}
	}
	limit := waitingBytes / max(1, len(queues))
	for !s.done() {
		err := s.poll(ctx, func(rec *kgo.Record) {
			q := queues[rec.Partition]
			q.records, q.bytes = append(q.records, rec), q.bytes+len(rec.Key)+len(rec.Value)
		})
		if err != nil {
			return err
		}
		s.take(queues, each)
		for _, q := range queues {
			s.hold(q, limit)
		}
	}
	s.take(queues, each)
	return nil
}

// take calls each with the oldest waiting record, as long as every partition that is not read to its end has a record waiting.
func (s *scanner) take(queues map[int32]*queue, each func(*kgo.Record)) {
	for {
		var first *queue
		for _, q := range queues {
			_, more := s.left[q.number]
			switch {
			case len(q.records) == 0 && more:
				return
			case len(q.records) == 0:
			case first == nil || cmp.Or(cmp.Compare(q.turn(), first.turn()), cmp.Compare(q.number, first.number)) < 0:
				first = q
			}
		}
		if first == nil {
			return
		}
		rec := first.records[0]
		first.time = first.turn()
		first.records, first.bytes = first.records[1:], first.bytes-len(rec.Key)-len(rec.Value)
		if len(first.records) == 0 {
			first.records = nil // and not the array that has moved on under it
		}
		each(rec)
	}
}

// hold stops reading a partition that has enough waiting.
func (s *scanner) hold(q *queue, limit int) {
	at := map[string][]int32{s.topic: {q.number}}
	if _, more := s.left[q.number]; !more {
		return
	}
	switch full := q.bytes > limit || len(q.records) > 10_000; {
	case full && !q.paused:
		s.cl.PauseFetchPartitions(at)
	case !full && q.paused:
		s.cl.ResumeFetchPartitions(at)
	default:
		return
	}
	q.paused = !q.paused
}
