package ledger

import (
	"fmt"
	"slices"
	"testing"
)

// A sink's statement in the ledger's database is committed, the answer of COMMIT is lost, and the lane writes the attempt down as failed: the
// action has a completion and an open row. Lanes ask first now (see Committed).
// TestPagesBesideAnEndedRow: what is open behind it is listed all the same, page by page, for the next owner, after a kill and after a clean
// release; and that row is open no more, so that nobody lists it, counts it or keeps its window for it.
func TestPagesBesideAnEndedRow(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(*fixture, *Claim){
		"kill":    func(*fixture, *Claim) {},
		"release": func(g *fixture, c *Claim) { g.release(c) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := setup(t)
			pay := till(f)
			p, g := throughProxy(t, f)
			c := g.claim(0)
			const events, ended = 20, 6
			var records []Record
			for i := range int64(events) {
				records = append(records, seq(i, fmt.Sprintf("e%d", i+1), 1))
			}
			g.apply(c, records...)
			want := []int64{1} // it was never tried, and keeps the low mark back
			for lane := int64(2); lane <= events; lane++ {
				if lane != ended {
					g.record(Result{Claim: c, LaneSeq: lane, Status: Failed, Attempt: 1, Class: "network"})
					want = append(want, lane)
				}
			}
			lost := false
			for skip := 0; skip < 40 && !lost; skip++ {
				p.Cut.Store(&cut{Skip: skip})
				_, err := g.n.Commit(t.Context(), done(c, ended, 1), pay(ended))
				p.Cut.Store(nil)
				lost = err != nil && f.paid(ended) == 1
			}
			if !lost {
				t.Fatal("no COMMIT was lost")
			}
			g.record(Result{Claim: c, LaneSeq: ended, Status: Failed, Attempt: 1, Class: "network"})
			leave(g, c)
			c = g.claim(0)
			for _, limit := range []int{1, 4, events} {
				var got []int64
				for after, more := int64(0), true; more; {
					var page []Action
					var err error
					if page, more, err = g.n.Open(t.Context(), c, after, limit); err != nil {
						t.Fatal(err)
					}
					if more && len(page) != limit {
						t.Fatalf("a page of %d has %d actions, and says that others follow", limit, len(page))
					}
					for _, a := range page {
						got = append(got, a.LaneSeq)
						after = a.LaneSeq
					}
				}
				if !slices.Equal(got, want) {
					t.Errorf("pages of %d have %v, want %v", limit, got, want)
				}
			}
			if n := one[int](f, `SELECT count(*) FROM actions WHERE open AND lane_seq = $1`, ended); n != 0 {
				t.Error("the row of the action that is done is still open")
			}
		})
	}
}
