package ledger

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// Of the conditions that keep a window each is enough alone: with it the window stays, and without it goes.
func TestEachConditionAloneKeepsAWindow(t *testing.T) {
	t.Parallel()
	type scene struct {
		*fixture
		c *Claim
	}
	result := func(lane int64, status Status) func(*scene) {
		return func(s *scene) { s.record(Result{Claim: s.c, LaneSeq: lane, Status: status, Attempt: 1}) }
	}
	exec := func(sql string) func(*scene) { return func(s *scene) { s.exec(sql) } }
	idle := func(s *scene) {
		if err := s.n.CaughtUp(s.t.Context(), time.Now(), []*Claim{s.c}); err != nil {
			s.t.Fatal(err)
		}
	}
	records := func(records ...Record) func(*scene) { return func(s *scene) { s.apply(s.c, records...) } }
	newer := func(r Record) Record {
		r.AppendTime = time.Now()
		return r
	}
	all := func(steps ...func(*scene)) func(*scene) {
		return func(s *scene) {
			for _, step := range steps {
				step(s)
			}
		}
	}
	within := SweepConfig{Horizon: time.Hour, Done: time.Hour, Dead: time.Hour}
	for name, tt := range map[string]struct {
		actions []ActionSpec
		in      func(*scene) // into the window
		keep    func(*scene) // once it is closed and old
		cfg     SweepConfig
		let     func(*scene) // go, under within
		drops   int          // then; 0 is 1
	}{
		"dedupe remembers":      {keep: exec(`UPDATE subscriptions SET dedupe = '300 hours'`), let: exec(`UPDATE subscriptions SET dedupe = '24 hours'`)},
		"a replay is under way": {keep: exec(openReplay), let: exec(`UPDATE replay_parts SET ended_at = now(), failure = 'cancelled'`)},
		"dedupe never forgets":  {keep: exec(`UPDATE subscriptions SET dedupe = NULL`), let: exec(`UPDATE subscriptions SET dedupe = '24 hours'`)},
		"its provider may repeat": {cfg: SweepConfig{Horizon: 300 * time.Hour, Done: time.Hour, Dead: time.Hour},
			keep: exec(`UPDATE progress SET processed_at = now() + interval '900 hours'`)},
		"what is done is readable":           {cfg: SweepConfig{Horizon: time.Hour, Done: 300 * time.Hour, Dead: time.Hour}},
		"its subscription keeps it":          {keep: exec(`UPDATE subscriptions SET keep_done = '300 hours'`), let: exec(`UPDATE subscriptions SET keep_done = NULL`)},
		"a partition has not passed its end": {keep: exec(`UPDATE progress SET processed_at = (SELECT closed_at FROM windows WHERE state = 'closed') + interval '59 minutes'`), let: idle},
		// What was decided in the window is read again: without it each of these events would act once more.
		"a partition was moved back": {keep: func(s *scene) { s.c = s.moved(s.c, 0) }, let: idle},
		"a partition was moved back, and reads what came before the end": {let: idle, keep: func(s *scene) {
			s.c = s.moved(s.c, 0)
			s.apply(s.c, seq(0, "e", 1))
		}},
		"a partition was never claimed": {keep: exec(`INSERT INTO fences (subscription, topic, topic_id, partition)
			SELECT subscription, topic, topic_id, 7 FROM fences LIMIT 1`), let: exec(`DELETE FROM fences WHERE partition = 7`)},
		"an event waits": {in: records(seq(1, "w", 1), seq(2, "w", 3)), keep: all(result(2, Done), idle), let: all(records(newer(seq(10, "w", 2))), func(s *scene) {
			s.record(Result{Claim: s.c, LaneSeq: 4, Status: Done, Attempt: 1}, Result{Claim: s.c, LaneSeq: 5, Status: Done, Attempt: 1})
			idle(s)
		})},
		"an event is held for an operator": {in: records(seq(1, "w", 1), seq(2, "w", 3)),
			keep: all(result(2, Done), idle, exec(`UPDATE buffer SET decision = 'held', deadline = NULL`)), let: exec(`DELETE FROM buffer`)},
		"an action is untried": {in: records(seq(1, "w", 1)), let: all(result(2, Done), idle), keep: func(s *scene) {
			if err := s.n.Release(s.t.Context(), s.c); err != nil { // writes the mark to right behind what is settled
				s.t.Fatal(err)
			}
		}},
		"an action that ended is above the mark": {in: all(records(seq(1, "w", 1), seq(2, "w", 3)), result(2, Done), idle, func(s *scene) {
			s.expire(s.c) // its action has a row from the start
		}, result(3, Done)), let: idle},
		"an action failed":     {in: all(records(seq(1, "w", 1)), result(2, Failed)), keep: idle, let: all(result(2, Done), idle)},
		"an action is unknown": {in: all(records(seq(1, "w", 1)), result(2, Unknown)), keep: idle, let: all(result(2, Done), idle)},
		"a lane stands behind it": {in: all(records(seq(1, "w", 1)), result(2, Dead)), keep: all(idle, exec(`UPDATE actions SET finished_at = now() - interval '900 days' WHERE open`)),
			let: all(result(2, Done), idle)},
		"what is dead is readable": {actions: []ActionSpec{{"run", "acme/coder", Continue}}, cfg: SweepConfig{Horizon: time.Hour, Done: time.Hour, Dead: 300 * time.Hour},
			in: all(records(seq(1, "w", 1)), result(2, Dead)), keep: idle, let: exec(`UPDATE actions SET finished_at = now() - interval '2 hours' WHERE open`)},
		"its event runs in the next": {in: records(seq(1, "w", 1), seq(2, "w", 3)), keep: all(result(2, Done), records(newer(seq(10, "w", 2))), result(4, Done), idle),
			let: all(result(5, Done), idle)},
		"it ran in this one, for an event of the one before": {drops: 2, in: all(records(seq(1, "w", 1), seq(2, "w", 3)), func(s *scene) { s.turnWindow() },
			records(newer(seq(3, "w", 2))), result(2, Done), result(3, Done)), keep: idle, let: all(result(4, Done), idle)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &scene{fixture: setup(t, func(spec *Spec) {
				if tt.actions != nil {
					spec.Actions = tt.actions
				}
			})}
			s.c = s.claim(0)
			do := func(f func(*scene)) {
				if f != nil {
					f(s)
				}
			}
			s.apply(s.c, seq(0, "e", 1))
			result(1, Done)(s)
			do(tt.in)
			s.turnWindow()
			s.ageWindows(200 * time.Hour)
			s.apply(s.c, newer(seq(9, "later", 1)))
			if tt.in == nil {
				idle(s)
			}
			do(tt.keep)
			sweep := func(cfg SweepConfig) int {
				t.Helper()
				swept, err := s.l.Sweep(t.Context(), cfg)
				if err != nil {
					t.Fatal(err)
				}
				return len(swept.Dropped)
			}
			cfg := tt.cfg
			if cfg == (SweepConfig{}) {
				cfg = within
			}
			if sweep(cfg) != 0 {
				t.Fatal("dropped")
			}
			do(tt.let)
			if n := sweep(within); n != max(tt.drops, 1) {
				t.Errorf("dropped %d", n)
			}
		})
	}
}

// moved releases a claim and makes the next one with a seek to an offset.
func (f *fixture) moved(c *Claim, to int64) *Claim {
	f.t.Helper()
	if err := f.n.Release(f.t.Context(), c); err != nil {
		f.t.Fatal(err)
	}
	c, err := f.n.Claim(f.t.Context(), ClaimRequest{Partition: c.Partition, Partitions: 8, Confirm: func(_ context.Context, stored *Position) (Start, error) {
		return Start{Position: Position{Offset: to, LeaderEpoch: -1}, Seek: &Seek{From: stored.Offset, To: to}}, nil
	}})
	if err != nil {
		f.t.Fatal(err)
	}
	return c
}

// An event that waited runs what is wanted when it is let go, and the inbox says so even when its actions' window has gone
// before its own.
func TestWhatRanIsToldByThePlanThatRan(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.apply(f.claim(0), seq(0, "w", 1), seq(1, "w", 3)) // nobody runs 1: that keeps the window of both
	f.turnWindow()
	f.n = f.namespace(func(s *Spec) {
		s.Actions = []ActionSpec{{"tell", "acme/slack", Continue}, {"run", "acme/coder", Continue}}
	})
	c := f.claim(0)
	filler := seq(2, "w", 2)
	filler.AppendTime = time.Now()
	a := f.apply(c, filler)
	if d := cmp.Diff([]string{"2:w-2:tell", "3:w-2:run", "4:w-3:tell", "5:w-3:run"}, lanes(a.Actions)); d != "" {
		t.Fatal(d)
	}
	for lane := int64(2); lane <= 5; lane++ {
		f.record(Result{Claim: c, LaneSeq: lane, Status: Done, Attempt: 1})
	}
	f.turnWindow()
	f.ageWindows(200 * time.Hour)
	if err := f.n.CaughtUp(t.Context(), time.Now(), []*Claim{c}); err != nil {
		t.Fatal(err)
	}
	if s := f.sweep(); len(s.Dropped) != 1 {
		t.Fatalf("dropped %d", s.Dropped)
	}
	item, err := f.item("w-3")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, a := range item.Actions {
		got = append(got, a.Name+":"+string(a.Status))
	}
	if d := cmp.Diff([]string{"tell:done", "run:done"}, got); d != "" {
		t.Error(d)
	}
}
