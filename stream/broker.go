package stream

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/forebay-io/forebay/stream/ledger"
)

// errNotMember says that the group does not take us for the member that an assignment was made to.
var errNotMember = errors.New("not the group's member any more")

// broker asks Kafka single questions. Every error means that the question has no answer yet, never that the answer is
// "nothing".
type broker struct {
	cl     *kgo.Client
	adm    *kadm.Client
	chunks *chunkReader // for a record's time
	group  string
}

func newBroker(cl *kgo.Client, group string) *broker {
	return &broker{cl: cl, adm: kadm.NewClient(cl), chunks: newChunkReader(cl, 64<<10, time.Second), group: group}
}

// topic is a topic's id and number of partitions.
type topic struct {
	id         ledger.TopicID
	partitions int32
}

func (b *broker) topic(ctx context.Context, name string) (topic, error) {
	t, _, err := b.lookUp(ctx, b.cl, name)
	return t, err
}

// lookUp asks some broker, or the one that of is, for a topic and for the brokers that are up.
func (*broker) lookUp(ctx context.Context, of kmsg.Requestor, name string) (topic, []int32, error) {
	req := kmsg.NewPtrMetadataRequest()
	t := kmsg.NewMetadataRequestTopic()
	t.Topic = new(name)
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(ctx, of) // not kgo's cache: a recreated topic must show
	if err != nil {
		return topic{}, nil, fmt.Errorf("look up topic %s: %w", name, err)
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
			return topic{}, nil, fmt.Errorf("look up topic %s: %w", name, err)
		}
		return topic{id: t.TopicID, partitions: int32(len(t.Partitions))}, brokers, nil
	}
	return topic{}, nil, fmt.Errorf("look up topic %s: %w", name, kerr.UnknownTopicOrPartition)
}

// heartbeat asks the coordinator whether s is a member. A group that rebalances still knows it.
func (b *broker) heartbeat(ctx context.Context, s session) error {
	req := kmsg.NewPtrHeartbeatRequest()
	req.Group, req.MemberID, req.Generation, req.InstanceID = b.group, s.member, s.generation, s.instance
	resp, err := req.RequestWith(ctx, b.cl)
	if err != nil {
		return fmt.Errorf("heartbeat: %w", err)
	}
	switch err := kerr.ErrorForCode(resp.ErrorCode); {
	case err == nil, errors.Is(err, kerr.RebalanceInProgress):
		return nil
	case kerr.IsRetriable(err):
		return fmt.Errorf("heartbeat: %w", err)
	default:
		return fmt.Errorf("heartbeat of generation %d: %w: %w", s.generation, errNotMember, err)
	}
}

// commit is the group's commit for a partition, nil where Kafka has none.
func (b *broker) commit(ctx context.Context, topic string, partition int32) (*commit, error) {
	all, err := b.adm.FetchOffsets(kadm.RequireStable(ctx), b.group)
	if errors.Is(err, kerr.GroupIDNotFound) {
		return nil, nil // deleted, or never there
	}
	if err != nil {
		return nil, fmt.Errorf("fetch the group's commits: %w", err)
	}
	o, ok := all.Lookup(topic, partition)
	switch {
	case !ok:
		return nil, nil
	case o.Err != nil:
		return nil, fmt.Errorf("fetch the group's commit of %s/%d: %w", topic, partition, o.Err)
	case o.At < 0:
		return nil, nil
	}
	return &commit{offset: o.At, metadata: o.Metadata}, nil
}

// Timestamps of ListOffsets that stand for places.
const (
	atEnd   = -1
	atStart = -2
)

// offset is the offset of a place in a partition. With stable, the end is where readers of committed records stop.
func (b *broker) offset(ctx context.Context, topic string, partition int32, at int64, stable bool) (int64, error) {
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID = -1
	if stable {
		req.IsolationLevel = 1
	}
	t := kmsg.NewListOffsetsRequestTopic()
	t.Topic = topic
	p := kmsg.NewListOffsetsRequestTopicPartition()
	p.Partition, p.Timestamp, p.CurrentLeaderEpoch = partition, at, -1
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(ctx, b.cl)
	if err != nil {
		return 0, fmt.Errorf("list offsets of %s/%d: %w", topic, partition, err)
	}
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return 0, fmt.Errorf("list offsets of %s/%d: the answer does not name it", topic, partition)
	}
	got := resp.Topics[0].Partitions[0]
	if err := kerr.ErrorForCode(got.ErrorCode); err != nil {
		return 0, fmt.Errorf("list offsets of %s/%d: %w", topic, partition, err)
	}
	if got.Offset < 0 {
		return 0, fmt.Errorf("list offsets of %s/%d: the broker has no answer for %d", topic, partition, at)
	}
	return got.Offset, nil
}

// epochEnd is where a leader epoch ends in the log as it is now; nil where the broker does not know the epoch.
func (b *broker) epochEnd(ctx context.Context, topic string, partition, epoch int32) (*int64, error) {
	var req kadm.OffsetForLeaderEpochRequest
	req.Add(topic, partition, epoch)
	resp, err := b.adm.OffsetForLeaderEpoch(ctx, req)
	if err != nil {
		return nil, fmt.Errorf("end of epoch %d of %s/%d: %w", epoch, topic, partition, err)
	}
	got, ok := resp[topic][partition]
	if !ok {
		return nil, fmt.Errorf("end of epoch %d of %s/%d: the answer does not name it", epoch, topic, partition)
	}
	if got.Err != nil {
		return nil, fmt.Errorf("end of epoch %d of %s/%d: %w", epoch, topic, partition, got.Err)
	}
	if got.EndOffset < 0 {
		return nil, nil
	}
	return &got.EndOffset, nil
}

// resolve turns begin into an explicit offset for every partition of a topic.
func (b *broker) resolve(ctx context.Context, name string, begin Begin) (map[ledger.Partition]int64, error) {
	t, err := b.topic(ctx, name)
	if err != nil {
		return nil, err
	}
	var listed kadm.ListedOffsets
	switch {
	case begin.All:
		listed, err = b.adm.ListStartOffsets(ctx, name)
	case !begin.At.IsZero():
		listed, err = b.adm.ListOffsetsAfterMilli(ctx, ceilMilli(begin.At), name)
	default:
		listed, err = b.adm.ListEndOffsets(ctx, name)
	}
	if err == nil {
		err = listed.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("resolve begin %s of %s: %w", begin, name, err)
	}
	offsets := make(map[ledger.Partition]int64, t.partitions)
	for n := range t.partitions {
		o, ok := listed.Lookup(name, n)
		if !ok || o.Offset < 0 {
			return nil, fmt.Errorf("resolve begin %s of %s/%d: the broker has no answer", begin, name, n)
		}
		offsets[ledger.Partition{Topic: name, TopicID: t.id, Number: n}] = o.Offset
	}
	return offsets, nil
}

// hasBefore reports whether a topic has a record that was appended before a time.
func (b *broker) hasBefore(ctx context.Context, name string, when time.Time) (bool, error) {
	starts, err := b.resolve(ctx, name, Begin{All: true})
	if err != nil {
		return false, err
	}
	firsts, err := b.resolve(ctx, name, Begin{At: when})
	if err != nil {
		return false, err
	}
	for p, start := range starts {
		if firsts[p] > start {
			return true, nil
		}
	}
	return false, nil
}

// ceilMilli rounds up: Kafka's times are milliseconds, and a record before t is not wanted.
func ceilMilli(t time.Time) int64 {
	ms := t.UnixMilli()
	if t.After(time.UnixMilli(ms)) {
		ms++
	}
	return ms
}
