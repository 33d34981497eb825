package ledger

import "testing"

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
