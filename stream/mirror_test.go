package stream

import (
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A commit that fails goes again, although the partition gets no more records: nobody else would ever say how far the
// subscription is.
func TestMirrorTriesAgainOnAnIdlePartition(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	var failed atomic.Int32
	r.Cluster.ControlKey(int16(kmsg.OffsetCommit), func(req kmsg.Request) (kmsg.Response, error, bool) {
		commit := req.(*kmsg.OffsetCommitRequest)
		if commit.Topics[0].Partitions[0].Offset < 2 || failed.Add(1) > 2 {
			r.Cluster.KeepControl()
			return nil, nil, false
		}
		r.Cluster.KeepControl()
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
	r.Produce(0, 1, 2)
	r.untilCommitted(t, 0, 2)
	if n := failed.Load(); n < 3 {
		t.Errorf("%d commits of the position, want 2 that fail and one that does not", n)
	}
}
