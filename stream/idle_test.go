package stream

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/ledger"
)

// A partition without records is processed all the same, up to before it was last seen to be read to its end. One that is
// behind is not.
func TestIdlePartitionsAreCaughtUp(t *testing.T) {
	t.Parallel()
	r := newRig(t, 2)
	m := newMemory()
	var stuck atomic.Bool
	stuck.Store(true)
	m.onApply = func(ctx context.Context, batch []ledger.Slice) error {
		for _, s := range batch {
			if s.Claim.Partition.Number == 1 && stuck.Load() {
				return &StopError{Reason: "test"} // the batch fails, and its partition is claimed anew
			}
		}
		return nil
	}
	began := time.Now()
	cfg := r.config(m, newLanes())
	cfg.IdleSweep = 20 * time.Millisecond
	r.produce(1, 1)
	r.start(cfg)
	m.until(t, "the empty partition", func() bool { return !m.caughtUp[0].IsZero() })
	m.mu.Lock()
	if at := m.caughtUp[0]; at.After(time.Now().Add(-clockMargin)) || at.Before(began.Add(-clockMargin)) {
		t.Errorf("processed up to %s before now", time.Since(at))
	}
	if _, ok := m.caughtUp[1]; ok {
		t.Error("a partition that is behind counts as caught up")
	}
	m.mu.Unlock()
	stuck.Store(false)
	m.until(t, "the other, once it is read", func() bool { return !m.caughtUp[1].IsZero() })
}

// Through the real ledger: what it keeps windows by moves on.
func TestIdlePartitionMovesItsProgress(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	_, n := realLedger(t, gate.Policy{Order: gate.OrderArrival})
	noted := make(chan time.Time, 100)
	cfg := r.config(noting{n, noted}, newLanes())
	cfg.IdleSweep = 20 * time.Millisecond
	r.start(cfg)
	select {
	case <-noted:
	case <-time.After(patience):
		t.Fatal("never noted")
	}
}

// noting is a ledger that tells of every CaughtUp that worked.
type noting struct {
	*ledger.Namespace
	noted chan time.Time
}

func (n noting) CaughtUp(ctx context.Context, at time.Time, claims []*ledger.Claim) error {
	err := n.Namespace.CaughtUp(ctx, at, claims)
	if err == nil {
		select {
		case n.noted <- at:
		default:
		}
	}
	return err
}
