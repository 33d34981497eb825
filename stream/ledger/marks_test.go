package ledger

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// Random marks against a naive set: low is the first that is not settled, and what is plainly open is listed, all of it, in
// order, whatever the cut.
func TestLaneMarks(t *testing.T) {
	t.Parallel()
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 1))
		m := laneMarks{low: 1 + r.Int64N(3000), buckets: map[int64]*laneBucket{}}
		m.given = m.low
		settled := map[int64]bool{}
		begin := m.low
		for range 400 {
			m.given += r.Int64N(40)
			for range r.IntN(60) {
				s := begin + r.Int64N(m.given-begin+1)
				if r.IntN(3) > 0 { // mostly near the mark
					s = min(m.low+r.Int64N(8), m.given-1)
				}
				if s < m.given && s >= begin {
					m.markRecorded(s)
					settled[s] = true
				}
			}
			if r.IntN(4) == 0 {
				m.advance()
				want := begin
				for want < m.given && settled[want] {
					want++
				}
				if m.low != want {
					t.Fatalf("seed %d: low %d, want %d of %d", seed, m.low, want, m.given)
				}
			}
			after, limit := begin-1+r.Int64N(m.given-begin+1), 1+r.IntN(50)
			var want []int64
			for s := after + 1; s < m.given && len(want) < limit; s++ {
				if !settled[s] {
					want = append(want, s)
				}
			}
			if got := m.plain(after, limit); !slices.Equal(got, want) {
				t.Fatalf("seed %d: after %d open are %v, want %v", seed, after, got, want)
			}
		}
		for s := range m.buckets {
			if s < m.low>>bucketBits {
				t.Fatalf("seed %d: bucket %d is kept below %d", seed, s, m.low)
			}
		}
	}
}
