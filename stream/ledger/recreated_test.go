package ledger

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
)

// claimNew claims a partition of the topic under another id, with its number of partitions.
func (f *fixture) claimNew(number int32, id TopicID, count int32) (*Claim, error) {
	p := partition(number)
	p.TopicID = id
	return f.n.Claim(f.t.Context(), ClaimRequest{Partition: p, Partitions: count, Confirm: at(0)})
}

// reportRecreated has the topic created again, and that accepted.
func (f *fixture) reportRecreated(id TopicID) {
	f.t.Helper()
	if _, err := f.claimNew(0, id, 8); schemas.KindOf(err) != schemas.Conflict {
		f.t.Fatalf("taken up before it was accepted: %v", err)
	}
	stop := Stop{Partition: partition(0), Kind: recreated, Records: -1}
	stop.Partition.TopicID = id
	f.report(stop, 0)
	f.accept(StopFilter{})
}

// createdAgain has the topic created again, accepted, and partition 0 claimed.
func (f *fixture) createdAgain(id TopicID) *Claim {
	f.t.Helper()
	f.reportRecreated(id)
	c, err := f.claimNew(0, id, 8)
	if err != nil || c.Next.Offset != 0 {
		f.t.Fatal(c, err)
	}
	return c
}

func (f *fixture) openActions(c *Claim) (all []Action) {
	f.t.Helper()
	all, more, err := f.n.Open(f.t.Context(), c, 0, 1000)
	if err != nil || more {
		f.t.Fatal(more, err)
	}
	return all
}

// What is open of a topic goes on in the one that was created again under its name, before anything of that: what was never
// tried, failed, or is dead, a parked lane, what waits for a gap, is parked behind one or held, and what operators have asked.
// Copies come with it, and no place in the old log is taken for one in the new.
func TestOpenWorkOutlivesItsTopic(t *testing.T) {
	t.Parallel()
	f := setup(t, func(s *Spec) { s.Policy.Equal = gate.EqualHold })
	c := f.claim(0)
	f.apply(c, seq(0, "done", 1), seq(1, "untried", 1), seq(2, "failed", 1), seq(3, "dead", 1), seq(4, "dead", 2),
		seq(5, "gap", 1), seq(6, "gap", 3), record(7, "held", "gap", schemas.Version{Kind: schemas.Sequence, Value: 1}), broken(8, "broken"))
	unwanted := seq(9, "unwanted", 1)
	unwanted.Filtered = true
	f.apply(c, unwanted)
	f.record(Result{Claim: c, LaneSeq: 1, Status: Done, Attempt: 1})
	f.record(Result{Claim: c, LaneSeq: 3, Status: Failed, Attempt: 1, Packed: []byte("packed failed-1")})
	f.record(Result{Claim: c, LaneSeq: 4, Status: Dead, Attempt: 1, Packed: []byte("packed dead-1")})
	f.askAction("dead-1", Replay, CommandDetail{})
	f.release(c)

	c = f.createdAgain(TopicID{2})
	if c.Epoch != 2 || c.Unclean {
		t.Errorf("%+v", c)
	}
	var got []string
	for _, a := range f.openActions(c) {
		got = append(got, a.EventID+" "+string(a.Status)+" "+string(a.Packed))
		if a.Pointer.TopicID != (TopicID{1}) {
			t.Errorf("%s is looked for in topic %x", a.EventID, a.Pointer.TopicID[:1])
		}
	}
	want := []string{"untried-1 pending ", "failed-1 failed packed failed-1", "dead-1 dead_letter packed dead-1", "dead-2 pending ", "gap-1 pending "}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	page, err := f.n.WithoutCopy(t.Context(), c, 0, 100, 100)
	if err != nil || len(page.Actions) != 3 || page.Actions[0].Pointer.TopicID != (TopicID{1}) {
		t.Errorf("%+v %v", page, err)
	}
	if item, err := f.item("untried-1"); err != nil {
		t.Error(err)
	} else if _, at, err := f.bytes(item); err != nil || at.TopicID != (TopicID{1}) {
		t.Errorf("%+v %v", item, err)
	}
	if d := cmp.Diff([]string{"4:runs again:failed"}, f.applyLaneCommands(c)); d != "" {
		t.Error(d)
	}

	// New records come into the old places; the filler finds what waited for it.
	again := seq(9, "unwanted", 2)
	again.Filtered = true
	applied := f.apply(c, seq(0, "untried", 2), broken(1, "where untried-1 was"), seq(6, "gap", 2), broken(8, "another"), again)
	if d := cmp.Diff([]string{"7:untried-2:run", "8:gap-2:run", "9:gap-3:run"}, lanes(applied.Actions)); d != "" {
		t.Error(d)
	}
	for _, a := range applied.Actions {
		if a.EventID == "gap-3" && string(a.Packed) != "packed gap-3" || a.EventID == "gap-2" && a.Pointer.TopicID != (TopicID{2}) {
			t.Errorf("%+v", a)
		}
	}
	if got := one[string](f, `SELECT string_agg(convert_from(raw, 'UTF8'), ' ' ORDER BY log_offset) FROM rejected_records WHERE raw IS NOT NULL`); got != "broken where untried-1 was another" {
		t.Errorf("rejected are %q", got)
	}
	if item, err := f.item("untried-1"); err != nil {
		t.Error(err)
	} else if packed, at, err := f.bytes(item); err != nil || packed != nil || at.TopicID != (TopicID{1}) {
		t.Errorf("another record's bytes: %q %+v %v", packed, at, err)
	}
	if got := f.texts(`SELECT event_id FROM rejected_records WHERE decision = 'filtered'`); !slices.Equal(got, []string{"unwanted-2"}) {
		t.Errorf("filtered are %v", got)
	}
	if _, err := f.ask("held", Discard); err != nil {
		t.Fatal(err)
	}
	if done, _ := f.applyCommands(c); len(done) != 1 {
		t.Errorf("applied %v", done)
	}
	// Another owner, and another topic: nothing is lost on the way.
	c, err = f.claimNew(0, TopicID{2}, 8)
	if err != nil || len(f.openActions(c)) != 8 || c.Next.Offset != 10 {
		t.Fatal(c, err, f.openAs(c))
	}
	f.createdAgain(TopicID{3})
	if _, err := f.claimNew(0, TopicID{2}, 8); schemas.KindOf(err) != schemas.Unavailable {
		t.Errorf("a broker that still tells the former id: %v", err)
	}
}

// Batches of the new topic look for rejected records in their places as long as something of the old topic is there, and no longer.
func TestPlacesOfAFormerTopicAreLeft(t *testing.T) {
	t.Parallel()
	f := setup(t)
	filtered := func(offset int64, entity string) Record {
		r := seq(offset, entity, 1)
		r.Filtered = true
		return r
	}
	c := f.claim(0)
	f.apply(c, seq(0, "e", 1), filtered(1, "a"), filtered(2, "b"), broken(3, "rejected"), seq(4, "e", 2))
	f.record(Result{Claim: c, LaneSeq: 1, Status: Done, Attempt: 1}, Result{Claim: c, LaneSeq: 2, Status: Done, Attempt: 1})
	c = f.createdAgain(TopicID{2})
	if c.rejectedBelow != 3 {
		t.Errorf("places up to %d", c.rejectedBelow)
	}
	f.apply(c, filtered(0, "c"), seq(1, "d", 1))
	if got := f.texts(`SELECT event_id FROM rejected_records WHERE decision = 'filtered' ORDER BY log_offset`); !slices.Equal(got, []string{"c-1", "b-1"}) {
		t.Errorf("filtered are %v", got)
	}
	f.record(Result{Claim: c, LaneSeq: 3, Status: Done, Attempt: 1})
	f.turnWindow()
	f.ageWindows(200 * time.Hour)
	if err := f.n.CaughtUp(t.Context(), time.Now(), []*Claim{c}); err != nil {
		t.Fatal(err)
	}
	if s := f.sweep(); len(s.Dropped) != 1 {
		t.Fatalf("dropped %v", s.Dropped)
	}
	if _, err := f.n.Forget(t.Context(), c); err != nil || c.rejectedBelow != 0 {
		t.Errorf("places up to %d: %v", c.rejectedBelow, err)
	}
	if c = f.createdAgain(TopicID{3}); c.rejectedBelow != 0 {
		t.Errorf("with nothing left of two topics: places up to %d", c.rejectedBelow)
	}
}

// A wait that began in the old topic ends in the new one, once that is read to its end.
func TestWaitsOfAFormerTopicEnd(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.apply(f.claim(0), seq(0, "gap", 1), seq(1, "gap", 3), seq(2, "gap", 4))
	c := f.createdAgain(TopicID{2})
	if d := cmp.Diff([]string{"2:gap-3:run", "3:gap-4:run"}, lanes(f.expire(c).Actions)); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"0:applied/next"}, decisions(f.apply(c, seq(0, "gap", 5)))); d != "" {
		t.Error(d)
	}
}

// A claim of the new topic that does not go through leaves everything as it was, and its stop can be reported.
func TestClaimOfTheNewTopicThatFails(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.apply(f.claim(0), seq(0, "a", 1), seq(1, "a", 3))
	stop := Stop{Partition: partition(0), Kind: recreated, Records: -1}
	stop.Partition.TopicID = TopicID{2}
	f.report(stop, 0)
	f.accept(StopFilter{})
	p := stop.Partition
	var told Standing
	_, err := f.n.Claim(t.Context(), ClaimRequest{Partition: p, Partitions: 8, Standing: func(s Standing) { told = s },
		Confirm: func(_ context.Context, stored *Position) (Start, error) {
			if stored != nil {
				t.Errorf("stored is %+v", stored)
			}
			return Start{}, context.DeadlineExceeded
		}})
	if !errors.Is(err, context.DeadlineExceeded) || told.Epoch != 0 || told.High != 0 {
		t.Errorf("%v %+v", err, told)
	}
	below := belowStart(0, 0, 5)
	below.Partition = p
	f.report(below, told.Epoch)
	if got := one[int](f, `SELECT count(*) FROM buffer WHERE log_offset = 1`); got != 1 {
		t.Error("what waited has moved")
	}
}

// A claim that has not enough time for all that must go says so, and leaves it to one that has.
func TestClaimOfTheNewTopicThatRunsOutOfTime(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.apply(f.claim(0), seq(0, "a", 1), seq(1, "b", 1))
	stop := Stop{Partition: partition(0), Kind: recreated, Records: -1}
	stop.Partition.TopicID = TopicID{2}
	f.report(stop, 0)
	f.accept(StopFilter{})
	busy, err := f.l.read.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := busy.Exec(t.Context(), `SELECT FROM version_lines WHERE entity = 'b' FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err = f.n.Claim(ctx, ClaimRequest{Partition: stop.Partition, Partitions: 8, Confirm: at(0)})
	if !errors.Is(err, context.DeadlineExceeded) || schemas.KindOf(err) != schemas.Unavailable {
		t.Errorf("%v", err)
	}
	if got := one[int](f, `SELECT count(*) FROM version_lines`); got != 2 {
		t.Errorf("%d lines are left", got)
	}
	if err := busy.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := f.claimNew(0, TopicID{2}, 8); err != nil || one[int](f, `SELECT count(*) FROM version_lines`) != 0 {
		t.Error(err)
	}
}

// With fewer partitions something would be left behind: the new topic is not taken up until it has as many, or nothing is open.
func TestNothingIsLeftInPartitionsThatAreMissing(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.claim(6)
	f.apply(c, seq(0, "e", 1), seq(1, "e", 3))
	if _, err := f.claimNew(0, TopicID{2}, 4); schemas.KindOf(err) != schemas.Conflict || !strings.Contains(err.Error(), "1 actions that are open and 1 events that wait: give it 8") {
		t.Errorf("%v", err)
	}
	if _, err := f.claimNew(0, TopicID{2}, 8); schemas.KindOf(err) != schemas.Conflict || !strings.Contains(err.Error(), "deleted and created again") {
		t.Errorf("with as many: %v", err)
	}
	f.record(Result{Claim: c, LaneSeq: 1, Status: Done, Attempt: 1})
	f.apply(c, seq(2, "e", 2))
	f.record(Result{Claim: c, LaneSeq: 2, Status: Done, Attempt: 1}, Result{Claim: c, LaneSeq: 3, Status: Done, Attempt: 1})
	if _, err := f.claimNew(0, TopicID{2}, 4); schemas.KindOf(err) != schemas.Conflict || !strings.Contains(err.Error(), "deleted and created again") {
		t.Errorf("with nothing open: %v", err)
	}
}

// So it is where the topic was created again before, and a partition has not been claimed in it since.
func TestNothingIsLeftOfAnEarlierTopic(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.apply(f.claim(6), seq(0, "e", 1), seq(1, "e", 3))
	f.createdAgain(TopicID{2})
	if _, err := f.claimNew(0, TopicID{3}, 4); schemas.KindOf(err) != schemas.Conflict || !strings.Contains(err.Error(), "1 actions that are open and 1 events that wait: give it 8") {
		t.Errorf("%v", err)
	}
	_, err := f.claimNew(6, TopicID{3}, 8)
	if e, ok := errors.AsType[*TopicError](err); !ok || e.Open != 1 || e.Waiting != 1 {
		t.Errorf("what goes on of the partition itself: %v", err)
	}
	f.createdAgain(TopicID{3})
	c, err := f.claimNew(6, TopicID{3}, 8)
	if err != nil || len(f.openActions(c)) != 1 {
		t.Errorf("%+v %v", c, err)
	}
}

// What went on and has ended keeps no window.
func TestWindowsOfAFormerTopicGo(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.apply(f.claim(0), seq(0, "e", 1))
	c := f.createdAgain(TopicID{2})
	f.record(Result{Claim: c, LaneSeq: 1, Status: Done, Attempt: 1})
	f.turnWindow()
	f.ageWindows(200 * time.Hour)
	if s := f.sweep(); s.Dropped != nil {
		t.Errorf("dropped %v before the new topic was read", s.Dropped)
	}
	if err := f.n.CaughtUp(t.Context(), time.Now(), []*Claim{c}); err != nil {
		t.Fatal(err)
	}
	if s := f.sweep(); len(s.Dropped) != 1 {
		t.Errorf("dropped %v", s.Dropped)
	}
}

// What is run again of a former topic is overtaken by what was started behind it there, though the line is gone, and begins
// lower in the new one.
func TestRedriveOfAFormerTopicIsOvertaken(t *testing.T) {
	t.Parallel()
	f := setup(t, func(s *Spec) { s.Actions[0].OnDead, s.Policy.Start = Continue, gate.StartAny })
	c := f.claim(0)
	f.apply(c, seq(0, "gone", 3), seq(1, "lower", 3), seq(2, "last", 3), seq(3, "gone", 4), seq(4, "lower", 4))
	f.die(c, 1, "gone-3", 1)
	f.die(c, 2, "lower-3", 1)
	f.die(c, 3, "last-3", 1)
	f.record(Result{Claim: c, LaneSeq: 4, Status: Done, Attempt: 1}, Result{Claim: c, LaneSeq: 5, Status: Done, Attempt: 1})
	f.release(c)
	c = f.createdAgain(TopicID{2})
	out, err := f.n.Apply(t.Context(), []Slice{slice(c, seq(0, "lower", 1))})
	if err != nil || len(out[0].Actions) != 1 {
		t.Fatal(out, err)
	}
	for _, event := range []string{"gone-3", "lower-3", "last-3"} {
		f.askAction(event, Replay, CommandDetail{})
	}
	f.applyLaneCommands(c)
	want := map[string]bool{"gone-3": true, "lower-3": true, "last-3": false}
	for _, a := range f.openActions(c) {
		if a.Replay == nil {
			continue
		}
		if got, err := f.n.Overtaken(t.Context(), c, a); got != want[a.EventID] || err != nil {
			t.Errorf("%s: %v %v", a.EventID, got, err)
		}
		delete(want, a.EventID)
	}
	if len(want) > 0 {
		t.Errorf("not run again: %v", want)
	}
}
