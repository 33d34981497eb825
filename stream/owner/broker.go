package owner

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/forebay-io/forebay/schemas/record"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/reader"
)

// errNotMember says that this process is no longer the group member to which a partition was assigned.
var errNotMember = errors.New("not the group's member any more")

// broker asks Kafka single questions: about the group, and through [reader.Log] about the log. An error always means that the
// answer is not known yet, never that there is nothing.
type broker struct {
	*reader.Log
	cl    *kgo.Client
	adm   *kadm.Client
	group string
}

func newBroker(cl *kgo.Client, group string) *broker {
	return &broker{Log: reader.NewLog(cl), cl: cl, adm: kadm.NewClient(cl), group: group}
}

// heartbeat asks the coordinator whether s is the session of a member: nil if it is, also while the group rebalances. The error wraps
// errNotMember if it is not; any other means that this is not known.
func (b *broker) heartbeat(ctx context.Context, s session) (rebalances bool, err error) {
	req := kmsg.NewPtrHeartbeatRequest()
	req.Group, req.MemberID, req.Generation, req.InstanceID = b.group, s.member, s.generation, s.instance
	resp, err := req.RequestWith(ctx, b.cl)
	if err != nil {
		return false, fmt.Errorf("heartbeat: %w", err)
	}
	switch err := kerr.ErrorForCode(resp.ErrorCode); {
	case err == nil, errors.Is(err, kerr.RebalanceInProgress):
		return err != nil, nil
	case kerr.IsRetriable(err):
		return false, fmt.Errorf("heartbeat: %w", err)
	default:
		return false, fmt.Errorf("heartbeat of generation %d: %w: %w", s.generation, errNotMember, err)
	}
}

// remove takes a member out of the group: nil if it is not in it any more.
func (b *broker) remove(ctx context.Context, member string) error {
	of := kmsg.NewLeaveGroupRequestMember()
	of.MemberID, of.Reason = member, new("its process is gone")
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Group, req.MemberID, req.Members = b.group, member, []kmsg.LeaveGroupRequestMember{of} // MemberID: of brokers before 2.4
	resp, err := req.RequestWith(ctx, b.cl)
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	if err == nil && len(resp.Members) > 0 {
		err = kerr.ErrorForCode(resp.Members[0].ErrorCode)
	}
	if err != nil && !errors.Is(err, kerr.UnknownMemberID) && !errors.Is(err, kerr.GroupIDNotFound) {
		return fmt.Errorf("take member %s out of group %s: %w", member, b.group, err)
	}
	return nil
}

// commit returns the group's commit for a partition, nil if Kafka has none.
func (b *broker) commit(ctx context.Context, at reader.TopicPartition) (*commit, error) {
	all, err := b.adm.FetchOffsets(kadm.RequireStable(ctx), b.group)
	if errors.Is(err, kerr.GroupIDNotFound) {
		return nil, nil // deleted, or never there
	}
	if err != nil {
		return nil, fmt.Errorf("fetch the group's commits: %w", record.Lacks(b.cl, "Read", "group "+b.group, err))
	}
	o, ok := all.Lookup(at.Topic, at.Number)
	switch {
	case !ok:
		return nil, nil
	case o.Err != nil:
		return nil, fmt.Errorf("fetch the group's commit of %s/%d: %w", at.Topic, at.Number, o.Err)
	case o.At < 0:
		return nil, nil
	}
	return &commit{offset: o.At, metadata: o.Metadata}, nil
}

// epochEnd returns where a leader epoch ends in the log as it is now; nil if the broker does not know the epoch.
func (b *broker) epochEnd(ctx context.Context, at reader.TopicPartition, epoch int32) (*int64, error) {
	var req kadm.OffsetForLeaderEpochRequest
	req.Add(at.Topic, at.Number, epoch)
	resp, err := b.adm.OffsetForLeaderEpoch(ctx, req)
	if err != nil {
		return nil, fmt.Errorf("end of epoch %d of %s/%d: %w", epoch, at.Topic, at.Number, err)
	}
	got, ok := resp[at.Topic][at.Number]
	if !ok {
		return nil, fmt.Errorf("end of epoch %d of %s/%d: the answer does not name it", epoch, at.Topic, at.Number)
	}
	if got.Err != nil {
		return nil, fmt.Errorf("end of epoch %d of %s/%d: %w", epoch, at.Topic, at.Number, got.Err)
	}
	if got.EndOffset < 0 {
		return nil, nil
	}
	return &got.EndOffset, nil
}

// resolve returns the offset at which each partition of a topic begins by begin.
func (b *broker) resolve(ctx context.Context, name string, begin Begin) (map[ledger.Partition]int64, error) {
	t, err := b.Topic(ctx, name)
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
		return nil, fmt.Errorf("resolve begin %s of %s: %w", begin, name, record.Lacks(b.cl, "Read", "topic "+name, err))
	}
	offsets := make(map[ledger.Partition]int64, t.Partitions)
	for n := range t.Partitions {
		o, ok := listed.Lookup(name, n)
		if !ok || o.Offset < 0 {
			return nil, fmt.Errorf("resolve begin %s of %s/%d: the broker has no answer", begin, name, n)
		}
		offsets[ledger.Partition{Topic: name, TopicID: t.ID, Number: n}] = o.Offset
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

// ceilMilli returns t in milliseconds, as Kafka has times, rounded up: no record before t is read.
func ceilMilli(t time.Time) int64 {
	ms := t.UnixMilli()
	if t.After(time.UnixMilli(ms)) {
		ms++
	}
	return ms
}
