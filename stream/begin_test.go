package stream

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/forebay-io/forebay/schemas/record"
	"github.com/forebay-io/forebay/stream/owner"
)

// A topic that a subscription takes up later begins as asked if it was there before: with begin now, an agent must not
// act on a week of history by surprise. One that is younger than the subscription begins at 0: all of it is new.
func TestTopicAddedLater(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		age  time.Duration // of the records that the topic has when it is added
		want []string
	}{
		{"older", time.Hour, []string{"0/3 e3"}},
		{"younger", 0, []string{"0/0 e0", "0/1 e1", "0/2 e2", "0/3 e3"}},
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
