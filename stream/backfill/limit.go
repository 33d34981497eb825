package backfill

import (
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/forebay-io/forebay/stream/internal/retry"
)

// maxHold bounds how long a server can ask to be left alone.
const maxHold = time.Hour

// limit gives the requests to a source's API their turns: by the source's rate, and none while the server has asked to be left alone.
// Safe for concurrent use.
type limit struct {
	mu          sync.Mutex
	bucket      *rate.Limiter // nil: no rate
	pausedUntil time.Time
}

// newLimit lets perSecond requests through, burst at once; perSecond 0 is no rate.
func newLimit(perSecond float64, burst int) *limit {
	if perSecond == 0 {
		return &limit{}
	}
	return &limit{bucket: rate.NewLimiter(rate.Limit(perSecond), max(burst, 1))}
}

// pause lets no request begin for d.
func (l *limit) pause(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if until := time.Now().Add(min(d, maxHold)); until.After(l.pausedUntil) {
		l.pausedUntil = until
	}
}

// take waits for the next turn and returns 0. Where the turn would come later than maxWait from now, take returns at once how long the
// caller would have to wait. The error is that ctx ended.
func (l *limit) take(ctx context.Context, maxWait time.Duration) (time.Duration, error) {
	deadline := time.Now().Add(maxWait)
	wait, ok := l.reserve(maxWait)
	if !ok {
		return wait, nil
	}
	for wait > 0 {
		if err := retry.Sleep(ctx, wait); err != nil {
			return 0, err
		}
		wait = l.pauseLeft() // another request's answer may have begun a pause meanwhile
		if time.Until(deadline) < wait {
			return wait, nil
		}
	}
	return 0, nil
}

// reserve takes the next turn and returns how long to wait for it. If that is longer than maxWait, it takes none, and ok is false. A
// turn is never given back: it would be lost to those who reserved after it, and with many callers that try again none would ever get
// one.
func (l *limit) reserve(maxWait time.Duration) (wait time.Duration, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	wait = max(0, l.pausedUntil.Sub(now))
	if l.bucket != nil {
		missing := 1 - l.bucket.TokensAt(now)
		wait = max(wait, time.Duration(missing/float64(l.bucket.Limit())*float64(time.Second)))
	}
	if wait > max(maxWait, 0) {
		return wait, false
	}
	if l.bucket != nil {
		wait = max(wait, l.bucket.ReserveN(now, 1).DelayFrom(now))
	}
	return wait, true
}

// pauseLeft returns how long no request may begin; 0 without a pause.
func (l *limit) pauseLeft() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return max(0, time.Until(l.pausedUntil))
}
