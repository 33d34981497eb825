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
	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/ledger"
)

// released is what Expire gives back for one event out of the gap buffer.
func released(c *ledger.Claim, id int) ledger.Applied {
	rec := record.Encode(testTopic, event(id))
	w := &gate.Waiting{Record: gate.Record{Offset: 0}}
	return ledger.Applied{
		Claim:    c,
		Outcomes: []gate.Outcome{{Record: -1, Released: w, Decision: gate.Applied, Reason: gate.ReasonGapSkipped}},
		Actions:  []ledger.Action{{EventID: event(id).ID, Record: -1, Packed: record.Pack(rec)}},
	}
}

// A gap expires only when the partition was read to the end that was observed after the deadline had passed. The
// process was down; the deadline passed long ago; the filler lies unread in the log.
func TestGapWaitsForTheEnd(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	r.Produce(0, 1, 2, 3, 4, 5)
	m, lanes := newMemory(), newLanes()
	let := make(chan struct{})
	m.onApply = func(ctx context.Context, b []ledger.Slice) error {
		if b[0].Records[0].Offset > 0 {
			<-let
		}
		return nil
	}
	var overdue, expired atomic.Bool
	m.deadline = func(*ledger.Claim) (time.Duration, bool) { overdue.Store(true); return -time.Hour, !expired.Load() }
	var at []int64
	m.onExpire = func(c *ledger.Claim) (ledger.Applied, error) {
		m.mu.Lock()
		at = append(at, m.next(0))
		m.mu.Unlock()
		expired.Store(true)
		return released(c, 77), nil
	}
	asked := r.OnEnd(overdue.Load)
	cfg := r.config(m, lanes)
	cfg.BatchRecords = 1
	r.start(cfg)
	<-asked // the end is being looked up while the second record is held back
	close(let)
	lanes.until(t, "the released event", func() bool { return slices.Contains(lanes.items, "e77") })
	m.mu.Lock()
	defer m.mu.Unlock()
	if !slices.Equal(at, []int64{5}) {
		t.Errorf("expired at positions %v, want only 5, the end", at)
	}
}

// The filler came in time, behind a transaction that another writer has not ended yet.
func TestGapWaitsForAnOpenTransaction(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	r.Produce(0, 1)
	end := r.Begin(record.Encode(testTopic, event(2)))
	r.Produce(0, 3)
	m, lanes := newMemory(), newLanes()
	var overdue, expired atomic.Bool
	m.deadline = func(*ledger.Claim) (time.Duration, bool) { overdue.Store(true); return -time.Hour, !expired.Load() }
	at := make(chan int64, 10)
	m.onExpire = func(c *ledger.Claim) (ledger.Applied, error) {
		at <- m.at(0)
		expired.Store(true)
		return released(c, 77), nil
	}
	asked := r.OnEnd(overdue.Load)
	r.start(r.config(m, lanes))
	<-asked
	m.until(t, "what is before the transaction", func() bool { return m.next(0) == 1 })
	end(kgo.TryCommit)
	if got := <-at; got != 4 {
		t.Errorf("expired at position %d, the filler is at 2", got)
	}
}

// An idle partition that ends in a control record is read to its end all the same.
func TestGapExpiresOnIdlePartition(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	r.Begin(record.Encode(testTopic, event(1)))(kgo.TryAbort)
	m, lanes := newMemory(), newLanes()
	began := time.Now()
	const wait = 300 * time.Millisecond
	var expired atomic.Bool
	m.deadline = func(*ledger.Claim) (time.Duration, bool) { return wait - time.Since(began), !expired.Load() }
	m.onExpire = func(c *ledger.Claim) (ledger.Applied, error) {
		expired.Store(true)
		if time.Since(began) < wait {
			t.Error("expired before its deadline")
		}
		return released(c, 5), nil
	}
	r.start(r.config(m, lanes))
	lanes.until(t, "the released event", func() bool { return slices.Contains(lanes.items, "e5") })
}

// A question for the end that fails is asked again; it is never taken for an end.
func TestGapRetriesItsQuestion(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	r.Produce(0, 1)
	m, lanes := newMemory(), newLanes()
	var overdue, expired atomic.Bool
	m.deadline = func(*ledger.Claim) (time.Duration, bool) { overdue.Store(true); return -1, !expired.Load() }
	var fails atomic.Int32
	fails.Store(2)
	r.Cluster.ControlKey(int16(kmsg.ListOffsets), func(req kmsg.Request) (kmsg.Response, error, bool) {
		r.Cluster.KeepControl()
		if req.(*kmsg.ListOffsetsRequest).Topics[0].Partitions[0].Timestamp != -1 || !overdue.Load() || fails.Add(-1) < 0 {
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
	m.onExpire = func(c *ledger.Claim) (ledger.Applied, error) {
		expired.Store(true)
		if fails.Load() >= 0 {
			t.Error("expired although the end was not known")
		}
		return released(c, 9), nil
	}
	r.start(r.config(m, lanes))
	lanes.until(t, "the released event", func() bool { return slices.Contains(lanes.items, "e9") })
}

// What waited is asked for again after a move, and a failed Expire costs the claim, not the event.
func TestGapSurvivesFailures(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	m, lanes := newMemory(), newLanes()
	var tries atomic.Int32
	m.deadline = func(*ledger.Claim) (time.Duration, bool) { return -1, tries.Load() < 3 }
	m.onExpire = func(c *ledger.Claim) (ledger.Applied, error) {
		switch tries.Add(1) {
		case 1:
			return ledger.Applied{}, context.DeadlineExceeded
		case 2:
			return ledger.Applied{Claim: c, Fenced: true}, nil
		}
		return released(c, 3), nil
	}
	r.start(r.config(m, lanes))
	lanes.until(t, "the released event", func() bool { return slices.Contains(lanes.items, "e3") })
	lanes.mu.Lock()
	defer lanes.mu.Unlock()
	if want := []string{"open 0", "drop 0", "open 0", "drop 0", "open 0"}; !slices.Equal(lanes.calls, want) {
		t.Errorf("calls %q, want %q", lanes.calls, want)
	}
}
