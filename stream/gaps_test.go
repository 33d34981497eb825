package stream

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/forebay-io/forebay/schemas/record"
	"github.com/forebay-io/forebay/stream/ledger"
)

// overdueGap has a ledger in which an event waits behind a gap whose deadline has passed; no question for the end is due yet.
func overdueGap(t *testing.T) (*rig, *memory) {
	t.Helper()
	r, m := newRig(t, 1), newMemory(hourly)
	r.Send(versioned(1, 1), versioned(77, 3))
	ran(t, r, m, 2)
	m.db.Pass(2 * time.Hour)
	m.overdue.Store(false) // what ran may have set it
	return r, m
}

// A gap expires only when the partition was read to the end that was observed after the deadline had passed. The
// process was down; the deadline passed long ago; the filler lies unread in the log.
func TestGapWaitsForTheEnd(t *testing.T) {
	t.Parallel()
	r, m := overdueGap(t)
	lanes := newLanes()
	for i := range 4 {
		r.Send(versioned(i+5, int64(i+5)))
	}
	let := make(chan struct{})
	m.onApply = func(ctx context.Context, b []ledger.Slice) error {
		if b[0].Records[0].Offset > 2 {
			<-let
		}
		return nil
	}
	var at []int64
	m.onExpire(func() { at = append(at, m.at(0)) })
	asked := r.OnEnd(m.overdue.Load)
	cfg := r.config(m, lanes)
	cfg.BatchRecords = 1
	r.start(cfg)
	<-asked // the end is being looked up while the second of these records is held back
	close(let)
	lanes.until(t, "the released event", func() bool { return slices.Contains(lanes.items, "e77") })
	if !slices.Equal(at, []int64{6}) {
		t.Errorf("expired at positions %v, want only 6, the end", at)
	}
}

// The filler came in time, behind a transaction that another writer has not ended yet.
func TestGapWaitsForAnOpenTransaction(t *testing.T) {
	t.Parallel()
	r, m := overdueGap(t)
	end := r.Begin(versioned(5, 5))
	r.Send(versioned(6, 6))
	at := make(chan int64, 10)
	m.onExpire(func() { at <- m.at(0) })
	asked := r.OnEnd(m.overdue.Load)
	r.start(r.config(m, newLanes()))
	<-asked
	end(kgo.TryCommit)
	if got := <-at; got != 5 {
		t.Errorf("expired at position %d, and not behind the mark at 4, with which the transaction ends", got)
	}
}

// An idle partition that ends in a control record is read to its end all the same.
func TestGapExpiresOnIdlePartition(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	r.Send(versioned(1, 1), versioned(5, 3))
	r.Begin(record.Encode(testTopic, event(1)))(kgo.TryAbort)
	m, lanes := newMemory(versions), newLanes()
	began := time.Now()
	m.onExpire(func() {
		if time.Since(began) < versions.GapWait {
			t.Error("expired before its deadline")
		}
	})
	r.start(r.config(m, lanes))
	lanes.until(t, "the released event", func() bool { return slices.Contains(lanes.items, "e5") })
}

// A question for the end that fails is asked again; it is never taken for an end.
func TestGapRetriesItsQuestion(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	r.Send(versioned(1, 1), versioned(9, 3))
	m, lanes := newMemory(versions), newLanes()
	var fails atomic.Int32
	fails.Store(2)
	r.Cluster.ControlKey(int16(kmsg.ListOffsets), func(req kmsg.Request) (kmsg.Response, error, bool) {
		r.Cluster.KeepControl()
		if req.(*kmsg.ListOffsetsRequest).Topics[0].Partitions[0].Timestamp != -1 || !m.overdue.Load() || fails.Add(-1) < 0 {
			return nil, nil, false
		}
		resp := req.ResponseKind().(*kmsg.ListOffsetsResponse)
		rt := kmsg.NewListOffsetsResponseTopic()
		rt.Topic = testTopic
		rp := kmsg.NewListOffsetsResponseTopicPartition()
		rp.ErrorCode, rp.Offset = 29, 0 // topic authorization failed: not retried by the client
		rt.Partitions = append(rt.Partitions, rp)
		resp.Topics = append(resp.Topics, rt)
		return resp, nil, true
	})
	m.onExpire(func() {
		if fails.Load() >= 0 {
			t.Error("expired although the end was not known")
		}
	})
	r.start(r.config(m, lanes))
	lanes.until(t, "the released event", func() bool { return slices.Contains(lanes.items, "e9") })
}

// What waited is asked for again after a move, and a failed Expire costs the claim, not the event.
func TestGapSurvivesFailures(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	r.Send(versioned(1, 1), versioned(3, 3))
	m, lanes := &failing{memory: newMemory(versions)}, newLanes()
	r.start(r.config(m, lanes))
	lanes.until(t, "the released event", func() bool { return slices.Contains(lanes.items, "e3") })
	lanes.mu.Lock()
	defer lanes.mu.Unlock()
	if want := []string{"open 0", "drop 0", "open 0", "drop 0", "open 0"}; !slices.Equal(lanes.calls, want) {
		t.Errorf("calls %q, want %q", lanes.calls, want)
	}
}

// failing is a ledger that does not answer the first Expire, and has the fence taken before the second.
type failing struct {
	*memory
	tries atomic.Int32
}

func (f *failing) Expire(ctx context.Context, c *ledger.Claim) (ledger.Applied, error) {
	switch f.tries.Add(1) {
	case 1:
		return ledger.Applied{}, context.DeadlineExceeded
	case 2:
		f.take(0, -1)
	}
	return f.memory.Expire(ctx, c)
}
