package ledger

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/forebay-io/forebay/schemas"
	"github.com/google/go-cmp/cmp"
)

func placed(entity string) int32 {
	return partitionOf(entity, 3)
}

// handOver is from the fixture's topic to three partitions of another.
func (f *fixture) handOver() HandOver {
	f.t.Helper()
	readers, err := f.l.Readers(f.t.Context(), "acme.triage", TopicID{1})
	if err != nil || len(readers) != 1 {
		f.t.Fatal(readers, err)
	}
	return HandOver{Reader: readers[0], From: partition(0), To: Partition{Topic: "events.acme.github.3", TopicID: TopicID{3}},
		Begins: map[int32]int64{0: 7, 1: 0, 2: 9}}
}

func (f *fixture) claimed(p Partition, count int32, begin int64) *Claim {
	f.t.Helper()
	c, err := f.n.Claim(f.t.Context(), ClaimRequest{Partition: p, Partitions: count, Confirm: at(begin)})
	if err != nil {
		f.t.Fatal(err)
	}
	return c
}

// After a hand-over each entity's line is in its new partition, whole: what was stale before is stale there, and what
// was seen is seen.
func TestHandOverKeepsTheLines(t *testing.T) {
	t.Parallel()
	f := setup(t)
	var want int64
	for number := range int32(2) {
		c := f.claimed(partition(number), 2, 0)
		var records []Record
		for i := range int64(20) {
			entity := fmt.Sprintf("%d/%d", number, i%10)
			records = append(records, seq(i, entity, 5+i/10))
		}
		f.apply(c, records...)
		want += 10
	}
	before := one[string](f, `SELECT md5(string_agg((to_jsonb(l) - 'fence' - 'as_of')::text, ' ' ORDER BY entity, clock)) FROM version_lines l`)
	h := f.handOver()
	if d := cmp.Diff(map[int32]int64{0: 20, 1: 20}, h.Reader.Next); d != "" {
		t.Error(d)
	}
	for range 2 { // again after a crash, say
		if got, err := f.l.HandOver(t.Context(), h); err != nil || got != want {
			t.Fatal(got, err)
		}
	}
	after := one[string](f, `SELECT md5(string_agg((to_jsonb(l) - 'fence' - 'as_of')::text, ' ' ORDER BY entity, clock)) FROM version_lines l
		JOIN fences f ON f.id = l.fence WHERE f.topic = 'events.acme.github.3'`)
	if before != after {
		t.Error("the lines differ")
	}
	begins, err := f.n.Begin(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for number := range int32(3) {
		p := h.To
		p.Number = number
		if begins[p] != h.Begins[number] {
			t.Errorf("partition %d begins at %d", number, begins[p])
		}
		c := f.claimed(p, 3, begins[p])
		for i := range 10 {
			entity := fmt.Sprintf("1/%d", i)
			if placed(entity) != number {
				continue
			}
			seen, stale, next := seq(c.Next.Offset, entity, 6), seq(c.Next.Offset+1, entity, 4), seq(c.Next.Offset+2, entity, 7)
			if got := f.apply(c, seen, stale, next); len(got.Actions) != 1 || got.Actions[0].EventID != next.ID {
				t.Errorf("%s: %v", entity, decisions(got))
			}
		}
	}
}

// TestHandOverWaitsForWhatIsUnderWay: what an owner's transaction commits while the hand-over waits for it goes along.
func TestHandOverWaitsForWhatIsUnderWay(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.claimed(partition(0), 2, 0)
	f.apply(c, seq(0, "a", 1))
	inFlight, err := f.connect().Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = inFlight.Rollback(t.Context()) }()
	if _, err := inFlight.Exec(t.Context(), `SELECT FROM fences WHERE id = $1 FOR KEY SHARE`, c.ID); err != nil {
		t.Fatal(err)
	}
	lines := make(chan int64, 1)
	h := f.handOver()
	go func() {
		n, err := f.l.HandOver(t.Context(), h)
		if err != nil {
			t.Error(err)
		}
		lines <- n
	}()
	f.waitForLock(`SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND $1 = ANY (pg_blocking_pids(pid))`, int32(inFlight.Conn().PgConn().PID()))
	if _, err := inFlight.Exec(t.Context(), `UPDATE version_lines SET entity = 'b' WHERE fence = $1`, c.ID); err != nil {
		t.Fatal(err)
	}
	if err := inFlight.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n, at := <-lines, one[string](f, `SELECT string_agg(entity, ' ') FROM version_lines l JOIN fences f ON f.id = l.fence WHERE f.topic = 'events.acme.github.3'`); n != 1 || at != "b" {
		t.Errorf("%d lines went along: %s", n, at)
	}
}

// A line that moved on in the copy, and was not written since, is found where it had come to by the next claim: the old
// partition's count of actions says nothing of the new one's.
func TestHandedOverLinesMoveOn(t *testing.T) {
	t.Parallel()
	f := setup(t)
	old := f.claimed(partition(0), 2, 0)
	f.apply(old, seq(0, "a", 1), seq(1, "b", 1), seq(2, "c", 1), seq(3, "d", 1), seq(4, "e", 5))
	f.apply(old, seq(5, "e", 6))
	h := f.handOver()
	if _, err := f.l.HandOver(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	p := h.To
	p.Number = placed("e")
	f.apply(f.claimed(p, 3, 0), seq(0, "e", 7), seq(1, "e", 8))
	c := f.claimed(p, 3, 0)
	older := record(2, "older", "e", schemas.Version{Kind: schemas.Sequence, Value: 7})
	if d := cmp.Diff([]string{"0:stale/older", "1:applied/next"}, decisions(f.apply(c, older, seq(3, "e", 9)))); d != "" {
		t.Error(d)
	}
}

// A hand-over to a copy that was then made again leaves nothing behind.
func TestHandOverToASecondCopy(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.apply(f.claimed(partition(0), 2, 0), seq(0, "a", 1), seq(1, "b", 1), seq(2, "c", 1))
	first := f.handOver()
	first.To.TopicID = TopicID{2}
	second := f.handOver()
	for _, h := range []HandOver{first, second} {
		if n, err := f.l.HandOver(t.Context(), h); err != nil || n != 3 {
			t.Fatal(n, err)
		}
	}
	if got := one[string](f, `SELECT count(*) || ' ' || (SELECT count(*) FROM fences) || ' ' || (SELECT count(*) FROM begins WHERE topic_id <> '`+uuidText(second.To.TopicID)+`') FROM version_lines`); got != "6 4 0" {
		t.Errorf("lines, fences and begins of the first: %s", got)
	}
	c := f.claimed(second.To, 3, 7)
	third := second
	third.To.TopicID = TopicID{4}
	if _, err := f.l.HandOver(t.Context(), third); schemas.KindOf(err) != schemas.Conflict || !strings.Contains(err.Error(), "reads events.acme.github.3 already") {
		t.Errorf("a copy of the topic is read: %v", err)
	}
	if got := one[int](f, `SELECT count(*) FROM fences WHERE id = $1`, c.ID); got != 1 {
		t.Error("a fence that was claimed is gone")
	}
}

// Who reads a topic stands where its progress says, else where it begins, else at 0.
func TestReaders(t *testing.T) {
	t.Parallel()
	f := setup(t)
	if _, err := f.n.Begin(t.Context(), map[Partition]int64{partition(0): 3, partition(1): 4}); err != nil {
		t.Fatal(err)
	}
	f.apply(f.claimed(partition(0), 3, 3), seq(19, "e", 1))
	if got := f.handOver().Reader; got.Generation != 0 || cmp.Diff(map[int32]int64{0: 20, 1: 4}, got.Next) != "" {
		t.Errorf("%+v", got)
	}
	for _, name := range []string{"acme.unknown", ""} {
		if got, err := f.l.Readers(t.Context(), name, TopicID{1}); err != nil || len(got) != 0 {
			t.Errorf("%q: %+v %v", name, got, err)
		}
	}
	if got, err := f.l.Readers(t.Context(), "acme.triage", TopicID{2}); err != nil || len(got) != 0 {
		t.Errorf("of another topic: %+v %v", got, err)
	}
}

// TestHandOverOfTwoLines: a topic that was created again with more partitions has an entity in two of them, where events of it waited.
func TestHandOverOfTwoLines(t *testing.T) {
	t.Parallel()
	f := setup(t)
	word := func(offset int64, text string) Record {
		return record(offset, text, "w", schemas.Version{Kind: schemas.Monotonic, Text: text})
	}
	f.apply(f.claimed(partition(0), 2, 0), seq(0, "e", 2), seq(1, "g", 7), word(2, "older"))
	f.apply(f.claimed(partition(1), 2, 0), seq(0, "e", 5), seq(1, "g", 3), word(2, "same"))
	f.handedOver(2)
	got := one[string](f, `SELECT string_agg(entity || value || event_key, ' ' ORDER BY entity) FROM version_lines l JOIN fences f ON f.id = l.fence WHERE f.topic = 'events.acme.github.3'`)
	want := one[string](f, `SELECT string_agg(entity || value || event_key, ' ' ORDER BY entity) FROM version_lines WHERE entity || value IN ('e5', 'g7', 'w0') AND version_text <> 'older'
		AND fence IN (SELECT id FROM fences WHERE topic = 'events.acme.github')`)
	if got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestHandOverAfterAClaim: who has claimed the old topic since it was copied has decided what comes again in the copy, or left something open there.
func TestHandOverAfterAClaim(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.apply(f.claimed(partition(0), 2, 0), seq(0, "a", 1))
	refused := func(what string, h HandOver) {
		t.Helper()
		if _, err := f.l.HandOver(t.Context(), h); schemas.KindOf(err) != schemas.Conflict || !strings.Contains(err.Error(), "a process has claimed events.acme.github") {
			t.Errorf("%s: %v", what, err)
		}
		if n := one[int](f, `SELECT count(*) FROM fences WHERE topic = 'events.acme.github.3'`); n != 0 {
			t.Errorf("%s: %d fences of the copy", what, n)
		}
	}
	h := f.handOver()
	f.claimed(partition(1), 2, 0)
	refused("a first claim", h)
	h = f.handOver()
	f.release(f.claimed(partition(0), 2, 0))
	refused("a claim that is over", h)
	h = f.handOver()
	fence := one[int32](f, `SELECT id FROM fences WHERE partition = 0`)
	if _, err := f.l.AskSeeks(t.Context(), []SeekAsk{{Fence: fence, TopicID: TopicID{1}, From: 1, To: 0}}, "jo", "again"); err != nil {
		t.Fatal(err)
	}
	refused("a seek", h)
	if h = f.handOver(); h.Reader.Seeks != 1 || len(h.Reader.Replays) > 0 {
		t.Errorf("%d seeks, replays %d", h.Reader.Seeks, h.Reader.Replays)
	}
	id := f.replaying()
	refused("a replay", h)
	if h = f.handOver(); !slices.Equal(h.Reader.Replays, []int64{id}) {
		t.Errorf("replays %d, want %d", h.Reader.Replays, id)
	}
	f.exec(`UPDATE replay_parts SET ended_at = now(), failure = 'cancelled'`)
	if h = f.handOver(); len(h.Reader.Replays) > 0 {
		t.Errorf("replays %d, which have ended", h.Reader.Replays)
	}
}

func TestHandOverRefuses(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.apply(f.claimed(partition(0), 2, 0), seq(19, "e", 1))
	f.report(belowStart(0, 20, 25), 1)
	h := f.handOver()
	if _, err := f.l.HandOver(t.Context(), h); err != nil {
		t.Error(err)
	}
	if list, err := f.l.Stops(t.Context(), StopFilter{}); err != nil || len(list) != 0 {
		t.Errorf("the old topic still stands still: %v %v", list, err)
	}
	f.claimed(h.To, 3, 7)
	if _, err := f.l.HandOver(t.Context(), h); schemas.KindOf(err) != schemas.Conflict {
		t.Errorf("the new topic is read already: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := f.l.HandOver(ctx, h); schemas.KindOf(err) != schemas.Unavailable {
		t.Error(err)
	}
	if _, err := f.l.Readers(ctx, "acme.triage", TopicID{1}); schemas.KindOf(err) != schemas.Unavailable {
		t.Error(err)
	}
}

func uuidText(k [16]byte) string {
	return fmt.Sprintf("%x-%x-%x-%x-%x", k[:4], k[4:6], k[6:8], k[8:10], k[10:])
}
