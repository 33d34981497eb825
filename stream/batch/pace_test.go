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
	at    []time.Duration
	t0    time.Time
	takes time.Duration
}

func (b *begun) Apply(ctx context.Context, batch []ledger.Slice) ([]ledger.Applied, error) {
	b.at = append(b.at, time.Since(b.t0))
	time.Sleep(b.takes)
	return b.written.Apply(ctx, batch)
}

// What comes alone goes at once. What comes while a transaction runs shares the next one, which begins when as much time has passed as that took,
// and no later than the pace. Behind a large batch the next one fills up.
func TestSmallBatchesArePaced(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	for name, tt := range map[string]struct {
		every   time.Duration // a unit comes
		takes   time.Duration // a transaction
		records int64         // of each unit
		want    []time.Duration
		batches []int
	}{
		"alone":              {9 * ms, 3 * ms, 1, []time.Duration{0, 9 * ms, 18 * ms, 27 * ms, 36 * ms}, []int{1, 1, 1, 1, 1}},
		"before its turn":    {9 * ms, 6 * ms, 1, []time.Duration{0, 12*ms + ms/2, 25*ms + ms/2, 38*ms + ms/2}, []int{1, 1, 1, 2}},
		"while one runs":     {2 * ms, 3 * ms, 1, []time.Duration{0, 6*ms + ms/2, 13*ms + ms/2}, []int{1, 3, 1}},
		"longer than a pace": {9 * ms, 30 * ms, 1, []time.Duration{0, 30*ms + ms/2, 61 * ms}, []int{1, 3, 1}},
		"many at once":       {9 * ms, 0, smallBatch, []time.Duration{0, 11 * ms, 20 * ms, 29 * ms, 38 * ms}, []int{8, 8, 8, 8, 8}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l, p, w := feeder(t, prometheus.NewRegistry())
				b := &begun{written: w, t0: time.Now(), takes: tt.takes}
				l.cfg.Ledger, l.cfg.BatchWait, l.pace = b, 2*ms, pace{most: 20 * ms}
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
