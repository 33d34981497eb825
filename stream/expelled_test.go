package stream

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/forebay-io/forebay/stream/internal/streamtest"
)

// A member that is expelled while it joins a rebalance comes back under another id, and kgo tells its callbacks nothing:
// not that the partitions were lost, nor that they are assigned again. What was claimed before is claimed again all the
// same, because the group was empty in between and an operator may have moved it; and the mirror of the claim before must
// not overwrite what he did.
func TestExpelledWhileItJoinsHonoursASeek(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	r.Produce(0, 0, 1, 2)
	m := newMemory()
	run := r.start(r.config(m, newLanes()))
	m.until(t, "all read", func() bool { return m.next(0) == 3 })
	r.untilCommitted(t, 0, 3)
	member := r.joinsLate(t, func(member string) {
		r.expel(t, member)
		r.Commit(0, 1, "")
	})
	r.Produce(0, 3)
	m.until(t, "claimed again", func() bool { return len(m.claims) == 2 })
	m.until(t, "read again", func() bool { return m.next(0) == 4 })
	if c := m.lastClaim(); c.Seek == nil || c.Seek.To != 1 {
		t.Errorf("claimed at %+v with seek %+v after %s was expelled", c.Next, c.Seek, member)
	}
	run.untilRunning(t, 1)
	m.check(t)
}

// joinsLate begins a rebalance, holds the member's JoinGroup back, and lets it go on after meanwhile. It returns the
// member's id.
func (r *rig) joinsLate(t *testing.T, meanwhile func(member string)) string {
	t.Helper()
	members, joined, proceed := make(chan string, 1), make(chan struct{}), make(chan struct{})
	var join sync.Once
	var joining atomic.Bool
	r.Cluster.ControlKey(int16(kmsg.JoinGroup), func(req kmsg.Request) (kmsg.Response, error, bool) {
		r.Cluster.KeepControl()
		join.Do(func() {
			joining.Store(true)
			members <- req.(*kmsg.JoinGroupRequest).MemberID
			r.Cluster.SleepControl(func() { close(joined); <-proceed })
		})
		return nil, nil, false
	})
	r.Cluster.ControlKey(int16(kmsg.Heartbeat), func(req kmsg.Request) (kmsg.Response, error, bool) {
		r.Cluster.KeepControl()
		if joining.Load() {
			return nil, nil, false
		}
		h := req.ResponseKind().(*kmsg.HeartbeatResponse)
		h.ErrorCode = kerr.RebalanceInProgress.Code
		return h, nil, true
	})
	<-joined
	member := <-members
	meanwhile(member)
	close(proceed)
	return member
}

// expel takes a member out of the group, as the end of its session does.
func (r *rig) expel(t *testing.T, member string) {
	t.Helper()
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Group = testGroup
	m := kmsg.NewLeaveGroupRequestMember()
	m.MemberID = member
	req.MemberID, req.Members = member, append(req.Members, m)
	resp, err := req.RequestWith(r.Ctx(), r.Client)
	if err != nil || resp.ErrorCode != 0 || len(resp.Members) == 1 && resp.Members[0].ErrorCode != 0 {
		t.Fatalf("expel %s: %+v, %v", member, resp, err)
	}
}

// untilCommitted waits for the mirror to reach an offset, which shows that the batch before it is done.
func (r *rig) untilCommitted(t *testing.T, partition int32, at int64) {
	t.Helper()
	if !streamtest.Until(func() bool { c, ok := r.Committed(partition); return ok && c.At == at }) {
		t.Fatalf("the group's position is never %d", at)
	}
}
