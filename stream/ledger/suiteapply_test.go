package ledger_test

import (
	"bytes"
	"fmt"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/ledger"
)

// justNow leaves out since when an action is to run: of one that was just given that is not said.
var justNow = cmpopts.IgnoreFields(ledger.Action{}, "Since")

var applying = []property{
	{"decisions, and actions in lane order", func(f *fixture) {
		f.start(func(s *ledger.Spec) {
			s.Actions = append(s.Actions, ledger.ActionSpec{Name: "tell", Destination: "acme/slack", OnDead: ledger.Continue})
		})
		c := f.claim(0)
		got := f.apply(c, seq(0, "e1", 1), seq(1, "e2", 1), seq(2, "e1", 1), seq(3, "e1", 2))
		f.is("decisions", decisions(got), "0:applied/first", "1:applied/first", "2:duplicate/seen", "3:applied/next")
		f.is("lanes", lanes(got.Actions), "1:e1-1:run", "2:e1-1:tell", "3:e2-1:run", "4:e2-1:tell", "5:e1-2:run", "6:e1-2:tell")
		for i := range got.Actions {
			got.Actions[i].Record = -1
		}
		if d := cmp.Diff(got.Actions, f.open(c), justNow); d != "" {
			f.Errorf("open are others than were given (-given +open):\n%s", d)
		}
		if d := cmp.Diff(got.Actions, f.open(f.claim(0)), justNow); d != "" {
			f.Errorf("the next claim opens others than were given (-given +open):\n%s", d)
		}
		if c.Next.Offset != 4 {
			f.Errorf("the claim stands at %d", c.Next.Offset)
		}
	}},
	{"an event runs once, wherever and however often it comes", func(f *fixture) {
		c, d := f.claim(0), f.claim(1)
		first, second := seq(0, "e", 1), seq(1, "e", 1)
		f.apply(c, first)
		f.is("in another batch", decisions(f.apply(c, second)), "0:duplicate/seen")
		f.is("in another partition", decisions(f.apply(d, first)), "0:duplicate/seen")
		out, err := f.l.Apply(f.ctx(), []ledger.Slice{slice(c, seq(2, "x", 1)), slice(d, seq(1, "x", 1))})
		if err != nil || len(out[0].Actions)+len(out[1].Actions) != 1 {
			f.Error("in two partitions of one batch", out, err)
		}
		f.is("in one batch", decisions(f.apply(c, seq(3, "y", 1), seq(4, "y", 1))), "0:applied/first", "1:duplicate/seen")
		f.record(ledger.Result{Claim: c, LaneSeq: 1, Status: ledger.Done, Attempt: 1})
		f.is("after a rewind", decisions(f.apply(f.seek(0), first)), "0:duplicate/seen")
		other := f.start()
		f.is("by another process", decisions(f.applyBy(other, f.claimBy(other, 2), first)), "0:duplicate/seen")
	}},
	{"of two events with one second key the first runs", func(f *fixture) {
		f.start(func(s *ledger.Spec) { s.Policy.Also = 10 * time.Minute })
		c, d := f.claim(0), f.claim(1)
		first, second := also(seq(0, "mention", 1), 1), also(seq(1, "message", 1), 1)
		f.is("the second", decisions(f.apply(c, first, second)), "0:applied/first", "1:duplicate/key")
		f.is("in another partition", decisions(f.apply(d, also(seq(0, "schedule", 1), 1))), "0:duplicate/key")
		f.is("both once more", decisions(f.apply(c, at(first, 2), at(second, 3))), "0:duplicate/seen", "1:duplicate/seen")
		f.is("after a rewind", decisions(f.apply(f.seek(0), first, second)), "0:duplicate/seen", "1:duplicate/seen")
		c = f.claim(2)
		f.is("of a filtered one nothing is kept", decisions(f.apply(c, filtered(also(seq(0, "f", 1), 2)), also(seq(1, "g", 1), 2))), "0:filtered/type", "1:applied/first")
		out, err := f.l.Apply(f.ctx(), []ledger.Slice{slice(c, also(seq(2, "x", 1), 3)), slice(d, also(seq(1, "y", 1), 3))})
		if err != nil || len(out[0].Actions)+len(out[1].Actions) != 1 {
			f.Error("in two partitions of one batch", out, err)
		}
		waits := also(seq(3, "w", 3), 4)
		f.is("one that waits came first", decisions(f.apply(c, waits, also(seq(4, "v", 1), 4))), "0:applied/first", "1:duplicate/key")
		f.is("it fills its place", decisions(f.apply(c, seq(5, "p", 1), also(seq(6, "p", 2), 4), seq(7, "p", 3))),
			"0:applied/first", "1:duplicate/key", "2:applied/next")
		if n := len(f.open(c)); n == 0 {
			f.Error("nothing is open")
		}
	}},
	{"a second that waits in a gap stays one", func(f *fixture) {
		f.start(func(s *ledger.Spec) { s.Policy.Also, s.Policy.GapWait = 10*time.Minute, time.Hour })
		c := f.claim(0)
		f.is("it waits", decisions(f.apply(c, also(seq(0, "e", 1), 1), also(seq(1, "e", 3), 1))), "0:applied/first", "1:buffered/gap")
		c = f.claim(0) // reads it from the buffer
		got := f.apply(c, seq(2, "e", 2), seq(3, "e", 4))
		f.is("its filler comes", decisions(got), "0:applied/next", "-1:duplicate/key", "1:applied/next")
		f.is("lanes", lanes(got.Actions), "2:e-2:run", "3:e-4:run")
		f.is("it comes again", decisions(f.apply(c, at(also(seq(1, "e", 3), 1), 4))), "0:duplicate/seen")
	}},
	{"a second key counts for its window", func(f *fixture) {
		f.start(func(s *ledger.Spec) { s.Policy.Also = time.Minute })
		c := f.claim(0)
		apart := func(r ledger.Record, by time.Duration) ledger.Record { r.AppendTime = r.AppendTime.Add(by); return r }
		f.apply(c, also(seq(0, "a", 1), 1))
		f.is("decided within it", decisions(f.apply(c, apart(also(seq(1, "b", 1), 1), time.Hour))), "0:duplicate/key")
		f.pass(2 * time.Minute)
		f.is("of the same time, decided after it", decisions(f.apply(c, apart(also(seq(2, "c", 1), 1), 59*time.Second))), "0:duplicate/key")
		f.is("after it", decisions(f.apply(c, apart(also(seq(3, "d", 1), 1), time.Minute))), "0:applied/first")
		f.is("then that one came first", decisions(f.apply(c, apart(also(seq(4, "e", 1), 1), time.Hour))), "0:duplicate/key")
	}},
	{"of one id with two bodies the first stands", func(f *fixture) {
		c, d := f.claim(0), f.claim(1)
		f.apply(c, seq(0, "e", 1))
		tampered := seq(1, "e", 1)
		tampered.Hash = schemas.HashBody([]byte("tampered"))
		for _, claim := range []*ledger.Claim{c, d} {
			if got := f.apply(claim, tampered); len(got.Actions) != 0 {
				f.Error("it runs")
			} else {
				f.is("decisions", decisions(got), "0:conflict/body_differs")
			}
		}
		second := seq(2, "e", 1)
		f.is("the first once more", decisions(f.apply(c, second)), "0:duplicate/seen")
		waits := seq(3, "w", 3)
		f.apply(c, seq(4, "w", 1), func() ledger.Record { r := waits; r.Offset = 5; return r }())
		waits.Offset, waits.Hash = 6, tampered.Hash
		f.is("another body of one that waits", decisions(f.apply(c, waits)), "0:conflict/body_differs")
	}},
	{"versions are held against what the ledger has stored", func(f *fixture) {
		c := f.claim(0)
		monotonic := func(offset, value int64, sub int32, kind schemas.PayloadKind) ledger.Record {
			r := record(offset, fmt.Sprintf("m-%d-%d-%d", value, sub, offset), "m", schemas.Version{Kind: schemas.Monotonic, Value: value, Sub: sub, Clock: "x"})
			r.Payload = kind
			return r
		}
		f.apply(c, seq(0, "s", 5), monotonic(1, 7, 1, schemas.Snapshot))
		c = f.claim(0) // nothing cached
		f.is("decisions", decisions(f.apply(c, seq(2, "s", 4), monotonic(3, 7, 0, schemas.Snapshot), monotonic(4, 6, 0, schemas.Delta),
			monotonic(5, 7, 1, schemas.Delta), monotonic(6, 9, 0, schemas.Delta), seq(7, "s", 6))),
			"0:stale/older", "1:stale/older", "2:late/older_delta", "3:applied/equal", "4:applied/next", "5:applied/next")
		word := func(offset int64, w string) ledger.Record {
			return record(offset, "w-"+w, "w", schemas.Version{Kind: schemas.Monotonic, Text: w})
		}
		f.apply(c, word(8, "b"))
		f.is("words", decisions(f.apply(f.claim(0), word(9, "a"), word(10, "c"))), "0:stale/older", "1:applied/next")
	}},
	{"a counter that begins again does so in its epoch", func(f *fixture) {
		c := f.claim(0)
		epoch := func(offset, epoch, value int64) ledger.Record {
			return record(offset, fmt.Sprintf("e%d-%d", epoch, value), "e", schemas.Version{Kind: schemas.Sequence, Epoch: epoch, Value: value})
		}
		f.apply(c, epoch(0, 1, 5))
		f.apply(c, epoch(1, 2, 1))
		f.is("decisions", decisions(f.apply(f.claim(0), epoch(2, 1, 6), epoch(3, 2, 2), epoch(4, 0, 3))),
			"0:stale/older", "1:applied/next", "2:applied/next")
	}},
	{"what waits is released in order, with its bytes, whoever owns it", func(f *fixture) {
		c := f.claim(0)
		a := f.apply(c, seq(0, "e", 1), seq(1, "e", 3), seq(2, "e", 4), seq(3, "other", 1))
		f.is("the first batch", lanes(a.Actions), "1:e-1:run", "2:other-1:run")
		if !a.Waiting {
			f.Error("nothing waits")
		}
		c = f.claim(0)
		a = f.apply(c, seq(4, "e", 2))
		f.is("the filler", lanes(a.Actions), "3:e-2:run", "4:e-3:run", "5:e-4:run")
		if got := a.Actions[1]; a.Waiting || string(got.Packed) != "packed e-3" || !got.HasCopy || got.Record != -1 || got.Pointer.Offset != 1 {
			f.Errorf("%v, released %+v", a.Waiting, got)
		}
		open := f.open(f.claim(0))
		f.is("open", lanes(open), "1:e-1:run", "2:other-1:run", "3:e-2:run", "4:e-3:run", "5:e-4:run")
		if string(open[3].Packed) != "packed e-3" || open[2].HasCopy {
			f.Errorf("%+v", open)
		}
		if _, waits := f.deadline(f.claim(0)); waits {
			f.Error("something still has a deadline")
		}
	}},
	{"what waits and is released in one batch runs with the batch's bytes", func(f *fixture) {
		a := f.apply(f.claim(0), seq(0, "e", 1), seq(1, "e", 3), seq(2, "e", 2))
		f.is("lanes", lanes(a.Actions), "1:e-1:run", "2:e-2:run", "3:e-3:run")
		if got := a.Actions[2]; got.Record != 1 || got.Packed != nil || got.HasCopy || got.Pointer.Offset != 1 || a.Waiting {
			f.Errorf("%+v", got)
		}
	}},
	{"what is parked and let go in one batch runs once", func(f *fixture) {
		f.start(func(s *ledger.Spec) { s.Policy.MaxPerEntity = 1 })
		c := f.claim(0)
		f.apply(c, seq(0, "e", 1), seq(1, "e", 3))
		a := f.apply(c, seq(2, "e", 4), seq(3, "e", 2))
		f.is("decisions", decisions(a), "-1:parked/overflow", "0:parked/overflow", "1:applied/next", "-1:applied/released", "-1:applied/released")
		f.is("lanes", lanes(a.Actions), "2:e-2:run", "3:e-3:run", "4:e-4:run")
		f.is("open", lanes(f.open(f.claim(0))), "1:e-1:run", "2:e-2:run", "3:e-3:run", "4:e-4:run")
	}},
	{"what is filtered fills its place, and is decided again after a rewind", func(f *fixture) {
		c := f.claim(0)
		a := f.apply(c, seq(0, "e", 1), filtered(seq(1, "e", 2)), seq(2, "e", 3), filtered(seq(3, "e", 5)))
		f.is("lanes", lanes(a.Actions), "1:e-1:run", "2:e-3:run")
		c = f.seek(1)
		f.is("decided again", decisions(f.apply(c, seq(1, "e", 2), seq(2, "e", 3), seq(3, "e", 5), seq(4, "e", 4))),
			"0:stale/older", "1:duplicate/seen", "-1:filtered/type", "2:buffered/gap", "3:applied/next", "-1:applied/released")
	}},
	{"what is broken is quarantined, and runs nothing", func(f *fixture) {
		c := f.claim(0)
		bad := ledger.Record{Record: gate.Record{Offset: 1, Broken: gate.ReasonUndecodable}, Error: "no event\x00", Packed: func() []byte { return []byte("raw\x00") }}
		f.is("decisions", decisions(f.apply(c, seq(0, "e", 1), bad, seq(2, "e", 2))), "0:applied/first", "1:quarantined/undecodable", "2:applied/next")
	}},
	{"what no table takes is quarantined alone", func(f *fixture) {
		c, d := f.claim(0), f.claim(1)
		spoil := []func(*ledger.Record){
			func(r *ledger.Record) { r.Type = "a\x00b" }, func(r *ledger.Record) { r.ID = "\xff\xfe" }, func(r *ledger.Record) { r.ID = "" },
			func(r *ledger.Record) { r.Source = "" }, func(r *ledger.Record) { r.Version.Clock = "c\x00" }, func(r *ledger.Record) { r.Entity = "e\xff" },
		}
		var records []ledger.Record
		var bad []int
		for i := range int64(40) {
			r := seq(i, fmt.Sprintf("e%d", i), 1)
			if n := int(i) - 7; n >= 0 && n%5 == 0 && n/5 < len(spoil) {
				spoil[n/5](&r)
				bad = append(bad, int(i))
			}
			records = append(records, r)
		}
		out, err := f.l.Apply(f.ctx(), []ledger.Slice{slice(d, seq(0, "d", 1)), slice(c, records...)})
		if err != nil {
			f.Fatal(err)
		}
		a := out[1]
		if d := cmp.Diff(bad, a.Quarantined); d != "" || len(a.Outcomes) != 40 || len(a.Actions) != 40-len(bad) || len(out[0].Actions) != 1 || a.Refused != nil {
			f.Fatalf("%s, %d outcomes, %d and %d actions, %v", d, len(a.Outcomes), len(a.Actions), len(out[0].Actions), a.Refused)
		}
		for i, o := range a.Outcomes {
			quarantined := o.Decision == gate.Quarantined && o.Reason == gate.ReasonDataRejected
			if want := len(bad) > 0 && bad[0] == i; o.Record != i || quarantined != want {
				f.Errorf("outcome %d: %+v", i, o)
			} else if want {
				bad = bad[1:]
			}
		}
		for i, action := range a.Actions {
			if action.LaneSeq != int64(i+1) || records[action.Record].ID != action.EventID {
				f.Errorf("action %d: lane_seq %d of record %d", i, action.LaneSeq, action.Record)
			}
		}
		if _, stored := f.standing(0); stored.Offset != 40 {
			f.Errorf("next offset %d", stored.Offset)
		}
	}},
	{"the caps on what waits outlive the claim", func(f *fixture) {
		each := seq(0, "e", 5).Size
		f.start(func(s *ledger.Spec) { s.Policy.MaxBytes, s.Policy.MaxBytesPerEntity = partitions*3*each, 2*each })
		c := f.claim(0)
		f.apply(c, seq(0, "e", 1), seq(1, "f", 1), seq(2, "e", 5), seq(3, "f", 5))
		c = f.claim(0)
		f.is("room", decisions(f.apply(c, seq(4, "f", 2), seq(5, "e", 6))), "0:applied/next", "1:buffered/gap")
		c = f.claim(0)
		f.is("none", decisions(f.apply(c, seq(6, "e", 7))), "-1:parked/overflow", "-1:parked/overflow", "0:parked/overflow")
		f.apply(c, seq(7, "f", 3), seq(8, "f", 4)) // what leaves gives its room back
		f.is("all of it", decisions(f.apply(c, seq(9, "g", 1), seq(10, "h", 1), seq(11, "g", 3), seq(12, "g", 4), seq(13, "h", 3), seq(14, "h", 4))),
			"0:applied/first", "1:applied/first", "2:buffered/gap", "3:buffered/gap", "4:buffered/gap", "-1:parked/overflow", "5:parked/overflow")
	}},
	{"of large copies that are released at once some come later", func(f *fixture) {
		c := f.claim(0)
		large := func(offset, v int64) ledger.Record {
			r := seq(offset, "e", v)
			r.Packed = func() []byte { return bytes.Repeat([]byte{byte(v)}, maxCopies/2+1) }
			r.Size = maxCopies/2 + 1
			return r
		}
		f.apply(c, seq(0, "e", 1), large(1, 3), large(2, 4), large(3, 5))
		a := f.apply(c, seq(4, "e", 2))
		if len(a.Actions) != 4 {
			f.Fatal(lanes(a.Actions))
		}
		page := f.open(c)
		for i, got := range a.Actions[1:] {
			if !got.HasCopy || (got.Packed != nil) != (i == 0) || !page[i+2].HasCopy || (page[i+2].Packed != nil) != (i == 0) {
				f.Errorf("%s: copy %v, %d bytes", got.EventID, got.HasCopy, len(got.Packed))
			}
			alone, _, err := f.l.Open(f.ctx(), c, got.LaneSeq-1, 1)
			if err != nil || len(alone) != 1 || !bytes.Equal(alone[0].Packed, bytes.Repeat([]byte{byte(i + 3)}, maxCopies/2+1)) {
				f.Errorf("%s alone: %v", got.EventID, err)
			}
		}
	}},
}

var expiring = []property{
	{"each gap is waited for from the first sight of what stands behind it", func(f *fixture) {
		f.start(func(s *ledger.Spec) { s.Policy.LateSnapshots = true })
		c := f.claim(0)
		if _, waits := f.deadline(c); waits {
			f.Error("nothing waits, and there is a deadline")
		}
		f.apply(c, seq(0, "e", 1), seq(1, "e", 3), seq(2, "e", 4), seq(3, "e", 6))
		if d, waits := f.deadline(c); !waits || d < 59*time.Minute || d > time.Hour {
			f.Errorf("deadline in %s, %v", d, waits)
		}
		if a := f.expire(c); len(a.Outcomes) != 0 || !a.Waiting {
			f.Errorf("nothing is overdue: %v", decisions(a))
		}
		f.pass(40 * time.Minute)
		f.apply(c, seq(4, "e", 9))
		f.pass(21 * time.Minute)
		if d, _ := f.deadline(c); d >= 0 {
			f.Errorf("overdue by %s", d)
		}
		c = f.claim(0) // nothing cached
		a := f.expire(c)
		f.is("the first gap", lanes(a.Actions), "2:e-3:run", "3:e-4:run")
		if string(a.Actions[0].Packed) != "packed e-3" || !a.Waiting {
			f.Errorf("%+v", a)
		}
		if d, _ := f.deadline(c); d >= 0 {
			f.Errorf("the gap before 6, of the same age, expires in %s", d)
		}
		f.is("the second gap", lanes(f.expire(c).Actions), "4:e-6:run")
		if d, _ := f.deadline(c); d < 38*time.Minute || d > 40*time.Minute {
			f.Errorf("the gap before 9 expires in %s", d)
		}
		a = f.apply(c, seq(5, "e", 2)) // a late filler, whose line knows of the gap after a reload too
		f.is("a late filler", decisions(a), "0:late/filler")
		if !a.Actions[0].Late {
			f.Error("it is not marked")
		}
		f.pass(time.Hour)
		f.deadline(c)
		if a := f.expire(c); a.Waiting || len(a.Actions) != 1 || a.Actions[0].EventID != "e-9" {
			f.Errorf("%v %v", a.Waiting, decisions(a))
		}
	}},
	{"only what was overdue when it was asked ends", func(f *fixture) {
		c := f.claim(0)
		f.apply(c, seq(0, "a", 1), seq(1, "b", 1), seq(2, "a", 3))
		f.pass(30 * time.Minute)
		f.apply(c, seq(3, "b", 3))
		f.pass(40 * time.Minute)
		if d, _ := f.deadline(c); d >= 0 {
			f.Fatalf("a is not overdue: %v", d)
		}
		f.pass(40 * time.Minute) // b's passes now, while the log is being read to its end
		f.is("the end of waits", lanes(f.expire(c).Actions), "3:a-3:run")
		f.is("once more", lanes(f.expire(c).Actions)) // b waits for the next question
		f.deadline(c)
		f.is("asked again", lanes(f.expire(c).Actions), "4:b-3:run")
	}},
	{"one wait ends of each line", func(f *fixture) {
		c := f.claim(0)
		f.apply(c, seq(0, "b", 1), seq(1, "a", 1), seq(2, "b", 3), seq(3, "a", 3), seq(4, "b", 5))
		f.pass(2 * time.Hour)
		f.deadline(c)
		f.is("lines by name", lanes(f.expire(c).Actions), "3:a-3:run", "4:b-3:run")
		f.is("the next gap", lanes(f.expire(c).Actions), "5:b-5:run")
	}},
	{"then park holds the line until its filler comes", func(f *fixture) {
		f.start(func(s *ledger.Spec) { s.Policy.Then = gate.ThenPark })
		c := f.claim(0)
		f.apply(c, seq(0, "e", 1), seq(1, "e", 3))
		f.pass(2 * time.Hour)
		if a := f.expire(c); a.Waiting || len(a.Actions) != 0 {
			f.Fatal(decisions(a))
		}
		if _, waits := f.deadline(c); waits {
			f.Error("a parked line has a deadline")
		}
		c = f.claim(0)
		f.is("behind it", decisions(f.apply(c, seq(2, "e", 4))), "0:parked/behind_park")
		f.is("the filler", lanes(f.apply(c, seq(3, "e", 2)).Actions), "2:e-2:run", "3:e-3:run", "4:e-4:run")
	}},
	{"many that wait are released in steps", func(f *fixture) {
		f.start(func(s *ledger.Spec) { s.Policy.Then, s.Policy.GapWait, s.Policy.MaxReleases = gate.ThenPark, 0, 2 })
		c := f.claim(0)
		f.apply(c, seq(0, "e", 1), seq(1, "e", 3), seq(2, "e", 4), seq(3, "e", 5), seq(4, "e", 6), seq(5, "e", 9))
		a := f.apply(c, seq(6, "e", 2))
		f.is("the filler", decisions(a), "0:applied/next", "-1:applied/released", "-1:applied/released")
		f.is("what comes meanwhile", decisions(f.apply(c, seq(7, "e", 7), seq(8, "other", 1))), "0:parked/behind_park", "1:applied/first")
		if d, waits := f.deadline(c); !waits || d > 0 || !a.Waiting {
			f.Errorf("the next step is not due: %v %v %v", d, waits, a.Waiting)
		}
		c = f.claim(0) // whoever comes next goes on
		f.deadline(c)
		f.is("the next step", lanes(f.expire(c).Actions), "6:e-5:run", "7:e-6:run")
		f.deadline(c)
		a = f.expire(c)
		f.is("the last step", lanes(a.Actions), "8:e-7:run")
		if _, waits := f.deadline(c); waits || a.Waiting {
			f.Error("the one behind a gap is not parked any more")
		}
		f.is("another filler", lanes(f.apply(c, seq(9, "e", 8)).Actions), "9:e-8:run", "10:e-9:run")
	}},
	{"a higher epoch waits behind the steps of the one that ends", func(f *fixture) {
		f.start(func(s *ledger.Spec) { s.Policy.MaxReleases = 2 })
		c := f.claim(0)
		next := func(offset, value int64) ledger.Record {
			r := seq(offset, "e", value)
			r.Version.Epoch = 7
			return r
		}
		f.apply(c, seq(0, "e", 1), seq(1, "e", 3), seq(2, "e", 5), seq(3, "e", 7))
		f.is("its first", decisions(f.apply(c, next(4, 11))), "-1:applied/gap_skipped", "-1:applied/gap_skipped", "0:buffered/gap")
		f.is("others of it", decisions(f.apply(c, next(5, 13), next(6, 12))), "0:buffered/gap", "1:buffered/gap")
		c = f.claim(0) // whoever comes next goes on
		f.deadline(c)
		f.is("the next step", decisions(f.expire(c)), "-1:applied/gap_skipped", "-1:applied/new_epoch")
		f.deadline(c)
		a := f.expire(c)
		f.is("the last step", decisions(a), "-1:applied/released", "-1:applied/released")
		if _, waits := f.deadline(c); waits || a.Waiting {
			f.Error("something waits")
		}
		f.is("what is open", states(f.open(c)), "1:e-1:pending:0", "2:e-3:pending:0", "3:e-5:pending:0", "4:e-7:pending:0", "5:e-11:pending:0", "6:e-12:pending:0", "7:e-13:pending:0")
		f.is("below it", decisions(f.apply(c, seq(7, "e", 8))), "0:stale/older")
	}},
	{"another kind of version waits behind the steps of the one that ends", func(f *fixture) {
		f.start(func(s *ledger.Spec) { s.Policy.MaxReleases = 2 })
		c := f.claim(0)
		next := func(offset, value int64) ledger.Record {
			r := seq(offset, "e", value)
			r.Version.Kind = schemas.Monotonic
			return r
		}
		f.apply(c, seq(0, "e", 11), seq(1, "e", 13), seq(2, "e", 15), seq(3, "e", 17), seq(4, "e", 18))
		f.is("its first", decisions(f.apply(c, next(5, 3), seq(6, "other", 1))), "-1:applied/gap_skipped", "-1:applied/gap_skipped", "0:buffered/gap", "1:applied/first")
		f.is("others of it", decisions(f.apply(c, next(7, 16), next(8, 2))), "0:buffered/gap", "1:buffered/gap")
		for _, want := range [][]string{{"-1:applied/gap_skipped", "-1:applied/released"}, {"-1:applied/first", "-1:applied/released"}, {"-1:applied/released"}} {
			c = f.claim(0) // whoever comes next goes on
			f.deadline(c)
			f.is("a step", decisions(f.expire(c)), want...)
		}
		if _, waits := f.deadline(c); waits {
			f.Error("something waits")
		}
		f.is("what is open", states(f.open(c)), "1:e-11:pending:0", "2:e-13:pending:0", "3:e-15:pending:0", "4:other-1:pending:0", "5:e-17:pending:0", "6:e-18:pending:0",
			"7:e-2:pending:0", "8:e-3:pending:0", "9:e-16:pending:0")
	}},
	{"then dead_letter gives up what stands behind the gap", func(f *fixture) {
		f.start(func(s *ledger.Spec) { s.Policy.Then = gate.ThenDeadLetter })
		c := f.claim(0)
		f.apply(c, seq(0, "e", 1), seq(1, "e", 3), seq(2, "e", 4))
		f.pass(2 * time.Hour)
		a := f.expire(c)
		f.is("decisions", decisions(a), "-1:applied/gap_dead", "-1:applied/gap_dead")
		f.is("actions that run", lanes(a.Actions))
		f.is("what comes next", lanes(f.apply(c, seq(3, "e", 5)).Actions), "4:e-5:run")
		for range 2 { // no lane is parked by it, whatever on_dead says
			f.is("open", states(f.open(c)), "1:e-1:pending:0", "4:e-5:pending:0")
			c = f.claim(0)
		}
		list, err := f.l.Unexported(f.ctx(), []*ledger.Claim{c}, 10)
		if err != nil || len(list) != 2 || list[0].Class != "gap" || list[0].Attempts != 0 || list[1].EventID != "e-4" {
			f.Errorf("dead letters %+v %v", list, err)
		}
	}},
	{"then backfill asks, and otherwise follows", func(f *fixture) {
		f.start(func(s *ledger.Spec) {
			s.Policy.Then, s.Policy.Otherwise, s.Policy.BackfillWait = gate.ThenBackfill, gate.ThenSkip, 3*time.Hour
		})
		c := f.claim(0)
		f.apply(c, seq(0, "e", 1), seq(1, "e", 4))
		f.pass(2 * time.Hour)
		if a := f.expire(c); !a.BackfillRequested || !a.Waiting || len(a.Actions) != 0 {
			f.Fatalf("%+v", a)
		}
		if d, _ := f.deadline(c); d < 170*time.Minute || d > 3*time.Hour {
			f.Errorf("the answer is waited for for %s", d)
		}
		list, err := f.l.Backfills(f.ctx(), []*ledger.Claim{c}, 0, 10)
		if err != nil || len(list) != 1 || list[0].From != 2 || list[0].To != 3 || list[0].Source != source || list[0].VersionLine != (gate.VersionLineKey{Entity: "e"}) || list[0].Claim != c.ID {
			f.Fatalf("%+v %v", list, err)
		}
		zombie := c
		c = f.claim(0)
		if fenced, err := f.l.EndBackfill(f.ctx(), zombie, list[0].ID, ledger.BackfillEnd{Failure: "refused"}); !fenced || err != nil {
			f.Error(fenced, err)
		}
		for range 2 { // the second time changes nothing
			if fenced, err := f.l.EndBackfill(f.ctx(), c, list[0].ID, ledger.BackfillEnd{Failure: "refused"}); fenced || err != nil {
				f.Error(fenced, err)
			}
		}
		if list, err := f.l.Backfills(f.ctx(), []*ledger.Claim{c}, 0, 10); len(list) != 0 || err != nil {
			f.Error(list, err)
		}
		f.deadline(c)
		f.is("nobody waits for an answer any more", decisions(f.expire(c)), "-1:applied/gap_skipped")
	}},
	{"a question that has its answer ends once", func(f *fixture) {
		f.start(func(s *ledger.Spec) {
			s.Policy.Then, s.Policy.GapWait, s.Policy.BackfillWait = gate.ThenBackfill, 0, 3*time.Hour
		})
		c := f.claim(0)
		f.apply(c, seq(0, "e", 1), seq(1, "e", 4))
		list, err := f.l.Backfills(f.ctx(), []*ledger.Claim{c}, 0, 10)
		if err != nil || len(list) != 1 {
			f.Fatal(list, err)
		}
		for _, failure := range []string{"", "refused"} {
			if fenced, err := f.l.EndBackfill(f.ctx(), c, list[0].ID, ledger.BackfillEnd{Failure: failure}); fenced || err != nil {
				f.Error(fenced, err)
			}
		}
		if d, waits := f.deadline(c); !waits || d < 170*time.Minute {
			f.Errorf("the answer is waited for for %s, %v", d, waits)
		}
	}},
	{"start backfill waits for the truth, and its answer releases", func(f *fixture) {
		f.start(func(s *ledger.Spec) { s.Policy.Start, s.Policy.BackfillWait = gate.StartBackfill, time.Hour })
		c := f.claim(0)
		a := f.apply(c, seq(0, "e", 3))
		f.is("the first", decisions(a), "0:buffered/start_backfill")
		if !a.BackfillRequested {
			f.Error("nothing is asked")
		}
		truth := record(1, "e-truth", "e", schemas.Version{Kind: schemas.Sequence, Value: 2})
		truth.Backfill = true
		f.is("the truth", decisions(f.apply(f.claim(0), truth)), "0:applied/backfilled", "-1:applied/released")
		f.apply(f.claim(1), record(0, "m-20", "m", schemas.Version{Kind: schemas.Monotonic, Value: 20}))
		list, err := f.l.Backfills(f.ctx(), []*ledger.Claim{f.claim(1)}, 0, 10)
		if err != nil || len(list) != 1 || list[0].Kind != schemas.Monotonic || list[0].From != 0 || list[0].To != 0 {
			f.Errorf("of versions that need not follow each other: %+v %v", list, err)
		}
	}},
	{"no event waits longer than its age allows", func(f *fixture) {
		f.start(func(s *ledger.Spec) {
			s.MaxAge, s.Policy.Then, s.Policy.BackfillWait = 90*time.Minute, gate.ThenBackfill, 3*time.Hour
		})
		c := f.claim(0)
		f.apply(c, seq(0, "e", 1), seq(1, "e", 4))
		if d, _ := f.deadline(c); d > time.Hour || d < 59*time.Minute {
			f.Errorf("its filler is waited for for %s", d)
		}
		f.pass(61 * time.Minute)
		f.deadline(c)
		if a := f.expire(c); !a.BackfillRequested {
			f.Fatal(decisions(a))
		}
		if d, _ := f.deadline(c); d > 29*time.Minute || d < 28*time.Minute {
			f.Errorf("the answer is waited for for %s", d)
		}
	}},
	{"a gap is not waited for where the policy says so", func(f *fixture) {
		f.start(func(s *ledger.Spec) { s.Policy.GapWait = 0 })
		f.is("decisions", decisions(f.apply(f.claim(0), seq(0, "e", 1), seq(1, "e", 3), seq(2, "e", 2))), "0:applied/first", "1:applied/gap_skipped", "2:stale/filler")
	}},
}
