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
	_ = Sleep(ctx, d/2+rand.N(d/2))
}

// Sleep waits for d; the error says that ctx ended first, and why.
func Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
