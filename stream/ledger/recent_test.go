package ledger

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/forebay-io/forebay/schemas"
)

// An event that comes back when nobody remembers it any more is taken for new at first, and is decided as what it is,
// whatever would have become of a new one.
func TestLateRepeatIsFound(t *testing.T) {
	t.Parallel()
	late := func(change func(*Record)) Record {
		r := seq(100, "late", 1)
		if change != nil {
			change(&r)
		}
		return r
	}
	for name, c := range map[string]struct {
		turn      bool // the window has turned meanwhile
		partition int32
		record    Record
		want      string
	}{
		"the same":                {want: "duplicate/seen", record: late(nil)},
		"with another body":       {want: "conflict/body_differs", record: late(func(r *Record) { r.Hash = schemas.HashBody([]byte("another")) })},
		"no longer wanted":        {want: "duplicate/seen", record: late(func(r *Record) { r.Filtered = true })},
		"in a closed window":      {want: "duplicate/seen", record: late(nil), turn: true},
		"in another partition":    {want: "duplicate/seen", record: late(nil), partition: 1},
		"as one that waits":       {want: "duplicate/seen", record: seq(100, "waits", 3)},
		"as one that waits, else": {want: "conflict/body_differs", record: func() Record { r := seq(100, "waits", 3); r.Hash[0]++; return r }()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := setup(t)
			claims := map[int32]*Claim{0: f.claim(0), 1: f.claim(1)}
			f.apply(claims[0], seq(0, "late", 1), seq(1, "waits", 1), seq(2, "waits", 3))
			for i := range int64(20) { // one after the other: the more are forgotten
				f.apply(claims[0], seq(10+i, fmt.Sprint("e", i), 1))
			}
			if c.turn {
				f.turnWindow()
				f.apply(claims[0], seq(40, "e", 1))
			}
			if f.n.recent.askAllLeft > 0 {
				t.Fatal("keys that are not remembered are asked for anyway")
			}
			a := f.apply(claims[c.partition], seq(99, "before", 1), c.record, seq(101, "after", 1))
			var got []string
			for _, d := range decisions(a) {
				got = append(got, d[strings.Index(d, ":")+1:])
			}
			if d := cmp.Diff([]string{"applied/first", c.want, "applied/first"}, got); d != "" {
				t.Error(d)
			}
			if got := lanes(a.Actions); len(got) != 2 || !strings.Contains(got[0], "before") || !strings.Contains(got[1], "after") {
				t.Errorf("runs %v", got)
			}
			if n := one[int](f, `SELECT count(*) - count(DISTINCT event_key) FROM events`); n != 0 {
				t.Errorf("%d events have a second row", n)
			}
			if c.want == "duplicate/seen" {
				if n := one[int](f, `SELECT duplicates FROM events WHERE event_key = $1`, c.record.Key); n != 1 {
					t.Errorf("%d duplicates are counted", n)
				}
			}
		})
	}
}

// Who is new is not asked for; who has been met, is filtered, or comes while keys are in doubt, is.
func TestKeysThatAreAskedFor(t *testing.T) {
	t.Parallel()
	n := &Namespace{recent: newRecentKeys(8, 10)}
	asked := func(sure bool, records ...Record) int32 {
		w := &partitionBatch{Slice: Slice{Records: records}, askAllKeys: sure, scratch: &scratch{}}
		got, all := (&batchTx{n: n, parts: []*partitionBatch{w}}).keys()
		if all.Len() != len(records) {
			t.Errorf("%d keys of %d", all.Len(), len(records))
		}
		return int32(got.Len())
	}
	unwanted := seq(0, "unwanted", 1)
	unwanted.Filtered = true
	for i, step := range []struct {
		passed  int  // events before
		late    bool // one of them was
		sure    bool
		records []Record
		want    int32
	}{
		{records: []Record{seq(0, "a", 1)}, want: 1},
		{passed: 9, records: []Record{seq(0, "b", 1)}, want: 1},
		{passed: 1, records: []Record{seq(0, "c", 1), seq(0, "a", 1), seq(0, "d", 1), seq(0, "d", 1), unwanted}, want: 3},
		{records: []Record{seq(0, "e", 1)}, sure: true, want: 1},
		{passed: 5, late: true, records: []Record{seq(0, "f", 1)}, want: 1},
		{passed: 20, records: []Record{seq(0, "g", 1), seq(0, "h", 1), seq(0, "i", 1), seq(0, "j", 1)}, want: 0},
		{records: []Record{seq(0, "c", 1), seq(0, "g", 1)}, want: 1}, // the set has eight
	} {
		n.recent.batchCommitted(step.passed, step.late)
		if got := asked(step.sure, step.records...); got != step.want {
			t.Errorf("step %d: %d keys are asked for, want %d", i, got, step.want)
		}
	}
}

// In a rewind every event comes back. Only the first batch is refused; the others know better, as long as it goes on.
func TestRewindIsInDoubtThroughout(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.n.recent = newRecentKeys(8, 100)
	c := f.claim(0)
	for i := range int64(40) {
		f.apply(c, seq(i, fmt.Sprint("e", i), 1))
	}
	c = f.seek(40, 0)
	for i := range int64(40) {
		if got := decisions(f.apply(c, seq(i, fmt.Sprint("e", i), 1))); got[0] != "0:duplicate/seen" {
			t.Fatal(got)
		}
		if f.n.recent.askAllLeft != 100 {
			t.Fatalf("after %d events %d have to pass without a late one", i, f.n.recent.askAllLeft)
		}
	}
}
