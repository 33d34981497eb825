// Package retry waits between two tries.
package retry

import (
	"context"
	"math/rand/v2"
	"time"
)

// Backoff waits longer each time, from 100 ms to 5 s at most, of which up to half is left out at random. The zero value is ready, and
// begins with the shortest wait.
type Backoff struct{ n int }

// Sleep waits, or returns early when ctx is done.
func (b *Backoff) Sleep(ctx context.Context) {
	d := min(100*time.Millisecond<<min(b.n, 6), 5*time.Second)
	b.n++
	_ = Sleep(ctx, d/2+rand.N(d/2))
}

// Sleep waits for d. If ctx ends first, it returns the cause of that.
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
