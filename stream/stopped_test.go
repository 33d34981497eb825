package stream

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/stream/internal/streamtest"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/owner"
)

// lookOften makes a config that looks at stopped partitions all the time.
func lookOften(cfg setup) setup {
	cfg.StopLook = 10 * time.Millisecond
	return cfg
}

// stopOf is what partition number is stopped for.
func (r *running) stopOf(t *testing.T, number int32) *owner.StopError {
	t.Helper()
	for _, p := range r.untilStopped(t, number) {
		if p.Partition == number {
			e, ok := errors.AsType[*owner.StopError](p.Err)
			if !ok {
				t.Fatalf("stopped without a report: %v", p.Err)
			}
			return e
		}
	}
	return nil
}

// Every stop that an operator may accept says how many records of which time are concerned, and goes on where it said once
// that is accepted; what it leaves out is recorded like a seek, and it is not found again.
func TestStopSaysWhatIsConcernedAndGoesOnWhenAccepted(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		spoil func(t *testing.T, r *rig, m *memory)
		want  func(r *rig) ledger.Stop
		seek  *ledger.Seek
		lines []string // read after the acceptance
	}{
		{"log start beyond the next offset", func(t *testing.T, r *rig, _ *memory) {
			for i := 3; i < 7; i++ {
				r.Stamp(i)
			}
			if err := r.Cluster.DeleteRecords(testTopic, 0, 5); err != nil {
				t.Fatal(err)
			}
		}, func(r *rig) ledger.Stop {
			return ledger.Stop{Kind: "below_log_start", From: 3, To: 5, Resume: 5, Records: 2, FirstAt: r.AppendTime(2), LastAt: r.AppendTime(5)}
		}, &ledger.Seek{From: 3, To: 5}, []string{"0/5 e5", "0/6 e6"}},
		{"log end before it", func(t *testing.T, _ *rig, m *memory) { m.place(t, 0, 9) }, func(r *rig) ledger.Stop {
			return ledger.Stop{Kind: "above_log_end", From: 3, To: 9, Resume: 3, Records: 6, FirstAt: r.AppendTime(2), LastAt: r.AppendTime(2)}
		}, &ledger.Seek{From: 9, To: 3}, []string{"0/3 e9"}},
		{"lost ledger history", func(t *testing.T, _ *rig, m *memory) { m.restore(t, 1) }, func(r *rig) ledger.Stop {
			return ledger.Stop{Kind: "ledger_behind", From: 1, To: 3, Resume: 1, Records: 2, FirstAt: r.AppendTime(1), LastAt: r.AppendTime(2)}
		}, nil, []string{"0/1 e1", "0/2 e2", "0/3 e9"}},
		{"rewind past the dedupe window", func(_ *testing.T, r *rig, m *memory) {
			m.remembers = r.AppendTime(2)
			r.Commit(0, 0, "")
		}, func(r *rig) ledger.Stop {
			return ledger.Stop{Kind: "dedupe_forgotten", From: 0, To: 3, Resume: 0, Records: 2, FirstAt: r.AppendTime(0), LastAt: r.AppendTime(2)}
		}, &ledger.Seek{From: 3, To: 0}, []string{"0/0 e0", "0/1 e1", "0/2 e2", "0/3 e9"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, 1)
			for i := range 3 {
				r.Stamp(i)
			}
			m := newMemory()
			ran(t, r, m, 3)
			tt.spoil(t, r, m)
			m.lines = nil
			reg := prometheus.NewRegistry()
			cfg := lookOften(r.config(m, newLanes()))
			cfg.Registerer = reg
			run := r.start(cfg)
			e := run.stopOf(t, 0)
			want := tt.want(r)
			want.Subscription, want.Partition = testGroup, ledger.Partition{Topic: testTopic, TopicID: r.TopicID()}
			if d := cmp.Diff(&want, e.Stop, cmpopts.IgnoreFields(ledger.Stop{}, "ID", "Detail", "FoundAt")); d != "" {
				t.Errorf("%s\n%v", d, e)
			}
			if len(m.lines) > 0 {
				t.Errorf("read on before it was accepted: %q", m.lines)
			}

			m.accept(t)
			if tt.name != "log start beyond the next offset" {
				r.Produce(0, 9)
			}
			m.until(t, "all read", func() bool { return slices.Equal(m.lines, tt.lines) })
			if d := cmp.Diff(tt.seek, m.lastClaim().Seek); d != "" {
				t.Errorf("the move is recorded as\n%s", d)
			}
			if m.lastClaim().accepted != 1 {
				t.Error("the acceptance was not used")
			}
			if n := counter(t, reg, "forebay_stream_stops_total"); n != 1 {
				t.Errorf("%v stops are counted, want one however often it was looked at", n)
			}
			run.stop(t)
			before := m.lastClaim()
			again := r.start(r.config(m, newLanes()))
			again.untilRunning(t, 1)
			if c := m.lastClaim(); c == before || c.Seek != nil {
				t.Errorf("the next claim is %+v, seek %+v", c.Next, c.Seek)
			}
			again.stop(t)
			m.check(t)
		})
	}
}

// A log that was cut and is written on hides that it was cut: the stop stands all the same, in this process and in the
// next, and what is new behind the cut is read once it is accepted.
func TestStopStandsWhenTheLogGrowsOverIt(t *testing.T) {
	t.Parallel()
	r, m := ranThree(t)
	m.place(t, 0, 5) // the log had been longer
	m.lines = nil
	run := r.start(lookOften(r.config(m, newLanes())))
	first := run.stopOf(t, 0)
	r.Produce(0, 3, 4, 5)
	looked := counterOf(m)
	m.until(t, "more looks", func() bool { return m.looks > looked+3 })
	if e := run.stopOf(t, 0); !e.Stop.Same(first.Stop) || e.Stop.Resume != 3 {
		t.Errorf("now stopped for %v", e)
	}
	run.stop(t)
	run = r.start(lookOften(r.config(m, newLanes())))
	if e := run.stopOf(t, 0); !e.Stop.Same(first.Stop) {
		t.Errorf("after a restart stopped for %v", e)
	}
	m.accept(t)
	m.until(t, "what is behind the cut", func() bool { return slices.Equal(m.lines, []string{"0/3 e3", "0/4 e4", "0/5 e5"}) })
}

func counterOf(m *memory) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.looks
}

// What is accepted is what was reported: when more was deleted since, the partition stops again, for that.
func TestLargerLossNeedsItsOwnAcceptance(t *testing.T) {
	t.Parallel()
	r, m := ranThree(t)
	r.Produce(0, 3, 4, 5, 6)
	lose := func(to int64) {
		t.Helper()
		if err := r.Cluster.DeleteRecords(testTopic, 0, to); err != nil {
			t.Fatal(err)
		}
	}
	lose(4)
	run := r.start(r.config(m, newLanes())) // looks in seconds: not before it ends
	run.stopOf(t, 0)
	run.stop(t)
	m.accept(t)
	lose(6)
	m.lines = nil
	run = r.start(lookOften(r.config(m, newLanes())))
	if e := run.stopOf(t, 0); e.Stop.Records != 3 || e.Stop.Accepted != nil {
		t.Errorf("stopped for %+v", e.Stop)
	}
	if all := m.db.Stops(ledger.StopFilter{}); len(all) != 1 || all[0].ID != 2 {
		t.Errorf("it does not replace the first: %+v", all)
	}
	m.accept(t)
	m.until(t, "the rest", func() bool { return slices.Equal(m.lines, []string{"0/6 e6"}) })
	if id := m.lastClaim().accepted; id != 2 {
		t.Errorf("what was accepted of stop %d was used", id)
	}
}

// A stop that cannot be stored stands in this process, and is stored as soon as the ledger takes it.
func TestStopIsStoredInTheEnd(t *testing.T) {
	t.Parallel()
	r, m := ranThree(t)
	m.place(t, 0, 5)
	from := &unreported{memory: m}
	from.away.Store(true)
	run := r.start(lookOften(r.config(from, newLanes())))
	first := run.stopOf(t, 0)
	r.Produce(0, 3, 4, 5)
	looked := counterOf(m)
	m.until(t, "more looks", func() bool { return m.looks > looked+3 })
	if e := run.stopOf(t, 0); !e.Stop.Same(first.Stop) || e.Stop.ID != 0 {
		t.Errorf("now stopped for %v", e)
	}
	from.away.Store(false)
	if !streamtest.Until(func() bool { return len(m.db.Stops(ledger.StopFilter{})) == 1 }) {
		t.Fatal("no report is stored")
	}
	m.accept(t)
	m.until(t, "the rest", func() bool { return m.next(0) == 6 })
}

// unreported is a ledger that takes no report while it is away.
type unreported struct {
	*memory
	away atomic.Bool
}

func (u *unreported) Report(ctx context.Context, s ledger.Stop, epoch int64) (ledger.Stop, error) {
	if u.away.Load() {
		return s, errors.New("the database is away")
	}
	return u.memory.Report(ctx, s, epoch)
}

// Through the real ledger: a topic that was deleted and created again stops, and once that is accepted it is read from
// 0, with lines of its own.
func TestLedgerRecreatedTopic(t *testing.T) {
	t.Parallel()
	r := newRig(t, 2)
	l, n := realLedger(t, versions)
	lanes := newLanes()
	r.Send(versioned(1, 1), versioned(2, 2))
	run := r.start(lookOften(r.config(n, lanes)))
	r.untilCommitted(t, 0, 2)
	run.untilRunning(t, 2)
	old := r.TopicID()
	if err := r.Cluster.DeleteTopic(testTopic); err != nil {
		t.Fatal(err)
	}
	if err := r.Cluster.CreateTopic(testTopic, 2, nil); err != nil {
		t.Fatal(err)
	}
	r.Client = r.NewClient(kgo.RecordPartitioner(kgo.ManualPartitioner())) // one that does not know the old one
	e := run.stopOf(t, 0)
	if e.Reason != owner.StopRecreated || e.Stop.From != 2 || e.Stop.Records != -1 || e.Stop.Partition.TopicID == old || e.Stop.FirstAt.IsZero() {
		t.Errorf("stopped for %+v", e.Stop)
	}
	run.stopOf(t, 1)
	r.Send(versioned(11, 1), versioned(12, 2))
	if got, err := l.Accept(t.Context(), ledger.StopFilter{Subscription: testGroup, Topic: testTopic}, ledger.Acceptance{By: "ann", Reason: "rebuilt"}, false); err != nil || len(got) != 2 {
		t.Fatal(got, err)
	}
	lanes.until(t, "the new topic's events", func() bool { return slices.Equal(lanes.items, []string{"e1", "e2", "e11", "e12"}) })
	run.untilRunning(t, 2)
	run.stop(t)
	run = r.start(r.config(n, newLanes()))
	run.untilRunning(t, 2)
}
