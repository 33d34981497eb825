package reader

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger"
)

// shelf is a ledger of actions without copies, and payloads that fail as a test wants.
type shelf struct {
	mu     sync.Mutex
	bare   map[int64]int64 // offset by lane_seq
	stored []int64
	groups int
	fenced bool
	asked  []int64 // where the walks began
	load   func(ctx context.Context, p ledger.Pointer) error
}

func (s *shelf) WithoutCopy(_ context.Context, _ *ledger.Claim, after, before int64, limit int) (page ledger.WithoutCopyPage, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, after)
	for _, seq := range slices.Sorted(maps.Keys(s.bare)) {
		switch {
		case seq <= after:
			continue
		case limit == 0:
			page.More = true
			return page, nil
		case s.bare[seq] < before:
			page.Actions = append(page.Actions, ledger.WithoutCopy{LaneSeq: seq, Pointer: ledger.Pointer{Offset: s.bare[seq]}})
		case page.Left == 0:
			page.Left, page.LeftOffset = seq, s.bare[seq]
		}
		if page.Left > 0 && s.bare[seq] >= before {
			page.LeftOffset = min(page.LeftOffset, s.bare[seq])
		}
		page.Upto, limit = seq, limit-1
	}
	return page, nil
}

func (s *shelf) Copy(_ context.Context, _ *ledger.Claim, copies []ledger.Copy) (int, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fenced {
		return 0, true, nil
	}
	for _, c := range copies {
		s.stored = append(s.stored, c.LaneSeq)
		delete(s.bare, c.LaneSeq)
	}
	s.groups++
	return len(copies), false, nil
}

func (s *shelf) Load(ctx context.Context, p ledger.Pointer) (*schemas.Event, error) {
	if s.load != nil {
		if err := s.load(ctx, p); err != nil {
			return nil, err
		}
	}
	e := event(int(p.Offset))
	e.Data = make([]byte, copyGroup/8)
	return e, nil
}

func (s *shelf) sweep(t *testing.T, before int64) *copySweep {
	t.Helper()
	ms, err := NewMetrics(nil)
	if err != nil {
		t.Fatal(err)
	}
	k := &Copier{ledger: s, payloads: s, metrics: ms, log: slog.New(slog.DiscardHandler), slots: make(chan struct{}, 1)}
	return &copySweep{Copier: k, claim: &ledger.Claim{}, before: before}
}

// A load that fails costs its own action a later sweep, and nothing else; many of them end the sweep.
func TestSweepGoesOnBehindAFailure(t *testing.T) {
	t.Parallel()
	away := errors.New("broker away")
	s := &shelf{bare: map[int64]int64{}, load: func(_ context.Context, p ledger.Pointer) error {
		if p.Offset == 14 {
			return away
		}
		return nil
	}}
	for seq := range int64(3*copyPage + 1) {
		if seq%100 == 4 || seq == 3*copyPage {
			s.bare[seq+1] = seq + 10
		}
	}
	w := s.sweep(t, 3*copyPage)
	err := w.walk(t.Context())
	if !errors.Is(err, away) || w.done != 4 || len(s.stored) != 29 || s.groups < 3 {
		t.Errorf("%v: done up to %d, stored %d in %d groups", err, w.done, len(s.stored), s.groups)
	}
	s.load = nil
	if err := w.next(t.Context()); err != nil || w.done != 3*copyPage || !slices.Equal(s.stored[29:], []int64{5}) {
		t.Errorf("%v: done up to %d, stored %d", err, w.done, s.stored[29:])
	}
	w.before = 1 << 40
	if err := w.next(t.Context()); err != nil || len(s.bare) != 0 || s.asked[len(s.asked)-1] != 3*copyPage {
		t.Errorf("%v: left %v, walks from %d", err, s.bare, s.asked)
	}
	for seq := range int64(50) {
		s.bare[10000+seq] = seq
	}
	loads := 0
	s.load = func(context.Context, ledger.Pointer) error { loads++; return away }
	if err := w.next(t.Context()); !errors.Is(err, away) || loads != copyFailures {
		t.Errorf("%v after %d loads", err, loads)
	}
}

// What is open and too young for a copy is read once, and again when the first of its page no longer is: a sweep costs a page, however much is
// open.
func TestSweepReadsYoungPagesOnce(t *testing.T) {
	t.Parallel()
	s := &shelf{bare: map[int64]int64{}}
	for seq := range int64(10 * copyPage) {
		s.bare[seq+1] = 50_000 + seq
	}
	s.bare[5*copyPage+7] = 20_000 // of a replay: older than what is before it
	w := s.sweep(t, 10_000)
	sweep := func(before int64, want ...int64) {
		t.Helper()
		s.asked, w.before = nil, before
		if err := w.next(t.Context()); err != nil || !slices.Equal(s.asked, want) {
			t.Errorf("below %d: %v, pages behind %d, want %d", before, err, s.asked, want)
		}
	}
	sweep(10_000, 0, 1000, 2000, 3000, 4000, 5000, 6000, 7000, 8000, 9000)
	sweep(10_001, 9000) // more may have come behind it
	sweep(20_001, 5000, 9000)
	sweep(20_002, 9000)
	for seq := range int64(1500) {
		delete(s.bare, seq+1) // done
	}
	s.bare[10*copyPage+1] = 80_000
	away := errors.New("broker away")
	s.load = func(context.Context, ledger.Pointer) error { return away }
	s.asked, w.before = nil, 51_501
	if err := w.next(t.Context()); !errors.Is(err, away) || !slices.Equal(s.asked, []int64{0, 9000, 10_000}) {
		t.Errorf("%v: pages behind %d", err, s.asked)
	}
	s.load = nil
	sweep(51_501, 1500, 10_000)
	if w.done != 1501 || !slices.Equal(s.stored, []int64{5007, 1501}) {
		t.Errorf("done up to %d, stored %d", w.done, s.stored)
	}
}

// What had ended and runs again is copied, wherever it is: among what was walked for good, or in a page that is too young for a copy.
func TestSweepCopiesWhatRunsAgain(t *testing.T) {
	t.Parallel()
	s := &shelf{bare: map[int64]int64{}}
	for seq := range int64(3 * copyPage) {
		s.bare[seq+11] = 50_000 + seq
	}
	w := s.sweep(t, 10_000)
	if err := w.walk(t.Context()); err != nil || len(s.stored) != 0 {
		t.Fatal(err, s.stored)
	}
	for _, again := range []int64{2010, 5} {
		s.asked, s.stored, s.bare[again] = nil, nil, 20
		w.claim.Revived(2500)
		w.claim.Revived(again)
		if err := w.next(t.Context()); err != nil || !slices.Equal(s.stored, []int64{again}) {
			t.Errorf("%v: stored %d of %d, pages behind %d", err, s.stored, again, s.asked)
		}
		s.asked = nil
		if err := w.next(t.Context()); err != nil || len(s.asked) != 1 {
			t.Errorf("%v: pages behind %d", err, s.asked)
		}
	}
}

// next begins another sweep with the same bounds.
func (s *copySweep) next(ctx context.Context) error {
	s.firstLeft, s.failures, s.failure = 0, 0, nil
	return s.walk(ctx)
}

// A claim that lost its fence is told of, once, and not swept again.
func TestSweepTellsOfALostFence(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	r.Produce(0, 1)
	r.retention("0")
	s := &shelf{bare: map[int64]int64{1: 0}, fenced: true}
	w := s.sweep(t, 0)
	w.topics = NewLog(r.Client)
	c := &ledger.Claim{Partition: ledger.Partition{Topic: testTopic}}
	told := make(chan struct{}, 2)
	stop := w.Copier.Start(t.Context(), c, func() { told <- struct{}{} })
	select {
	case <-told:
	case <-time.After(patience):
		t.Error("nobody was told")
	}
	stop()
	if len(told) > 0 || len(s.asked) != 1 {
		t.Errorf("told %d times more, %d walks", len(told), len(s.asked))
	}
}

// A partition that is given up does not wait for a payload that does not come.
func TestSweepStopsInsideALoad(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	r.Produce(0, 1)
	r.retention("0")
	loading := make(chan struct{})
	s := &shelf{bare: map[int64]int64{1: 0}, load: func(ctx context.Context, _ ledger.Pointer) error {
		close(loading)
		<-ctx.Done()
		return ctx.Err()
	}}
	w := s.sweep(t, 0)
	w.topics = NewLog(r.Client)
	stop := w.Copier.Start(t.Context(), &ledger.Claim{Partition: ledger.Partition{Topic: testTopic}}, nil)
	<-loading
	stopped := make(chan struct{})
	go func() { stop(); close(stopped) }()
	select {
	case <-stopped:
	case <-time.After(copyTimeout / 2):
		t.Error("the sweep does not end")
	}
	if len(s.stored) > 0 {
		t.Errorf("stored %d", s.stored)
	}
}

func (r *rig) retention(ms string) {
	r.T.Helper()
	r.SetTopic("retention.ms", ms)
}
