package gate

import (
	"fmt"
	"testing"

	"github.com/forebay-io/forebay/schemas"
)

// BenchmarkDecide decides batches of 1000 records over 1000 entities with 5 % duplicates, from a state as the ledger
// loads it: the lines of the batch's entities, and what is seen of its keys.
func BenchmarkDecide(b *testing.B) {
	for _, known := range []bool{false, true} {
		b.Run(fmt.Sprintf("lines=%t", known), func(b *testing.B) {
			records := make([]Record, 1000)
			for i := range records {
				entity := schemas.EntityKey(fmt.Sprintf("186853002/%d", i))
				records[i] = rec(i, schemas.Monotonic, 2, on(entity))
				if i%20 == 19 {
					records[i] = records[i-10]
				}
			}
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				st := NewState()
				if known {
					for i := range records {
						st.Lines[VersionLineKey{Entity: records[i].Entity}] = &VersionLine{At: schemas.Version{Kind: schemas.Monotonic, Value: 1}}
					}
				}
				b.StartTimer()
				Decide(st, records, wait)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/record")
		})
	}
}

// BenchmarkGap decides batches of 1000 records of one line in reverse, all of which wait for the last one.
func BenchmarkGap(b *testing.B) {
	records := make([]Record, 0, 1000)
	for i := range 999 {
		records = append(records, seq(i+2, int64(1000-i)))
	}
	records = append(records, seq(2000, 1))
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		st := NewState()
		st.Lines[e] = &VersionLine{At: schemas.Version{Kind: schemas.Sequence}}
		b.StartTimer()
		if out := Decide(st, records, wait); len(out) != 1999 {
			b.Fatalf("%d outcomes, want 999 waiting, 1 filler, 999 released", len(out))
		}
	}
}
