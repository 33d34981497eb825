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
	left  map[int32]span // what is not read yet, by partition; a partition that is read to its end is not in it
}

// newScanner makes a scanner of spans, by partition. The caller closes its client.
func newScanner(r Rekey, topic string, all map[int32]span) (*scanner, error) {
	s := &scanner{topic: topic, left: map[int32]span{}}
	starts := map[int32]kgo.Offset{}
	for p, one := range all {
		if one.start < one.end {
			s.left[p], starts[p] = one, kgo.NewOffset().At(one.start)
		}
	}
	var err error
	s.cl, err = kgo.NewClient(append(append([]kgo.Opt{}, r.Client...),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: starts}), kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(), kgo.FetchMaxPartitionBytes(1<<20),
		kgo.BrokerMaxReadBytes(max(4*r.RecordBytes, largestRequest)))...)
	return s, err
}

// done tells whether all spans are read.
func (s *scanner) done() bool { return len(s.left) == 0 }

// poll fetches once and calls each with the records that are in the spans, without control records. It may bring nothing: the client tries
// again by itself after most errors. After an error of poll the scanner cannot go on; errDeleted is in it if records of the spans were
// deleted before they were read.
func (s *scanner) poll(ctx context.Context, each func(*kgo.Record)) error {
	fetches := s.cl.PollRecords(ctx, 10_000)
	for _, e := range fetches.Errors() {
		switch {
		case errors.Is(e.Err, kerr.OffsetOutOfRange):
			return fmt.Errorf("read %s/%d: %w", e.Topic, e.Partition, errDeleted)
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case !kerr.IsRetriable(e.Err):
			return fmt.Errorf("read %s/%d: %w", e.Topic, e.Partition, e.Err)
		}
	}
	fetches.EachPartition(func(tp kgo.FetchTopicPartition) {
		left, ok := s.left[tp.Partition]
		if !ok { // it is read to its end
			return
		}
		for _, rec := range tp.Records {
			if rec.Offset < left.start || rec.Offset >= left.end {
				continue
			}
			left.start = rec.Offset + 1
			if !rec.Attrs.IsControl() {
				each(rec)
			}
		}
		if n := len(tp.Records); n > 0 { // the span's last offset may have no record: a record behind it shows that the span is read
			left.start = max(left.start, tp.Records[n-1].Offset+1)
		}
		if left.start < left.end {
			s.left[tp.Partition] = left
			return
		}
		delete(s.left, tp.Partition)
		s.cl.PauseFetchPartitions(map[string][]int32{s.topic: {tp.Partition}})
	})
	return context.Cause(ctx)
}

// queue has the records of one partition that were read and wait to be merged with those of the others.
type queue struct {
	partition int32
	records   []*kgo.Record
	bytes     int   // of records
	time      int64 // the largest turn of a record that was taken, in Unix milliseconds
	paused    bool  // nothing is fetched for it
}

// turn returns the time, in Unix milliseconds, by which the queue's first record is ordered among those of other queues: its timestamp,
// but no less than that of a record before it in the partition, since a partition's order counts more than its timestamps.
func (q *queue) turn() int64 { return max(q.time, q.records[0].Timestamp.UnixMilli()) }

// waitingBytes is how many bytes of records may wait in all queues together, each of which may hold one fetch more; and as many for the brokers.
const waitingBytes = 64 << 20

// merged calls each with every record of the topic's spans, in the order of its partition and, across partitions, in the order of
// timestamps. So the records of a key that is in two partitions, because the topic has grown, come in order.
func (r Rekey) merged(ctx context.Context, all map[int32]span, each func(*kgo.Record)) error {
	s, err := newScanner(r, r.From, all)
	if err != nil {
		return err
	}
	defer s.cl.Close()
	queues := map[int32]*queue{}
	for p := range s.left {
		queues[p] = &queue{partition: p}
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
			s.pauseOrResume(q, limit)
		}
	}
	s.take(queues, each)
	return nil
}

// take takes the waiting record whose turn is first and calls each with it, again and again, as long as every partition that is not read
// to its end has a record waiting: otherwise the next record of that partition might be the first.
func (s *scanner) take(queues map[int32]*queue, each func(*kgo.Record)) {
	for {
		var first *queue
		for _, q := range queues {
			if len(q.records) == 0 {
				if _, more := s.left[q.partition]; more {
					return
				}
				continue
			}
			if first == nil || cmp.Or(cmp.Compare(q.turn(), first.turn()), cmp.Compare(q.partition, first.partition)) < 0 {
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
			first.records = nil // gives the array back
		}
		each(rec)
	}
}

// pauseOrResume stops fetching for a queue with more than limit bytes or 10,000 records, and fetches again once it has fewer.
func (s *scanner) pauseOrResume(q *queue, limit int) {
	if _, more := s.left[q.partition]; !more {
		return
	}
	full := q.bytes > limit || len(q.records) > 10_000
	if full == q.paused {
		return
	}
	q.paused = full
	partition := map[string][]int32{s.topic: {q.partition}}
	if full {
		s.cl.PauseFetchPartitions(partition)
	} else {
		s.cl.ResumeFetchPartitions(partition)
	}
}
