package stream

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/forebay-io/forebay/stream/owner"
)

// The group goes on without a partition while its lanes are still being drained, and the other partitions' lanes do not stand
// still for that. When it has put the member out, they do, although nothing else comes of it before the drain is over.
func TestAliveWhileARevokeDrains(t *testing.T) {
	t.Parallel()
	r := newRig(t, 2)
	lanes := newLanes()
	draining, drained := make(chan struct{}), make(chan struct{})
	hold := sync.OnceFunc(func() { close(draining); <-drained })
	lanes.onClose = func(context.Context) { hold() }
	cfg := r.config(newMemory(), lanes)
	cfg.SessionTimeout = time.Minute // nothing below is for running out of time
	a := r.start(cfg)
	a.untilRunning(t, 2)
	a.untilReady(t)
	info := r.Cluster.GroupInfo(testGroup)
	id, generation := info.Members[0].MemberID, info.Epoch
	r.start(r.config(newMemory(), newLanes())) // takes one of the two
	<-draining
	beats := r.beatsOf(id, generation) // for which there is nothing but a refusal any more
	for range 3 {
		<-beats
		if !a.Alive() {
			t.Fatal("not alive while a revoke drains")
		}
	}
	leave := kmsg.NewPtrLeaveGroupRequest()
	leave.Group, leave.Members = testGroup, []kmsg.LeaveGroupRequestMember{{MemberID: id}}
	if _, err := leave.RequestWith(r.Ctx(), r.Client); err != nil {
		t.Fatal(err)
	}
	a.until(t, "taken for gone", func([]owner.PartitionState) bool { return !a.Alive() })
	close(drained)
}

// beatsOf tells of every heartbeat of a member in a generation.
func (r *rig) beatsOf(id string, generation int32) <-chan struct{} {
	beats := make(chan struct{}, 100)
	r.Cluster.ControlKey(int16(kmsg.Heartbeat), func(req kmsg.Request) (kmsg.Response, error, bool) {
		r.Cluster.KeepControl()
		if b := req.(*kmsg.HeartbeatRequest); b.MemberID == id && b.Generation == generation {
			select {
			case beats <- struct{}{}:
			default:
			}
		}
		return nil, nil, false
	})
	return beats
}
