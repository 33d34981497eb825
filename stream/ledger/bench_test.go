package ledger

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/forebay-io/forebay/schemas"
)

// BenchmarkLedger applies batches with 5 % duplicates over 20,000 entities a partition, one action per event, and
// records every action's completion, as the owner and the lanes do. Metric: events/s over both.
func BenchmarkLedger(b *testing.B) {
	for _, size := range []int{1, 100, 500, 1000} {
		for _, partitions := range []int{1, 2} {
			b.Run(fmt.Sprintf("batch=%d/partitions=%d", size, partitions), func(b *testing.B) { benchmark(b, size, partitions) })
		}
	}
}

func benchmark(b *testing.B, size, partitions int) {
	f := setup(b)
	rounds := b.N
	b.ResetTimer()
	start := time.Now()
	var wg sync.WaitGroup
	for p := range partitions {
		c := f.claim(int32(p))
		wg.Go(func() { f.load(b, c, size, rounds) })
	}
	wg.Wait()
	b.ReportMetric(float64(rounds*size*partitions)/time.Since(start).Seconds(), "events/s")
}

// load applies and records batches; results of one batch are recorded while the next is applied.
func (f *fixture) load(b *testing.B, c *Claim, size, rounds int) {
	var recording sync.WaitGroup
	defer recording.Wait()
	versions := make([]int64, 20_000)
	ids := make([]string, 0, size*rounds)
	for round := range rounds {
		records := make([]Record, size)
		for i := range records {
			offset := int64(round*size + i)
			if n := len(ids); offset%20 == 19 && n > 0 {
				records[i] = record(offset, ids[max(n-500, 0)], "repeated", schemas.Version{Kind: schemas.Sequence, Value: 1})
				continue
			}
			e := int(offset*7919) % len(versions)
			versions[e]++
			id := fmt.Sprintf("p%d-72d3162e-cc78-11e3-81ab-%012d", c.Partition.Number, offset)
			ids = append(ids, id)
			records[i] = record(offset, id, fmt.Sprintf("186853002/%d", e), schemas.Version{Kind: schemas.Sequence, Value: versions[e]})
		}
		out, err := f.n.Apply(b.Context(), []Slice{slice(c, records...)})
		if err != nil {
			b.Error(err)
			return
		}
		recording.Wait()
		recording.Go(func() {
			results := make([]Result, len(out[0].Actions))
			for i, a := range out[0].Actions {
				results[i] = Result{Claim: c, LaneSeq: a.LaneSeq, Status: Done, Attempt: 1, Code: 200, Latency: 12 * time.Millisecond}
			}
			if _, err := f.n.Record(b.Context(), results); err != nil {
				b.Error(err)
			}
		})
	}
}
