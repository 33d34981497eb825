package batch

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/forebay-io/forebay/stream/reader"
)

// Failures that follow each other are one, since the first of them; two with a time between in which the reader has tried again are two.
func TestReadingFailsWithoutABreak(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		since, last := time.Time{}, time.Time{}
		fail := func() time.Duration {
			since, last = failingSince(since, last), time.Now()
			return since.Sub(began)
		}
		for range 20 {
			if at := fail(); at != 0 {
				t.Errorf("after %s: since %s", time.Since(began), at)
			}
			time.Sleep(5 * time.Second)
		}
		time.Sleep(5 * time.Hour)
		if at := fail(); at != time.Since(began) {
			t.Errorf("a failure of its own, since %s", at)
		}
		last = time.Now() // the next claim of the partition, which was unread before
		time.Sleep(ReadAgain)
		if at, want := fail(), time.Since(began)-ReadAgain; at != want {
			t.Errorf("since %s, want %s", at, want)
		}
	})
}

// The first failure of a run is one with those of the run before if it comes at once. One that comes late is a failure of its own,
// however long ago the partition was unread.
func TestFirstFailureOfARun(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		after time.Duration
		ends  bool
	}{"at once": {time.Second, true}, "late": {ReadAgain + time.Second, false}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l, before, _ := feeder(t, prometheus.NewRegistry())
				l.cfg.UnreadAfter = time.Minute
				p := NewPartition(before.Claim, 1)
				p.Unread = time.Now().Add(-72 * time.Hour)
				go l.Attach(t.Context(), p)
				l.step()
				time.Sleep(tt.after)
				l.readFailed(p, &reader.Part{Of: p.reading, Err: kerr.CorruptMessage})
				if p.gone != tt.ends {
					t.Errorf("ended: %v, since %s", p.gone, p.Unread)
				}
			})
		})
	}
}
