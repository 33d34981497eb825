package stream

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/forebay-io/forebay/schemas/record"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/owner"
)

// A topic that a subscription takes up later begins as asked if it was there before: with begin now, an agent must not
// act on a week of history by surprise. One that is younger than the subscription begins at its log's start: all of it is new. What is
// deleted by then is no loss.
func TestTopicAddedLater(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		age  time.Duration // of the records that the topic has when it is added
		gone int64         // how many of them are deleted by then
		want []string
	}{
		{"older", time.Hour, 0, []string{"0/3 e3"}},
		{"older, of which nothing is left", time.Hour, 3, []string{"0/3 e3"}},
		{"older, of which the first are gone", time.Hour, 2, []string{"0/3 e3"}},
		{"younger", 0, 0, []string{"0/0 e0", "0/1 e1", "0/2 e2", "0/3 e3"}},
		{"younger, of which the first are gone", 0, 2, []string{"0/2 e2", "0/3 e3"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, 1)
			m := newMemory()
			cfg := r.config(m, newLanes())
			cfg.Begin = owner.Begin{}
			run := r.start(cfg)
			m.until(t, "the first claim", func() bool { return len(m.claims) == 1 })
			run.stop(t)

			const added = "events.acme.added"
			if err := r.Cluster.CreateTopic(added, 1, nil); err != nil {
				t.Fatal(err)
			}
			for i := range 3 {
				rec := record.Encode(added, event(i))
				rec.Timestamp = time.Now().Add(-tt.age)
				r.Send(rec)
			}
			if err := r.Cluster.DeleteRecords(added, 0, tt.gone); err != nil {
				t.Fatal(err)
			}
			cfg = r.config(m, newLanes())
			cfg.Begin = owner.Begin{}
			cfg.Topics = []string{testTopic, added}
			r.start(cfg)
			m.until(t, "both claimed again", func() bool { return len(m.claims) == 3 })
			r.Send(record.Encode(added, event(3)))
			m.until(t, "the last record", func() bool { return len(m.lines) > 0 && m.lines[len(m.lines)-1] == "0/3 e3" })
			m.mu.Lock()
			defer m.mu.Unlock()
			if d := cmp.Diff(tt.want, m.lines); d != "" {
				t.Error(d)
			}
		})
	}
}

// What is deleted after a topic was added, and before it is first claimed, is a loss: the partition stops.
func TestTopicAddedLaterLosesRecords(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	m := newMemory()
	ran(t, r, m, 0)
	const added = "events.acme.added"
	if err := r.Cluster.CreateTopic(added, 1, nil); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		rec := record.Encode(added, event(i))
		rec.Timestamp = time.Now()
		r.Send(rec)
	}
	if err := r.Cluster.DeleteRecords(added, 0, 1); err != nil {
		t.Fatal(err)
	}
	cfg := r.config(m, newLanes())
	cfg.Topics = []string{testTopic, added}
	m.onClaim = func(req ledger.ClaimRequest) error {
		if req.Partition.Topic == added {
			return errors.New("the ledger is away")
		}
		return nil
	}
	run := r.start(cfg)
	run.until(t, "a claim that fails", func(parts []owner.PartitionState) bool { return len(parts) == 2 && parts[0].Err != nil })
	run.stop(t)
	m.onClaim, cfg.Registerer = nil, nil
	if err := r.Cluster.DeleteRecords(added, 0, 2); err != nil {
		t.Fatal(err)
	}
	run = r.start(cfg)
	if e := run.stopOf(t, 0); e.Reason != owner.StopBelowStart || e.Stop.From != 1 || e.Stop.To != 2 {
		t.Errorf("stopped for %+v", e.Stop)
	}
}
