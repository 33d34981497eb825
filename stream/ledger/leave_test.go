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
			if got := one[int64](f, `SELECT value FROM version_lines WHERE entity = 'e'`); got != 3 {
				t.Errorf("its line is at %d", got)
			}
		})
	}
}

// A subscription that no process runs any more keeps no window once all of it is done, and has its position when it comes back. One that is being moved stays as it is.
func TestSubscriptionThatNobodyRuns(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before      func(f *fixture, old *Claim)
		left, moved bool
	}{
		"released":          {before: (*fixture).release, left: true},
		"its owner lives":   {before: func(*fixture, *Claim) {}},
		"its owner is dead": {before: func(f *fixture, _ *Claim) { f.silent() }, left: true},
		"an action is open": {before: func(f *fixture, old *Claim) { f.apply(old, seq(1, "late", 1)); f.release(old) }},
		"it is moved":       {before: (*fixture).release, moved: true},
		"its owner is behind, and its process is heard of": {before: func(f *fixture, _ *Claim) {
			f.silent()
			if err := f.l.NoteDecider(f.t.Context(), &Decider{ID: [16]byte{1}, By: map[string]DecidesBy{"acme.triage": {}}}, time.Hour, map[string]map[string]string{}); err != nil {
				f.t.Fatal(err)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := setup(t)
			old := f.claim(0)
			f.apply(old, seq(0, "e", 1))
			f.record(Result{Claim: old, LaneSeq: 1, Status: Done, Attempt: 1})
			c.before(f, old)
			f.turnWindow()
			f.ageWindows(200 * time.Hour)
			if s := f.sweep(); s.Dropped != nil {
				t.Fatal("dropped although somebody may run it")
			}
			if c.moved {
				f.exec(`INSERT INTO moves (subscription, comes, other, other_name) VALUES ('acme.triage', false, gen_random_uuid(), 'there')`)
			}
			for range 2 { // again, as every process does every few minutes
				if err := f.l.LeaveAll(t.Context(), "acme.triage"); err != nil {
					t.Fatal(err)
				}
			}
			if s := f.sweep(); len(s.Dropped) > 0 != c.left {
				t.Errorf("dropped %v", s.Dropped)
			}
			if c.moved && !one[bool](f, `SELECT left_at IS NULL FROM topics`) {
				t.Error("it is left")
			}
			if c.left && f.claim(0).Next.Offset == 0 {
				t.Error("its position is forgotten")
			}
		})
	}
}

// Who still reads a topic takes back that it is left; of one that nobody holds, a claim does.
func TestTopicThatIsReadCountsAgain(t *testing.T) {
	t.Parallel()
	f := setup(t)
	topic := partition(0).Topic
	c := f.claim(0)
	f.silent() // as if it were behind for hours
	left := func(when string, want bool) {
		t.Helper()
		if one[bool](f, `SELECT left_at IS NOT NULL FROM topics`) != want {
			t.Errorf("%s: left is %t", when, !want)
		}
	}
	if err := f.l.LeaveAll(t.Context(), "acme.triage"); err != nil {
		t.Fatal(err)
	}
	left("its owner is silent", true)
	f.leave("events.acme.orders")
	left("its owner reads another topic", true)
	f.leave(topic)
	left("its owner says that it reads it", false)
	f.release(c)
	f.leave("events.acme.orders")
	left("it is released", true)
	f.leave(topic)
	left("nobody holds it", true)
}

// A copy whose hand-over is void loses what was handed over, and keeps no window: nobody will claim its partitions. One that
// may still be switched to, or is read, stays as it is.
func TestCopiesNobodyReads(t *testing.T) {
	t.Parallel()
	old := partition(0).Topic
	for name, c := range map[string]struct {
		before func(f *fixture, h HandOver)
		topics []string
		gone   bool
	}{
		"the old topic is read again":         {before: func(f *fixture, _ HandOver) { f.claim(0) }, topics: []string{old}, gone: true},
		"the old topic was read for a moment": {before: func(f *fixture, _ HandOver) { f.release(f.claim(0)) }, topics: []string{old}, gone: true},
		"the old topic is read again, and a process listens to the copy": {before: func(f *fixture, _ HandOver) { f.claim(0) },
			topics: []string{old, "events.acme.github.3"}, gone: true},
		"nobody has started yet":          {topics: []string{old}},
		"a partition of it has been read": {before: func(f *fixture, h HandOver) { f.claimed(h.To, 3, 7) }, topics: []string{"events.acme.github.3"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := setup(t)
			f.apply(f.claim(0), seq(0, "e", 1))
			h := f.handOver()
			if _, err := f.l.HandOver(t.Context(), h); err != nil {
				t.Fatal(err)
			}
			if c.before != nil {
				c.before(f, h)
			}
			f.leave(c.topics...)
			f.leave(c.topics...) // as every process does every few minutes
			rows := one[int](f, `SELECT (SELECT count(*) FROM begins) + (SELECT count(*) FROM version_lines WHERE fence NOT IN (SELECT id FROM fences WHERE topic = 'events.acme.github'))`)
			if want := 3 + 1; c.gone && rows != 0 || !c.gone && rows != want {
				t.Errorf("%d rows of the copy", rows)
			}
			if !c.gone {
				return
			}
			f.refused(h.To, "is a copy of events.acme.github, and the subscription has read on in events.acme.github since")
			back := f.claim(0)
			f.record(Result{Claim: back, LaneSeq: 1, Status: Done, Attempt: 1})
			f.turnWindow()
			f.ageWindows(200 * time.Hour)
			if err := f.n.CaughtUp(t.Context(), time.Now(), []*Claim{back}); err != nil {
				t.Fatal(err)
			}
			f.claim(0) // folds
			if s := f.sweep(); len(s.Dropped) != 1 {
				t.Errorf("dropped %v", s.Dropped)
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
