package batch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/reader"
)

// replayBook is a ledger with one part of a replay, which takes steps as the real one does: only where the part stands, and only while it is
// open. Events at offsets that 10 divides were decided before.
type replayBook struct {
	mu sync.Mutex // the loop and the replayer ask, and the test looks meanwhile
	ledger.ReplayPart
	ended     bool
	why       ledger.ReplayEnd
	ran       []int64 // offsets
	at        []time.Time
	steps     int
	done      int
	faults    []string
	afterStep func()
	detail    string
	counted   *prometheus.CounterVec // replay_parts_total
	toldEnd   chan struct{}          // closed by EndReplay; nil: nobody waits for it
	first     int64                  // not 0: those that were decided were decided as redeliveries of the record there
}

func (b *replayBook) ReplayParts(context.Context, []*ledger.Claim) ([]ledger.ReplayPart, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended {
		return nil, nil
	}
	return []ledger.ReplayPart{b.ReplayPart}, nil
}

func (b *replayBook) Known(_ context.Context, _ int32, records []ledger.Record, statuses bool) ([]ledger.Known, error) {
	list := make([]ledger.Known, len(records))
	for i := range records {
		list[i] = ledger.Known{Decision: ledger.Undecided, First: -1}
		if records[i].Offset%10 == 0 {
			list[i] = ledger.Known{Decision: gate.Applied, Done: true, First: cmp.Or(b.first, records[i].Offset)}
		}
		if statuses && list[i].Done {
			list[i].Status = map[bool]string{true: "done", false: "discarded"}[records[i].Offset%20 == 0]
		}
	}
	return list, nil
}

func (b *replayBook) ApplyReplay(_ context.Context, c *ledger.Claim, s ledger.ReplaySlice) (ledger.Applied, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	a := ledger.Applied{Claim: c, ReplayEnded: b.ended}
	if b.ended {
		return a, nil
	}
	if s.From != b.Next || s.Next <= s.From || s.Next > b.To {
		b.faults = append(b.faults, "a step from elsewhere")
		a.Refused = &ledger.ContinuityError{Stored: b.Next, From: s.From}
		return a, nil
	}
	if s.Reprocess != (b.Mode == ledger.ReplayReprocess) || s.EvenStale != b.EvenStale || (s.Known != nil) != (b.Mode == ledger.ReplayShadow) || len(s.Known) > 0 && len(s.Known) != len(s.Records) {
		b.faults = append(b.faults, "a step of another mode")
	}
	for i := range s.Records {
		if s.Records[i].Offset < s.From || s.Records[i].Offset >= s.Next {
			b.faults = append(b.faults, "a record of elsewhere")
		}
		b.ran, b.at = append(b.ran, s.Records[i].Offset), append(b.at, time.Now())
		if s.Known == nil {
			a.Outcomes = append(a.Outcomes, gate.Outcome{Record: i, Decision: gate.Applied})
		}
	}
	b.Next, b.ended, b.steps, b.done = s.Next, s.Next == b.To, b.steps+1, b.done+s.Done
	if b.afterStep != nil {
		b.afterStep()
	}
	return a, nil
}

func (b *replayBook) EndReplay(_ context.Context, _ *ledger.Claim, _ int64, why ledger.ReplayEnd, detail string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.ended && b.toldEnd != nil {
		close(b.toldEnd)
	}
	b.ended, b.why, b.detail = true, why, detail
	return nil
}

func (b *replayBook) hasEnded() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ended
}

// endless is a reader that brings records from wherever it is told to begin, in units of a hundred, also from behind a replay's end.
type endless struct {
	out  chan reader.Unit
	end  context.Context
	drop map[*reader.Reading]context.CancelFunc
}

func (e *endless) Add(_ context.Context, p ledger.Partition, _ int32, from ledger.Position) *reader.Reading {
	r := &reader.Reading{Partition: p}
	ctx, cancel := context.WithCancel(e.end)
	e.drop[r] = cancel
	go func() {
		for at := from.Offset; ; at += 100 {
			read := stretch(&Partition{reading: r}, at, at+100)
			select {
			case e.out <- reader.Unit{Parts: []reader.Part{read}, Records: 100}:
			case <-ctx.Done():
				return
			}
		}
	}()
	return r
}
func (e *endless) Drop(_ context.Context, r *reader.Reading) { e.drop[r]() }
func (e *endless) Out() <-chan reader.Unit                   { return e.out }

// replayed runs a replay until it has ended and a moment longer, and returns the partition that it was in.
func replayed(t *testing.T, b *replayBook) (*Partition, *endless) {
	t.Helper()
	return replayedAfter(t, b, func() {})
}

// replayedAfter is replayed of a replay that is changed first.
func replayedAfter(t *testing.T, b *replayBook, change func()) (*Partition, *endless) {
	t.Helper()
	return replayedWith(t, b, &taker{}, change)
}

// replayedWith is replayedAfter with these lanes.
func replayedWith(t *testing.T, b *replayBook, lanes *taker, change func()) (*Partition, *endless) {
	t.Helper()
	l, p, _ := feeder(t, prometheus.NewRegistry())
	l.cfg.Lanes, b.counted = lanes, l.metrics.replays
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	b.Replay, b.Claim, b.TopicID, b.Config = 1, p.Claim.ID, p.Claim.Partition.TopicID, "digest"
	change()
	rd := &endless{out: make(chan reader.Unit), end: ctx, drop: map[*reader.Reading]context.CancelFunc{}}
	l.ctx = ctx
	l.cfg.Replays = &Replays{Ledger: b, Config: "digest", Reader: func() (Reader, error) { return rd, nil }}
	p.gap = gapState{}
	l.observers.Go(l.runReplays)
	l.observers.Go(func() {
		for {
			select {
			case fn := <-l.calls:
				fn()
			case <-ctx.Done():
				return
			}
		}
	})
	for end := time.Now().Add(time.Hour); !b.hasEnded() && time.Now().Before(end); {
		time.Sleep(time.Second) // of the bubble
	}
	time.Sleep(2 * replaySweep)
	cancel()
	l.observers.Wait()
	return p, rd
}

// undone are the offsets of a range that were not decided before.
func undone(from, to int64) (list []int64) {
	for o := from; o < to; o++ {
		if o%10 != 0 {
			list = append(list, o)
		}
	}
	return list
}

// A replay runs each event of its range that was not decided before, once and in order, no faster than its rate, and ends at its end.
func TestReplayKeepsToItsRangeAndRate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := &replayBook{ReplayPart: ledger.ReplayPart{From: 5, Next: 5, To: 1005, Rate: 90, Open: 3}} // here is one of three parts
		p, _ := replayed(t, b)
		if !slices.Equal(b.ran, undone(5, 1005)) || b.done != 100 || len(b.faults) > 0 {
			t.Errorf("%d ran, %d done before; %v", len(b.ran), b.done, b.faults)
		}
		if n := testutil.ToFloat64(b.counted.WithLabelValues("complete")); n != 1 {
			t.Errorf("%v complete parts are counted", n)
		}
		for i, at := range b.at {
			if i >= 60 && at.Sub(b.at[i-60]) < time.Second {
				t.Fatalf("60 events ran within %s at 30 a second", at.Sub(b.at[i-60]))
			}
		}
		if took := b.at[len(b.at)-1].Sub(b.at[0]); took > 35*time.Second {
			t.Errorf("900 events at 30 a second took %s", took)
		}
		if !p.gap.ask {
			t.Error("nobody asks for the deadlines of what the replay has brought")
		}
	})
}

// A replay that runs again runs what was decided before, and nothing else.
func TestReplayRunsAgainWhatWasDecided(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := &replayBook{ReplayPart: ledger.ReplayPart{Mode: ledger.ReplayReprocess, EvenStale: true, To: 100, Open: 1, Filter: ledger.ReplayFilter{Decisions: []gate.Decision{gate.Applied}}}}
		replayed(t, b)
		if want := []int64{0, 10, 20, 30, 40, 50, 60, 70, 80, 90}; !slices.Equal(b.ran, want) || b.done != 0 || len(b.faults) > 0 {
			t.Errorf("%v ran, %d done before; %v", b.ran, b.done, b.faults)
		}
	})
}

// A replay that is narrowed to a status runs what has it when it comes to the event, and counts nothing else.
func TestReplayIsNarrowedToAStatus(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := &replayBook{ReplayPart: ledger.ReplayPart{Mode: ledger.ReplayReprocess, To: 100, Open: 1, Filter: ledger.ReplayFilter{Statuses: []string{"discarded"}}}}
		replayed(t, b)
		if want := []int64{10, 30, 50, 70, 90}; !slices.Equal(b.ran, want) || b.done != 0 || len(b.faults) > 0 {
			t.Errorf("%v ran, %d done before; %v", b.ran, b.done, b.faults)
		}
	})
}

// A replay that only looks has all of its range looked at, without a pause for its rate and beside lanes that are full, and says of each record
// what is known of it.
func TestShadowLooksAtAll(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := &replayBook{ReplayPart: ledger.ReplayPart{Mode: ledger.ReplayShadow, To: 5000, Open: 1, Rate: 1}}
		replayed(t, b)
		if len(b.ran) != 5000 || !slices.IsSorted(b.ran) || b.done != 0 || len(b.faults) > 0 {
			t.Errorf("%d records looked at, %d done before; %v", len(b.ran), b.done, b.faults)
		}
		if took := b.at[len(b.at)-1].Sub(b.at[0]); took > time.Minute {
			t.Errorf("it took %s", took)
		}
	})
}

// A shadow has an event looked at once, as a replay would run it once, whatever step its redelivery is in: of a decided one by where the ledger has
// it, of another as long as it is remembered.
func TestShadowLeavesOutRedeliveries(t *testing.T) {
	t.Parallel()
	event := func(offset int64, id byte) *ledger.Record {
		return &ledger.Record{Record: gate.Record{Offset: offset, Key: [16]byte{id}, Hash: [16]byte{1}}}
	}
	undecided, decided := ledger.Known{Decision: ledger.Undecided, First: -1}, func(first int64) ledger.Known {
		return ledger.Known{Decision: gate.Applied, Done: true, First: first}
	}
	broken, otherBody := event(60, 1), event(70, 1)
	broken.Broken, otherBody.Hash = gate.ReasonMisplaced, [16]byte{2}
	r := &replay{ReplayPart: ledger.ReplayPart{From: 10}}
	for i, tt := range []struct {
		rec   *ledger.Record
		known ledger.Known
		want  bool
	}{
		{event(20, 1), undecided, false},
		{event(30, 1), undecided, true},
		{event(40, 2), undecided, false},
		{event(50, 3), decided(50), false},
		{event(55, 3), decided(50), true},
		{event(56, 4), decided(9), false},  // its first record is not in the range
		{event(57, 5), decided(-1), false}, // nor in the partition
		{event(58, 6), decided(90), false}, // it is the first in the range, and was decided later
		{event(59, 4), decided(9), true},   // its second record in the range, which a replay that runs actions skips
		{broken, undecided, false}, {otherBody, undecided, false},
	} {
		if got := r.redelivered(tt.rec, tt.known); got != tt.want {
			t.Errorf("record %d at %d: %t", i, tt.rec.Offset, got)
		}
	}
	for i := range maxSeen {
		r.redelivered(&ledger.Record{Record: gate.Record{Key: [16]byte{1: byte(i), 2: byte(i >> 8), 3: byte(i >> 16)}}}, undecided)
	}
	if len(r.seen) > maxSeen {
		t.Errorf("%d are remembered", len(r.seen))
	}
	synctest.Test(t, func(t *testing.T) {
		b := &replayBook{ReplayPart: ledger.ReplayPart{Mode: ledger.ReplayShadow, To: 300, Open: 1}, first: 7}
		replayed(t, b)
		if len(b.ran) != 300-29 || b.done != 29 || len(b.faults) > 0 {
			t.Errorf("%d records looked at, %d left out; %v", len(b.ran), b.done, b.faults)
		}
	})
}

// A long stretch of what is done is written in few transactions, and still up to its end.
func TestReplayPassesWhatIsDoneInLargeSteps(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := &replayBook{ReplayPart: ledger.ReplayPart{From: 0, To: 100_000, Open: 1, Filter: ledger.ReplayFilter{Decisions: []gate.Decision{gate.Applied}}}}
		replayed(t, b)
		if len(b.ran) > 0 || b.done != 10_000 || b.steps > 12 || len(b.faults) > 0 {
			t.Errorf("%d ran, %d done before, in %d steps; %v", len(b.ran), b.done, b.steps, b.faults)
		}
	})
}

// A replay waits while its partition's lanes are full, so that live events do not queue behind all of it, and can be cancelled meanwhile.
func TestReplayWaitsForRoomInTheLanes(t *testing.T) {
	t.Parallel()
	for name, cancelled := range map[string]bool{"room again": false, "cancelled": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := &replayBook{ReplayPart: ledger.ReplayPart{To: 10_000, Open: 1}}
				began, ranFull := time.Now(), 0
				full := func() bool {
					b.mu.Lock()
					defer b.mu.Unlock()
					if len(b.ran) < 1000 || time.Since(began) > time.Minute {
						return false
					}
					ranFull = len(b.ran)
					b.ended = b.ended || cancelled && time.Since(began) > 30*time.Second
					return true
				}
				replayedWith(t, b, &taker{full: full}, func() {})
				want := undone(0, 10_000)
				if cancelled {
					want = want[:ranFull]
				}
				if ranFull < 1000 || ranFull > 1100 || !slices.Equal(b.ran, want) || len(b.faults) > 0 {
					t.Errorf("%d ran until the lanes were full, %d in all; %v", ranFull, len(b.ran), b.faults)
				}
			})
		})
	}
}

// replayBooks is a ledger with a part of a replay in several partitions, by claim.
type replayBooks map[int32]*replayBook

func (b replayBooks) ReplayParts(ctx context.Context, claims []*ledger.Claim) (list []ledger.ReplayPart, err error) {
	for _, of := range b {
		parts, _ := of.ReplayParts(ctx, claims)
		list = append(list, parts...)
	}
	return list, nil
}

func (b replayBooks) Known(ctx context.Context, fence int32, records []ledger.Record, statuses bool) ([]ledger.Known, error) {
	return b[fence].Known(ctx, fence, records, statuses)
}

func (b replayBooks) ApplyReplay(ctx context.Context, c *ledger.Claim, s ledger.ReplaySlice) (ledger.Applied, error) {
	return b[c.ID].ApplyReplay(ctx, c, s)
}

func (b replayBooks) EndReplay(ctx context.Context, c *ledger.Claim, replay int64, why ledger.ReplayEnd, detail string) error {
	return b[c.ID].EndReplay(ctx, c, replay, why, detail)
}

// takerOf is lanes of which those of one claim are full for a while.
type takerOf struct {
	*taker
	claim *ledger.Claim
}

func (k takerOf) Full(c *ledger.Claim) bool { return c == k.claim && k.taker.Full(c) }

// A replay whose lanes are full in one partition goes on in the others, and goes on there when there is room.
func TestReplayWaitsForRoomInOnePartitionAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const all = 5000
		l, full, w := feeder(t, prometheus.NewRegistry())
		claim, err := w.Claim(t.Context(), ledger.ClaimRequest{Partition: ledger.Partition{Topic: "events.acme.refunds", TopicID: ledger.TopicID{2}}, Partitions: 1, Standing: func(ledger.Standing) {},
			Confirm: func(context.Context, *ledger.Position) (ledger.Start, error) { return ledger.Start{}, nil }})
		if err != nil {
			t.Fatal(err)
		}
		free := NewPartition(claim, 1)
		free.reading = &reader.Reading{Partition: claim.Partition}
		l.claims[free.at()] = free
		books := replayBooks{}
		for _, p := range []*Partition{full, free} {
			p.gap = gapState{}
			books[p.Claim.ID] = &replayBook{ReplayPart: ledger.ReplayPart{Replay: 1, Claim: p.Claim.ID, TopicID: p.Claim.Partition.TopicID, Config: "digest", To: all, Open: 2}}
		}
		waits := books[full.Claim.ID]
		l.cfg.Lanes = takerOf{&taker{full: func() bool {
			waits.mu.Lock()
			defer waits.mu.Unlock()
			return len(waits.ran) >= 1000 && !books[free.Claim.ID].hasEnded()
		}}, full.Claim}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		l.ctx = ctx
		rd := &endless{out: make(chan reader.Unit), end: ctx, drop: map[*reader.Reading]context.CancelFunc{}}
		l.cfg.Replays = &Replays{Ledger: books, Config: "digest", Reader: func() (Reader, error) { return rd, nil }}
		l.observers.Go(l.runReplays)
		l.observers.Go(func() {
			for {
				select {
				case fn := <-l.calls:
					fn()
				case <-ctx.Done():
					return
				}
			}
		})
		for end := time.Now().Add(time.Hour); !waits.hasEnded() && time.Now().Before(end); {
			time.Sleep(time.Second) // of the bubble
		}
		cancel()
		l.observers.Wait()
		for id, b := range books {
			if !b.ended || b.why != ledger.ReplayComplete || !slices.Equal(b.ran, undone(0, all)) || len(b.faults) > 0 {
				t.Errorf("partition of claim %d: ended %v %q, %d ran; %v", id, b.ended, b.why, len(b.ran), b.faults)
			}
		}
	})
}

// A replay that is cancelled, or must end, decides nothing more, whatever was read already.
func TestReplayThatEndsDecidesNothingMore(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change func(*replayBook)
		why    ledger.ReplayEnd
		ran    int
	}{
		"cancelled":                 {func(b *replayBook) { b.afterStep = func() { b.ended = b.steps == 3 } }, ledger.ReplayComplete, 30},
		"errors":                    {func(b *replayBook) { b.MaxErrors = 2; b.afterStep = func() { b.Errors = b.steps } }, ledger.ReplayErrors, -1},
		"the topic is another":      {func(b *replayBook) { b.TopicID[0]++ }, ledger.ReplayRecreated, 0},
		"what decides is something": {func(b *replayBook) { b.Config = "another" }, ledger.ReplayConfigChanged, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := &replayBook{ReplayPart: ledger.ReplayPart{To: 10_000, Rate: 10, Open: 1}}
				changed := func() { tt.change(b) }
				p, _ := replayedAfter(t, b, changed)
				if b.why != tt.why || tt.ran >= 0 && len(b.ran) != tt.ran || len(b.ran) > 100 || len(b.faults) > 0 {
					t.Errorf("%q, %d ran; %v", b.why, len(b.ran), b.faults)
				}
				ends := 1 // complete, of which there is none
				if tt.why != ledger.ReplayComplete {
					ends++
				}
				if all := testutil.CollectAndCount(b.counted); all != ends || testutil.ToFloat64(b.counted.WithLabelValues("complete")) != 0 {
					t.Errorf("parts are counted as having ended in %d ways, want %d", all, ends)
				}
				if p.gone {
					t.Error("the partition has ended with it")
				}
				if left := fmt.Sprintf("(--from-offset %s/%d=%d)", p.at().Topic, p.at().Number, b.Next); (tt.why == ledger.ReplayErrors || tt.why == ledger.ReplayConfigChanged) && !strings.Contains(b.detail, left) {
					t.Errorf("%q does not say %s", b.detail, left)
				}
			})
		})
	}
}

// unreadable is a reader that fails at an offset whenever it is asked.
type unreadable struct {
	out chan reader.Unit
	end context.Context
	at  int64
}

func (u *unreadable) Add(_ context.Context, p ledger.Partition, _ int32, _ ledger.Position) *reader.Reading {
	r := &reader.Reading{Partition: p}
	go func() {
		for {
			select {
			case u.out <- reader.Unit{Parts: []reader.Part{{Of: r, From: u.at, Err: errors.New("crc of the batch is wrong")}}}:
			case <-u.end.Done():
				return
			}
		}
	}()
	return r
}
func (u *unreadable) Drop(context.Context, *reader.Reading) {}
func (u *unreadable) Out() <-chan reader.Unit               { return u.out }

// A part whose next record the brokers do not give ends, and says where and what to do. While the brokers do not answer it goes on trying.
func TestReplayThatCannotBeReadEnds(t *testing.T) {
	t.Parallel()
	l, p, _ := feeder(t, prometheus.NewRegistry())
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, p.at().Topic))
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	b := &replayBook{ReplayPart: ledger.ReplayPart{Replay: 1, Claim: p.Claim.ID, TopicID: p.Claim.Partition.TopicID, To: 40, Next: 7, Open: 1}, toldEnd: make(chan struct{})}
	l.ctx, l.cfg.Log, l.cfg.UnreadAfter = ctx, reader.NewLog(client), 200*time.Millisecond
	l.cfg.Replays = &Replays{Ledger: b, Reader: func() (Reader, error) { return &unreadable{make(chan reader.Unit), ctx, 7}, nil }}
	rep := &replay{of: p, unread: time.Now().Add(-time.Hour)}
	away, leave := context.WithCancel(ctx)
	leave()
	l.ctx = away
	(&replayer{l: l, cfg: l.cfg.Replays}).readFailed(rep, &reader.Part{From: 7, Err: errors.New("away")})
	if !rep.unread.IsZero() || b.hasEnded() {
		t.Error("the time counts for which nobody knows whether it can be read")
	}
	l.ctx = ctx
	l.observers.Go(l.runReplays)
	l.observers.Go(func() {
		for {
			select {
			case fn := <-l.calls:
				fn()
			case <-ctx.Done():
				return
			}
		}
	})
	<-b.toldEnd
	cancel()
	l.observers.Wait()
	if b.why != ledger.ReplayUnreadable || !strings.Contains(b.detail, "offset 7 cannot be read since") || !strings.Contains(b.detail, "crc of the batch is wrong") || !strings.Contains(b.detail, fmt.Sprintf("--from-offset %s/0=OFFSET", p.at().Topic)) {
		t.Errorf("%q %q", b.why, b.detail)
	}
}
