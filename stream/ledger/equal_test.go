package ledger

import (
	"testing"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
	"github.com/google/go-cmp/cmp"
)

// twin is one more event of a version.
func twin(offset int64, id string, value int64) Record {
	return record(offset, id, "e", schemas.Version{Kind: schemas.Sequence, Value: value})
}

// What equal drops has a row that says why, and runs nothing, whether it waited or not.
func TestEqualFirstKeepsTheOneBefore(t *testing.T) {
	t.Parallel()
	f := setup(t, func(s *Spec) { s.Policy.Equal = gate.EqualFirst })
	c := f.claim(0)
	f.apply(c, twin(0, "a", 1))
	c = f.claim(0) // nothing cached
	a := f.apply(c, twin(1, "b", 1), twin(2, "c", 3), twin(3, "d", 3))
	if d := cmp.Diff([]string{"0:stale/equal_first", "1:buffered/gap", "2:buffered/gap"}, decisions(a)); d != "" || len(a.Actions) != 0 {
		t.Error(d, lanes(a.Actions))
	}
	c = f.claim(0)
	a = f.apply(c, twin(4, "f", 2))
	if d := cmp.Diff([]string{"2:f:run", "3:c:run"}, lanes(a.Actions)); d != "" {
		t.Error(d)
	}
	f.rows("b stale/equal_first 0", "d stale/equal_first 0")
}

func TestEqualLastLeavesOutWhatWaitedBeforeTheLast(t *testing.T) {
	t.Parallel()
	f := setup(t, func(s *Spec) { s.Policy.Equal = gate.EqualLast })
	c := f.claim(0)
	f.apply(c, twin(0, "a", 1), twin(1, "b", 1), twin(2, "c", 3), twin(3, "d", 3))
	c = f.claim(0)
	a := f.apply(c, twin(4, "f", 2))
	if d := cmp.Diff([]string{"3:f:run", "4:d:run"}, lanes(a.Actions)); d != "" {
		t.Error(d)
	}
	f.rows("c stale/equal_last 0")
	a = f.apply(c, twin(5, "c", 3)) // delivered again
	if d := cmp.Diff([]string{"0:duplicate/seen"}, decisions(a)); d != "" {
		t.Error(d)
	}
}

// rows compares the rows of stale events, with how many actions they have.
func (f *fixture) rows(want ...string) {
	f.t.Helper()
	var got []string
	rows, err := f.l.read.Query(f.t.Context(), `SELECT event_id || ' ' || decision || '/' || reason || ' ' || actions FROM events WHERE decision = 'stale' ORDER BY 1`)
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
	if d := cmp.Diff(want, got); d != "" || rows.Err() != nil {
		f.t.Error(rows.Err(), d)
	}
}
