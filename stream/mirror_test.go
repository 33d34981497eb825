package stream

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/forebay-io/forebay/stream/ledger"
)

// A commit that fails goes again, although the partition gets no more records: nobody else would ever say how far the
// subscription is.
func TestMirrorTriesAgainOnAnIdlePartition(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	var failed atomic.Int32
	r.cluster.ControlKey(int16(kmsg.OffsetCommit), func(req kmsg.Request) (kmsg.Response, error, bool) {
		commit := req.(*kmsg.OffsetCommitRequest)
		if commit.Topics[0].Partitions[0].Offset < 2 || failed.Add(1) > 2 {
			r.cluster.KeepControl()
			return nil, nil, false
		}
		r.cluster.KeepControl()
		resp := commit.ResponseKind().(*kmsg.OffsetCommitResponse)
		topic := kmsg.NewOffsetCommitResponseTopic()
		topic.Topic = commit.Topics[0].Topic
		part := kmsg.NewOffsetCommitResponseTopicPartition()
		part.Partition, part.ErrorCode = commit.Topics[0].Partitions[0].Partition, kerr.RebalanceInProgress.Code
		topic.Partitions = append(topic.Partitions, part)
		resp.Topics = append(resp.Topics, topic)
		return resp, nil, true
	})
	m := newMemory()
	run := r.start(r.config(m, newLanes()))
	run.untilRunning(t, 1)
	r.produce(0, 1, 2)
	limit := time.After(patience)
	for {
		if at, ok := r.committed(0); ok && at.At == 2 {
			break
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-limit:
			t.Fatalf("not mirrored after %d failed commits", failed.Load())
		}
	}
	if n := failed.Load(); n < 3 {
		t.Errorf("%d commits of the position, want 2 that fail and one that does not", n)
	}
}

// What was dropped, or noted anew, while a commit failed does not come back.
func TestMirrorDoesNotBringBackWhatIsGone(t *testing.T) {
	t.Parallel()
	m := newMirror(Config{}, nil)
	a, b, c := topicPartition{"t", 0}, topicPartition{"t", 1}, topicPartition{"t", 2}
	for _, tp := range []topicPartition{a, b, c} {
		m.set(tp, mirrored{at: ledger.Position{Offset: 5}})
	}
	batch := m.dirty
	m.dirty = map[topicPartition]mirrored{}
	m.drop(a)
	m.set(b, mirrored{at: ledger.Position{Offset: 6}})
	m.again(batch)
	if _, ok := m.dirty[a]; ok || m.dirty[b].at.Offset != 6 || m.dirty[c].at.Offset != 5 {
		t.Errorf("%+v", m.dirty)
	}
}

// A position goes out under the member id that claimed the partition and while that claim lasts, or not at all.
func TestMirrorIsItsClaims(t *testing.T) {
	t.Parallel()
	m := newMirror(Config{Group: testGroup}, nil)
	former, ours, dropped, again, next := topicPartition{"t", 0}, topicPartition{"t", 1}, topicPartition{"u", 0}, topicPartition{"u", 1}, topicPartition{"u", 2}
	batch := map[topicPartition]mirrored{former: {member: "before"}, ours: {member: "now"}, dropped: {member: "now"}, again: {member: "before"}, next: {member: "now"}}
	for tp, at := range batch {
		m.set(tp, at)
	}
	m.drop(dropped)
	m.set(again, mirrored{member: "now"})
	m.set(next, mirrored{member: "next"})
	request := func(member string) *kmsg.OffsetCommitRequest {
		req := kmsg.NewPtrOffsetCommitRequest()
		req.MemberID = member
		for _, topic := range []string{"t", "u"} {
			rt := kmsg.NewOffsetCommitRequestTopic()
			rt.Topic, rt.Partitions = topic, []kmsg.OffsetCommitRequestTopicPartition{{Partition: 0}, {Partition: 1}, {Partition: 2}}
			req.Topics = append(req.Topics, rt)
		}
		return req
	}
	req := request("now")
	if err := m.mark(req, batch); err != nil || len(req.Topics) != 1 || len(req.Topics[0].Partitions) != 1 || req.Topics[0].Partitions[0].Partition != ours.number {
		t.Errorf("%v: %+v", err, req.Topics)
	}
	if err := m.mark(request("somebody"), batch); !errors.Is(err, errNotMember) {
		t.Errorf("nothing to commit: %v", err)
	}
}
