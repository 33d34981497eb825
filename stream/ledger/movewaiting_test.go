package ledger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
)

// copied claims the partitions of a hand-over's target.
func (f *fixture) copied(h HandOver) (claims []*Claim) {
	f.t.Helper()
	for p := h.To; p.Number < int32(len(h.Begins)); p.Number++ {
		claims = append(claims, f.claimed(p, int32(len(h.Begins)), 0))
	}
	return claims
}

func (f *fixture) handedOver(times int) HandOver {
	f.t.Helper()
	h := f.handOver()
	for range times {
		if _, err := f.l.HandOver(f.t.Context(), h); err != nil {
			f.t.Fatal(err)
		}
	}
	return h
}

// whereWaits says of each waiting event its topic and partition, and its deadline to the microsecond.
const whereWaits = `SELECT b.event_id || ' ' || f.topic || '/' || f.partition || ' ' || coalesce(b.deadline::text, b.decision) FROM buffer b JOIN fences f ON f.id = b.fence ORDER BY b.event_id`

// entities that are in all three partitions of the copy.
var spread = []string{"a", "b", "c", "d", "e", "f", "g", "h"}

// What waits when a subscription is handed over waits in its entities' new partitions, until the same time, with its bytes. The
// fillers, unread in the copy, release it in order; what was read is a repeat, also of what waits.
func TestWaitingEventsGoAlong(t *testing.T) {
	t.Parallel()
	f := setup(t)
	olds := []*Claim{f.claimed(partition(0), 2, 0), f.claimed(partition(1), 2, 0)}
	want := map[int32]bool{}
	for i, e := range spread {
		c := olds[partitionOf(e, 2)]
		at := int64(10 * i)
		f.apply(c, seq(at+1, e, 1), seq(at+2, e, 3), seq(at+3, e, 5), seq(at+4, e, 4))
		want[placed(e)] = true
	}
	if len(want) != 3 {
		t.Fatalf("the entities are in partitions %v", want)
	}
	f.seenAgo(40*time.Minute, "a-3", "b-3")
	before := f.texts(whereWaits)
	h := f.handedOver(2) // again after a crash, say
	if h.Reader.Waiting != int64(3*len(spread)) {
		t.Errorf("%d events wait", h.Reader.Waiting)
	}
	if d := cmp.Diff(before, f.texts(whereWaits)); d != "" {
		t.Errorf("moved before anybody has claimed the copy: %s", d)
	}
	claims := f.copied(h)
	var moved []string
	for _, line := range before {
		event, rest, _ := strings.Cut(line, " ")
		_, deadline, _ := strings.Cut(rest, " ")
		moved = append(moved, fmt.Sprintf("%s %s/%d %s", event, h.To.Topic, placed(event[:1]), deadline))
	}
	if d := cmp.Diff(moved, f.texts(whereWaits)); d != "" {
		t.Error(d)
	}
	item, err := f.item("a-3")
	if err != nil || item.Topic != h.To.Topic || item.Partition != placed("a") {
		t.Fatalf("%+v %v", item, err)
	}
	if packed, _, err := f.bytes(item); err != nil || string(packed) != "packed a-3" {
		t.Errorf("the bytes of what waits: %q %v", packed, err)
	}
	for _, c := range claims {
		at := c.Next.Offset
		for _, e := range spread {
			if placed(e) != c.Partition.Number {
				continue
			}
			got := f.apply(c, seq(at, e, 3), seq(at+1, e, 5), seq(at+2, e, 2), seq(at+3, e, 3))
			var ran []string
			for _, a := range got.Actions {
				ran = append(ran, a.EventID)
				if a.Packed != nil && string(a.Packed) != "packed "+a.EventID {
					t.Errorf("%s comes with %q", a.EventID, a.Packed)
				}
			}
			if d := cmp.Diff([]string{e + "-2", e + "-3", e + "-4", e + "-5"}, ran); d != "" {
				t.Errorf("%v: %s", decisions(got), d)
			}
			at += 4
		}
	}
	if got := one[string](f, `SELECT (SELECT count(*) FROM buffer) || ' ' || (SELECT count(*) FROM events) || ' ' ||
		(SELECT count(*) FROM events WHERE decision = 'applied')`); got != fmt.Sprintf("0 %d %d", 5*len(spread), 5*len(spread)) {
		t.Errorf("waiting, events, applied: %s", got)
	}
	// The next owner loads what was released, by its own bytes.
	loaded := 0
	for i, c := range f.copied(h) {
		for _, a := range f.openActions(c) {
			if loaded++; a.Packed != nil && string(a.Packed) != "packed "+a.EventID {
				t.Errorf("partition %d: %s comes with %q", i, a.EventID, a.Packed)
			}
		}
	}
	if loaded != 4*len(spread) {
		t.Errorf("%d actions were loaded, want %d", loaded, 4*len(spread))
	}
}

// A deadline that has passed meanwhile ends in the new partition what its policy says, once that has been read: not with the claim.
func TestWaitThatGoesAlongEnds(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.apply(f.claimed(partition(0), 2, 0), seq(0, "e", 1), seq(1, "e", 3), seq(2, "f", 1), seq(3, "f", 3))
	f.overdue()
	h := f.handedOver(1)
	h.To.Number = placed("e")
	c := f.claimed(h.To, 3, 0)
	if d := f.deadlines(c); d[c.ID] > -59*time.Minute {
		t.Errorf("the wait began again: %v", d)
	}
	a, err := f.n.Expire(t.Context(), c)
	if d := cmp.Diff([]string{"-1:applied/gap_skipped"}, decisions(a)); d != "" || err != nil || a.Actions[0].EventID != "e-3" {
		t.Error(d, err)
	}
	if late := f.apply(c, seq(0, "e", 2)); late.Outcomes[0].Decision != gate.Late && late.Outcomes[0].Decision != gate.Stale {
		t.Error(decisions(late))
	}
}

// All that hangs on what waits goes along: what is held for an operator or parked behind a gap, what was asked of the owner, the question
// that its source was asked, and filtered events that have their place on the line.
func TestWhatHangsOnWaitingEventsGoesAlong(t *testing.T) {
	t.Parallel()
	f := setup(t, func(s *Spec) {
		s.Policy.Stale.Snapshot, s.Policy.Then, s.Policy.GapWait = gate.StaleHold, gate.ThenBackfill, 0
		s.Policy.BackfillWait, s.Policy.Otherwise = time.Hour, gate.ThenPark
	})
	unwanted := seq(6, "e", 4)
	unwanted.Filtered = true
	old := f.claimed(partition(0), 2, 0)
	f.apply(old, seq(0, "held", 5), seq(1, "held", 4), seq(2, "asked", 1), seq(3, "asked", 3), seq(4, "e", 1), seq(5, "e", 3), unwanted, seq(7, "e", 5))
	for _, event := range []string{"held-4", "asked-3"} {
		if _, err := f.ask(event, Release); err != nil {
			t.Fatal(err)
		}
	}
	asked, err := f.n.Backfills(t.Context(), []*Claim{old}, 0, 10)
	if err != nil || len(asked) != 2 {
		t.Fatal(asked, err)
	}
	claims := f.copied(f.handedOver(1))
	questions, err := f.n.Backfills(t.Context(), claims, 0, 10)
	if err != nil || len(questions) != 2 {
		t.Errorf("%+v %v", questions, err)
	}
	for _, q := range questions {
		if want := claims[placed(string(q.VersionLine.Entity))].ID; q.Claim != want {
			t.Errorf("%s is asked of %d, want %d", q.VersionLine.Entity, q.Claim, want)
		}
	}
	var ran []string
	for _, c := range claims {
		_, actions := f.applyCommands(c)
		for _, a := range actions {
			ran = append(ran, a.EventID)
		}
	}
	slices.Sort(ran)
	if d := cmp.Diff([]string{"asked-3", "held-4"}, ran); d != "" {
		t.Error(d)
	}
	c := claims[placed("e")]
	filler := seq(c.Next.Offset, "e", 2)
	if d := cmp.Diff([]string{"e-2", "e-3", "e-5"}, events(f.apply(c, filler).Actions)); d != "" {
		t.Error(d)
	}
}

func events(actions []Action) (ids []string) {
	for _, a := range actions {
		ids = append(ids, a.EventID)
	}
	return ids
}

// Events of one version keep the order in which they came, over any number of copies.
func TestTwinsGoAlongInOrder(t *testing.T) {
	t.Parallel()
	f := setup(t, func(s *Spec) { s.Policy.Equal = gate.EqualLast })
	f.apply(f.claimed(partition(0), 2, 0), twin(0, "a", 1), twin(1, "first", 3), twin(2, "second", 3))
	h := f.handedOver(1)
	h.To.Number = placed("e")
	c := f.claimed(h.To, 3, 0)
	f.apply(c, twin(0, "third", 3))
	readers, err := f.l.Readers(t.Context(), "acme.triage", h.To.TopicID)
	if err != nil {
		t.Fatal(err)
	}
	next := HandOver{Reader: readers[0], From: h.To, To: Partition{Topic: "events.acme.github.4", TopicID: TopicID{4}}, Begins: map[int32]int64{0: 0, 1: 0}}
	if _, err := f.l.HandOver(t.Context(), next); err != nil {
		t.Fatal(err)
	}
	next.To.Number = partitionOf("e", 2)
	c = f.claimed(next.To, 2, 0)
	if d := cmp.Diff([]string{"first", "second", "third"}, f.texts(`SELECT event_id FROM buffer WHERE log_offset < 0 ORDER BY log_offset`)); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"f", "third"}, events(f.apply(c, twin(0, "f", 2)).Actions)); d != "" {
		t.Error(d)
	}
}

// Where nobody switches, the old topic goes on as if nothing had happened, with what waits. A copy made again, and a switch after all, take
// what waits by then, once.
func TestWaitingEventsStayUntilTheSwitch(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.claimed(partition(0), 2, 0)
	f.apply(c, seq(0, "a", 1), seq(1, "a", 3), seq(2, "b", 1), seq(3, "b", 3))
	first := f.handOver()
	first.To.TopicID = TopicID{2}
	if _, err := f.l.HandOver(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	c = f.claimed(partition(0), 2, 0)
	if d := cmp.Diff([]string{"a-2", "a-3"}, events(f.apply(c, seq(4, "a", 2)).Actions)); d != "" {
		t.Error(d)
	}
	h := f.handedOver(1) // made again: another topic id
	if got := one[int](f, `SELECT count(*) FROM fences WHERE topic_id = '`+uuidText(first.To.TopicID)+`'`); got != 0 {
		t.Errorf("%d fences of the first copy", got)
	}
	claims := f.copied(h)
	if d := cmp.Diff([]string{fmt.Sprintf("b-3 %s/%d", h.To.Topic, placed("b"))}, f.texts(strings.Replace(whereWaits, " || ' ' || coalesce(b.deadline::text, b.decision)", "", 1))); d != "" {
		t.Error(d)
	}
	to := claims[placed("a")]
	if got := f.apply(to, seq(0, "a", 3)); got.Outcomes[0].Decision != gate.Duplicate {
		t.Error(decisions(got))
	}
	to = claims[placed("b")]
	if d := cmp.Diff([]string{"b-2", "b-3"}, events(f.apply(to, seq(to.Next.Offset, "b", 2)).Actions)); d != "" {
		t.Error(d)
	}
}

// An owner of the old topic that lives on is fenced: what it still has in mind waits elsewhere by now.
func TestOwnerThatHandedOverIsFenced(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.claimed(partition(0), 2, 0)
	f.apply(c, seq(0, "a", 1), seq(1, "a", 3))
	h := f.handedOver(1)
	h.To.Number = placed("a")
	to := f.claimed(h.To, 3, 0)
	out, err := f.n.Apply(t.Context(), []Slice{slice(c, seq(2, "a", 2))})
	if err != nil || !out[0].Fenced {
		t.Errorf("%+v %v", out, err)
	}
	if d := cmp.Diff([]string{"a-2", "a-3"}, events(f.apply(to, seq(0, "a", 2)).Actions)); d != "" {
		t.Error(d)
	}
}

// A claim that fails takes nothing along, the next one does.
func TestClaimThatFailsTakesNothingAlong(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.apply(f.claimed(partition(0), 2, 0), seq(0, "a", 1), seq(1, "a", 3))
	h := f.handedOver(1)
	h.To.Number = placed("a")
	busy, err := f.connect().Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := busy.Exec(t.Context(), `SELECT FROM buffer FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err = f.n.Claim(ctx, ClaimRequest{Partition: h.To, Partitions: 3, Confirm: at(0)})
	if !errors.Is(err, context.DeadlineExceeded) || schemas.KindOf(err) != schemas.Unavailable {
		t.Errorf("%v", err)
	}
	if err := busy.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := one[int](f, `SELECT count(*) FROM buffer b JOIN fences f ON f.id = b.fence WHERE f.topic_id = '`+uuidText(h.To.TopicID)+`'`); got != 0 {
		t.Errorf("%d events have gone along", got)
	}
	c := f.claimed(h.To, 3, 0)
	if d := cmp.Diff([]string{"a-2", "a-3"}, events(f.apply(c, seq(0, "a", 2)).Actions)); d != "" {
		t.Error(d)
	}
}
