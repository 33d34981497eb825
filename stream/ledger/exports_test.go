package ledger

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// A page of what is to be exported reads a page, not all that is to be, though statistics know of none of it yet: it has 5 s,
// behind any mass of dead letters.
func TestPageOfExportsReadsAPage(t *testing.T) {
	t.Parallel()
	f := setup(t)
	const n, page = 3000, 20
	c, other := f.claim(0), f.claim(1)
	next := map[*Claim]int64{}
	die := func(c *Claim) {
		var records []Record
		for range n {
			records = append(records, seq(next[c], fmt.Sprint("e", next[c]), 1))
			next[c]++
		}
		var results []Result
		for _, a := range f.apply(c, records...).Actions {
			results = append(results, Result{Claim: c, LaneSeq: a.LaneSeq, Status: Dead, Attempt: 1, ID: a.ID})
		}
		f.record(results...)
	}
	die(f.claim(2))
	admin(t, f.cfg.URL.Reveal(), fmt.Sprintf(`ANALYZE %[1]s.fences, %[1]s.actions, %[1]s.events, %[1]s.effects, %[1]s.subscriptions`, f.cfg.Schema))
	for range 2 {
		die(c)
		die(other)
	}
	list, err := f.n.Unexported(t.Context(), []*Claim{other, c}, page)
	if err != nil || len(list) != page {
		t.Fatal(len(list), err)
	}
	for i := range list {
		if list[i].Fence != min(c.ID, other.ID) || list[i].LaneSeq != int64(i+1) {
			t.Fatalf("%d is %d of %d", i, list[i].LaneSeq, list[i].Fence)
		}
	}
	rows, err := f.l.quick.Query(t.Context(), "EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) "+f.n.windows.Load().own(unexportedRead), []int32{c.ID, other.ID}, page)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(strings.Join(plan, "\n"), "actual rows=") {
		t.Errorf("the plan counts no rows:\n%s", strings.Join(plan, "\n"))
	}
	for _, line := range plan {
		_, counted, _ := strings.Cut(line, "actual rows=")
		var n int
		if fmt.Sscan(counted, &n); n > 4*page {
			t.Errorf("%d rows for a page of %d:\n%s", n, page, strings.Join(plan, "\n"))
			break
		}
	}
}
