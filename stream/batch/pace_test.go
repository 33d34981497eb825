package batch

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/reader"
)

// begun notes when each batch came to the ledger.
type begun struct {
	*written
	at []time.Duration
	t0 time.Time
}

func (b *begun) Apply(ctx context.Context, batch []ledger.Slice) ([]ledger.Applied, error) {
	b.at = append(b.at, time.Since(b.t0))
	return b.written.Apply(ctx, batch)
}

// A record that comes after a quiet time waits for nothing but BatchWait, and those that follow one by one share transactions that
// are the pace apart. Where batches are large, nothing is paced.
func TestSmallBatchesArePaced(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	for name, tt := range map[string]struct {
		every   time.Duration // a unit comes
		records int64         // of each unit
		want    []time.Duration
		batches []int
	}{
		"one by one":   {9 * ms, 1, []time.Duration{2 * ms, 22 * ms, 42 * ms}, []int{1, 2, 2}},
		"far apart":    {30 * ms, 1, []time.Duration{2 * ms, 32 * ms, 62 * ms, 92 * ms, 122 * ms}, []int{1, 1, 1, 1, 1}},
		"many at once": {9 * ms, smallBatch, []time.Duration{2 * ms, 11 * ms, 20 * ms, 29 * ms, 38 * ms}, []int{8, 8, 8, 8, 8}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l, p, w := feeder(t, prometheus.NewRegistry())
				b := &begun{written: w, t0: time.Now()}
				l.cfg.Ledger, l.cfg.BatchWait, l.pace.apart = b, 2*ms, 20*ms
				in := make(chan reader.Unit, 10) // the reader holds what waits
				l.cfg.Reader = fed(in)
				go func() {
					for i := range int64(5) {
						in <- reader.Unit{Parts: []reader.Part{stretch(p, i*tt.records, (i+1)*tt.records)}, Records: int(tt.records)}
						time.Sleep(tt.every)
					}
				}()
				for int64(len(w.offsets)) < 5*tt.records {
					l.step()
				}
				if !slices.Equal(b.at, tt.want) || !slices.Equal(w.batches, tt.batches) {
					t.Errorf("batches of %v at %v, want %v at %v", w.batches, b.at, tt.batches, tt.want)
				}
				time.Sleep(time.Minute) // what feeds ends
			})
		})
	}
}
