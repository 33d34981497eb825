package ledger

import (
	"testing"
	"time"
)

// A topic that the configuration no longer names keeps no window once nobody works on it, also one whose lines were left
// behind; what is open in it does, and so does who returns.
func TestTopicsNoLongerListenedTo(t *testing.T) {
	t.Parallel()
	other := Partition{Topic: "events.acme.orders", TopicID: TopicID{7}}
	for name, c := range map[string]struct {
		topics []string
		before func(f *fixture, old *Claim)
		left   bool
	}{
		"released":               {topics: []string{other.Topic}, before: (*fixture).release, left: true},
		"still listened to":      {topics: []string{other.Topic, "events.acme.github"}, before: (*fixture).release},
		"its owner lives":        {topics: []string{other.Topic}},
		"its owner is dead":      {topics: []string{other.Topic}, before: func(f *fixture, _ *Claim) { f.silent() }, left: true},
		"an action is open":      {topics: []string{other.Topic}, before: func(f *fixture, old *Claim) { f.apply(old, seq(8, "late", 1)); f.release(old) }},
		"somebody has come back": {topics: []string{other.Topic}, before: func(f *fixture, old *Claim) { f.release(old); f.leave(other.Topic); f.claim(0) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := setup(t)
			old := f.claim(0)
			f.apply(old, seq(0, "e", 1), seq(1, "e", 2), seq(2, "e", 3))
			for lane := range int64(3) {
				f.record(Result{Claim: old, LaneSeq: lane + 1, Status: Done, Attempt: 1})
			}
			if c.before != nil {
				c.before(f, old)
			}
			f.turnWindow()
			f.ageWindows(200 * time.Hour)
			mine := f.claimed(other, 1, 0)
			if err := f.n.CaughtUp(t.Context(), time.Now(), []*Claim{mine}); err != nil {
				t.Fatal(err)
			}
			if s := f.sweep(); s.Dropped != nil {
				t.Fatal("dropped although the partition has not been read to its end")
			}
			f.leave(c.topics...)
			f.leave(c.topics...) // again, as every process does every few minutes
			if s := f.sweep(); len(s.Dropped) > 0 != c.left {
				t.Errorf("dropped %v", s.Dropped)
			}
			back := f.claim(0)
			if back.Next.Offset == 0 {
				t.Error("its position is forgotten")
			}
			if got := one[int64](f, `SELECT value FROM lines WHERE entity = 'e'`); got != 3 {
				t.Errorf("its line is at %d", got)
			}
		})
	}
}

func (f *fixture) leave(topics ...string) {
	f.t.Helper()
	if err := f.n.Leave(f.t.Context(), topics); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) release(c *Claim) {
	f.t.Helper()
	if err := f.n.Release(f.t.Context(), c); err != nil {
		f.t.Fatal(err)
	}
}

// silent ages what the owners have said last.
func (f *fixture) silent() {
	f.exec(`UPDATE fences SET claimed_at = now() - interval '2 hours'`)
	f.exec(`UPDATE progress SET processed_at = now() - interval '2 hours'`)
}
