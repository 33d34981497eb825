package stream

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/owner"
)

// A claim whose lanes cannot be opened says so, also while it is made again, until it runs.
func TestClaimWhoseLanesDoNotOpenSaysWhy(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	m, lanes := newMemory(), newLanes()
	var mended atomic.Bool
	lanes.onOpen = func() error {
		if mended.Load() {
			return nil
		}
		return errors.New("permission denied for table results")
	}
	var running atomic.Pointer[running]
	var claims, silent atomic.Int32
	m.onClaim = func(ledger.ClaimRequest) error {
		if run := running.Load(); run != nil && claims.Add(1) > 1 { // the first one that is seen may be the first at all
			for _, p := range run.Partitions() {
				if p.Err == nil {
					silent.Add(1)
				}
			}
		}
		return nil
	}
	run := r.start(r.config(m, lanes))
	running.Store(run)
	says := func(parts []owner.PartitionState) bool {
		return len(parts) == 1 && parts[0].State == owner.Claiming && parts[0].Err != nil && strings.Contains(parts[0].Err.Error(), "permission denied for table results")
	}
	run.until(t, "a claim that says why", says)
	m.until(t, "more claims", func() bool { return len(m.claims) >= 4 })
	if n := silent.Load(); n > 0 {
		t.Errorf("%d claims took the reason back", n)
	}
	mended.Store(true)
	if p := run.until(t, "a partition that runs", func(parts []owner.PartitionState) bool { return parts[0].State == owner.Running }); p[0].Err != nil {
		t.Errorf("it runs, and says %v", p[0].Err)
	}
}

// So does one whose position the group does not take.
func TestClaimWhosePositionIsNotMirroredSaysWhy(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	r.Produce(0, 1, 2)
	m := newMemory()
	ran(t, r, m, 2)
	r.Commit(0, 1, "") // an operator's, which is to be overwritten before the first batch
	var mended atomic.Bool
	r.Cluster.ControlKey(int16(kmsg.OffsetCommit), func(req kmsg.Request) (kmsg.Response, error, bool) {
		r.Cluster.KeepControl()
		if mended.Load() {
			return nil, nil, false
		}
		resp := req.ResponseKind().(*kmsg.OffsetCommitResponse)
		for _, asked := range req.(*kmsg.OffsetCommitRequest).Topics {
			topic := kmsg.NewOffsetCommitResponseTopic()
			topic.Topic, topic.TopicID = asked.Topic, asked.TopicID
			for _, p := range asked.Partitions {
				part := kmsg.NewOffsetCommitResponseTopicPartition()
				part.Partition, part.ErrorCode = p.Partition, kerr.TopicAuthorizationFailed.Code
				topic.Partitions = append(topic.Partitions, part)
			}
			resp.Topics = append(resp.Topics, topic)
		}
		return resp, nil, true
	})
	run := r.start(r.config(m, newLanes()))
	run.until(t, "a claim that says why", func(parts []owner.PartitionState) bool {
		return len(parts) == 1 && parts[0].State == owner.Claiming && errors.Is(parts[0].Err, kerr.TopicAuthorizationFailed)
	})
	mended.Store(true)
	run.untilRunning(t, 1)
}
