package ledger

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
)

// withoutCopy are the lane_seqs of what has no copy, read in pages of limit.
func (f *fixture) withoutCopy(c *Claim, before int64, limit int) (seqs []int64) {
	f.t.Helper()
	for after := int64(0); ; {
		page, err := f.n.WithoutCopy(f.t.Context(), c, after, before, limit)
		if err != nil {
			f.t.Fatal(err)
		}
		for _, a := range page.Actions {
			if a.LaneSeq <= after || a.LaneSeq > page.Upto {
				f.t.Errorf("action %d is not in the page from %d to %d", a.LaneSeq, after, page.Upto)
			}
			seqs = append(seqs, a.LaneSeq)
		}
		if !page.More {
			return seqs
		}
		after = page.Upto
	}
}

func (f *fixture) record(results ...Result) {
	f.t.Helper()
	if fenced, err := f.n.Record(f.t.Context(), results); err != nil || len(fenced) > 0 {
		f.t.Fatal(fenced, err)
	}
}

func (f *fixture) copy(c *Claim, copies ...Copy) (stored int, fenced bool) {
	f.t.Helper()
	stored, fenced, err := f.n.Copy(f.t.Context(), c, copies)
	if err != nil {
		f.t.Fatal(err)
	}
	return stored, fenced
}

// A transaction takes 4 MiB, or one copy.
func TestCopyBoundsItsTransactions(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.claim(0)
	var records []Record
	var copies []Copy
	for i := range int64(copyRows + 10) {
		records = append(records, seq(i, fmt.Sprintf("e%d", i), 1))
		copies = append(copies, Copy{i + 1, []byte{1}})
	}
	f.apply(c, records...)
	half := bytes.Repeat([]byte("x"), copyBytes/2)
	copies[0].Packed, copies[1].Packed, copies[2].Packed = half, half, slices.Concat(half, half)
	copies[3].Packed = bytes.Repeat([]byte("x"), copyBytes+1)
	if stored, _ := f.copy(c, copies...); stored != len(copies) {
		t.Errorf("stored %d of %d", stored, len(copies))
	}
	rows, err := f.l.read.Query(t.Context(), `SELECT count(*) FROM actions GROUP BY xmin ORDER BY min(lane_seq)`)
	if err != nil {
		t.Fatal(err)
	}
	got, err := pgx.CollectRows(rows, pgx.RowTo[int])
	if d := cmp.Diff([]int{2, 1, 1, copyRows, 6}, got); d != "" || err != nil {
		t.Error(d, err)
	}
}

// A page of the walk costs a page, however much is open: the index scans stop at the limit, nothing is sorted first.
func TestWithoutCopyStopsAtItsLimit(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.claim(0)
	for range 4 {
		var records []Record
		for i := range int64(1000) {
			records = append(records, record(c.Next.Offset+i, fmt.Sprintf("x-%d", c.Next.Offset+i), "e", schemas.Version{Kind: schemas.None}))
		}
		f.apply(c, records...)
	}
	var failed []Result
	for i := range int64(4000) {
		failed = append(failed, Result{Claim: c, LaneSeq: i + 1, Status: Failed, Attempt: 1, NextIn: time.Hour})
	}
	f.record(failed[:2000]...)
	window := f.n.windows.Load().current
	for name, sql := range map[string]string{
		"rows":  withoutCopyRowsRead([]int32{window}),
		"plain": OfWindow(window, withoutCopyPlainRead),
	} {
		args := []any{c.ID, int64(17), 11}
		if name == "plain" {
			args = []any{c.ID, []int64{2018, 2019, 2020, 2021, 2022, 2023, 2024, 2025, 2026, 2027, 2028}}
		}
		text := f.explain(sql, args...)
		for line := range strings.Lines(text) {
			_, counted, _ := strings.Cut(line, "actual rows=")
			var n int
			if fmt.Sscan(counted, &n); n > 22 {
				t.Errorf("%s: %d rows for a page of 11 in\n%s", name, n, text)
			}
		}
		if !strings.Contains(text, "actual rows=") || strings.Contains(text, "Seq Scan on actions") || strings.Contains(text, "Seq Scan on events") || !strings.Contains(text, map[string]string{"rows": "_open", "plain": "_lane"}[name]) {
			t.Error(name, text)
		}
	}
}

// explain runs a read of the hot path and gives its plan with what it read.
func (f *fixture) explain(sql string, args ...any) string {
	f.t.Helper()
	rows, err := f.l.hot.Query(f.t.Context(), "EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) "+sql, args...)
	if err != nil {
		f.t.Fatal(err)
	}
	plan, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		f.t.Fatal(err)
	}
	return strings.Join(plan, "\n")
}
