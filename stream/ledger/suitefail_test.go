package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger"
)

// belowStart is a report: the log starts behind where the ledger stands.
func belowStart(number int32, from, to int64) ledger.Stop {
	return ledger.Stop{Partition: partition(number), Kind: "below_log_start", From: from, To: to, Resume: to, Records: to - from,
		LastAt: time.Unix(1_700_000_001, 0).UTC(), Detail: "deleted unread"}
}

func (f *fixture) report(s ledger.Stop, epoch int64) ledger.Stop {
	f.Helper()
	got, err := f.l.Report(f.ctx(), s, epoch)
	if err != nil {
		f.Fatal(err)
	}
	return got
}

func (f *fixture) accept() []ledger.Stop {
	f.Helper()
	got, err := f.s.Accept(f.ctx(), ledger.StopFilter{Subscription: subscription}, ledger.Acceptance{By: "ann", Reason: "lost for good"}, false)
	if err != nil {
		f.Fatal(err)
	}
	return got
}

var stopping = []property{
	{"a stop is reported once, and stands", func(f *fixture) {
		f.apply(f.claim(0), seq(0, "e", 1))
		first, second := f.report(belowStart(0, 1, 5), 1), f.report(belowStart(0, 1, 5), 1)
		if d := cmp.Diff(first, second); d != "" || first.ID == 0 || first.FoundBy != "test" {
			f.Error(d, first)
		}
		want := belowStart(0, 1, 5)
		want.Subscription = subscription
		st, _ := f.standing(0)
		if d := cmp.Diff(&want, st.Stop, cmpopts.IgnoreFields(ledger.Stop{}, "ID", "FoundAt", "FoundBy")); d != "" {
			f.Error(d)
		}
		if st, _ := f.standing(1); st.Stop != nil {
			f.Errorf("another partition is stopped: %+v", st.Stop)
		}
		for name, s := range map[string]ledger.Stop{
			"a kind of its own": {Partition: partition(1), Kind: "because"}, "from behind": {Partition: partition(1), Kind: "truncated", From: 5, To: 4},
			"going on below 0": {Partition: partition(1), Kind: "truncated", Resume: -1}, "fewer records than none": {Partition: partition(1), Kind: "truncated", Records: -2},
		} {
			if _, err := f.l.Report(f.ctx(), s, 0); err == nil {
				f.Errorf("%s is taken", name)
			}
		}
	}},
	{"an acceptance covers exactly what was reported", func(f *fixture) {
		f.apply(f.claim(0), seq(0, "e", 1))
		f.report(belowStart(0, 1, 5), 1)
		if got := f.accept(); len(got) != 1 || got[0].Accepted == nil || got[0].Accepted.By != "ann" || got[0].Accepted.Reason != "lost for good" {
			f.Fatalf("%+v", got)
		}
		if st, _ := f.standing(0); st.Stop == nil || st.Stop.Accepted == nil {
			f.Fatalf("the next claim is told %+v", st.Stop)
		}
		if second := f.report(belowStart(0, 1, 5), 1); second.Accepted == nil {
			f.Error("reported again it is not accepted any more")
		}
		other := belowStart(0, 1, 9)
		if f.report(other, 1).Accepted != nil {
			f.Error("the acceptance of 4 records covers 8")
		}
		f.accept()
		other.Kind = "truncated"
		if f.report(other, 1).Accepted != nil {
			f.Error("the acceptance covers another kind")
		}
		f.accept()
		other.Partition.TopicID = ledger.TopicID{9}
		if f.report(other, 0).Accepted != nil {
			f.Error("the acceptance covers another topic id")
		}
		if st, _ := f.standing(0); st.Stop == nil || st.Stop.Kind != "truncated" || st.Stop.Accepted != nil {
			f.Errorf("%+v", st.Stop)
		}
	}},
	{"the claim that goes on ends the stop", func(f *fixture) {
		f.apply(f.claim(0), seq(0, "e", 1))
		stop := f.report(belowStart(0, 1, 5), 1)
		if _, err := f.l.Claim(f.ctx(), request(partition(0), to(5, stop.ID))); err == nil {
			f.Error("a claim rests on what nobody has accepted")
		}
		f.accept()
		if c, err := f.l.Claim(f.ctx(), request(partition(0), to(5, stop.ID))); err != nil || c.Next.Offset != 5 || c.Epoch != 2 {
			f.Fatal(c, err)
		}
		f.report(belowStart(0, 5, 7), 2)
		f.seek(8) // moved
		if st, _ := f.standing(0); st.Stop != nil {
			f.Errorf("still stopped: %+v", st.Stop)
		}
	}},
	{"a report of the past is refused", func(f *fixture) {
		f.claim(0)
		f.claim(0)
		_, err := f.l.Report(f.ctx(), belowStart(0, 1, 5), 1)
		f.refused("after a claim", err, schemas.Conflict)
		_, err = f.l.Report(f.ctx(), belowStart(1, 1, 5), 1)
		f.refused("of a claim that never was", err, schemas.Conflict)
		if st, _ := f.standing(0); st.Stop != nil {
			f.Error(st.Stop)
		}
	}},
	{"what cannot be accepted is not", func(f *fixture) {
		f.claim(0)
		f.report(belowStart(0, 1, 5), 1)
		whole := ledger.Stop{Partition: partition(1), Kind: recreated, From: 3, Records: -1}
		whole.Partition.TopicID = ledger.TopicID{9}
		f.report(whole, 0)
		by := ledger.Acceptance{By: "ann", Reason: "why not"}
		for name, tt := range map[string]struct {
			where ledger.StopFilter
			by    ledger.Acceptance
			kind  schemas.Kind
		}{
			"no subscription":         {ledger.StopFilter{}, by, schemas.Invalid},
			"no reason":               {ledger.StopFilter{Subscription: subscription}, ledger.Acceptance{By: "ann"}, schemas.Invalid},
			"nobody":                  {ledger.StopFilter{Subscription: subscription}, ledger.Acceptance{Reason: "x"}, schemas.Invalid},
			"another subscription":    {ledger.StopFilter{Subscription: "acme.other"}, by, schemas.NotFound},
			"another topic":           {ledger.StopFilter{Subscription: subscription, Topic: "events.acme.none"}, by, schemas.NotFound},
			"another partition":       {ledger.StopFilter{Subscription: subscription, Partition: new(int32(4))}, by, schemas.NotFound},
			"another stop":            {ledger.StopFilter{Subscription: subscription, ID: 99}, by, schemas.NotFound},
			"part of a recreated one": {ledger.StopFilter{Subscription: subscription, Partition: new(int32(1))}, by, schemas.Invalid},
		} {
			got, err := f.s.Accept(f.ctx(), tt.where, tt.by, false)
			if f.refused(name, err, tt.kind); got != nil {
				f.Errorf("%s: %v", name, got)
			}
		}
		dry, err := f.s.Accept(f.ctx(), ledger.StopFilter{Subscription: subscription}, ledger.Acceptance{}, true)
		if st, _ := f.standing(0); err != nil || len(dry) != 2 || st.Stop.Accepted != nil {
			f.Error(dry, err, st.Stop)
		}
	}},
	{"a topic that was created again is taken up when that is accepted, and open work goes on", func(f *fixture) {
		old := f.claim(0)
		f.apply(old, seq(0, "e", 1), seq(1, "e", 2), seq(2, "gap", 1), seq(3, "gap", 3))
		f.record(ledger.Result{Claim: old, LaneSeq: 1, Status: ledger.Done, Attempt: 1})
		claim := func(number int32, id byte) (*ledger.Claim, error) {
			at := partition(number)
			at.TopicID = ledger.TopicID{id}
			return f.l.Claim(f.ctx(), request(at, where))
		}
		_, err := claim(0, 2)
		e, ok := errors.AsType[*ledger.TopicError](err)
		if !ok || !e.Recreated() || e.Next != 4 || e.Known != (ledger.TopicID{1}) || e.ProcessedAt.IsZero() || e.Open != 2 || e.Waiting != 1 {
			f.Fatalf("%v, %+v", err, e)
		}
		_, err = claim(1, 2)
		if e, ok := errors.AsType[*ledger.TopicError](err); !ok || e.Next != -1 {
			f.Errorf("a partition that was never claimed: %v", err)
		}
		stop := ledger.Stop{Partition: partition(0), Kind: recreated, From: e.Next, Records: -1}
		stop.Partition.TopicID = ledger.TopicID{2}
		f.report(stop, 0)
		_, err = claim(0, 2)
		f.refused("before it was accepted", err, schemas.Conflict)
		f.accept()
		_, err = claim(0, 3)
		f.refused("a third topic", err, schemas.Conflict)
		c, err := claim(0, 2)
		if err != nil || c.Next.Offset != 0 || c.Epoch != 2 || !c.Unclean {
			f.Fatalf("%+v %v", c, err)
		}
		if got := f.applyBy(f.l, old, seq(4, "e", 3)); !got.Fenced {
			f.Errorf("the owner of the old topic's partition: %+v", got)
		}
		for _, a := range f.open(c) {
			if a.Pointer.TopicID != (ledger.TopicID{1}) {
				f.Errorf("%s is looked for in topic %x", a.EventID, a.Pointer.TopicID[:1])
			}
		}
		f.is("the new log", decisions(f.apply(c, record(0, "other", "e", schemas.Version{Kind: schemas.Sequence, Value: 1}), seq(1, "e", 2), seq(3, "gap", 2))),
			"0:applied/first", "1:duplicate/seen", "2:applied/next", "-1:applied/released")
		f.is("open", lanes(f.open(c)), "2:e-2:run", "3:gap-1:run", "4:other:run", "5:gap-2:run", "6:gap-3:run")
		_, err = claim(0, 1)
		f.refused("a broker that still tells the former id", err, schemas.Unavailable)
	}},
	{"records in the old places of a log that was cut are others", func(f *fixture) {
		f.apply(f.claim(0), seq(0, "a", 1), seq(1, "a", 3), seq(2, "b", 1), seq(3, "b", 3))
		cut := ledger.Stop{Partition: partition(0), Kind: "truncated", From: 1, To: 4, Resume: 1, Records: 3, Detail: "cut"}
		stop := f.report(cut, 1)
		f.accept()
		c, err := f.l.Claim(f.ctx(), request(partition(0), to(1, stop.ID)))
		if err != nil {
			f.Fatal(err)
		}
		f.is("other events in the same places", decisions(f.apply(c, seq(1, "d", 1), seq(2, "c", 1), seq(3, "c", 3))), "0:applied/first", "1:applied/first", "2:buffered/gap")
		c = f.claim(0)
		a := f.apply(c, seq(4, "a", 2), seq(5, "b", 2), seq(6, "c", 2))
		f.is("the fillers", lanes(a.Actions), "5:a-2:run", "6:a-3:run", "7:b-2:run", "8:b-3:run", "9:c-2:run", "10:c-3:run")
		for i, want := range []string{"", "packed a-3", "", "packed b-3", "", "packed c-3"} {
			if got := string(a.Actions[i].Packed); got != want {
				f.Errorf("%s brings %q", a.Actions[i].EventID, got)
			}
		}
	}},
}

// lostly runs do with its COMMIT lost, before or after it is written.
func (f *fixture) lostly(l Ledger, written bool, meanwhile func(), do func()) {
	f.Helper()
	over := f.s.Lose(f, l, written, meanwhile)
	do()
	if !over() {
		f.Error("the connection was not lost")
	}
}

var failing = []property{
	{"a COMMIT whose answer is lost changes nothing for the caller", func(f *fixture) {
		c := f.claim(0)
		offset := int64(0)
		for _, written := range []bool{false, true} {
			name := fmt.Sprintf("written %v", written)
			e := func(value int64) ledger.Record { offset++; return seq(offset-1, name, value) }
			f.lostly(f.l, written, nil, func() {
				f.is("apply", decisions(f.apply(c, e(1), e(3))), "0:applied/first", "1:buffered/gap")
			})
			first := f.open(c)[len(f.open(c))-1].LaneSeq
			f.lostly(f.l, written, nil, func() {
				f.is("the filler", decisions(f.apply(c, e(2), e(5))), "0:applied/next", "-1:applied/released", "1:buffered/gap")
			})
			f.pass(2 * time.Hour)
			f.deadline(c)
			f.lostly(f.l, written, nil, func() { f.is("expire", lanes(f.expire(c).Actions), fmt.Sprintf("%d:%s-5:run", first+3, name)) })
			f.lostly(f.l, written, nil, func() {
				f.record(ledger.Result{Claim: c, LaneSeq: first, Status: ledger.Done, Attempt: 1}, ledger.Result{Claim: c, LaneSeq: first + 1, Status: ledger.Failed, Attempt: 1, NextIn: time.Hour})
			})
			f.lostly(f.l, written, nil, func() {
				// What was stored by the first try is not stored again.
				if stored, fenced, err := f.l.Copy(f.ctx(), c, []ledger.Copy{{LaneSeq: first + 1, Packed: []byte("x")}}); fenced || err != nil || written == (stored == 1) {
					f.Error(stored, fenced, err)
				}
			})
			for range 2 {
				open := f.open(c)
				f.is("open", states(open[len(open)-3:]), fmt.Sprintf("%d:%s-2:failed:1", first+1, name), fmt.Sprintf("%d:%s-3:pending:0", first+2, name), fmt.Sprintf("%d:%s-5:pending:0", first+3, name))
				if string(open[len(open)-3].Packed) != "x" {
					f.Errorf("%+v", open)
				}
				c = f.claim(0)
			}
			f.is("all of it again", decisions(f.apply(f.seek(0), seq(0, name, 1), seq(1, name, 3), seq(2, name, 2))), "0:duplicate/seen", "1:duplicate/seen", "2:duplicate/seen")
			c = f.seek(offset)
			f.lostly(f.l, written, nil, func() { f.release(c) })
			if c = f.claim(0); c.Unclean {
				f.Error("the release was lost")
			}
		}
	}},
	{"a claim whose COMMIT is lost is there, or is not", func(f *fixture) {
		f.claim(0)
		f.lostly(f.l, true, nil, func() {
			if c := f.claim(0); c.Epoch != 2 {
				f.Errorf("epoch %d", c.Epoch)
			} else if got := f.apply(c, seq(0, "e", 1)); got.Fenced {
				f.Error("a claim that was given is fenced")
			}
		})
		f.lostly(f.l, false, nil, func() {
			_, err := f.l.Claim(f.ctx(), request(partition(0), where))
			f.refused("not written", err, schemas.Unavailable)
		})
		if st, _ := f.standing(0); st.Epoch != 2 {
			f.Errorf("epoch %d", st.Epoch)
		}
	}},
	{"a batch that was written, and another claims before its owner can tell, is the next owner's", func(f *fixture) {
		c := f.claim(0)
		other := f.start()
		var next *ledger.Claim
		f.lostly(f.l, true, func() { next = f.claimBy(other, 0) }, func() {
			if got := f.applyBy(f.l, c, seq(0, "e", 1)); !got.Fenced || got.Outcomes != nil || got.Actions != nil {
				f.Errorf("told %+v", got)
			}
		})
		if next == nil || next.Next.Offset != 1 || !next.Unclean {
			f.Fatalf("%+v", next)
		}
		open, _, err := other.Open(f.ctx(), next, 0, 10)
		if f.is("open", states(open), "1:e-1:pending:0"); err != nil {
			f.Error(err)
		}
		f.lostly(other, false, func() { next = f.claim(0) }, func() {
			if got := f.applyBy(other, next, seq(1, "e", 2)); !got.Fenced {
				f.Errorf("told %+v", got)
			}
		})
		if next.Next.Offset != 1 {
			f.Errorf("what was not written is there: %+v", next)
		}
		beside := f.claim(1)
		f.lostly(f.l, true, func() { next = f.claimBy(other, 0) }, func() {
			out, err := f.l.Apply(f.ctx(), []ledger.Slice{slice(next, seq(1, "e", 2)), slice(beside, seq(0, "g", 1))})
			if err != nil || !out[0].Fenced || out[0].Actions != nil || out[1].Fenced || len(out[1].Actions) != 1 {
				f.Errorf("of two partitions one was taken: %+v %v", out, err)
			}
		})
		if next.Next.Offset != 2 || beside.Next.Offset != 1 {
			f.Errorf("%+v %+v", next, beside)
		}
		if got := f.apply(beside, seq(1, "g", 2)); len(got.Actions) != 1 {
			f.Errorf("the other goes on: %+v", got)
		}
	}},
	{"an expiry that nobody knows of makes the claim useless, though no offset tells", func(f *fixture) {
		c := f.claim(0)
		f.apply(c, seq(0, "e", 1), seq(1, "e", 3))
		f.pass(2 * time.Hour)
		f.deadline(c)
		ctx, cancel := context.WithCancelCause(f.ctx())
		f.lostly(f.l, true, func() { cancel(errors.New("too late")) }, func() {
			_, err := f.l.Expire(ctx, c)
			f.refused("an expiry nobody knows of", err, schemas.Unavailable)
		})
		got := f.applyBy(f.l, c, seq(2, "e", 4))
		if _, ok := errors.AsType[*ledger.ContinuityError](got.Refused); !ok {
			f.Errorf("the claim goes on: %+v", got)
		}
		another, err := f.l.Expire(f.ctx(), c)
		if _, ok := errors.AsType[*ledger.ContinuityError](another.Refused); !ok || err != nil {
			f.Errorf("another expiry: %+v %v", another, err)
		}
		c = f.claim(0)
		f.is("open", lanes(f.open(c)), "1:e-1:run", "2:e-3:run")
		f.is("what comes next", lanes(f.apply(c, seq(2, "e", 4)).Actions), "3:e-4:run")
	}},
	{"after an error the claim is of no use, and the next one reads what was written", func(f *fixture) {
		for _, written := range []bool{false, true} {
			c := f.claim(0)
			from := c.Next.Offset
			ctx, cancel := context.WithCancelCause(f.ctx())
			f.lostly(f.l, written, func() { cancel(errors.New("too late")) }, func() {
				_, err := f.l.Apply(ctx, []ledger.Slice{slice(c, seq(from, "e", from+1))})
				f.refused("a batch nobody knows of", err, schemas.Unavailable)
			})
			if c.Next.Offset != from {
				f.Errorf("the claim has moved to %d", c.Next.Offset)
			}
			if written {
				got := f.applyBy(f.l, c, seq(from, "e", from+1))
				if _, ok := errors.AsType[*ledger.ContinuityError](got.Refused); !ok {
					f.Errorf("the claim goes on: %+v", got)
				}
			}
			want := from
			if written {
				want++
			}
			if c = f.claim(0); c.Next.Offset != want {
				f.Errorf("written %v: the next owner reads from %d, not %d", written, c.Next.Offset, want)
			}
			if got := f.apply(c, seq(want, "e", want+1)); len(got.Actions) != 1 {
				f.Errorf("%v", decisions(got))
			}
		}
	}},
	{"results nobody knows of are recorded again, and no copy is put in their place", func(f *fixture) {
		for _, written := range []bool{false, true} {
			part := map[bool]int32{false: 0, true: 1}[written]
			c := f.claim(part)
			f.apply(c, seq(0, fmt.Sprint("a", part), 1), seq(1, fmt.Sprint("b", part), 1))
			ctx, cancel := context.WithCancelCause(f.ctx())
			done := []ledger.Result{{Claim: c, LaneSeq: 1, Status: ledger.Done, Attempt: 1}}
			f.lostly(f.l, written, func() { cancel(errors.New("too late")) }, func() {
				_, err := f.l.Record(ctx, done)
				f.refused("results nobody knows of", err, schemas.Unavailable)
			})
			if stored, _, err := f.l.Copy(f.ctx(), c, []ledger.Copy{{LaneSeq: 1, Packed: []byte("x")}, {LaneSeq: 2, Packed: []byte("y")}}); stored != 1 || err != nil {
				f.Error(stored, err)
			}
			f.record(done...)
			for range 2 {
				f.is("open", states(f.open(c)), fmt.Sprintf("2:b%d-1:pending:0", part))
				c = f.claim(part)
			}
		}
	}},
	{"a process that has ended writes nothing", func(f *fixture) {
		gone := f.start()
		c := f.claimBy(gone, 0)
		f.applyBy(gone, c, seq(0, "e", 1))
		f.s.Stop(f, gone)
		ctx, cancel := context.WithTimeout(f.ctx(), 200*time.Millisecond)
		defer cancel()
		if _, err := gone.Apply(ctx, []ledger.Slice{slice(c, seq(1, "e", 2))}); err == nil {
			f.Error("its batch was taken")
		}
		if _, err := gone.Record(ctx, []ledger.Result{{Claim: c, LaneSeq: 1, Status: ledger.Done, Attempt: 1}}); err == nil {
			f.Error("its results were taken")
		}
		if err := gone.Release(ctx, c); err == nil {
			f.Error("its release was taken")
		}
		f.l = nil
		f.start()
		if c = f.claim(0); !c.Unclean || c.Next.Offset != 1 {
			f.Errorf("%+v", c)
		}
		f.is("open", states(f.open(c)), "1:e-1:pending:0")
	}},
	{"a context that has ended is an error, and nothing is written", func(f *fixture) {
		c := f.claim(0)
		f.apply(c, seq(0, "e", 1))
		ctx, cancel := context.WithCancel(f.ctx())
		cancel()
		if _, err := f.l.Apply(ctx, []ledger.Slice{slice(c, seq(1, "e", 2))}); !errors.Is(err, context.Canceled) {
			f.Error(err)
		}
		if _, err := f.l.Record(ctx, []ledger.Result{{Claim: c, LaneSeq: 1, Status: ledger.Failed, Attempt: 1}}); !errors.Is(err, context.Canceled) {
			f.Error(err)
		}
		if _, err := f.l.Claim(ctx, request(partition(0), where)); !errors.Is(err, context.Canceled) {
			f.Error(err)
		}
		if st, stored := f.standing(0); st.Epoch != 1 || stored.Offset != 1 {
			f.Errorf("%+v %+v", st, stored)
		}
		f.is("open", states(f.open(c)), "1:e-1:pending:0")
	}},
}
