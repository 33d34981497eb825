package producer

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/forebay-io/forebay/ingest"
	"github.com/forebay-io/forebay/schemas"
)

// TestMarks: what was redriven is listed as that, however many marks lie behind it; those that wait are found before them; and each
// partition is read once.
func TestMarks(t *testing.T) {
	t.Parallel()
	p, cluster := setup(t, nil)
	opts := []kgo.Opt{kgo.SeedBrokers(cluster.ListenAddrs()...)}
	base := time.Date(2026, 7, 1, 0, 0, 0, 0, time.UTC)
	for i := range 16 {
		d := ingest.Delivery{Team: "acme", Source: "orders", Kind: "unusable", Body: []byte("x"), Received: base.Add(time.Duration(i) * time.Minute)}
		if err := p.Quarantine(t.Context(), never, aside, &d); err != nil {
			t.Fatal(err)
		}
	}
	all, err := List(t.Context(), Query{Topic: aside, Limit: 100}, opts...)
	if err != nil || len(all) != 16 {
		t.Fatalf("%d, %v", len(all), err)
	}
	var marks Marks
	of := func(i Item) *Redriven {
		t.Helper()
		m, err := marks.Of(t.Context(), aside, i.Partition, i.Offset, opts...)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	// The newest 12 are redriven, some of them twice: the marks alone are more than a short list reads at first.
	for round, n := range []int{12, 4} {
		for i, d := range all[:n] {
			if m := of(d); (m != nil) != (round == 1) {
				t.Fatalf("round %d, delivery %d: marked as %+v", round, i, m)
			}
			at := base.Add(time.Duration(round+1) * time.Hour)
			if err := Mark(t.Context(), aside, d.Partition, d.Offset, Redriven{At: at, By: "me", Reason: "mended", Event: "e", To: "events.acme.orders/0@1"}, opts...); err != nil {
				t.Fatal(err)
			}
			if m := of(d); m == nil || *m != (Redriven{At: at, By: "me", Reason: "mended", Event: "e", To: "events.acme.orders/0@1"}) {
				t.Fatalf("round %d, delivery %d: marked as %+v", round, i, m)
			}
		}
	}
	for _, limit := range []int{1, 5, 16} {
		got, err := List(t.Context(), Query{Topic: aside, Limit: limit}, opts...)
		if err != nil || len(got) != limit {
			t.Fatalf("%d of %d: %v", len(got), limit, err)
		}
		for i := range got {
			switch want := all[i]; {
			case got[i].Partition != want.Partition || got[i].Offset != want.Offset || got[i].Kind != "unusable":
				t.Errorf("limit %d, %d: %+v, want %+v", limit, i, got[i], want)
			case (got[i].Redriven != nil) != (i < 12):
				t.Errorf("limit %d, %d: marked as %+v", limit, i, got[i].Redriven)
			case i < 4 && !got[i].Redriven.At.Equal(base.Add(2*time.Hour)):
				t.Errorf("limit %d, %d: not its last mark: %+v", limit, i, got[i].Redriven)
			}
		}
		if waiting, err := List(t.Context(), Query{Topic: aside, Limit: limit, Waiting: true}, opts...); err != nil || len(waiting) != min(limit, 4) || waiting[0].Offset != all[12].Offset || waiting[0].Partition != all[12].Partition {
			t.Errorf("limit %d, waiting: %d %+v, %v", limit, len(waiting), waiting, err)
		}
	}
	// Asked from the oldest on, another process learns the same; a mark is no delivery.
	var fresh Marks
	for i, d := range slices.Backward(all) {
		m, err := fresh.Of(t.Context(), aside, d.Partition, d.Offset, opts...)
		if err != nil || (m != nil) != (i < 12) {
			t.Errorf("%d: %+v, %v", i, m, err)
		}
	}
	spans, err := bounds(t.Context(), aside, opts)
	if err != nil {
		t.Fatal(err)
	}
	marked := all[0].Partition // whose last record is a mark
	if _, err := ReadOne(t.Context(), aside, marked, spans[marked].to-1, opts...); schemas.KindOf(err) != schemas.NotFound {
		t.Errorf("a mark is read as a delivery: %v", err)
	}
}

// TestMarksAreWrittenAsDeliveries: who reads the topic needs one package for what is compressed.
func TestMarksAreWrittenAsDeliveries(t *testing.T) {
	t.Parallel()
	_, cluster := setup(t, nil)
	codec := make(chan int16, 1)
	cluster.ControlKey(int16(kmsg.Produce), func(req kmsg.Request) (kmsg.Response, error, bool) {
		var batch kmsg.RecordBatch
		if err := batch.ReadFrom(req.(*kmsg.ProduceRequest).Topics[0].Partitions[0].Records); err != nil {
			t.Error(err)
		}
		codec <- batch.Attributes & 7
		return nil, nil, false
	})
	if err := Mark(t.Context(), aside, 0, 0, Redriven{By: "me", Reason: strings.Repeat("mended ", 100)}, kgo.SeedBrokers(cluster.ListenAddrs()...)); err != nil {
		t.Fatal(err)
	}
	if got := <-codec; got != 3 {
		t.Errorf("compressed with %d, not with lz4", got)
	}
}

// Where the time is not enough for what lies behind a delivery, the next question goes on, forwards and backwards.
func TestMarksGoOnWhereTheyWere(t *testing.T) {
	t.Parallel()
	a := newAged(t)
	const n = 2 * int(firstStride)
	first := a.deliver(1)
	for range n {
		a.mark(first, 1) // a batch of its own
	}
	last := a.deliver(1)
	short := a.slow()
	var newestFirst, oldestFirst Marks
	ask := func(m *Marks, offset int64) (*Redriven, error) { return m.Of(short(), aside, 0, offset, a.opts...) }
	if found, err := ask(&newestFirst, last); found != nil || err != nil {
		t.Fatalf("%+v, %v", found, err)
	}
	for name, m := range map[string]*Marks{"backwards": &newestFirst, "forwards": &oldestFirst} {
		found, err := ask(m, first)
		if schemas.KindOf(err) != schemas.Unavailable || !errors.Is(err, errTime) || !strings.Contains(err.Error(), "try again, and reading goes on from where it was") {
			t.Fatalf("%s: %+v, %v", name, found, err)
		}
		for tries := 0; err != nil; tries++ {
			if found, err = ask(m, first); tries > n {
				t.Fatalf("%s: after %d tries: %v", name, tries, err)
			}
		}
		if found == nil {
			t.Errorf("%s: no mark", name)
		}
	}
}

// Who waits for another's reading waits as long as their own context lasts; another partition is read meanwhile.
func TestMarksWaitNoLongerThanAsked(t *testing.T) {
	t.Parallel()
	a := newAged(t)
	first := a.deliver(2)
	arrived, gate := make(chan struct{}, 100), make(chan struct{})
	a.cluster.ControlKey(int16(kmsg.Fetch), func(kmsg.Request) (kmsg.Response, error, bool) {
		a.cluster.KeepControl()
		arrived <- struct{}{}
		a.cluster.SleepControl(func() { <-gate })
		return nil, nil, false
	})
	var m Marks
	of := func(ctx context.Context, partition int32) error {
		_, err := m.Of(ctx, aside, partition, first, a.opts...)
		return err
	}
	reading := make(chan error, 1)
	go func() { reading <- of(t.Context(), 0) }()
	<-arrived
	ctx, cancel := context.WithTimeoutCause(t.Context(), 300*time.Millisecond, errTime)
	defer cancel()
	waiting, other := make(chan error, 1), make(chan error, 1)
	go func() { waiting <- of(ctx, 0) }()
	go func() { other <- of(t.Context(), 1) }()
	select {
	case err := <-waiting:
		if schemas.KindOf(err) != schemas.Unavailable || !errors.Is(err, errTime) {
			t.Errorf("who waits: %v", err)
		}
	case <-time.After(time.Minute):
		t.Error("who waits does so although their time is over")
	}
	select {
	case err := <-other:
		if err != nil {
			t.Errorf("another partition: %v", err)
		}
	case <-time.After(time.Minute):
		t.Error("another partition is not read meanwhile")
	}
	close(gate)
	if err := <-reading; err != nil {
		t.Errorf("who reads: %v", err)
	}
}
