package batch

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/forebay-io/forebay/schemas/record"
	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/internal/streamtest"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/ledger/ledgertest"
	"github.com/forebay-io/forebay/stream/reader"
)

// What a fault of ours between the broker and the ledger loses or repeats is a report, and the partition is read again: nothing
// of it is written.
func TestDiscontinuity(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		units [][][2]int64 // parts, from and to
	}{
		{"a unit was lost", [][][2]int64{{{0, 2}}, {{4, 6}}}},
		{"a unit came twice", [][][2]int64{{{0, 2}}, {{0, 2}}}},
		{"parts of a batch do not join", [][][2]int64{{{0, 2}, {3, 6}}}},
		{"parts of a batch overlap", [][][2]int64{{{0, 2}, {1, 6}}}},
		{"the first unit begins behind", [][][2]int64{{{1, 2}}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			reg := prometheus.NewRegistry()
			l, p, w := feeder(t, reg)
			for _, parts := range tt.units {
				var u reader.Unit
				for _, of := range parts {
					u.Parts = append(u.Parts, stretch(p, of[0], of[1]))
				}
				l.fillAndApply(u)
			}
			select {
			case why := <-p.Ended():
				if !errors.Is(why, ErrDiscontinuity) {
					t.Errorf("ended for %v", why)
				}
			default:
				t.Error("the claim goes on")
			}
			if got := streamtest.Counter(t, reg, "forebay_stream_discontinuities_total"); got != 1 {
				t.Errorf("%v are counted", got)
			}
			if len(w.offsets) != 0 && !slices.Equal(w.offsets, []int64{0, 1}) {
				t.Errorf("written: %d", w.offsets)
			}
		})
	}
}

// A batch is filled from units that come within the wait, up to its limits and never over them; what does not fit begins the next
// one.
func TestBatchIsFilledAndNeverOverfull(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		records, bytes int
		units          []int64 // how many records each has
		want           []int
	}{
		"small units":                 {10, 1 << 20, []int64{3, 3, 3}, []int{9}},
		"exactly full":                {10, 1 << 20, []int64{5, 5, 2}, []int{10, 2}},
		"one that does not fit":       {10, 1 << 20, []int64{5, 10, 5}, []int{5, 10, 5}},
		"too heavy":                   {10, 25, []int64{1, 2, 1}, []int{1, 2, 1}}, // each record weighs ten
		"heavier than a batch may be": {10, 5, []int64{1, 1}, []int{1, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				if got := batchesOf(t, tt.records, tt.bytes, tt.units); !slices.Equal(got, tt.want) {
					t.Errorf("batches of %v, want %v", got, tt.want)
				}
			})
		})
	}
}

// batchesOf is how many records the batches have that a loop makes of units, each record weighing ten bytes.
func batchesOf(t *testing.T, records, bytes int, units []int64) []int {
	l, p, w := feeder(t, prometheus.NewRegistry())
	left := int64(0)
	l.cfg.BatchRecords, l.cfg.BatchBytes = records, bytes
	for _, n := range units {
		left += n
	}
	go func() {
		at := int64(0)
		for _, n := range units {
			read := stretch(p, at, at+n)
			read.Bytes = int(n) * 10
			l.cfg.Reader.(fed) <- reader.Unit{Parts: []reader.Part{read}, Records: int(n), Bytes: read.Bytes}
			at += n
		}
	}()
	for int64(len(w.offsets)) < left {
		l.step()
	}
	return w.batches
}

// written is a ledger that notes the offsets of the records that it took.
type written struct {
	*ledgertest.Process
	offsets []int64
	batches []int // how many records each has
}

func (w *written) Apply(ctx context.Context, batch []ledger.Slice) ([]ledger.Applied, error) {
	all, err := w.Process.Apply(ctx, batch)
	for i, a := range all {
		if a.Refused != nil || a.Fenced {
			continue
		}
		w.batches = append(w.batches, len(batch[i].Records))
		for _, r := range batch[i].Records {
			w.offsets = append(w.offsets, r.Offset)
		}
	}
	return all, err
}

// fed is a reader of what a test puts into it.
type fed chan reader.Unit

func (fed) Add(_ context.Context, p ledger.Partition, _ int32, _ ledger.Position) *reader.Reading {
	return &reader.Reading{Partition: p}
}
func (fed) Drop(context.Context, *reader.Reading) {}
func (f fed) Out() <-chan reader.Unit             { return f }

// feeder is a loop with one claim of offset 0, for a test that gives it units by hand.
func feeder(t *testing.T, reg *prometheus.Registry, change ...func(*gate.Policy)) (*Loop, *Partition, *written) {
	t.Helper()
	ms, err := NewMetrics(reg)
	if err != nil {
		t.Fatal(err)
	}
	policy := gate.Policy{Order: gate.OrderArrival, Start: gate.StartAny, Equal: gate.EqualApply, Then: gate.ThenSkip, MaxPerEntity: 100, MaxBuffered: 1000}
	for _, c := range change {
		c(&policy)
	}
	process, err := ledgertest.New(streamtest.Group, 0).Process("one", ledger.Spec{Name: streamtest.Group, Owner: t.Name(),
		Policy:  policy,
		Actions: []ledger.ActionSpec{{Name: "run", Destination: "acme/agent", OnDead: ledger.Park}}})
	if err != nil {
		t.Fatal(err)
	}
	w := &written{Process: process}
	claim, err := w.Claim(t.Context(), ledger.ClaimRequest{Partition: ledger.Partition{Topic: streamtest.Topic, TopicID: ledger.TopicID{1}}, Partitions: 1, Standing: func(ledger.Standing) {},
		Confirm: func(context.Context, *ledger.Position) (ledger.Start, error) { return ledger.Start{}, nil }})
	if err != nil {
		t.Fatal(err)
	}
	l := New(t.Context(), Config{Topics: []string{streamtest.Topic}, Ledger: w, Lanes: &taker{}, Reader: fed(make(chan reader.Unit)), Metrics: ms,
		Logger: slog.New(slog.DiscardHandler), BatchRecords: 1000, BatchBytes: 1 << 20, BatchWait: time.Millisecond})
	p := NewPartition(claim, 1)
	p.reading = &reader.Reading{Partition: claim.Partition}
	l.claims[p.at()] = p
	return l, p, w
}

// stretch is what was read of a partition from one offset up to another.
func stretch(p *Partition, from, to int64) reader.Part {
	read := reader.Part{Of: p.reading, From: from, Next: ledger.Position{Offset: to}}
	for i := from; i < to; i++ {
		e := streamtest.Event(int(i))
		read.Records = append(read.Records, ledger.Record{
			Record: gate.Record{Offset: i, Key: e.Key(), Hash: e.Hash, Entity: e.Entity, Version: e.Version, Payload: e.Payload},
			Source: e.Source, ID: e.ID, Type: e.Type, ReceivedAt: e.RecordedTime,
			Packed: func() []byte { return record.PackEvent(e) },
		})
		read.Events = append(read.Events, e)
	}
	return read
}
