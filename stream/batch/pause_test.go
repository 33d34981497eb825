package batch

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/forebay-io/forebay/stream/reader"
)

// TestPausedLoop: a paused loop takes nothing from the reader, nor what it carries over; it answers
// its owner all the same. After the pause it goes on where it stood.
func TestPausedLoop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, p, w := feeder(t, prometheus.NewRegistry())
		unit := func(from, to int64) reader.Unit {
			return reader.Unit{Parts: []reader.Part{stretch(p, from, to)}, Records: int(to - from), Bytes: int(to - from)}
		}
		l.cfg.BatchRecords = 3
		units := l.cfg.Reader.(fed)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for len(w.offsets) < 8 {
				l.step()
			}
		}()
		units <- unit(0, 2)
		units <- unit(2, 4) // does not fit: it is carried over
		synctest.Wait()
		l.Pause(t.Context(), true)
		decided := slices.Clone(w.offsets)
		sent := make(chan struct{})
		go func() {
			defer close(sent)
			units <- unit(4, 8)
		}()
		time.Sleep(time.Hour)
		synctest.Wait()
		if !slices.Equal(w.offsets, decided) || len(decided) == 8 {
			t.Errorf("decided %d, then %d while paused", decided, w.offsets)
		}
		select {
		case <-sent:
			t.Error("a unit was taken while paused")
		default:
		}
		if got := l.Claims(); len(got) != 1 {
			t.Errorf("%d claims while paused", len(got))
		}
		l.Pause(t.Context(), false)
		<-sent
		<-ended
		if want := []int64{0, 1, 2, 3, 4, 5, 6, 7}; !slices.Equal(w.offsets, want) {
			t.Errorf("decided %d, want %d", w.offsets, want)
		}
	})
}
