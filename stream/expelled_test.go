package stream

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/forebay-io/forebay/stream/internal/streamtest"
	"github.com/forebay-io/forebay/stream/ledger"
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

// silent is a ledger that does not answer for a while, and does not know of members that join meanwhile.
type silent struct {
	*memory
	is      atomic.Bool
	unknown atomic.Value // the member that has joined meanwhile
}

var errSilent = errors.New("the ledger does not answer")

func (s *silent) Began(ctx context.Context) (time.Time, error) {
	if s.is.Load() {
		return time.Time{}, errSilent
	}
	return s.memory.Began(ctx)
}

func (s *silent) Claim(ctx context.Context, req ledger.ClaimRequest) (*ledger.Claim, error) {
	if s.is.Load() {
		return nil, errSilent
	}
	return s.memory.Claim(ctx, req)
}

func (s *silent) Enter(member string) {
	if s.is.Load() {
		s.unknown.Store(member)
	}
}

func (s *silent) Unknown(member string) bool { return s.is.Load() && s.unknown.Load() == member }

// A member that is expelled while the ledger does not answer is not in the group before it does, however it learns that it was expelled: it could
// claim nothing, and nobody could take it out again.
func TestExpelledIsOutUntilTheLedgerAnswers(t *testing.T) {
	t.Parallel()
	for name, expel := range map[string]func(t *testing.T, r *rig){
		"by its heartbeat": func(t *testing.T, r *rig) { r.expel(t, r.Cluster.GroupInfo(testGroup).Members[0].MemberID) },
		"while it joins":   func(t *testing.T, r *rig) { r.joinsLate(t, func(member string) { r.expel(t, member) }) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, 1)
			r.Produce(0, 0)
			m := &silent{memory: newMemory()}
			run := r.start(r.config(m, newLanes()))
			run.untilRunning(t, 1)
			run.untilReady(t)
			m.is.Store(true)
			expel(t, r)
			if !streamtest.Until(func() bool { return errors.Is(run.Ready(), errSilent) }) {
				t.Fatalf("ready: %v", run.Ready())
			}
			if members := r.Cluster.GroupInfo(testGroup).Members; len(members) > 0 || run.Alive() {
				t.Errorf("it waits for the ledger, alive %v, with %d members in the group", run.Alive(), len(members))
			}
			m.is.Store(false)
			run.untilRunning(t, 1)
			run.untilReady(t)
			m.check(t)
		})
	}
}

// untilCommitted waits for the mirror to reach an offset, which shows that the batch before it is done.
func (r *rig) untilCommitted(t *testing.T, partition int32, at int64) {
	t.Helper()
	if !streamtest.Until(func() bool { c, ok := r.Committed(partition); return ok && c.At == at }) {
		t.Fatalf("the group's position is never %d", at)
	}
}
