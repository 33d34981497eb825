package ledger

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/forebay-io/forebay/schemas"
)

// refused wants the claim of a partition of three to be refused for good, with a reason that names the way out.
func (f *fixture) refused(p Partition, why string) {
	f.t.Helper()
	_, err := f.n.Claim(f.t.Context(), ClaimRequest{Partition: p, Partitions: 3, Confirm: at(0)})
	if schemas.KindOf(err) != schemas.Conflict || !strings.Contains(err.Error(), why) || !strings.Contains(err.Error(), "forebay topics rekey ") {
		f.t.Errorf("the claim of %s/%d: %v", p.Topic, p.Number, err)
	}
}

// A copy is what its topic was when it was handed over. Whoever reads on in the topic, and switches later, is refused there: the copy lacks
// what came since. Another copy, and its hand-over, mend it.
func TestClaimOfTheOldTopicVoidsTheHandOver(t *testing.T) {
	t.Parallel()
	for name, readsOn := range map[string]func(f *fixture, c *Claim){
		"records":            func(f *fixture, c *Claim) { f.apply(c, seq(2, "e", 2)) },
		"the end of a wait":  func(f *fixture, c *Claim) { f.expire(c) },
		"nothing but claims": func(f *fixture, c *Claim) { f.release(c) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := setup(t)
			f.apply(f.claimed(partition(0), 3, 0), seq(0, "e", 1), seq(1, "e", 3))
			h := f.handedOver(1)
			readsOn(f, f.claimed(partition(0), 3, 0))
			for range 2 { // it stays void, also for who tries again
				for p := h.To; p.Number < 3; p.Number++ {
					f.refused(p, "is a copy of events.acme.github, and the subscription has read on in events.acme.github since")
				}
			}
			if got := one[int](f, `SELECT count(*) FROM topics WHERE topic = 'events.acme.github.3'`); got != 0 {
				t.Error("the refused topic is recorded as read, so that no copy of its name could be made")
			}
			f.claimed(partition(0), 3, 0) // and on
			again := f.handOver()
			again.To = Partition{Topic: "events.acme.github.3b", TopicID: TopicID{4}}
			if _, err := f.l.HandOver(t.Context(), again); err != nil {
				t.Fatal(err)
			}
			f.refused(h.To, "was handed over to another copy")
			again.To.Number = placed("e")
			c := f.claimed(again.To, 3, 0)
			if got := f.apply(c, seq(0, "e", 1), seq(1, "e", 3), seq(2, "e", 2), seq(3, "e", 4)); got.Refused != nil || got.Outcomes[3].Decision != "applied" {
				t.Errorf("%v", decisions(got))
			}
		})
	}
}

// Once a partition of the copy was claimed, what waited has gone there: whoever goes back to the old topic is told so, and takes nothing.
// The other partitions of the copy are still to be had.
func TestOldTopicIsRefusedOnceTheCopyIsRead(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.apply(f.claimed(partition(0), 3, 0), seq(0, "e", 1), seq(1, "e", 3))
	h := f.handedOver(1)
	h.To.Number = placed("e")
	f.claimed(h.To, 3, 0)
	for p := partition(0); p.Number < 3; p.Number++ {
		f.refused(p, "has gone over to events.acme.github.3, a copy of events.acme.github")
	}
	for p := h.To; p.Number < 3; p.Number++ {
		f.claimed(p, 3, 0)
	}
	h.To.Number = placed("e")
	if d := cmp.Diff([]string{"e-2", "e-3"}, events(f.apply(f.claimed(h.To, 3, 0), seq(2, "e", 2)).Actions)); d != "" {
		t.Error(d)
	}
}

// Of two copies of a topic the last hand-over counts.
func TestLastHandOverCounts(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.apply(f.claimed(partition(0), 3, 0), seq(0, "e", 1))
	first := f.handedOver(1)
	second := first
	second.To = Partition{Topic: "events.acme.github.4", TopicID: TopicID{4}}
	if _, err := f.l.HandOver(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	f.refused(first.To, "was handed over to another copy")
	f.claimed(second.To, 3, 0)
}

// A topic that was deleted and created again, and accepted, is still the one that was copied.
func TestTopicCreatedAgainVoidsTheHandOver(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.apply(f.claim(0), seq(0, "e", 1))
	h := f.handedOver(1)
	f.createdAgain(TopicID{9})
	f.refused(h.To, "is a copy of events.acme.github")
}

// Of claims of both that come at once one wins: the other waits for it, and is refused.
func TestClaimsOfBothAtOnce(t *testing.T) {
	t.Parallel()
	for name, firstCopy := range map[string]bool{"the copy's is first": true, "the old topic's is first": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := setup(t)
			f.apply(f.claimed(partition(0), 3, 0), seq(0, "e", 1))
			h := f.handedOver(1)
			first, second := partition(1), h.To // partition 1 was never claimed
			if firstCopy {
				first, second = second, first
			}
			late := make(chan error, 1)
			confirm := func(ctx context.Context, stored *Position) (Start, error) {
				go func() {
					_, err := f.n.Claim(t.Context(), ClaimRequest{Partition: second, Partitions: 3, Confirm: at(0)})
					late <- err
				}()
				f.waitForLock(`SELECT count(*) FROM pg_locks WHERE NOT granted AND pid <> $1 AND pid IN (SELECT pid FROM pg_locks WHERE relation = '`+f.cfg.Schema+`.fences'::regclass)`, 0)
				return Start{}, nil
			}
			if _, err := f.n.Claim(t.Context(), ClaimRequest{Partition: first, Partitions: 3, Confirm: confirm}); err != nil {
				t.Fatal(err)
			}
			if err := <-late; schemas.KindOf(err) != schemas.Conflict {
				t.Errorf("the other: %v", err)
			}
		})
	}
}

// A claim of the old topic that is under way while the subscription is handed over is one that came before it: it is seen, and a hand-over that knows
// of it has nobody go on there.
func TestHandOverWaitsForClaimsUnderWay(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.apply(f.claimed(partition(0), 3, 0), seq(0, "e", 1))
	handed := make(chan error, 1)
	var h HandOver
	confirm := func(ctx context.Context, stored *Position) (Start, error) {
		h = f.handOver()
		over := make(chan struct{})
		go func() {
			_, err := f.l.HandOver(t.Context(), h)
			close(over)
			handed <- err
		}()
		f.waitForLock(`SELECT count(*) FROM pg_locks WHERE NOT granted AND pid <> $1 AND pid IN (SELECT pid FROM pg_locks WHERE relation = '`+f.cfg.Schema+`.subscriptions'::regclass)`, 0, over)
		return Start{}, nil
	}
	old, err := f.n.Claim(t.Context(), ClaimRequest{Partition: partition(1), Partitions: 3, Confirm: confirm}) // it was never claimed
	if err != nil {
		t.Fatal(err)
	}
	if err := <-handed; schemas.KindOf(err) != schemas.Conflict {
		t.Fatal(err)
	}
	f.handedOver(1)
	f.claimed(h.To, 3, 0)
	if got := f.apply(old, seq(0, "o", 1)); !got.Fenced {
		t.Errorf("the topic and its copy are read: %v", decisions(got))
	}
}

// A topic that was created again is the one that was copied in all of its partitions, those as well that were never claimed.
func TestOldTopicCreatedAgainIsRefusedOnceTheCopyIsRead(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.apply(f.claim(0), seq(0, "e", 1))
	h := f.handedOver(1)
	f.reportRecreated(TopicID{9})
	f.claimed(h.To, 3, 0)
	for number := range int32(2) {
		if _, err := f.claimNew(number, TopicID{9}, 8); schemas.KindOf(err) != schemas.Conflict || !strings.Contains(err.Error(), "has gone over to events.acme.github.3") {
			t.Errorf("the claim of partition %d: %v", number, err)
		}
	}
}

// A copy that was given more partitions before anybody has read it has its entities in others than the hand-over knows.
func TestCopyThatHasGrownIsRefused(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.apply(f.claimed(partition(0), 3, 0), seq(0, "e", 1))
	h := f.handedOver(1)
	for _, number := range []int32{5, 0} {
		p := h.To
		p.Number = number
		_, err := f.n.Claim(t.Context(), ClaimRequest{Partition: p, Partitions: 6, Confirm: at(0)})
		if schemas.KindOf(err) != schemas.Conflict || !strings.Contains(fmt.Sprint(err), "forebay topics rekey events.acme.github --partitions N") {
			t.Errorf("the claim of partition %d: %v", number, err)
		}
	}
}

// Who goes back to the old name, once that topic is deleted, copies the copy to it: that is no topic that was created again by whomever, and
// nothing is to be accepted.
func TestCopyOfTheCopyUnderTheOldName(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.apply(f.claimed(partition(0), 3, 0), seq(0, "e", 1))
	there := f.handedOver(1)
	there.To.Number = placed("e")
	f.apply(f.claimed(there.To, 3, 0), seq(0, "e", 2), seq(1, "e", 4))
	readers, err := f.l.Readers(t.Context(), "acme.triage", there.To.TopicID)
	if err != nil || len(readers) != 1 {
		t.Fatal(readers, err)
	}
	back := HandOver{Reader: readers[0], From: there.To, To: partition(0), Begins: map[int32]int64{0: 0, 1: 0, 2: 0}}
	back.To.TopicID = TopicID{9}
	if _, err := f.l.HandOver(t.Context(), back); err != nil {
		t.Fatal(err)
	}
	back.To.Number = placed("e")
	var standing Standing
	c, err := f.n.Claim(t.Context(), ClaimRequest{Partition: back.To, Partitions: 3, Confirm: at(2), Standing: func(s Standing) { standing = s }})
	if err != nil || !standing.TopicAdopted {
		t.Fatalf("%v; adopted: %v", err, standing.TopicAdopted)
	}
	if d := cmp.Diff([]string{"e-3", "e-4"}, events(f.apply(c, seq(2, "e", 3)).Actions)); d != "" {
		t.Error(d)
	}
	if !one[bool](f, `SELECT left_at IS NULL FROM topics WHERE topic = 'events.acme.github'`) {
		t.Error("the topic counts as left")
	}
}
