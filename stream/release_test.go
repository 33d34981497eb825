package stream

import (
	"errors"
	"sync/atomic"
	"testing"
)

// Lanes that were cut off leave calls in flight: the next claim must be unclean, and wait for them.
func TestCutOffLanesDoNotReleaseTheFence(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	r.Produce(0, 1)
	m, lanes := newMemory(), newLanes()
	lanes.closeErr = errors.New("an attempt was cut off")
	run := r.start(r.config(m, lanes))
	m.until(t, "first read", func() bool { return m.next(0) == 1 })
	run.stop(t)
	if at, ok := r.Committed(0); !ok || at.At != 1 {
		t.Errorf("the position was not mirrored: %+v", at.Offset)
	}
	lanes.closeErr = nil
	run = r.start(r.config(m, lanes))
	run.untilRunning(t, 1)
	run.stop(t)
	run = r.start(r.config(m, lanes))
	run.untilRunning(t, 1)
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.claims[1].Unclean || m.claims[2].Unclean {
		t.Errorf("unclean: %v after lanes that were cut off, %v after lanes that drained", m.claims[1].Unclean, m.claims[2].Unclean)
	}
}

// A claim that comes to nothing does not make clean what the owner before left in flight.
func TestClaimThatFailsStaysUnclean(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	m, lanes := newMemory(), newLanes()
	var fails atomic.Int32
	lanes.onOpen = func() error {
		if fails.Add(-1) >= 0 {
			return errors.New("the open actions cannot be read")
		}
		return nil
	}
	fails.Store(1)
	run := r.start(r.config(m, lanes))
	run.untilRunning(t, 1)
	run.stop(t)
	m.mu.Lock()
	if m.claims[1].Unclean {
		t.Error("a clean claim that failed made the next one unclean")
	}
	m.mu.Unlock()
	m.take(0, -1) // by a process that is killed
	fails.Store(2)
	run = r.start(r.config(m, lanes))
	run.untilRunning(t, 1)
	run.stop(t)
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range m.claims[2:] {
		if !c.Unclean {
			t.Errorf("the claim of epoch %d is clean", c.Epoch)
		}
	}
	if len(m.claims) != 5 {
		t.Errorf("%d claims, want 5", len(m.claims))
	}
}
