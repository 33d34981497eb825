package ledger

import (
	"fmt"
	"testing"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
	"github.com/google/go-cmp/cmp"
)

// of is a sequence record of an epoch; 0 is a provider that does not say.
func of(offset, epoch, value int64) Record {
	return record(offset, fmt.Sprintf("%d:%d", epoch, value), "e", schemas.Version{Kind: schemas.Sequence, Epoch: epoch, Value: value})
}

// What waits, is filtered or is held has the epoch in its row that its line had.
func TestEpochsOfWhatWaits(t *testing.T) {
	t.Parallel()
	f := setup(t, func(s *Spec) { s.Policy.Equal = gate.EqualHold })
	f.apply(f.claim(0), of(0, 3, 1))
	filtered := of(2, 0, 4)
	filtered.Filtered = true
	held := of(3, 0, 1)
	a := f.apply(f.claim(0), of(1, 0, 3), filtered, held)
	if d := cmp.Diff([]string{"0:buffered/gap", "1:buffered/gap", "2:parked/equal_held"}, decisions(a)); d != "" {
		t.Error(d)
	}
	want := []string{"3:1 held", "3:3 buffered", "3:4 buffered"}
	if d := cmp.Diff(want, f.texts(`SELECT epoch || ':' || value || ' ' || decision FROM buffer ORDER BY 1`)); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"3:4 filtered"}, f.texts(`SELECT epoch || ':' || value || ' ' || decision FROM rejected_records`)); d != "" {
		t.Error(d)
	}
	filtered.Offset = 4 // once more: it is of its line's epoch both times
	if d := cmp.Diff([]string{"0:duplicate/seen"}, decisions(f.apply(f.claim(0), filtered))); d != "" {
		t.Error(d)
	}
	a = f.apply(f.claim(0), of(5, 4, 1))
	if d := cmp.Diff([]string{"-1:applied/gap_skipped", "-1:filtered/type", "0:applied/new_epoch"}, decisions(a)); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"3:1 held"}, f.texts(`SELECT epoch || ':' || value || ' ' || decision FROM buffer`)); d != "" {
		t.Error(d)
	}
}

func (f *fixture) texts(sql string) (got []string) {
	f.t.Helper()
	rows, err := f.l.read.Query(f.t.Context(), sql)
	if err != nil {
		f.t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			f.t.Fatal(err)
		}
		got = append(got, s)
	}
	if err := rows.Err(); err != nil {
		f.t.Fatal(err)
	}
	return got
}

// A question is about the epoch of its line: the same places of another one are no answer to it.
func TestQuestionsSayTheEpoch(t *testing.T) {
	t.Parallel()
	f := setup(t, backfills, func(s *Spec) { s.Policy.GapWait = 0 })
	asked := func(want Backfill, records ...Record) {
		t.Helper()
		c := f.claim(0)
		f.apply(c, records...)
		got, err := f.n.Backfills(t.Context(), []*Claim{c}, 0, 10)
		if err != nil || len(got) != 1 || got[0].Epoch != want.Epoch || got[0].From != want.From || got[0].To != want.To {
			t.Errorf("%+v %v, want %+v", got, err, want)
		}
	}
	asked(Backfill{Epoch: 1, From: 3, To: 4}, of(0, 1, 2), of(1, 0, 5))
	asked(Backfill{Epoch: 2, From: 3, To: 4}, of(2, 2, 2), of(3, 2, 5))
}
