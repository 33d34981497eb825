package stream

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/owner"
)

// Two processes share the partitions, one comes late and the first one goes: nothing is lost, nothing is decided twice,
// each partition's records keep their order, and every hand-over is clean.
func TestRebalance(t *testing.T) {
	t.Parallel()
	const partitions = 4
	r := newRig(t, partitions)
	m := newMemory()
	n := 0
	feed := func(each int) {
		for range each {
			for p := range int32(partitions) {
				r.Produce(p, n)
				n++
			}
		}
	}
	feed(5)
	lanesA, lanesB := newLanes(), newLanes()
	a := r.start(r.config(m, lanesA))
	a.untilRunning(t, partitions)
	feed(5)
	b := r.start(r.config(m, lanesB))
	feed(5)
	b.untilRunning(t, partitions/2)
	a.untilRunning(t, partitions/2)
	feed(5)
	a.stop(t)
	b.untilRunning(t, partitions)
	feed(5)
	m.until(t, "all read", func() bool {
		for p := range int32(partitions) {
			if m.next(p) != int64(n/partitions) {
				return false
			}
		}
		return true
	})
	b.stop(t)
	m.check(t)
	checkOnceInOrder(t, m.lines, n)
	for _, c := range m.claims {
		if c.Unclean {
			t.Errorf("unclean claim of %d, epoch %d", c.Partition.Number, c.Epoch)
		}
	}
	if slices.ContainsFunc(append(lanesA.calls, lanesB.calls...), func(s string) bool { return s[:4] == "drop" }) {
		t.Errorf("lanes were dropped: %q, %q", lanesA.calls, lanesB.calls)
	}
	if len(lanesA.items)+len(lanesB.items) != n {
		t.Errorf("%d and %d items of %d", len(lanesA.items), len(lanesB.items), n)
	}
}

func checkOnceInOrder(t *testing.T, lines []string, n int) {
	t.Helper()
	next := map[int32]int64{}
	for _, l := range lines {
		var p int32
		var o int64
		var id string
		if _, err := fmt.Sscanf(l, "%d/%d %s", &p, &o, &id); err != nil {
			t.Fatal(err)
		}
		if o != next[p] {
			t.Errorf("partition %d: offset %d after %d", p, o, next[p]-1)
		}
		next[p] = o + 1
	}
	if len(lines) != n {
		t.Errorf("%d records decided, want %d", len(lines), n)
	}
}

// A revoke waits for the batch that runs and for the lanes, within its budget, and mirrors where they ended.
func TestRevokeDrains(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	r.Produce(0, 1, 2)
	m, lanes := newMemory(), newLanes()
	applying, let := make(chan struct{}), make(chan struct{})
	m.onApply = func(context.Context, []ledger.Slice) error {
		close(applying)
		<-let
		return nil
	}
	var sawItems int
	lanes.onClose = func(ctx context.Context) {
		lanes.mu.Lock()
		defer lanes.mu.Unlock()
		sawItems = len(lanes.items)
		if d, ok := ctx.Deadline(); !ok || time.Until(d) > 5*time.Second {
			t.Errorf("lanes are drained without a limit: %v", d)
		}
	}
	run := r.start(r.config(m, lanes))
	<-applying
	run.cancel()
	close(let)
	run.stop(t)
	if sawItems != 2 {
		t.Errorf("the lanes were closed with %d of the last batch's 2 items", sawItems)
	}
	if at, ok := r.Committed(0); !ok || at.At != 2 {
		t.Errorf("mirror is %+v", at.Offset)
	}
	if info := r.Cluster.GroupInfo(testGroup); info != nil && len(info.Members) > 0 {
		t.Error("the group was not left")
	}
}

// A transaction that does not end is cut off: its outcome is not known, so nothing is released and the lanes are
// dropped.
func TestRevokeCutsOffAStuckTransaction(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	r.Produce(0, 1)
	m, lanes := newMemory(), newLanes()
	applying := make(chan struct{})
	m.onApply = func(ctx context.Context, _ []ledger.Slice) error {
		close(applying)
		<-ctx.Done()
		return context.Cause(ctx)
	}
	cfg := r.config(m, lanes)
	cfg.DrainTimeout = 200 * time.Millisecond
	run := r.start(cfg)
	<-applying
	run.stop(t)
	if want := []string{"open 0", "drop 0"}; !slices.Equal(lanes.calls, want) {
		t.Errorf("calls %q, want %q", lanes.calls, want)
	}
	if !m.take(0, -1).Unclean {
		t.Error("the fence was released although the batch's outcome is not known")
	}
}

// A member that the group has thrown out drops everything at once, writes nothing, is not alive, and joins again.
func TestLost(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	r.Produce(0, 1)
	m, lanes := newMemory(), newLanes()
	run := r.start(r.config(m, lanes))
	m.until(t, "first read", func() bool { return m.next(0) == 1 })
	run.untilAlive(t)
	// Both heartbeats, the client's and the pulse's, are refused until the member has dropped its claim.
	r.Cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Heartbeat}, Group: testGroup, TopLevel: true,
		Err: kerr.UnknownMemberID, Count: -1, When: func(kmsg.Request) bool {
			lanes.mu.Lock()
			defer lanes.mu.Unlock()
			return !slices.Contains(lanes.calls, "drop 0")
		}})
	lanes.until(t, "a drop", func() bool { return lanes.has("drop 0") })
	lanes.until(t, "a second claim", func() bool { return len(lanes.open) == 1 })
	run.untilAlive(t)
	r.Produce(0, 2)
	m.until(t, "second read", func() bool { return m.next(0) == 2 })
	if c := m.lastClaim(); !c.Unclean {
		t.Error("a lost claim was taken over as clean")
	}
	lanes.mu.Lock()
	defer lanes.mu.Unlock()
	if lanes.has("close 0") {
		t.Errorf("lanes of a lost claim were closed in order: %q", lanes.calls)
	}
}

// untilAlive waits for a confirmed heartbeat. It polls: Alive is a question, not a signal.
func (r *running) untilAlive(t *testing.T) {
	t.Helper()
	r.until(t, "alive", func([]owner.PartitionState) bool { return r.Alive() })
}
