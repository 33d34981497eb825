package ledger

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sync/errgroup"
)

// Copies and results of the same actions at once, over a window that turns: what is done stays done, whoever came first, what
// is not has its copy, and the next owner loads exactly that.
func TestCopyRacesRecord(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.claim(0)
	const n, each = 400, 50
	last := make([]Status, n+1) // by lane_seq
	var applied atomic.Int64
	var g errgroup.Group
	g.Go(func() error {
		for i := int64(0); i < n; i += each {
			var records []Record
			for k := range int64(each) {
				records = append(records, seq(i+k, fmt.Sprintf("e%d", i+k), 1))
			}
			if _, err := f.n.Apply(t.Context(), []Slice{slice(c, records...)}); err != nil {
				return err
			}
			applied.Store(i + each)
			if i == n/2 {
				if _, err := f.l.hot.Exec(t.Context(), `UPDATE windows SET opened_at = opened_at - interval '100 days' WHERE state = 'current'`); err != nil {
					return err
				}
				if _, err := f.l.Sweep(t.Context(), SweepConfig{}); err != nil {
					return err
				}
			}
		}
		return nil
	})
	for half := range 2 { // two recorders, each of its own actions; both meet the copiers
		g.Go(func() error {
			rng := rand.New(rand.NewPCG(1, uint64(half)))
			for lane := int64(1 + half); lane <= n; {
				var results []Result
				for ; lane <= applied.Load() && len(results) < 20; lane += 2 {
					r := Result{Claim: c, LaneSeq: lane, Status: []Status{Done, Done, Failed, Parked}[rng.IntN(4)], Attempt: 1}
					if r.Status == Failed {
						r.Class = "timeout"
					}
					results = append(results, r)
					if last[lane] = r.Status; r.Status == Failed && rng.IntN(2) == 0 {
						r.Status, r.Attempt, r.Class = Done, 2, ""
						results, last[lane] = append(results, r), Done
					}
				}
				if _, err := f.n.Record(t.Context(), results); err != nil {
					return err
				}
			}
			return nil
		})
	}
	for i := range 2 {
		g.Go(func() error {
			rng := rand.New(rand.NewPCG(2, uint64(i)))
			for round := 0; round < 60 || applied.Load() < n; round++ {
				upto := applied.Load()
				if upto == 0 {
					continue
				}
				var copies []Copy
				for range 1 + rng.IntN(30) {
					lane := max(1, upto-rng.Int64N(2*each))
					copies = append(copies, Copy{lane, fmt.Appendf(nil, "copy %d", lane)})
				}
				if _, fenced, err := f.n.Copy(t.Context(), c, copies); err != nil || fenced {
					return fmt.Errorf("copy: fenced %v, %w", fenced, err)
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	var all []Copy
	var want []string
	for lane := int64(1); lane <= n; lane++ {
		all = append(all, Copy{lane, fmt.Appendf(nil, "copy %d", lane)})
		if last[lane] != Done {
			want = append(want, fmt.Sprintf("%d %s copy %d", lane, last[lane], lane))
		}
	}
	f.copy(c, all...)
	for _, owner := range []*Claim{c, f.claim(0)} {
		open, _, err := f.n.Open(t.Context(), owner, 0, n)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, a := range open {
			got = append(got, fmt.Sprintf("%d %s %s", a.LaneSeq, a.Status, a.Packed))
		}
		if !slices.Equal(got, want) {
			t.Fatalf("open:\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	if got := one[int](f, `SELECT count(*) FROM `+states+` WHERE status = 'done'`); got != n-len(want) {
		t.Errorf("%d are done, want %d", got, n-len(want))
	}
	if got := one[int](f, `SELECT count(*) FROM actions WHERE status = 'done' AND packed IS NOT NULL`); got != 0 {
		t.Errorf("%d copies of what is done", got)
	}
}
