package ledger

import (
	"bytes"
	"testing"
	"time"
)

// A page brings payload copies up to a bound; what it leaves out says so and comes when it is asked for alone.
func TestOpenBoundsTheCopiesOfAPage(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.claim(0)
	f.apply(c, seq(0, "a", 1), seq(1, "b", 1), seq(2, "c", 1), seq(3, "d", 1))
	large := func(n byte) []byte { return bytes.Repeat([]byte{n}, maxCopies/2+1) }
	var results []Result
	for i := range byte(3) {
		results = append(results, Result{Claim: c, LaneSeq: int64(i) + 1, Status: Failed, Attempt: 1, Class: "timeout",
			NextIn: time.Minute, Packed: large(i)})
	}
	if _, err := f.n.Record(t.Context(), results); err != nil {
		t.Fatal(err)
	}
	page, _, err := f.n.Open(t.Context(), c, 0, 100)
	if err != nil || len(page) != 4 {
		t.Fatal(len(page), err)
	}
	for i, a := range page {
		if a.HasCopy != (i < 3) || (a.Packed != nil) != (i == 0) {
			t.Errorf("action %d: copy %v, %d bytes", a.LaneSeq, a.HasCopy, len(a.Packed))
		}
	}
	for i := range byte(3) {
		alone, _, err := f.n.Open(t.Context(), c, int64(i), 1)
		if err != nil || len(alone) != 1 || !bytes.Equal(alone[0].Packed, large(i)) {
			t.Errorf("action %d alone: %v", i+1, err)
		}
	}
}

// A single copy above the bound comes all the same.
func TestOpenBringsALargeCopyAlone(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.claim(0)
	f.apply(c, seq(0, "a", 1))
	_, err := f.n.Record(t.Context(), []Result{{Claim: c, LaneSeq: 1, Status: Dead, Attempt: 1, Class: "rejected", Packed: make([]byte, maxCopies+1)}})
	if err != nil {
		t.Fatal(err)
	}
	if page, _, err := f.n.Open(t.Context(), c, 0, 1); err != nil || len(page[0].Packed) != maxCopies+1 {
		t.Errorf("%+v %v", page, err)
	}
}

// A line may release a thousand large events at once: their copies go from table to table in the database.
func TestReleasedCopiesAreBounded(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.claim(0)
	large := func(offset, v int64) Record {
		r := seq(offset, "e", v)
		r.Packed = func() []byte { return bytes.Repeat([]byte{byte(v)}, maxCopies/2+1) }
		return r
	}
	f.apply(c, seq(0, "e", 1), large(1, 3), large(2, 4), large(3, 5))
	a := f.apply(c, seq(4, "e", 2))
	if len(a.Actions) != 4 {
		t.Fatal(lanes(a.Actions))
	}
	for i, got := range a.Actions[1:] {
		if !got.HasCopy || (got.Packed != nil) != (i == 0) {
			t.Errorf("%s: copy %v, %d bytes", got.EventID, got.HasCopy, len(got.Packed))
		}
		alone, _, err := f.n.Open(t.Context(), c, got.LaneSeq-1, 1)
		if err != nil || len(alone) != 1 || !bytes.Equal(alone[0].Packed, bytes.Repeat([]byte{byte(i + 3)}, maxCopies/2+1)) {
			t.Errorf("%s alone: %v", got.EventID, err)
		}
	}
}
