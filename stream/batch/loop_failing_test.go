package batch

import (
	"testing"
	"testing/synctest"
	"time"
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
		last = time.Time{} // the next claim of the partition, which was unread before
		time.Sleep(time.Minute)
		if at, want := fail(), time.Since(began)-time.Minute; at != want {
			t.Errorf("since %s, want %s", at, want)
		}
	})
}
