package ledger_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/sink"
)

// result has a destination say how a first attempt ended.
func (f *fixture) result(c *ledger.Claim, laneSeq int64, status ledger.Status) {
	f.Helper()
	r := ledger.Report{AttemptRef: ledger.AttemptRef{Fence: c.ID, LaneSeq: laneSeq, Attempt: 1, Epoch: c.Epoch}, Status: status, Code: 200, Cost: 250_000}
	if err := f.s.Report(f.ctx(), r); err != nil {
		f.Fatal(err)
	}
}

// endReport ends a report that was read as past; late says whether it is so still.
func (f *fixture) endReport(r ledger.OpenReport, late bool) {
	f.Helper()
	if got, err := f.l.EndReport(f.ctx(), r); err != nil || got != late {
		f.Errorf("report of attempt %d of action %d ended as late: %t, %v", r.Attempt, r.LaneSeq, got, err)
	}
}

// reports are those that are to be applied, as "1/1:done:a:past".
func (f *fixture) reports(claims ...*ledger.Claim) (out []string) {
	f.Helper()
	list, err := f.l.Reports(f.ctx(), claims)
	if err != nil {
		f.Fatal(err)
	}
	for _, r := range list {
		s := fmt.Sprintf("%d/%d:%s:%s", r.LaneSeq, r.Attempt, r.Status, r.Entity)
		if r.Past {
			s += ":past"
		}
		if r.Cost != 250_000 {
			f.Errorf("%s cost %d", s, r.Cost)
		}
		if (r.Entity != "") != (r.EventID == string(r.Entity)+"-1" && r.Source == "/acme/github" && r.Name == "run" && r.Destination != "") {
			f.Errorf("%s is of %s of event %s %s at %q", s, r.Name, r.Source, r.EventID, r.Destination)
		}
		if !slices.Contains(claims, r.Claim) || r.Claim.ID != r.Fence {
			f.Errorf("%s is of another claim", s)
		}
		out = append(out, s)
	}
	return out
}

var finishingLater = []property{
	{"a report is read until it is applied or noted as late", func(f *fixture) {
		c, other := f.claim(0), f.claim(1)
		f.apply(c, seq(0, "a", 1), seq(1, "b", 1), seq(2, "c", 1))
		f.apply(other, seq(0, "d", 1))
		f.record(ledger.Result{Claim: c, LaneSeq: 1, Status: ledger.Processing, Attempt: 1, Left: time.Hour})
		f.result(c, 1, ledger.Done)
		f.result(c, 1, ledger.Failed) // the first one stands
		f.result(c, 2, ledger.Done)   // faster than the note of its attempt
		f.result(other, 1, ledger.Dead)
		f.is("both", f.reports(c, other), "1/1:done:a", "2/1:done:", "1/1:dead_letter:")
		c = f.claim(0)
		f.is("the next claim", f.reports(c), "1/1:done:a", "2/1:done:")
		f.record(ledger.Result{Claim: c, LaneSeq: 1, Status: ledger.Done, Attempt: 1, Epoch: c.Epoch - 1, Reported: true},
			ledger.Result{Claim: c, LaneSeq: 2, Status: ledger.Done, Attempt: 1}, ledger.Result{Claim: c, LaneSeq: 3, Status: ledger.Done, Attempt: 1})
		f.is("applied", f.reports(c), "2/1:done::past")
		f.result(c, 3, ledger.Failed)
		f.is("of what is done: it has a cost", f.reports(c), "2/1:done::past", "3/1:failed::past")
		list, err := f.l.Reports(f.ctx(), []*ledger.Claim{c})
		if err != nil || len(list) != 2 {
			f.Fatal(list, err)
		}
		for range 2 {
			for _, r := range list {
				f.endReport(r, true)
			}
		}
		f.is("noted as late", f.reports(c))
		f.result(c, 2, ledger.Done)
		f.is("of another owner's attempt", f.reports(c), "2/1:done::past")
	}},
	{"a report of an earlier attempt counts where it says done and nothing came of the later ones", func(f *fixture) {
		c := f.claim(0)
		f.apply(c, seq(0, "a", 1), seq(1, "b", 1))
		for lane := range int64(2) {
			f.record(ledger.Result{Claim: c, LaneSeq: lane + 1, Status: ledger.Failed, Attempt: 2, NextIn: time.Hour})
			f.result(c, lane+1, []ledger.Status{ledger.Done, ledger.Failed}[lane])
		}
		f.is("open", f.reports(c), "1/1:done:a", "2/1:failed:b:past")
		f.record(ledger.Result{Claim: c, LaneSeq: 1, Status: ledger.Processing, Attempt: 3, Left: time.Hour})
		f.is("attempted again", f.reports(c), "1/1:done:a:past", "2/1:failed:b:past")
		list, err := f.l.Reports(f.ctx(), []*ledger.Claim{c})
		for _, r := range list {
			f.endReport(r, true)
		}
		said := func(when string, want int) {
			f.Helper()
			f.result(c, 1, ledger.Done)
			f.result(c, 2, ledger.Failed)
			if list, err = f.l.Reports(f.ctx(), []*ledger.Claim{c}); err != nil || len(list) != want || want > 0 && (list[0].Status != ledger.Done || list[0].Past || list[0].Cost != 0) {
				f.Error("said again, ", when, list, err)
			}
		}
		said("too late", 0)
		f.record(ledger.Result{Claim: c, LaneSeq: 1, Status: ledger.Failed, Attempt: 3, NextIn: time.Hour})
		said("while it counts", 1)
		f.record(ledger.Result{Claim: c, LaneSeq: 1, Status: ledger.Done, Attempt: 1, Reported: true})
		said("once it is applied", 0)
	}},
	{"what was said too late to be done is read again once its action is to run again, and its cost is not", func(f *fixture) {
		c := f.claim(0)
		f.apply(c, seq(0, "a", 1), seq(1, "b", 1), seq(2, "c", 1), seq(3, "d", 1))
		events := []string{"a-1", "b-1", "c-1", "d-1"}
		for i, id := range events {
			f.record(ledger.Result{Claim: c, LaneSeq: int64(i) + 1, ID: actionID(id), Status: ledger.Dead, Attempt: 1, Packed: []byte("kept")})
		}
		for i, said := range []ledger.Status{ledger.Done, ledger.Dead, ledger.Done} {
			f.result(c, int64(i)+1, said)
		}
		list, err := f.l.Reports(f.ctx(), []*ledger.Claim{c})
		for _, r := range list[:2] { // the third is asked for before its owner has ended it
			f.endReport(r, true)
		}
		if err != nil {
			f.Fatal(err)
		}
		for _, id := range events {
			f.ask(actionID(id), ledger.Replay, ledger.CommandDetail{})
		}
		f.is("applied", f.applyLaneCommands(c), "1:runs again:failed", "2:runs again:failed", "3:runs again:failed", "4:runs again:failed")
		var got []string
		list, err = f.l.Reports(f.ctx(), []*ledger.Claim{c})
		for _, r := range list {
			got = append(got, fmt.Sprintf("%d:%s:%t:%d", r.LaneSeq, r.Status, r.Past, r.Cost))
		}
		if f.is("read", got, "1:done:false:0", "3:done:false:250000"); err != nil {
			f.Fatal(err)
		}
	}},
	{"what was said to be done is read again where its action is to run again before its owner has ended it as too late", func(f *fixture) {
		c := f.claim(0)
		f.apply(c, seq(0, "a", 1))
		f.record(ledger.Result{Claim: c, LaneSeq: 1, ID: actionID("a-1"), Status: ledger.Dead, Attempt: 1, Packed: []byte("kept")})
		f.result(c, 1, ledger.Done)
		list, err := f.l.Reports(f.ctx(), []*ledger.Claim{c})
		if err != nil || len(list) != 1 || !list[0].Past {
			f.Fatal(list, err)
		}
		f.ask(actionID("a-1"), ledger.Replay, ledger.CommandDetail{})
		f.is("applied", f.applyLaneCommands(c), "1:runs again:failed")
		f.endReport(list[0], false)
		f.is("it counts, with its cost", f.reports(c), "1/1:done:a")
		f.record(ledger.Result{Claim: c, LaneSeq: 1, Status: ledger.Done, Attempt: 1, Reported: true})
		f.endReport(list[0], false)
		f.is("applied", f.reports(c))
	}},
	{"a report of an attempt that a killed owner has not recorded is not one of the next owner's", func(f *fixture) {
		killed := f.claim(0)
		f.apply(killed, seq(0, "a", 1), seq(1, "b", 1), seq(2, "c", 1))
		f.result(killed, 1, ledger.Dead)
		c := f.claim(0)
		f.is("before there is another", f.reports(c), "1/1:dead_letter:")
		f.record(ledger.Result{Claim: c, LaneSeq: 1, Status: ledger.Processing, Attempt: 1, Left: time.Hour},
			ledger.Result{Claim: c, LaneSeq: 2, Status: ledger.Processing, Attempt: 1, Left: time.Hour},
			ledger.Result{Claim: c, LaneSeq: 3, Status: ledger.Failed, Attempt: 1, NextIn: time.Hour})
		f.is("once there is", f.reports(c), "1/1:dead_letter:a:past")
		f.result(killed, 2, ledger.Failed) // late at once, and has a cost
		f.result(killed, 3, ledger.Done)
		f.result(c, 2, ledger.Done)
		f.is("each by its owner", f.reports(c), "1/1:dead_letter:a:past", "2/1:failed:b:past", "3/1:done:c", "2/1:done:b")
		c = f.claim(0)
		f.record(ledger.Result{Claim: c, LaneSeq: 2, Status: ledger.Done, Attempt: 1, Epoch: c.Epoch - 1, Reported: true},
			ledger.Result{Claim: c, LaneSeq: 3, Status: ledger.Done, Attempt: 1, Epoch: killed.Epoch, Reported: true})
		f.is("applied", f.reports(c), "1/1:dead_letter:a:past", "2/1:failed:b:past")
	}},
	{"the silence left is that of what is processing", func(f *fixture) {
		c := f.claim(0)
		f.apply(c, seq(0, "a", 1), seq(1, "b", 1), seq(2, "c", 1), seq(3, "d", 1))
		f.record(ledger.Result{Claim: c, LaneSeq: 1, Status: ledger.Processing, Attempt: 1, Left: 9 * time.Hour, Silence: 2 * time.Hour},
			ledger.Result{Claim: c, LaneSeq: 2, Status: ledger.Processing, Attempt: 1, Left: 9 * time.Hour},
			ledger.Result{Claim: c, LaneSeq: 3, Status: ledger.Failed, Attempt: 1, NextIn: time.Hour})
		f.pass(time.Hour)
		left, err := f.l.SilenceLeft(f.ctx(), c, []int64{1, 2, 3, 4, 5})
		if err != nil || len(left) != 2 || left[1] > time.Hour || left[1] < 59*time.Minute || left[2] != 0 {
			f.Error(left, err)
		}
	}},
	{"what is processing is noted as not wanted, and that its destination was told", func(f *fixture) {
		zombie := f.claim(0)
		f.apply(zombie, seq(0, "a", 1), seq(1, "b", 1), seq(2, "c", 1), seq(3, "d", 1))
		c := f.claim(0)
		f.record(ledger.Result{Claim: c, LaneSeq: 1, Status: ledger.Processing, Attempt: 1, Left: 9 * time.Hour, CancelURL: "/jobs/1?k=é"},
			ledger.Result{Claim: c, LaneSeq: 2, Status: ledger.Processing, Attempt: 1, Left: 9 * time.Hour},
			ledger.Result{Claim: c, LaneSeq: 3, Status: ledger.Failed, Attempt: 1, NextIn: time.Hour})
		shown := func(c *ledger.Claim) (out []string) {
			for _, a := range f.open(c) {
				out = append(out, fmt.Sprintf("%d:%s:%t:%s", a.LaneSeq, a.Status, a.Newer, a.CancelURL))
			}
			return out
		}
		cancel := func(c *ledger.Claim, lane int64, attempt int, epoch int64, told, fenced bool) {
			f.Helper()
			was, err := f.l.Cancel(f.ctx(), c, ledger.AttemptRef{Fence: c.ID, LaneSeq: lane, Attempt: attempt, Epoch: epoch}, told)
			if err != nil || was != fenced {
				f.Errorf("action %d: fenced %t, %v", lane, was, err)
			}
		}
		untold := []string{"1:processing:false:/jobs/1?k=é", "2:processing:false:", "3:failed:false:", "4:pending:false:"}
		f.is("before", shown(c), untold...)
		cancel(zombie, 1, 1, c.Epoch, true, true)
		for _, other := range []struct {
			lane    int64
			attempt int
			epoch   int64
		}{{1, 2, c.Epoch}, {1, 1, c.Epoch - 1}, {3, 1, c.Epoch}, {4, 1, c.Epoch}, {40, 1, c.Epoch}} { // other attempts, others than what is processing, none
			cancel(c, other.lane, other.attempt, other.epoch, true, false)
		}
		f.is("of nothing that it is about", shown(c), untold...)
		for range 2 {
			cancel(c, 1, 1, c.Epoch, false, false)
			cancel(c, 2, 1, c.Epoch, false, false)
		}
		f.is("noted", shown(f.claim(0)), "1:processing:true:/jobs/1?k=é", "2:processing:true:", "3:failed:false:", "4:pending:false:")
		next := f.claim(0)
		cancel(next, 1, 1, c.Epoch, true, false) // the attempt is that of the owner before
		f.is("told", shown(next), "1:processing:true:", "2:processing:true:", "3:failed:false:", "4:pending:false:")
		f.record(ledger.Result{Claim: next, LaneSeq: 1, Status: ledger.Superseded, Attempt: 1, Epoch: c.Epoch, Class: sink.Newer, Reported: true},
			ledger.Result{Claim: next, LaneSeq: 2, Status: ledger.Failed, Attempt: 1, Epoch: c.Epoch, NextIn: time.Hour})
		f.is("ended, and to be tried again", shown(next), "2:failed:false:", "3:failed:false:", "4:pending:false:")
		cancel(next, 1, 1, c.Epoch, false, false)
		f.record(ledger.Result{Claim: next, LaneSeq: 2, Status: ledger.Processing, Attempt: 2, Left: time.Hour, CancelURL: "/jobs/2"})
		f.is("the next attempt is wanted", shown(f.claim(0)), "2:processing:false:/jobs/2", "3:failed:false:", "4:pending:false:")
		for name, r := range map[string]ledger.Result{
			"of what is not taken": {Claim: next, LaneSeq: 4, Status: ledger.Done, Attempt: 1, CancelURL: "/x"},
			"too long":             {Claim: next, LaneSeq: 4, Status: ledger.Processing, Attempt: 1, Left: time.Hour, CancelURL: strings.Repeat("x", sink.MaxCancelURL+1)},
			"no text":              {Claim: next, LaneSeq: 4, Status: ledger.Processing, Attempt: 1, Left: time.Hour, CancelURL: "/x\x00"},
		} {
			_, err := f.l.Record(f.ctx(), []ledger.Result{r})
			f.refused(name, err, schemas.Invalid)
		}
	}},
	{"a statement is executed once, with its completion", func(f *fixture) {
		zombie := f.claim(0)
		f.apply(zombie, seq(0, "a", 1), seq(1, "b", 1))
		c := f.claim(0)
		done := ledger.Result{Claim: c, LaneSeq: 1, Status: ledger.Done, Attempt: 1}
		statement := sink.Statement{SQL: "SELECT 1"}
		for i := range 3 {
			tag, err := f.l.Commit(f.ctx(), done, statement)
			if err != nil || (tag != "") != (i == 0) {
				f.Errorf("call %d: %q %v", i+1, tag, err)
			}
			if i == 1 { // as the lane does with what its sink has done
				f.record(done)
			}
		}
		f.is("open", states(f.open(c)), "2:b-1:pending:0")
		for name, r := range map[string]ledger.Result{"failed": {Claim: c, LaneSeq: 2, Status: ledger.Failed, Attempt: 1}, "no claim": {LaneSeq: 2, Status: ledger.Done}} {
			_, err := f.l.Commit(f.ctx(), r, statement)
			f.refused(name, err, schemas.Invalid)
		}
		_, err := f.l.Commit(f.ctx(), ledger.Result{Claim: c, LaneSeq: 3, Status: ledger.Done, Attempt: 1}, statement)
		f.refused("an action that never was", err, schemas.Internal)
		if _, err := f.l.Commit(f.ctx(), ledger.Result{Claim: zombie, LaneSeq: 2, Status: ledger.Done, Attempt: 1}, statement); !errors.Is(err, ledger.ErrFenced) {
			f.Errorf("fenced: %v", err)
		}
		if was, err := f.l.Committed(f.ctx(), ledger.Result{Claim: zombie, LaneSeq: 2, Status: ledger.Done, Attempt: 1}); was || !errors.Is(err, ledger.ErrFenced) {
			f.Errorf("fenced: committed %v, %v", was, err)
		}
		f.record(ledger.Result{Claim: c, LaneSeq: 2, Status: ledger.Superseded})
		if tag, err := f.l.Commit(f.ctx(), ledger.Result{Claim: c, LaneSeq: 2, Status: ledger.Done, Attempt: 1}, statement); tag != "" || err != nil {
			f.Errorf("superseded: %q %v", tag, err)
		}
		f.is("open", states(f.open(f.claim(0))))
	}},
	{"a statement whose COMMIT got no answer is not executed twice", func(f *fixture) {
		for lane, written := range []bool{true, false} {
			c := f.claim(int32(lane))
			f.apply(c, seq(0, fmt.Sprint("e", lane), 1))
			done := ledger.Result{Claim: c, LaneSeq: 1, Status: ledger.Done, Attempt: 1}
			over := f.s.Lose(f, f.l, written, nil)
			if tag, err := f.l.Commit(f.ctx(), done, sink.Statement{SQL: "SELECT 1"}); err == nil {
				f.Errorf("no answer, and %q", tag)
			}
			if !over() {
				f.Fatal("no connection was lost")
			}
			if was, err := f.l.Committed(f.ctx(), done); err != nil || was != written {
				f.Errorf("written %v: it was committed: %v %v", written, was, err)
			}
			tag, err := f.l.Commit(f.ctx(), done, sink.Statement{SQL: "SELECT 1"})
			if err != nil || (tag == "") != written {
				f.Errorf("written %v: %q %v", written, tag, err)
			}
		}
	}},
}
