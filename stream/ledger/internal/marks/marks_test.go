package marks

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// Random marks against a naive set: low is the first that is not recorded, and what is plainly open is listed, all of it, in
// order, whatever the cut.
func TestMarks(t *testing.T) {
	t.Parallel()
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 1))
		low := 1 + r.Int64N(3000)
		m := New(low, low)
		recorded := map[int64]bool{}
		begin := m.Low
		for range 400 {
			m.Given += r.Int64N(40)
			for range r.IntN(60) {
				s := begin + r.Int64N(m.Given-begin+1)
				if r.IntN(3) > 0 { // mostly near the mark
					s = min(m.Low+r.Int64N(8), m.Given-1)
				}
				if s < m.Given && s >= begin {
					m.MarkRecorded(s)
					recorded[s] = true
				}
			}
			if r.IntN(4) == 0 {
				m.Advance()
				want := begin
				for want < m.Given && recorded[want] {
					want++
				}
				if m.Low != want {
					t.Fatalf("seed %d: low %d, want %d of %d", seed, m.Low, want, m.Given)
				}
			}
			after, limit := begin-1+r.Int64N(m.Given-begin+1), 1+r.IntN(50)
			var want []int64
			for s := after + 1; s < m.Given && len(want) < limit; s++ {
				if !recorded[s] {
					want = append(want, s)
				}
			}
			if got := m.Plain(after, limit); !slices.Equal(got, want) {
				t.Fatalf("seed %d: after %d open are %v, want %v", seed, after, got, want)
			}
		}
		for s := range m.buckets {
			if s < m.Low>>bucketBits {
				t.Fatalf("seed %d: bucket %d is kept below %d", seed, s, m.Low)
			}
		}
	}
}

// Where things of an action are written, by what is known of it.
func TestWays(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		before               func(m *Marks)
		plain, other, packed Way // of a result that a completion says, of another result, of a payload copy
		mayGiveRow, ended    bool
	}{
		"nothing is known":        {func(*Marks) {}, Completion, NewRow, NewRow, true, false},
		"below low":               {func(m *Marks) { m.Low = 8 }, BelowLow, BelowLow, BelowLow, true, false},
		"a completion is loaded":  {func(m *Marks) { m.Load(7, true) }, Nowhere, Nowhere, Nowhere, false, true},
		"a row is loaded":         {func(m *Marks) { m.Load(7, false) }, IntoRow, IntoRow, IntoRow, true, false},
		"a completion is written": {func(m *Marks) { m.WayOf(7, true) }, Nowhere, Nowhere, Nowhere, false, true},
		"a completion in doubt":   {func(m *Marks) { m.WayOf(7, true); m.Unknown(7) }, Completion, NewRow, Nowhere, false, false},
		"one written once more":   {func(m *Marks) { m.WayOf(7, true); m.Unknown(7); m.WayOf(7, true); m.MarkRecorded(7) }, Nowhere, Nowhere, Nowhere, false, true},
		"a row is being written":  {func(m *Marks) { m.GiveRow(7) }, NewRow, NewRow, NewRow, true, false},
		"a row is committed":      {func(m *Marks) { m.GiveRow(7); m.MarkRecorded(7) }, IntoRow, IntoRow, IntoRow, true, false},
	} {
		made := func() *Marks {
			m := New(1, 10)
			tt.before(&m)
			return &m
		}
		if got := made().WayOf(7, true); got != tt.plain {
			t.Errorf("%s: a completion goes %d, want %d", name, got, tt.plain)
		}
		if got := made().WayOf(7, false); got != tt.other {
			t.Errorf("%s: another result goes %d, want %d", name, got, tt.other)
		}
		if got := made().WayOfCopy(7); got != tt.packed {
			t.Errorf("%s: a copy goes %d, want %d", name, got, tt.packed)
		}
		if m := made(); m.MayGiveRow(7) != tt.mayGiveRow || m.Ended(7) != tt.ended {
			t.Errorf("%s: may have a row %t, ended %t", name, m.MayGiveRow(7), m.Ended(7))
		}
	}
	for _, laneSeq := range []int64{1, 1023, 1024, 1 << 40} {
		if got := LaneSeq(Bucket(laneSeq)); got != laneSeq {
			t.Errorf("%d comes back as %d", laneSeq, got)
		}
	}
}
