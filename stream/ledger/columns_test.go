package ledger

import (
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/forebay-io/forebay/stream/ledger/internal/pg"
)

// Every field of a struct of rows is one parameter, and each parameter another field.
func TestEveryFieldIsOneParameter(t *testing.T) {
	t.Parallel()
	for _, rows := range []any{
		fencesOf(), newLineKeyRows(), newPlaceRows(), newActionRows(), newDuplicateRows(), newDecidedRows(), newBufferedActionRows(),
		newDeadActionRows(), newProgressRows(), newRejectedRows(), newClassRows(), newEventRows(true), newLineRows(), newMovedLineRows(),
		newBufferChangeRows(), newBackfillRows(), newBufferRows(), newResultRows(), newAttemptRows(), newCopyColumns(),
	} {
		v := reflect.ValueOf(rows).Elem()
		places := map[uintptr]string{}
		list := v.FieldByName("columns")
		for i := range list.Len() {
			name, at := list.Index(i).FieldByName("name").String(), list.Index(i).FieldByName("Array").Elem().Pointer()
			if was := places[at]; was != "" {
				t.Errorf("%s: %s and %s are one field", v.Type(), was, name)
			}
			places[at] = name
		}
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.Name != "columns" && places[v.Field(i).UnsafeAddr()] == "" {
				t.Errorf("%s: %s is no parameter", v.Type(), f.Name)
			}
		}
	}
}

func TestColumnsInAStatement(t *testing.T) {
	t.Parallel()
	r := newPlaceRows()
	r.add(7, 9)
	got := []string{r.from(1, "u"), r.zip(3), r.picked(2, "u.n"), r.names("u.")}
	want := []string{
		"unnest($1::int[], $2::bigint[]) AS u(fence, log_offset)",
		"(SELECT unnest($3::int[]) AS fence, unnest($4::bigint[]) AS log_offset) AS u",
		"($2::int[])[u.n], ($3::bigint[])[u.n]",
		"u.fence, u.log_offset",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	lead := pg.Int32Param(1)
	if d := cmp.Diff([][]byte{lead, r.fence.Param(), r.number.Param()}, r.params(lead)); d != "" {
		t.Error(d)
	}
}

// A column that was left out for one row would shift the rows behind it.
func TestColumnsOfUnequalLengthAreNotSent(t *testing.T) {
	t.Parallel()
	r := newPlaceRows()
	r.add(7, 9)
	r.fence.Add(8)
	defer func() {
		if recover() == nil {
			t.Error("two fences and one offset were sent")
		}
	}()
	r.params()
}
