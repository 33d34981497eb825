package ledger

import (
	"context"
	"testing"
	"time"

	"github.com/forebay-io/forebay/schemas"
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

// twin is one more event of a version.
func twin(offset int64, id string, value int64) Record {
	return record(offset, id, "e", schemas.Version{Kind: schemas.Sequence, Value: value})
}

func broken(offset int64, raw string) Record {
	r := seq(offset, "", 0)
	r.Broken, r.Error = gate.ReasonUndecodable, "no event"
	r.Packed = func() []byte { return []byte(raw) }
	return r
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

// However much waits in a partition whose log was cut, the claim that goes on has the time for it.
func TestPlacesOfACutLogHaveTheirTime(t *testing.T) {
	t.Parallel()
	f := setup(t).reopen(func(c *Config) { c.TxTimeout = 2 * time.Second })
	f.apply(f.claim(0), seq(0, "a", 1), seq(1, "a", 3))
	admin(t, f.cfg.URL.Reveal(), `SET search_path = `+f.cfg.Schema+`; CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(2.5); RETURN NEW; END $$;
		CREATE TRIGGER slow BEFORE UPDATE ON buffer FOR EACH ROW EXECUTE FUNCTION slow()`) // a statement has 1.5 s, what waits for it 2
	f.cut(2, 1)
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
