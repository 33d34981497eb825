package ledger_test

import (
	"fmt"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/ledger"
)

var recording = []property{
	{"open reads what results have left, for this claim and the next", func(f *fixture) {
		f.start(func(s *ledger.Spec) {
			s.Actions = append(s.Actions, ledger.ActionSpec{Name: "tell", Destination: "acme/slack", OnDead: ledger.Continue})
		})
		c, d := f.claim(0), f.claim(1)
		f.apply(c, seq(0, "a", 1), seq(1, "b", 1), seq(2, "c", 1))
		f.apply(d, seq(0, "d", 1))
		f.record(
			ledger.Result{Claim: d, LaneSeq: 1, Status: ledger.Done, Attempt: 1, Code: 204, Response: []byte("ok")},
			ledger.Result{Claim: c, LaneSeq: 1, Status: ledger.Done, Attempt: 1, Code: 200, Latency: time.Millisecond},
			ledger.Result{Claim: c, LaneSeq: 2, Status: ledger.Dead, Attempt: 1, Code: 410, Class: "rejected", Error: "gone\x00\xff", Packed: []byte("kept")},
			ledger.Result{Claim: c, LaneSeq: 3, Status: ledger.Failed, Attempt: 1, Class: "timeout", NextIn: time.Hour, Packed: []byte("kept too")},
			ledger.Result{Claim: c, LaneSeq: 5, Status: ledger.Dead, Attempt: 1, Code: 400, Class: "rejected"},
		)
		for range 2 {
			open := f.open(c)
			f.is("open", states(open), "3:b-1:failed:1", "4:b-1:pending:0", "5:c-1:dead_letter:1", "6:c-1:pending:0")
			if a := open[0]; a.NextIn < 59*time.Minute || a.NextIn > time.Hour || string(a.Packed) != "kept too" || !near(a.FirstAt, time.Now()) || !near(a.Since, time.Now()) {
				f.Errorf("the failed one: %+v", a)
			}
			c = f.claim(0)
		}
		page, more, err := f.l.Open(f.ctx(), c, 3, 1)
		if err != nil || !more || len(page) != 1 || page[0].LaneSeq != 4 {
			f.Error(lanes(page), more, err)
		}
		_, _, err = f.l.Open(f.ctx(), c, 0, 0)
		f.refused("a page of nothing", err, schemas.Invalid)
		f.pass(2 * time.Hour)
		if a := f.open(c)[0]; a.NextIn != 0 || !near(a.FirstAt, time.Now().Add(-2*time.Hour)) || !near(a.Since, a.FirstAt) {
			f.Errorf("two hours later: %+v", a)
		}
		if a := f.open(c)[1]; a.Attempts != 0 || !near(a.Since, time.Now().Add(-2*time.Hour)) {
			f.Errorf("one that was not tried, two hours later: %+v", a)
		}
	}},
	{"what is done stays done, however often it is recorded", func(f *fixture) {
		c := f.claim(0)
		f.apply(c, seq(0, "a", 1), seq(1, "b", 1), seq(2, "c", 1))
		f.record(ledger.Result{Claim: c, LaneSeq: 2, Status: ledger.Failed, Attempt: 1, Class: "timeout"},
			ledger.Result{Claim: c, LaneSeq: 2, Status: ledger.Failed, Attempt: 2, Class: "timeout"}, ledger.Result{Claim: c, LaneSeq: 2, Status: ledger.Done, Attempt: 3})
		f.record(ledger.Result{Claim: c, LaneSeq: 1, Status: ledger.Done, Attempt: 1})
		for range 2 {
			f.record(ledger.Result{Claim: c, LaneSeq: 1, Status: ledger.Done, Attempt: 1}, ledger.Result{Claim: c, LaneSeq: 2, Status: ledger.Done, Attempt: 3})
			f.record(ledger.Result{Claim: c, LaneSeq: 1, Status: ledger.Failed, Attempt: 2, Class: "timeout"}, ledger.Result{Claim: c, LaneSeq: 2, Status: ledger.Dead, Attempt: 4})
			f.is("open", states(f.open(c)), "3:c-1:pending:0")
			c = f.claim(0)
		}
	}},
	{"of several results of an action the last one is its word", func(f *fixture) {
		c := f.claim(0)
		f.apply(c, seq(0, "a", 1), seq(1, "b", 1))
		f.record(ledger.Result{Claim: c, LaneSeq: 2, Status: ledger.Done, Attempt: 1}, ledger.Result{Claim: c, LaneSeq: 1, Status: ledger.Unknown, Attempt: 1},
			ledger.Result{Claim: c, LaneSeq: 2, Status: ledger.Failed, Attempt: 2, NextIn: time.Hour}, ledger.Result{Claim: c, LaneSeq: 1, Status: ledger.Parked})
		f.is("open", states(f.open(f.claim(0))), "1:a-1:parked:0", "2:b-1:failed:2")
	}},
	{"a dead action parks its lane, or does not", func(f *fixture) {
		f.start(func(s *ledger.Spec) {
			s.Actions = append(s.Actions, ledger.ActionSpec{Name: "tell", Destination: "acme/slack", OnDead: ledger.Continue})
		})
		c := f.claim(0)
		f.apply(c, seq(0, "a", 1))
		for lane := range int64(2) {
			f.record(ledger.Result{Claim: c, LaneSeq: lane + 1, Status: ledger.Dead, Attempt: 1, Class: "rejected"})
		}
		for range 2 {
			f.is("open", states(f.open(c)), "1:a-1:dead_letter:1")
			c = f.claim(0)
		}
	}},
	{"record refuses what is no result", func(f *fixture) {
		c := f.claim(0)
		f.apply(c, seq(0, "a", 1), seq(1, "b", 1))
		for name, r := range map[string]ledger.Result{
			"no claim": {LaneSeq: 1, Status: ledger.Done}, "no lane_seq": {Claim: c, Status: ledger.Done}, "pending": {Claim: c, LaneSeq: 1, Status: ledger.Pending},
			"stale": {Claim: c, LaneSeq: 1, Status: ledger.Stale}, "a negative wait": {Claim: c, LaneSeq: 1, Status: ledger.Failed, NextIn: -1},
			"a negative attempt": {Claim: c, LaneSeq: 1, Status: ledger.Done, Attempt: -1}, "processing for no time": {Claim: c, LaneSeq: 1, Status: ledger.Processing, Attempt: 1},
			"done and awaited": {Claim: c, LaneSeq: 1, Status: ledger.Done, Attempt: 1, Left: time.Hour}, "superseded after an attempt": {Claim: c, LaneSeq: 1, Status: ledger.Superseded, Attempt: 1},
			"skipped by nobody": {Claim: c, LaneSeq: 1, Status: ledger.Skipped}, "denied by an attempt": {Claim: c, LaneSeq: 1, Status: ledger.Denied, Attempt: 1, Guarded: true},
			"waiting by an attempt": {Claim: c, LaneSeq: 1, Status: ledger.WaitingBudget, Attempt: 1, Guarded: true},
		} {
			_, err := f.l.Record(f.ctx(), []ledger.Result{{Claim: c, LaneSeq: 2, Status: ledger.Done, Attempt: 1}, r})
			f.refused(name, err, schemas.Invalid)
		}
		_, err := f.l.Record(f.ctx(), []ledger.Result{{Claim: c, LaneSeq: 2, Status: ledger.Done, Attempt: 1}, {Claim: c, LaneSeq: 3, Status: ledger.Done, Attempt: 1}})
		f.refused("an action that never was", err, schemas.Internal)
		_, err = f.l.Record(f.ctx(), []ledger.Result{{Claim: &ledger.Claim{ID: c.ID, Epoch: c.Epoch, Token: c.Token}, LaneSeq: 1, Status: ledger.Done, Attempt: 1}})
		f.refused("a claim of another ledger", err, schemas.Internal)
		f.record(ledger.Result{Claim: c, LaneSeq: 1, Status: ledger.Failed, Attempt: 1})
		_, err = f.l.Record(f.ctx(), []ledger.Result{{Claim: c, LaneSeq: 1, Status: ledger.Superseded}, {Claim: c, LaneSeq: 2, Status: ledger.Done, Attempt: 1}})
		f.refused("superseded, and it was tried", err, schemas.Internal)
		f.is("open", states(f.open(f.claim(0))), "1:a-1:failed:1", "2:b-1:pending:0")
		if fenced, err := f.l.Record(f.ctx(), nil); fenced != nil || err != nil {
			f.Error(fenced, err)
		}
	}},
	{"two claims of one fence are told apart", func(f *fixture) {
		zombie := f.claim(0)
		f.apply(zombie, seq(0, "a", 1), seq(1, "b", 1))
		owner, other := f.claim(0), f.claim(1)
		f.apply(other, seq(0, "c", 1))
		dead, done := ledger.Result{Claim: zombie, LaneSeq: 1, Status: ledger.Dead, Attempt: 1}, ledger.Result{Claim: owner, LaneSeq: 2, Status: ledger.Done, Attempt: 1}
		for _, results := range [][]ledger.Result{{dead, done}, {done, dead}} {
			_, err := f.l.Record(f.ctx(), results)
			f.refused("in one group", err, schemas.Invalid)
		}
		fenced, err := f.l.Record(f.ctx(), []ledger.Result{dead, {Claim: other, LaneSeq: 1, Status: ledger.Done, Attempt: 1}})
		if err != nil || len(fenced) != 1 || !fenced[zombie.ID] {
			f.Error(fenced, err)
		}
		f.is("open", states(f.open(owner)), "1:a-1:pending:0", "2:b-1:pending:0")
		f.is("what came with it", states(f.open(other)))
	}},
	{"doubt is kept with the row, and the first attempt is when it was", func(f *fixture) {
		c := f.claim(0)
		f.apply(c, seq(0, "new", 1), seq(1, "copied", 1), seq(2, "sure", 1), seq(3, "marked", 1))
		if _, _, err := f.l.Copy(f.ctx(), c, []ledger.Copy{{LaneSeq: 2, Packed: []byte("kept")}}); err != nil {
			f.Fatal(err)
		}
		end := time.Now().Add(-time.Hour)
		for lane := range int64(3) {
			r := ledger.Result{Claim: c, LaneSeq: lane + 1, Status: ledger.Failed, Attempt: 1, Class: "busy", Latency: time.Minute, Began: time.Now().Add(-30 * time.Minute)}
			if lane < 2 {
				r.DoubtEnd = end
			}
			f.record(r)
			r.Attempt, r.DoubtEnd, r.Began = 2, time.Time{}, time.Now()
			f.record(r)
		}
		f.record(ledger.Result{Claim: c, LaneSeq: 4, Status: ledger.Unknown, Attempt: 1, DoubtEnd: end, Began: time.Now().Add(-30 * time.Minute)})
		for i, a := range f.open(f.claim(0)) {
			if a.DoubtEnd.IsZero() != (i == 2) || i != 2 && !near(a.DoubtEnd, end) || !near(a.FirstAt, time.Now().Add(-30*time.Minute)) {
				f.Errorf("%s: in doubt until %v, first at %v", a.EventID, a.DoubtEnd, a.FirstAt)
			}
		}
	}},
	{"what is processing is waited for", func(f *fixture) {
		c := f.claim(0)
		f.apply(c, seq(0, "a", 1), seq(1, "b", 1))
		f.record(ledger.Result{Claim: c, LaneSeq: 1, Status: ledger.Processing, Attempt: 1, Left: 2 * time.Hour, Silence: time.Hour},
			ledger.Result{Claim: c, LaneSeq: 2, Status: ledger.Processing, Attempt: 1, Left: 2 * time.Hour})
		f.pass(90 * time.Minute)
		open := f.open(f.claim(0))
		if a := open[0]; a.Status != ledger.Processing || a.Left > 30*time.Minute || a.Left < 29*time.Minute || a.SilenceLeft != 0 || a.Silence != time.Hour || a.Attempts != 1 {
			f.Errorf("%+v", a)
		}
		if a := open[1]; a.SilenceLeft != 0 || a.Silence != 0 {
			f.Errorf("%+v", a)
		}
	}},
	{"what guards say ends an action, keeps it waiting, or parks it", func(f *fixture) {
		f.start(func(s *ledger.Spec) { s.Actions[0].OnDead = ledger.Continue })
		c := f.claim(0)
		for n, id := range []string{"skip", "drop", "deny", "wait", "hold", "die", "give-up"} {
			f.apply(c, seq(int64(n), id, 1))
		}
		says := func(lane int64, s ledger.Status) ledger.Result {
			return ledger.Result{Claim: c, LaneSeq: lane, Status: s, Class: "policy", Error: "a rule", Guarded: true, Packed: []byte("kept")}
		}
		wait, hold, gaveUp := says(4, ledger.WaitingApproval), says(5, ledger.WaitingBudget), says(7, ledger.Dead)
		wait.NextIn, hold.NextIn, gaveUp.Guarded = 2*time.Hour, time.Hour, false
		f.record(ledger.Result{Claim: c, LaneSeq: 3, Status: ledger.Failed, Attempt: 1, Class: "busy"})
		f.record(says(1, ledger.Skipped), says(2, ledger.Dropped), says(3, ledger.Denied), wait, hold, says(6, ledger.Dead), gaveUp)
		f.record(ledger.Result{Claim: c, LaneSeq: 1, Status: ledger.Done, Attempt: 1}, ledger.Result{Claim: c, LaneSeq: 3, Status: ledger.Failed, Attempt: 2}) // they have ended
		f.pass(90 * time.Minute)
		for range 2 {
			open := f.open(c)
			f.is("open", states(open), "4:wait-1:waiting_approval:0", "5:hold-1:waiting_budget:0", "6:die-1:dead_letter:0")
			if a := open[0]; string(a.Packed) != "kept" || a.NextIn < 29*time.Minute || a.NextIn > 30*time.Minute || open[1].NextIn != 0 || !a.FirstAt.IsZero() {
				f.Errorf("waits as %+v, %s", a, open[1].NextIn)
			}
			c = f.claim(0)
		}
		f.record(ledger.Result{Claim: c, LaneSeq: 4, Status: ledger.Done, Attempt: 1}, ledger.Result{Claim: c, LaneSeq: 5, Status: ledger.Superseded})
		f.is("left", states(f.open(c)), "6:die-1:dead_letter:0")
	}},
	{"superseded has ended", func(f *fixture) {
		f.start(func(s *ledger.Spec) { s.Latest = true })
		c := f.claim(0)
		delta := seq(1, "a", 2)
		delta.Payload = schemas.Delta
		got := f.apply(c, seq(0, "a", 1), delta)
		f.record(ledger.Result{Claim: c, LaneSeq: 1, Status: ledger.Superseded})
		for range 2 {
			open := f.open(c)
			f.is("open", states(open), "2:a-2:pending:0")
			if open[0].Payload != schemas.Delta || got.Actions[1].Payload != schemas.Delta || got.Actions[0].Payload != schemas.Snapshot {
				f.Errorf("kinds of payload %q, %q, %q", open[0].Payload, got.Actions[0].Payload, got.Actions[1].Payload)
			}
			c = f.claim(0)
		}
	}},
}

var copying = []property{
	{"what is open and has no copy is listed, in pages", func(f *fixture) {
		c := f.claim(0)
		f.apply(c, seq(0, "a", 1), seq(1, "b", 1), seq(2, "c", 1), seq(3, "d", 1), seq(4, "e", 1), seq(5, "f", 1))
		f.apply(c, seq(6, "g", 1), seq(7, "i", 1), seq(8, "i", 3))
		f.apply(c, seq(9, "i", 2)) // and out of the buffer comes 3, with its copy
		f.record(
			ledger.Result{Claim: c, LaneSeq: 1, Status: ledger.Done, Attempt: 1}, ledger.Result{Claim: c, LaneSeq: 2, Status: ledger.Failed, Attempt: 1, NextIn: time.Hour},
			ledger.Result{Claim: c, LaneSeq: 3, Status: ledger.Dead, Attempt: 1}, ledger.Result{Claim: c, LaneSeq: 4, Status: ledger.Dead, Class: "payload_lost"},
			ledger.Result{Claim: c, LaneSeq: 5, Status: ledger.Failed, Attempt: 1, Packed: []byte("kept")}, ledger.Result{Claim: c, LaneSeq: 6, Status: ledger.Unknown, Attempt: 1},
		)
		for _, limit := range []int{1, 2, 100} {
			var got []int64
			for after, more := int64(0), true; more; {
				page, err := f.l.WithoutCopy(f.ctx(), c, after, 100, limit)
				if err != nil {
					f.Fatal(err)
				}
				for _, a := range page.Actions {
					got = append(got, a.LaneSeq)
				}
				after, more = page.Upto, page.More
			}
			if d := cmp.Diff([]int64{2, 3, 6, 7, 8, 9}, got); d != "" {
				f.Errorf("pages of %d: %s", limit, d)
			}
		}
		page, err := f.l.WithoutCopy(f.ctx(), c, 2, 6, 100)
		if err != nil || page.More || page.Upto != 10 || page.Left != 7 || page.LeftOffset != 6 || len(page.Actions) != 2 {
			f.Fatalf("below offset 6: %+v %v", page, err)
		}
		r := seq(2, "c", 1)
		want := ledger.Pointer{TopicID: c.Partition.TopicID, Topic: c.Partition.Topic, Offset: 2, LeaderEpoch: 3, Key: r.Key, Hash: r.Hash}
		if d := cmp.Diff(want, page.Actions[0].Pointer); d != "" {
			f.Error(d)
		}
		_, err = f.l.WithoutCopy(f.ctx(), c, 0, 8, 0)
		f.refused("a page of nothing", err, schemas.Invalid)
	}},
	{"copies go to what is open and has none, once", func(f *fixture) {
		c := f.claim(0)
		f.apply(c, seq(0, "a", 1), seq(1, "b", 1), seq(2, "c", 1), seq(3, "d", 1))
		f.record(ledger.Result{Claim: c, LaneSeq: 1, Status: ledger.Done, Attempt: 1}, ledger.Result{Claim: c, LaneSeq: 3, Status: ledger.Failed, Attempt: 1, Packed: []byte("first")})
		copies := []ledger.Copy{{LaneSeq: 4, Packed: []byte("d")}, {LaneSeq: 1, Packed: []byte("a")}, {LaneSeq: 3, Packed: []byte("c")}, {LaneSeq: 2, Packed: []byte("b")}}
		for _, want := range []int{2, 0} {
			if stored, fenced, err := f.l.Copy(f.ctx(), c, copies); stored != want || fenced || err != nil {
				f.Errorf("stored %d, want %d, fenced %v, %v", stored, want, fenced, err)
			}
		}
		for range 2 {
			var got []string
			for _, a := range f.open(c) {
				got = append(got, fmt.Sprintf("%d %v %s", a.LaneSeq, a.HasCopy, a.Packed))
			}
			f.is("copies", got, "2 true b", "3 true first", "4 true d")
			c = f.claim(0)
		}
	}},
	{"copy refuses what is none", func(f *fixture) {
		c := f.claim(0)
		f.apply(c, seq(0, "a", 1))
		for name, bad := range map[string]ledger.Copy{"no lane_seq": {Packed: []byte("x")}, "nothing": {LaneSeq: 1}} {
			_, _, err := f.l.Copy(f.ctx(), c, []ledger.Copy{bad})
			f.refused(name, err, schemas.Invalid)
		}
		if _, _, err := f.l.Copy(f.ctx(), f.claim(1), []ledger.Copy{{LaneSeq: 1, Packed: []byte("x")}}); err == nil {
			f.Error("a copy for an action that the claim never had")
		}
	}},
	{"a dead letter is exported once, and once more when it dies again", func(f *fixture) {
		c := f.claim(0)
		f.apply(c, seq(0, "a", 1), seq(1, "b", 1), seq(2, "c", 1))
		id := actionID("a-1")
		f.record(ledger.Result{Claim: c, LaneSeq: 1, ID: id, Status: ledger.Dead, Attempt: 1, Class: "rejected", Code: 400, Error: "no", Packed: []byte("kept")},
			ledger.Result{Claim: c, LaneSeq: 2, Status: ledger.Dead, Class: "payload_lost"}, ledger.Result{Claim: c, LaneSeq: 3, Status: ledger.Unknown, Attempt: 1})
		exported := func(want ...string) {
			f.Helper()
			list, err := f.l.Unexported(f.ctx(), []*ledger.Claim{c}, 10)
			var got []string
			for _, d := range list {
				packed, at, err := f.l.DeadPayload(f.ctx(), d)
				if err != nil || at.Offset != d.Offset || at.Topic != d.Topic {
					f.Error(at, err)
				}
				got = append(got, fmt.Sprintf("%s %s %s %d %s", d.EventID, d.Status, d.Class, d.Deaths, packed))
			}
			f.is("exported", got, want...)
			if err == nil {
				err = f.l.Exported(f.ctx(), []*ledger.Claim{c}, list)
			}
			if err != nil {
				f.Error(err)
			}
		}
		zombie := c
		c = f.claim(0)
		list, _ := f.l.Unexported(f.ctx(), []*ledger.Claim{zombie}, 10)
		if err := f.l.Exported(f.ctx(), []*ledger.Claim{zombie}, list); err != nil { // it notes nothing
			f.Error(err)
		}
		exported("a-1 dead_letter rejected 1 kept", "b-1 dead_letter payload_lost 1 ")
		exported()
		f.ask(id, ledger.Replay, ledger.CommandDetail{})
		f.applyLaneCommands(c)
		f.record(ledger.Result{Claim: c, LaneSeq: 1, Status: ledger.Dead, Attempt: 2, Class: "rejected"})
		exported("a-1 dead_letter rejected 2 kept")
	}},
}

// ask asks something of an action.
func (f *fixture) ask(id schemas.ActionID, kind ledger.CommandKind, d ledger.CommandDetail) {
	f.Helper()
	if _, err := f.s.AskAction(f.ctx(), id, kind, d, "jo", "the repository is back"); err != nil {
		f.Fatal(err)
	}
}

func (f *fixture) commands(c *ledger.Claim) []ledger.Command {
	f.Helper()
	commands, err := f.l.Commands(f.ctx(), []*ledger.Claim{c}, 0)
	if err != nil {
		f.Fatal(err)
	}
	return commands
}

// applyLaneCommands applies all that is asked about actions; the second time does nothing.
func (f *fixture) applyLaneCommands(c *ledger.Claim) (done []string) {
	f.Helper()
	for _, cmd := range f.commands(c) {
		first, err := f.l.ApplyLaneCommand(f.ctx(), c, cmd)
		if err != nil {
			f.Fatal(err)
		}
		second, err := f.l.ApplyLaneCommand(f.ctx(), c, cmd)
		if d := cmp.Diff(first, second); d != "" || err != nil {
			f.Error("applied again: ", d, err)
		}
		done = append(done, fmt.Sprintf("%d:%s:%s", cmd.LaneSeq, first.Outcome, first.Status))
	}
	return done
}

// applyCommands applies all that is asked about events; the second time does nothing.
func (f *fixture) applyCommands(c *ledger.Claim) (done []string, actions []ledger.Action) {
	f.Helper()
	for _, cmd := range f.commands(c) {
		for second := range 2 {
			a, err := f.l.ApplyCommand(f.ctx(), c, cmd)
			if err != nil || second == 1 && len(a.Outcomes) > 0 {
				f.Fatal(decisions(a), err)
			}
			done, actions = append(done, decisions(a)...), append(actions, a.Actions...)
		}
	}
	return done, actions
}

var commanding = []property{
	{"what is held runs, or is given up, when an operator says so", func(f *fixture) {
		f.start(func(s *ledger.Spec) { s.Policy.Stale.Snapshot = gate.StaleHold })
		c := f.claim(0)
		f.is("decisions", decisions(f.apply(c, seq(0, "e", 5), seq(1, "e", 4), seq(2, "e", 3), seq(3, "e", 8))), "0:applied/first", "1:parked/older_held", "2:parked/older_held", "3:buffered/gap")
		f.pass(50 * time.Minute)
		for id, kind := range map[string]ledger.CommandKind{"e-4": ledger.Release, "e-3": ledger.Discard} {
			if _, err := f.s.Ask(f.ctx(), source, id, kind, "jo", "it is wanted after all"); err != nil {
				f.Fatal(err)
			}
		}
		_, err := f.s.Ask(f.ctx(), source, "e-8", ledger.Discard, "jo", "no")
		f.refused("what waits is discarded", err, schemas.Invalid)
		_, err = f.s.Ask(f.ctx(), source, "e-5", ledger.Release, "jo", "no")
		f.refused("what has run is released", err, schemas.Invalid)
		_, err = f.s.Ask(f.ctx(), source, "e-4", ledger.Release, "", "")
		f.refused("nobody asks", err, schemas.Invalid)
		c = f.claim(0)
		var actions []ledger.Action
		for _, cmd := range f.commands(c) {
			a, err := f.l.ApplyCommand(f.ctx(), c, cmd)
			if err != nil {
				f.Fatal(err)
			}
			want := map[ledger.CommandKind]string{ledger.Release: "-1:late/redriven", ledger.Discard: "-1:stale/discarded"}[cmd.Kind]
			f.is(string(cmd.Kind), decisions(a), want)
			actions = append(actions, a.Actions...)
		}
		f.is("actions", lanes(actions), "2:e-4:run")
		if string(actions[0].Packed) != "packed e-4" || !actions[0].Late {
			f.Errorf("%+v", actions[0])
		}
		if d, _ := f.deadline(c); d > 10*time.Minute {
			f.Errorf("what waits does so for another %s", d)
		}
		f.is("once more", decisions(f.apply(c, seq(4, "e", 4), seq(5, "e", 3))), "0:duplicate/seen", "1:duplicate/seen")
	}},
	{"a line is released when an operator says so", func(f *fixture) {
		f.start(func(s *ledger.Spec) { s.Policy.Then = gate.ThenPark })
		c := f.claim(0)
		f.apply(c, seq(0, "e", 1), seq(1, "e", 3), seq(2, "e", 5))
		f.pass(2 * time.Hour)
		f.expire(c)
		if _, err := f.s.Ask(f.ctx(), source, "e-5", ledger.Release, "jo", "now"); err != nil {
			f.Fatal(err)
		}
		done, actions := f.applyCommands(f.claim(0))
		f.is("decisions", done, "-1:applied/gap_skipped", "-1:applied/gap_skipped")
		f.is("actions", lanes(actions), "2:e-3:run", "3:e-5:run")
	}},
	{"what an operator releases goes in steps, too", func(f *fixture) {
		f.start(func(s *ledger.Spec) { s.Policy.Then, s.Policy.GapWait, s.Policy.MaxReleases = gate.ThenPark, 0, 2 })
		c := f.claim(0)
		f.apply(c, seq(0, "e", 1), seq(1, "e", 3), seq(2, "e", 5), seq(3, "e", 7), seq(4, "e", 8), seq(5, "e", 9))
		if _, err := f.s.Ask(f.ctx(), source, "e-5", ledger.Release, "jo", "now"); err != nil {
			f.Fatal(err)
		}
		for _, want := range [][]string{{"2:e-3:run", "3:e-5:run"}, {"4:e-7:run", "5:e-8:run"}, {"6:e-9:run"}, nil} {
			_, actions := f.applyCommands(c)
			f.is("a step", lanes(actions), want...)
			c = f.claim(0)
		}
	}},
	{"a fenced owner applies no command, and the next one does", func(f *fixture) {
		f.start(func(s *ledger.Spec) { s.Policy.Stale.Snapshot = gate.StaleHold })
		zombie := f.claim(0)
		f.apply(zombie, seq(0, "e", 5), seq(1, "e", 4))
		f.record(ledger.Result{Claim: zombie, LaneSeq: 1, ID: actionID("e-5"), Status: ledger.Dead, Attempt: 1})
		if _, err := f.s.Ask(f.ctx(), source, "e-4", ledger.Release, "jo", "now"); err != nil {
			f.Fatal(err)
		}
		f.ask(actionID("e-5"), ledger.Replay, ledger.CommandDetail{})
		commands := f.commands(zombie)
		owner := f.claim(0)
		if a, err := f.l.ApplyCommand(f.ctx(), zombie, commands[0]); err != nil || !a.Fenced {
			f.Error(a, err)
		}
		if o, err := f.l.ApplyLaneCommand(f.ctx(), zombie, commands[1]); err != nil || !o.Fenced {
			f.Error(o, err)
		}
		if fenced, err := f.l.EndStale(f.ctx(), zombie, 1); err != nil || !fenced {
			f.Error(fenced, err)
		}
		if a, err := f.l.ApplyCommand(f.ctx(), owner, commands[0]); err != nil || len(a.Actions) != 1 {
			f.Error(a, err)
		}
		f.is("of the lane", f.applyLaneCommands(owner), "1:runs again:failed")
		_, err := f.l.ApplyCommand(f.ctx(), f.claim(1), commands[0])
		f.refused("another partition's owner", err, schemas.Invalid)
		_, err = f.l.ApplyCommand(f.ctx(), owner, commands[1])
		f.refused("what is about an action", err, schemas.Invalid)
		_, err = f.l.ApplyLaneCommand(f.ctx(), owner, commands[0])
		f.refused("what is about an event", err, schemas.Invalid)
	}},
	{"a dead action runs again", func(f *fixture) {
		c := f.claim(0)
		f.apply(c, seq(0, "e", 1), seq(1, "e", 2))
		f.record(ledger.Result{Claim: c, LaneSeq: 1, ID: actionID("e-1"), Status: ledger.Dead, Attempt: 3, Packed: []byte("kept")})
		f.ask(actionID("e-1"), ledger.Replay, ledger.CommandDetail{OutcomeUnknown: true})
		_, err := f.s.AskAction(f.ctx(), actionID("e-1"), ledger.Replay, ledger.CommandDetail{}, "jo", "impatient")
		f.refused("asked twice", err, schemas.Conflict)
		f.is("applied", f.applyLaneCommands(c), "1:runs again:failed")
		f.pass(time.Hour)
		for range 2 {
			a := f.open(c)[0]
			if r := a.Replay; a.Status != ledger.Failed || a.NextIn != 0 || string(a.Packed) != "kept" || r == nil || a.Spent != 3 || !near(r.At, time.Now().Add(-time.Hour)) || !r.Force || !r.Twice || r.Tried {
				f.Errorf("%+v %+v", a, a.Replay)
			}
			c = f.claim(0)
		}
		f.record(ledger.Result{Claim: c, LaneSeq: 1, Status: ledger.Failed, Attempt: 4, Spent: 4}) // while its destination was away
		if a := f.open(f.claim(0))[0]; a.Attempts != 4 || a.Spent != 4 || !a.Replay.Tried {
			f.Errorf("tried again: %+v %+v", a, a.Replay)
		}
		c = f.claim(0)
		f.record(ledger.Result{Claim: c, LaneSeq: 1, Status: ledger.Done, Attempt: 5})
		_, err = f.s.AskAction(f.ctx(), actionID("e-1"), ledger.Replay, ledger.CommandDetail{}, "jo", "once more")
		f.refused("it is done", err, schemas.Conflict)
	}},
	{"an action is given up, or resolved as done", func(f *fixture) {
		c := f.claim(0)
		f.apply(c, seq(0, "a", 1), seq(1, "b", 1), seq(2, "c", 1), seq(3, "d", 1))
		for lane, status := range []ledger.Status{ledger.Dead, ledger.Unknown, ledger.Unknown} {
			f.record(ledger.Result{Claim: c, LaneSeq: int64(lane) + 1, ID: actionID(string(rune('a'+lane)) + "-1"), Status: status, Attempt: 1})
		}
		_, err := f.s.AskAction(f.ctx(), actionID("b-1"), ledger.Replay, ledger.CommandDetail{}, "jo", "why not")
		f.refused("run again without a word about its outcome", err, schemas.Invalid)
		_, err = f.s.AskAction(f.ctx(), actionID("d-1"), ledger.Replay, ledger.CommandDetail{}, "jo", "why not")
		f.refused("one that was never tried", err, schemas.NotFound)
		_, err = f.s.AskAction(f.ctx(), actionID("a-1"), ledger.Resolve, ledger.CommandDetail{Status: ledger.Dead}, "jo", "why not")
		f.refused("told to be dead", err, schemas.Invalid)
		f.ask(actionID("a-1"), ledger.Discard, ledger.CommandDetail{})
		f.ask(actionID("b-1"), ledger.Resolve, ledger.CommandDetail{Status: ledger.Done})
		f.ask(actionID("c-1"), ledger.Discard, ledger.CommandDetail{})
		f.record(ledger.Result{Claim: c, LaneSeq: 3, Status: ledger.Done, Attempt: 2})
		f.is("applied", f.applyLaneCommands(c), "1:given up:discarded", "2:resolved as done:done", "3:nothing to do: it is done:done")
		f.is("open", states(f.open(f.claim(0))), "4:d-1:pending:0")
	}},
	{"what is run again is overtaken by a newer version, started or not", func(f *fixture) {
		f.start(func(s *ledger.Spec) { s.Actions[0].OnDead = ledger.Continue })
		c := f.claim(0)
		f.apply(c, seq(0, "a", 1), seq(1, "a", 2), seq(2, "b", 1), seq(3, "b", 2), seq(4, "c", 1), seq(5, "d", 1), seq(6, "d", 2))
		for lane, id := range map[int64]string{1: "a-1", 3: "b-1", 5: "c-1", 6: "d-1"} {
			f.record(ledger.Result{Claim: c, LaneSeq: lane, ID: actionID(id), Status: ledger.Dead, Attempt: 1})
			f.ask(actionID(id), ledger.Replay, ledger.CommandDetail{})
		}
		f.record(ledger.Result{Claim: c, LaneSeq: 2, Status: ledger.Done, Attempt: 1}, ledger.Result{Claim: c, LaneSeq: 7, Status: ledger.Failed, Attempt: 1, NextIn: time.Hour})
		f.applyLaneCommands(c)
		check := func(c *ledger.Claim, want ...string) {
			f.Helper()
			var got []string
			for _, a := range f.open(c) {
				if a.Replay == nil {
					continue
				}
				overtaken, err := f.l.Overtaken(f.ctx(), c, a)
				if err != nil || a.Replay.Force {
					f.Errorf("%s: %v %+v", a.EventID, err, a.Replay)
				}
				got = append(got, fmt.Sprint(a.EventID, " ", overtaken))
			}
			f.is("overtaken", got, want...)
		}
		check(c, "a-1 true", "b-1 true", "c-1 false", "d-1 true")
		f.apply(c, seq(7, "c", 2))
		check(c, "a-1 true", "b-1 true", "c-1 true", "d-1 true")
		c = f.claim(0)
		check(c, "a-1 true", "b-1 true", "c-1 true", "d-1 true")
		for range 2 {
			if fenced, err := f.l.EndStale(f.ctx(), c, 1); err != nil || fenced {
				f.Error(fenced, err)
			}
		}
		f.is("open", states(f.open(c)), "3:b-1:failed:1", "4:b-2:pending:0", "5:c-1:failed:1", "6:d-1:failed:1", "7:d-2:failed:1", "8:c-2:pending:0")
		_, err := f.s.AskAction(f.ctx(), actionID("a-1"), ledger.Replay, ledger.CommandDetail{}, "jo", "once more")
		f.refused("what is stale", err, schemas.Conflict)
		_, err = f.s.AskAction(f.ctx(), actionID("a-1"), ledger.Discard, ledger.CommandDetail{Force: true}, "jo", "once more")
		f.refused("to discard what is stale", err, schemas.Conflict)
		f.ask(actionID("a-1"), ledger.Replay, ledger.CommandDetail{Force: true})
		f.is("applied", f.applyLaneCommands(c), "1:runs again:failed")
		if a := f.open(c)[0]; a.LaneSeq != 1 || a.Status != ledger.Failed || a.Replay == nil || !a.Replay.Force || a.Attempts != 1 {
			f.Errorf("forced: %+v", a)
		}
	}},
	{"in arrival order nothing is newer, whatever its version", func(f *fixture) {
		f.start(func(s *ledger.Spec) { s.Policy.Order = gate.OrderArrival })
		c := f.claim(0)
		f.apply(c, seq(0, "a", 1), seq(1, "a", 2))
		overtaken := func(why string) {
			for _, a := range f.open(c) {
				if newer, err := f.l.Overtaken(f.ctx(), c, a); newer || err != nil {
					f.Errorf("%s, %s: %t %v", why, a.EventID, newer, err)
				}
			}
		}
		overtaken("in that order")
		f.l = f.start(func(s *ledger.Spec) { s.Policy.Order = gate.OrderVersion })
		c = f.claim(0)
		overtaken("decided in that order, which was changed")
		f.apply(c, seq(2, "b", 1), seq(3, "b", 2))
		f.l = f.start(func(s *ledger.Spec) { s.Policy.Order = gate.OrderArrival })
		c = f.claim(0)
		overtaken("now in that order")
	}},
	{"what died without an attempt and is stale runs when it is forced", func(f *fixture) {
		f.start(func(s *ledger.Spec) { s.Policy.Then = gate.ThenDeadLetter })
		c := f.claim(0)
		f.apply(c, seq(0, "a", 1), seq(1, "a", 3))
		f.pass(2 * time.Hour)
		f.expire(c)
		f.apply(c, seq(2, "a", 4))
		f.ask(actionID("a-3"), ledger.Replay, ledger.CommandDetail{})
		f.is("applied", f.applyLaneCommands(c), "2:runs again:failed")
		if fenced, err := f.l.EndStale(f.ctx(), c, 2); err != nil || fenced {
			f.Error(fenced, err)
		}
		f.ask(actionID("a-3"), ledger.Replay, ledger.CommandDetail{Force: true})
		f.is("forced", f.applyLaneCommands(c), "2:runs again:failed")
	}},
	{"who listens is told of commands", func(f *fixture) {
		c := f.claim(0)
		f.apply(c, seq(0, "e", 1), seq(1, "e", 3))
		notified := make(chan struct{}, 10)
		stop := f.l.Listen(func() {
			select {
			case notified <- struct{}{}:
			default:
			}
		})
		defer stop()
		for n := 0; ; n++ { // what is asked before the ledger listens is told by nobody
			if _, err := f.s.Ask(f.ctx(), source, "e-3", ledger.Release, "jo", "now"); err != nil {
				f.Fatal(err)
			}
			wait := time.NewTimer(100 * time.Millisecond)
			select {
			case <-notified:
				wait.Stop()
				return
			case <-wait.C:
			case <-f.ctx().Done():
				f.Fatal("nobody was told")
			}
		}
	}},
}
