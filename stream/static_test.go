package stream

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/forebay-io/forebay/stream/owner"
)

// A static member that comes back within the session timeout has its partitions again, clean and without a rebalance:
// the group's generation stays, and its claims are confirmed under it with the instance id.
func TestStaticMemberComesBackWithoutARebalance(t *testing.T) {
	t.Parallel()
	r := newRig(t, 2)
	m := newMemory()
	var generation int32
	left := r.Cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.LeaveGroup}, Observe: true, Count: -1})
	anonymous := r.Cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Heartbeat}, Observe: true, Count: -1, When: func(req kmsg.Request) bool {
		h, ok := req.(*kmsg.HeartbeatRequest)
		return ok && (h.InstanceID == nil || *h.InstanceID != "stream-0")
	}})
	for i := range 3 {
		r.Produce(0, i)
		cfg := r.config(m, newLanes())
		cfg.InstanceID = "stream-0"
		run := r.start(cfg)
		run.untilRunning(t, 2)
		m.until(t, "read", func() bool { return m.next(0) == int64(i+1) })
		run.untilAlive(t)
		run.stop(t)
		info := r.Cluster.GroupInfo(testGroup)
		if len(info.Members) != 1 || info.Members[0].InstanceID == nil || *info.Members[0].InstanceID != "stream-0" {
			t.Fatalf("the group's members while the process is away: %+v", info.Members)
		}
		if i > 0 && info.Epoch != generation {
			t.Errorf("restart %d made generation %d of %d", i, info.Epoch, generation)
		}
		generation = info.Epoch
	}
	for _, c := range m.claims {
		if c.Unclean {
			t.Errorf("unclean claim of %d", c.Partition.Number)
		}
	}
	if len(m.claims) != 6 {
		t.Errorf("%d claims of two partitions in three lives", len(m.claims))
	}
	if n := left.Hits(); n > 0 {
		t.Errorf("the member left the group %d times: its partitions would have moved", n)
	}
	if n := anonymous.Hits(); n > 0 {
		t.Errorf("%d heartbeats without the instance id", n)
	}
	m.check(t)
}

// Two processes with one instance id: the older is fenced by the group. It drops what it has, writes nothing any more,
// is not alive, and says what is wrong.
func TestSecondProcessWithTheInstanceIDFencesTheFirst(t *testing.T) {
	t.Parallel()
	r := newRig(t, 2)
	r.Produce(0, 0)
	m, older, newer := newMemory(), newLanes(), newLanes()
	start := func(l *lanesDouble) *running {
		cfg := r.config(m, l)
		cfg.InstanceID = "stream-0"
		return r.start(cfg)
	}
	a := start(older)
	older.until(t, "the first record", func() bool { return slices.Equal(older.items, []string{"e0"}) })
	a.untilRunning(t, 2)
	b := start(newer)
	older.until(t, "the older to drop both", func() bool { return older.has("drop 0") && older.has("drop 1") })
	r.Produce(0, 1, 2)
	r.Produce(1, 3)
	newer.until(t, "the newer's records", func() bool { return len(newer.items) == 3 })
	b.untilRunning(t, 2)
	a.until(t, "the reason", func([]owner.PartitionState) bool {
		err := a.Ready()
		return err != nil && strings.Contains(err.Error(), "kafka.instance_id")
	})
	a.until(t, "the older to have nothing and not be alive", func(parts []owner.PartitionState) bool { return len(parts) == 0 && !a.Alive() })
	m.mu.Lock()
	claims := len(m.claims)
	m.mu.Unlock()
	// It stays out for as long as the other lives, and the other stays.
	refused := r.Cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.JoinGroup}, Observe: true, Count: -1})
	if err := refused.Wait(r.Ctx(), 2); err != nil {
		t.Fatal(err)
	}
	b.untilRunning(t, 2)
	if !b.Alive() {
		t.Error("the newer is not alive")
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.claims) != claims || claims != 4 {
		t.Errorf("%d claims, then %d: the older came back", claims, len(m.claims))
	}
	if len(older.items) != 1 || older.has("close 0") || older.has("close 1") {
		t.Errorf("the older got %q, calls %q", older.items, older.calls)
	}
}

// A static member that does not come back within the session timeout loses its partitions to the others.
func TestStaticMemberThatStaysAwayLosesItsPartitions(t *testing.T) {
	t.Parallel()
	r := newRig(t, 2)
	m := newMemory()
	config := func(id string) setup {
		cfg := r.config(m, newLanes())
		cfg.InstanceID, cfg.SessionTimeout = id, time.Second
		return cfg
	}
	a := r.start(config("stream-0"))
	a.untilRunning(t, 2)
	b := r.start(config("stream-1"))
	b.untilRunning(t, 1)
	a.untilRunning(t, 1)
	a.stop(t)
	b.untilRunning(t, 2)
	for _, c := range m.claims {
		if c.Unclean {
			t.Errorf("unclean claim of %d: it was released", c.Partition.Number)
		}
	}
}
