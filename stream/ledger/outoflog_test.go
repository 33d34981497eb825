package ledger

import (
	"context"
	"testing"

	"github.com/forebay-io/forebay/stream/gate"
	"github.com/google/go-cmp/cmp"
)

// cut reports that partition 0 was cut at an offset, accepts it, and claims the partition there.
func (f *fixture) cut(stored, at int64) *Claim {
	f.t.Helper()
	s := belowStart(0, at, stored)
	s.Kind, s.Resume = "truncated", at
	got := f.report(s, one[int64](f, `SELECT epoch FROM fences WHERE partition = 0`))
	f.accept(StopFilter{})
	c, err := f.n.Claim(f.t.Context(), ClaimRequest{Partition: partition(0), Partitions: 8, Confirm: func(context.Context, *Position) (Start, error) {
		return Start{Position: Position{Offset: at, LeaderEpoch: -1}, Seek: &Seek{From: stored, To: at}, Accepted: got.ID}, nil
	}})
	if err != nil {
		f.t.Fatal(err)
	}
	return c
}

func broken(offset int64, raw string) Record {
	r := seq(offset, "", 0)
	r.Broken, r.Error = gate.ReasonUndecodable, "no event"
	r.Packed = func() []byte { return []byte(raw) }
	return r
}

// A log that was cut brings other records into places that the ledger knows. What waits, and rejected records, are
// neither overwritten by them nor taken for them, however often the log is cut.
func TestRecordsInTheOldPlacesOfACutLog(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.claim(0)
	f.apply(c, seq(0, "a", 1), seq(1, "a", 3), broken(2, "first"), seq(3, "b", 1))
	c = f.cut(4, 1)
	// Other events in the same places: one that waits where one waited, a rejected record where one was.
	f.apply(c, seq(1, "c", 1), broken(2, "second"), seq(3, "b", 3))
	c = f.cut(4, 2)
	f.apply(c, broken(2, "third"), seq(3, "d", 1), seq(4, "a", 5), seq(5, "b", 5))
	if got := one[string](f, `SELECT string_agg(convert_from(raw, 'UTF8'), ' ' ORDER BY raw) FROM rejected_records`); got != "first second third" {
		t.Errorf("rejected are %s", got)
	}
	if got := one[string](f, `SELECT string_agg(e.event_id || CASE WHEN e.log_offset < 0 THEN ' out' ELSE '' END, ', ' ORDER BY e.event_id)
		FROM buffer b JOIN events e ON e.fence = b.fence AND e.log_offset = b.log_offset AND e.event_key = b.event_key`); got != "a-3 out, a-5, b-3 out, b-5" {
		t.Errorf("waiting are %s", got)
	}
	item, err := f.item("a-3")
	if err != nil {
		t.Fatal(err)
	}
	if packed, _, err := f.bytes(item); err != nil || string(packed) != "packed a-3" {
		t.Errorf("the bytes of what waits: %q %v", packed, err)
	}
	// The fillers come, and what waited runs, in order, with its own bytes.
	got := f.apply(c, seq(6, "a", 2), seq(7, "a", 4), seq(8, "b", 2), seq(9, "b", 4))
	var ran []string
	for _, a := range got.Actions {
		ran = append(ran, a.EventID)
		if a.Packed != nil && string(a.Packed) != "packed "+a.EventID {
			t.Errorf("%s comes with %q", a.EventID, a.Packed)
		}
	}
	if len(ran) != 8 || one[int](f, `SELECT count(*) FROM buffer`) != 0 {
		t.Errorf("ran %v", ran)
	}
	// A claim loads what is open by its own bytes.
	next := f.claim(0)
	if next.Next.Offset != 10 {
		t.Errorf("%+v", next.Next)
	}
}

// Twins that wait keep their order, whether one cut or two put them out of the log.
func TestDisplacedTwinsKeepTheirOrder(t *testing.T) {
	t.Parallel()
	f := setup(t, func(s *Spec) { s.Policy.Equal = gate.EqualLast })
	f.apply(f.claim(0), twin(0, "a", 1), twin(1, "first", 3), twin(2, "second", 3))
	c := f.cut(3, 1)
	f.apply(c, twin(1, "third", 3), seq(2, "other", 1))
	c = f.cut(3, 1)
	if d := cmp.Diff([]string{"first", "second", "third"}, f.texts(`SELECT event_id FROM buffer WHERE log_offset < 0 ORDER BY log_offset`)); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"3:f:run", "4:third:run"}, lanes(f.apply(c, twin(1, "f", 2)).Actions)); d != "" {
		t.Error(d)
	}
}

// The same holds where somebody moves the group instead of accepting: the log was cut all the same.
func TestPlacesOfACutLogThatWasLeftBySeek(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.apply(f.claim(0), seq(0, "a", 1), seq(1, "a", 3), broken(2, "first"))
	s := belowStart(0, 1, 3)
	s.Kind, s.Resume = "above_log_end", 1
	f.report(s, 1)
	c := f.seek(3, 0)
	f.apply(c, seq(0, "a", 1), seq(1, "c", 4), broken(2, "second"))
	if got := one[string](f, `SELECT string_agg(convert_from(raw, 'UTF8'), ' ' ORDER BY raw) FROM rejected_records`); got != "first second" {
		t.Errorf("rejected are %s", got)
	}
	if got := one[int](f, `SELECT count(*) FROM buffer WHERE log_offset < 0`); got != 1 {
		t.Errorf("%d waiting events are out of the log", got)
	}
}

// Other stops leave places as they are.
func TestOnlyACutMovesPlaces(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.apply(f.claim(0), seq(0, "a", 1), seq(1, "a", 3), broken(2, "first"))
	stop := f.report(belowStart(0, 3, 5), 1)
	f.accept(StopFilter{})
	if _, err := f.n.Claim(t.Context(), ClaimRequest{Partition: partition(0), Partitions: 8, Confirm: func(context.Context, *Position) (Start, error) {
		return Start{Position: Position{Offset: 5, LeaderEpoch: -1}, Seek: &Seek{From: 3, To: 5}, Accepted: stop.ID}, nil
	}}); err != nil {
		t.Fatal(err)
	}
	if got := one[int64](f, `SELECT (SELECT min(log_offset) FROM buffer) + (SELECT min(log_offset) FROM rejected_records) * 10`); got != 21 {
		t.Errorf("places are %d", got)
	}
}
