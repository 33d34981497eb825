// Package retry waits between two tries.
package retry

import (
	"context"
	"math/rand/v2"
	"time"
)

// Backoff waits longer each time, from 100 ms to 5 s, with jitter. Its zero value begins.
type Backoff struct{ n int }

// Sleep waits, no longer than until ctx is done.
func (b *Backoff) Sleep(ctx context.Context) {
	d := min(100*time.Millisecond<<min(b.n, 6), 5*time.Second)
	b.n++
	timer := time.NewTimer(d/2 + rand.N(d/2))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
