package reader

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/forebay-io/forebay/schemas/record"
	"github.com/forebay-io/forebay/stream/ledger"
)

// Log answers single questions about topics and partitions. An error always means that the answer is not known yet, never that there
// is nothing.
type Log struct {
	cl     *kgo.Client
	adm    *kadm.Client
	chunks *chunkReader // for AppendTime and Batch
}

// NewLog makes a Log that asks through cl, which must have the options of [ClientOptions].
func NewLog(cl *kgo.Client) *Log {
	return &Log{cl: cl, adm: kadm.NewClient(cl), chunks: newChunkReader(cl, 64<<10, time.Second)}
}

// TopicPartition is a partition by the topic's name, without its id.
type TopicPartition struct {
	Topic  string
	Number int32
}

// At returns a partition without its topic's id.
func At(p ledger.Partition) TopicPartition { return TopicPartition{Topic: p.Topic, Number: p.Number} }

// Topic is a topic's id and number of partitions.
type Topic struct {
	ID         ledger.TopicID
	Partitions int32
}

// Topic asks one broker for a topic's id and number of partitions. That broker may not know of new partitions yet; see [Log.Count].
func (l *Log) Topic(ctx context.Context, name string) (Topic, error) {
	t, _, err := lookUp(ctx, l.cl, name)
	return t, record.Lacks(l.cl, "Read", "topic "+name, err)
}

// lookUp asks via for a topic and for the ids of the brokers that are up. via is a client, which asks any broker, or one broker.
func lookUp(ctx context.Context, via kmsg.Requestor, name string) (Topic, []int32, error) {
	req := kmsg.NewPtrMetadataRequest()
	t := kmsg.NewMetadataRequestTopic()
	t.Topic = new(name)
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(ctx, via) // not kgo's cache: a recreated topic must show
	if err != nil {
		return Topic{}, nil, fmt.Errorf("look up topic %s: %w", name, err)
	}
	var brokers []int32
	for _, b := range resp.Brokers {
		brokers = append(brokers, b.NodeID)
	}
	for _, t := range resp.Topics {
		if t.Topic == nil || *t.Topic != name {
			continue
		}
		if err := kerr.ErrorForCode(t.ErrorCode); err != nil {
			return Topic{}, nil, fmt.Errorf("look up topic %s: %w", name, err)
		}
		return Topic{ID: t.TopicID, Partitions: int32(len(t.Partitions))}, brokers, nil
	}
	return Topic{}, nil, fmt.Errorf("look up topic %s: %w", name, kerr.UnknownTopicOrPartition)
}

// Timestamps of ListOffsets that stand for the end and the start of the log.
const (
	atEnd   = -1
	atStart = -2
)

// Start returns the offset of the first record that a partition still has.
func (l *Log) Start(ctx context.Context, at TopicPartition) (int64, error) {
	return l.offset(ctx, at, atStart, false)
}

// End returns a partition's high watermark.
func (l *Log) End(ctx context.Context, at TopicPartition) (int64, error) {
	return l.offset(ctx, at, atEnd, false)
}

// StableEnd returns the last stable offset, at which readers of committed records stop.
func (l *Log) StableEnd(ctx context.Context, at TopicPartition) (int64, error) {
	return l.offset(ctx, at, atEnd, true)
}

// Ends asks for the high watermarks of all partitions of topics, with one question to each broker. Those that are not known
// are missing: [Log.End] says why.
func (l *Log) Ends(ctx context.Context, topics ...string) map[TopicPartition]int64 {
	all, _ := l.adm.ListEndOffsets(ctx, topics...) // an error is about those that are missing
	ends := map[TopicPartition]int64{}
	all.Each(func(o kadm.ListedOffset) {
		if o.Err == nil && o.Partition >= 0 && o.Offset >= 0 {
			ends[TopicPartition{o.Topic, o.Partition}] = o.Offset
		}
	})
	return ends
}

// Readable asks a partition's leader to fetch an offset, and returns why it does not. It does not look at what the leader answers:
// whether a batch is broken, only a reader finds out.
func (l *Log) Readable(ctx context.Context, p ledger.Partition, offset int64) error {
	if l.readable(ctx, p, offset) == nil {
		return nil
	}
	return l.readable(ctx, p, offset) // the leader that was known may lead no more
}

// readable asks the known leader, and forgets it after an error.
func (l *Log) readable(ctx context.Context, p ledger.Partition, offset int64) error {
	leader, err := l.chunks.leader(ctx, p)
	var got *kmsg.FetchResponseTopicPartition
	if err == nil {
		got, err = l.chunks.fetch(ctx, leader, p, offset, 0)
	}
	if err == nil {
		err = kerr.ErrorForCode(got.ErrorCode)
	}
	if err != nil {
		l.chunks.forgetLeader(p)
		return fmt.Errorf("fetch %s/%d at %d: %w", p.Topic, p.Number, offset, record.Lacks(l.cl, "Read", "topic "+p.Topic, err))
	}
	return nil
}

// offset asks a partition's leader for the offset of a timestamp, or of atEnd or atStart. With stable, atEnd is the last stable offset.
func (l *Log) offset(ctx context.Context, at TopicPartition, timestamp int64, stable bool) (int64, error) {
	offset, err := listOffset(ctx, l.cl.Request, at, timestamp, stable)
	return offset, record.Lacks(l.cl, "Read", "topic "+at.Topic, err)
}

// listOffset sends ListOffsets for one partition, which is for its leader, and returns the answer. See [Log.offset].
func listOffset(ctx context.Context, send func(context.Context, kmsg.Request) (kmsg.Response, error), at TopicPartition, timestamp int64, stable bool) (int64, error) {
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID = -1
	if stable {
		req.IsolationLevel = 1
	}
	t := kmsg.NewListOffsetsRequestTopic()
	t.Topic = at.Topic
	p := kmsg.NewListOffsetsRequestTopicPartition()
	p.Partition, p.Timestamp, p.CurrentLeaderEpoch = at.Number, timestamp, -1
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	answer, err := send(ctx, req)
	if err != nil {
		return 0, fmt.Errorf("list offsets of %s/%d: %w", at.Topic, at.Number, err)
	}
	topics := answer.(*kmsg.ListOffsetsResponse).Topics
	if len(topics) != 1 || len(topics[0].Partitions) != 1 {
		return 0, fmt.Errorf("list offsets of %s/%d: the answer does not name it", at.Topic, at.Number)
	}
	got := topics[0].Partitions[0]
	if err := kerr.ErrorForCode(got.ErrorCode); err != nil {
		return 0, fmt.Errorf("list offsets of %s/%d: %w", at.Topic, at.Number, err)
	}
	if got.Offset < 0 {
		return 0, fmt.Errorf("list offsets of %s/%d: the broker has no answer for %d", at.Topic, at.Number, timestamp)
	}
	return got.Offset, nil
}

// OffsetAfter returns the offset of the first record appended at or after a time; the end if there is none.
func (l *Log) OffsetAfter(ctx context.Context, at TopicPartition, when time.Time) (int64, error) {
	all, err := l.adm.ListOffsetsAfterMilli(ctx, max(0, when.UnixMilli()), at.Topic)
	got, ok := all.Lookup(at.Topic, at.Number)
	switch { // err may be about the leader of another partition
	case ok && got.Err == nil && got.Offset >= 0:
		return got.Offset, nil
	case ok && got.Err != nil:
		err = got.Err
	case err == nil:
		err = kerr.UnknownTopicOrPartition
	}
	return 0, fmt.Errorf("list offsets of %s/%d by time: %w", at.Topic, at.Number, err)
}

// AppendTime returns the append time of the first record at an offset or after it; zero if there is none. Reads that fail are repeated until
// ctx ends; [Unreadable] says that the brokers answered one, and could not give the record.
func (l *Log) AppendTime(ctx context.Context, p ledger.Partition, offset int64) (time.Time, error) {
	var unreadable error
	for {
		switch c := l.chunks.chunk(ctx, p, offset); {
		case c.err != nil && ctx.Err() == nil: // the record cannot be read now
			unreadable = c.err
		case c.err != nil:
			return time.Time{}, fmt.Errorf("read %s/%d at %d: %w", p.Topic, p.Number, offset, cmp.Or(unreadable, c.err))
		case len(c.records) > 0:
			return c.records[0].Timestamp, nil
		case c.to == everything:
			return time.Time{}, nil
		default: // control records, or below the log's start
			offset = c.to
		}
	}
}

// Batch returns the bytes of the record batch that an offset is in, as they are in the log. It tries once.
func (l *Log) Batch(ctx context.Context, p ledger.Partition, offset int64) ([]byte, error) {
	return l.chunks.batch(ctx, p, offset)
}
