package ledger

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A wait that became overdue after NextDeadline had spoken is not ended: the end of the log, which the caller observed
// in between, was not observed after that deadline.
func TestExpireEndsOnlyWhatWasOverdueWhenAsked(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.claim(0)
	f.apply(c, seq(0, "a", 1), seq(1, "b", 1), seq(2, "a", 3), seq(3, "b", 3))
	f.deadline("a", "now() - interval '1 hour'")
	if d := f.deadlines(c); d[c.ID] >= 0 {
		t.Fatalf("a is not overdue: %v", d)
	}
	f.deadline("b", "clock_timestamp()") // passes now, while the log is being read to its end
	expire := func(want ...string) {
		t.Helper()
		a, err := f.n.Expire(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, lanes(a.Actions)); d != "" {
			t.Error(d)
		}
	}
	expire("3:a-3:run")
	expire() // b waits for the next question
	f.deadlines(c)
	expire("4:b-3:run")
}

// deadline sets when an entity's waits end.
func (f *fixture) deadline(entity, sql string) {
	f.t.Helper()
	tag, err := f.l.hot.Exec(f.t.Context(), `UPDATE buffer SET deadline = `+sql+` WHERE entity = $1`, entity)
	if err != nil || tag.RowsAffected() == 0 {
		f.t.Fatalf("%d waits of %s: %v", tag.RowsAffected(), entity, err)
	}
}
