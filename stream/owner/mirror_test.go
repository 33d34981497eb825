package owner

import (
	"errors"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/reader"
)

// What was dropped, or noted again, while a commit failed does not come back.
func TestMirrorDoesNotBringBackWhatIsGone(t *testing.T) {
	t.Parallel()
	m := newMirror(Config{}, nil)
	a, b, c := reader.TopicPartition{Topic: "t", Number: 0}, reader.TopicPartition{Topic: "t", Number: 1}, reader.TopicPartition{Topic: "t", Number: 2}
	for _, tp := range []reader.TopicPartition{a, b, c} {
		m.set(tp, mirrorPosition{at: ledger.Position{Offset: 5}})
	}
	batch := m.dirty
	m.dirty = map[reader.TopicPartition]mirrorPosition{}
	m.drop(a)
	m.set(b, mirrorPosition{at: ledger.Position{Offset: 6}})
	m.keepForRetry(batch)
	if _, ok := m.dirty[a]; ok || m.dirty[b].at.Offset != 6 || m.dirty[c].at.Offset != 5 {
		t.Errorf("%+v", m.dirty)
	}
}

// A position goes out under the member id that claimed the partition and while that claim lasts, or not at all.
func TestMirrorIsItsClaims(t *testing.T) {
	t.Parallel()
	m := newMirror(Config{Group: testGroup}, nil)
	former, ours := reader.TopicPartition{Topic: "t", Number: 0}, reader.TopicPartition{Topic: "t", Number: 1}
	dropped, again, next := reader.TopicPartition{Topic: "u", Number: 0}, reader.TopicPartition{Topic: "u", Number: 1}, reader.TopicPartition{Topic: "u", Number: 2}
	batch := map[reader.TopicPartition]mirrorPosition{former: {member: "before"}, ours: {member: "now"}, dropped: {member: "now"}, again: {member: "before"}, next: {member: "now"}}
	for tp, at := range batch {
		m.set(tp, at)
	}
	m.drop(dropped)
	m.set(again, mirrorPosition{member: "now"})
	m.set(next, mirrorPosition{member: "next"})
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
	if err := m.addMarkers(req, batch); err != nil || len(req.Topics) != 1 || len(req.Topics[0].Partitions) != 1 || req.Topics[0].Partitions[0].Partition != ours.Number {
		t.Errorf("%v: %+v", err, req.Topics)
	}
	if err := m.addMarkers(request("somebody"), batch); !errors.Is(err, errNotMember) {
		t.Errorf("nothing to commit: %v", err)
	}
}
