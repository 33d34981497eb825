package stream

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/forebay-io/forebay/schemas/record"
	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/owner"
)

// A partition without records is processed all the same, up to before it was last seen to be read to its end, by the ledger's
// clock, whatever ours says. One that is behind is not.
func TestIdlePartitionsAreCaughtUp(t *testing.T) {
	t.Parallel()
	r := newRig(t, 2)
	m := newMemory()
	var stuck atomic.Bool
	stuck.Store(true)
	m.onApply = func(ctx context.Context, batch []ledger.Slice) error {
		for _, s := range batch {
			if s.Claim.Partition.Number == 1 && stuck.Load() {
				return &owner.StopError{Reason: "test"} // the batch fails, and its partition is claimed again
			}
		}
		return nil
	}
	m.db.Pass(time.Hour) // its clock is wrong, or ours is: an hour behind. The other way round the ledger would take its own for ours
	cfg := r.config(m, newLanes())
	cfg.IdleSweep = 20 * time.Millisecond
	r.Produce(1, 1)
	r.start(cfg)
	m.until(t, "the empty partition", func() bool { return !m.caughtUp[0].IsZero() })
	m.mu.Lock()
	if ahead := time.Until(m.caughtUp[0]); ahead < 30*time.Minute || ahead > time.Hour {
		t.Errorf("processed up to what is %s ahead by our clock, the ledger's is an hour ahead", ahead)
	}
	if _, ok := m.caughtUp[1]; ok {
		t.Error("a partition that is behind counts as caught up")
	}
	m.mu.Unlock()
	stuck.Store(false)
	m.until(t, "the other, once it is read", func() bool { return !m.caughtUp[1].IsZero() })
}

// Nor is one in which records lie unread behind a transaction that another writer has not ended yet.
func TestPartitionBehindAnOpenTransactionIsNotCaughtUp(t *testing.T) {
	t.Parallel()
	r := newRig(t, 2)
	m := newMemory()
	rec := record.Encode(testTopic, event(1))
	rec.Partition = 1
	end := r.Begin(rec)
	r.Produce(1, 2)
	cfg := r.config(m, newLanes())
	cfg.IdleSweep = 20 * time.Millisecond
	r.start(cfg).untilRunning(t, 2)
	for range 2 { // the first sweep may have begun before both were claimed
		m.until(t, "the empty partition", func() bool { return !m.caughtUp[0].IsZero() })
		m.mu.Lock()
		if _, ok := m.caughtUp[1]; ok {
			t.Error("the other one counts as caught up")
		}
		clear(m.caughtUp)
		m.mu.Unlock()
	}
	end(kgo.TryCommit)
	m.until(t, "the other one, once it is read", func() bool { return !m.caughtUp[1].IsZero() })
}

// The time is asked for before the ends: what is appended in between may be behind them.
func TestTimeIsAskedForBeforeTheEnds(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	ends := r.Cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.ListOffsets}, Topic: testTopic, Observe: true, Count: -1})
	began, late := time.Now(), make(chan time.Duration, 1)
	now := func() time.Time { return began.Add(time.Duration(ends.Hits()) * time.Hour) } // passes with each question
	cfg := r.config(lateness{newMemory(), now, late}, newLanes())
	cfg.IdleSweep = 20 * time.Millisecond
	r.start(cfg)
	select {
	case d := <-late:
		if d < time.Hour {
			t.Errorf("nothing was asked for in the %s since then", d)
		}
	case <-time.After(patience):
		t.Fatal("never noted")
	}
}

// lateness tells how long ago, by the ledger's clock, what is noted was.
type lateness struct {
	*memory
	now  func() time.Time
	late chan time.Duration
}

func (l lateness) Now(context.Context) (time.Time, error) { return l.now(), nil }

func (l lateness) CaughtUp(_ context.Context, at time.Time, _ []*ledger.Claim) error {
	select {
	case l.late <- l.now().Sub(at):
	default:
	}
	return nil
}

// Through the real ledger: what it keeps windows by moves on.
func TestIdlePartitionMovesItsProgress(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	_, n := realLedger(t, gate.Policy{Order: gate.OrderArrival})
	noted := make(chan ledger.Partition, 100)
	cfg := r.config(noting{n, noted}, newLanes())
	cfg.IdleSweep = 20 * time.Millisecond
	before, err := n.Now(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r.start(cfg)
	var p ledger.Partition
	select {
	case p = <-noted:
	case <-time.After(patience):
		t.Fatal("never noted")
	}
	var standing ledger.Standing
	looked := errors.New("it was a look only")
	_, err = n.Claim(t.Context(), ledger.ClaimRequest{Partition: p, Partitions: 1, Standing: func(s ledger.Standing) { standing = s },
		Confirm: func(context.Context, *ledger.Position) (ledger.Start, error) { return ledger.Start{}, looked }})
	if !errors.Is(err, looked) {
		t.Fatal(err)
	}
	if standing.ProcessedAt.Before(before) {
		t.Errorf("processed up to %s, it began at %s", standing.ProcessedAt, before)
	}
}

// noting is a ledger that tells of every CaughtUp that worked.
type noting struct {
	*ledger.Namespace
	noted chan ledger.Partition
}

func (n noting) CaughtUp(ctx context.Context, at time.Time, claims []*ledger.Claim) error {
	err := n.Namespace.CaughtUp(ctx, at, claims)
	if err == nil {
		select {
		case n.noted <- claims[0].Partition:
		default:
		}
	}
	return err
}

// A partition of which the ledger lacks what was written is claimed again, although no record comes: what was buffered for a gap would wait for that.
func TestIdlePartitionThatTheLedgerIsBehindIsClaimedAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	m := newMemory()
	cfg := r.config(older{m}, newLanes())
	cfg.IdleSweep = 20 * time.Millisecond
	r.start(cfg)
	m.until(t, "another claim", func() bool { return len(m.claims) == 2 })
	m.until(t, "which is caught up", func() bool { return !m.caughtUp[0].IsZero() })
}

// older is a ledger that lacks what its first claim has written.
type older struct{ *memory }

func (o older) CaughtUp(ctx context.Context, at time.Time, claims []*ledger.Claim) error {
	if claims[0].Epoch == 1 {
		return &ledger.BehindError{Fences: map[int32]bool{claims[0].ID: true}}
	}
	return o.memory.CaughtUp(ctx, at, claims)
}

// Lines to forget are looked for beside the batches, however long that takes, and go between two of them.
func TestLinesAreLookedForBesideBatches(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	m := forgetting{newMemory(), make(chan struct{}), make(chan struct{}), make(chan ledger.OldLines, 1)}
	cfg := r.config(m, newLanes())
	cfg.IdleSweep = 20 * time.Millisecond
	r.start(cfg)
	<-m.looking
	r.Produce(0, 1, 2, 3) // they are decided while it looks
	m.until(t, "batches meanwhile", func() bool { return m.next(0) == 3 })
	close(m.found)
	select {
	case old := <-m.gone:
		if !old.More {
			t.Error("other lines than were found")
		}
	case <-time.After(patience):
		t.Fatal("found, and not forgotten")
	}
}

// A sweep has a partition's lines deleted step by step while it has time, and not one step.
func TestSweepForgetsInManySteps(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	m := forgettingSteps{newMemory(), make(chan int), &atomic.Int64{}, &atomic.Int64{}}
	cfg := r.config(m, newLanes())
	cfg.IdleSweep = 200 * time.Millisecond
	r.start(cfg)
	select {
	case sweeps := <-m.gone:
		if sweeps >= forgottenIn {
			t.Errorf("%d steps took %d sweeps", forgottenIn, sweeps)
		}
	case <-time.After(patience):
		t.Fatalf("only %d steps of %d", m.steps.Load(), forgottenIn)
	}
}

// forgettingSteps is a ledger that has lines to forget for so many steps. Then it says in how many sweeps they have gone.
type forgettingSteps struct {
	*memory
	gone          chan int
	sweeps, steps *atomic.Int64
}

const forgottenIn = 50

func (f forgettingSteps) Tidy(context.Context, *ledger.Claim) (bool, error) {
	f.sweeps.Add(1)
	return true, nil
}

func (f forgettingSteps) OldLines(context.Context, *ledger.Claim) (ledger.OldLines, error) {
	return ledger.OldLines{More: f.steps.Load() < forgottenIn-1}, nil
}

func (f forgettingSteps) ForgetLines(ctx context.Context, _ *ledger.Claim, _ ledger.OldLines) error {
	if f.steps.Add(1) == forgottenIn {
		select {
		case f.gone <- int(f.sweeps.Load()):
		case <-ctx.Done():
		}
	}
	return nil
}

// forgetting is a ledger that looks for lines until it is told that they are found.
type forgetting struct {
	*memory
	looking, found chan struct{}
	gone           chan ledger.OldLines
}

func (forgetting) Tidy(context.Context, *ledger.Claim) (bool, error) { return true, nil }

func (f forgetting) OldLines(ctx context.Context, _ *ledger.Claim) (ledger.OldLines, error) {
	select {
	case f.looking <- struct{}{}:
	case <-f.found:
	case <-ctx.Done():
	}
	select {
	case <-f.found:
		return ledger.OldLines{More: true}, nil
	case <-ctx.Done():
		return ledger.OldLines{}, ctx.Err()
	}
}

func (f forgetting) ForgetLines(_ context.Context, _ *ledger.Claim, old ledger.OldLines) error {
	select {
	case f.gone <- old:
	default:
	}
	return nil
}
