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

// limit keeps a source's rate, and stays away from a server for as long as it asked to be left alone. Safe for
// concurrent use.
type limit struct {
	mu     sync.Mutex
	bucket *rate.Limiter // nil: no limit
	until  time.Time     // no request before
}

// newLimit lets perSecond requests through, burst at once; no limit where perSecond is 0.
func newLimit(perSecond, burst int) *limit {
	if perSecond == 0 {
		return &limit{}
	}
	return &limit{bucket: rate.NewLimiter(rate.Limit(perSecond), max(burst, 1))}
}

// pause lets no request begin for d.
func (l *limit) pause(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if until := time.Now().Add(min(d, maxHold)); until.After(l.until) {
		l.until = until
	}
}

// take waits for the next request's turn and gives 0. If that would take longer than most it takes nothing, waits no
// more and says how long it would be. The error is that ctx ended.
func (l *limit) take(ctx context.Context, most time.Duration) (time.Duration, error) {
	deadline := time.Now().Add(most)
	wait, ok := l.reserve(most)
	for ok && wait > 0 {
		if err := retry.Sleep(ctx, wait); err != nil {
			return 0, err
		}
		if wait = l.paused(); time.Until(deadline) < wait { // the server has asked for a pause meanwhile
			ok = false
		}
	}
	if !ok {
		return wait, nil
	}
	return 0, nil
}

// reserve takes the next turn if it comes within most, else none. It never gives a turn back: a turn that is given back is
// lost to those who reserved after it, and with many callers that try again none would ever get one.
func (l *limit) reserve(most time.Duration) (wait time.Duration, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	wait = max(0, l.until.Sub(now))
	if l.bucket != nil {
		missing := 1 - l.bucket.TokensAt(now)
		wait = max(wait, time.Duration(missing/float64(l.bucket.Limit())*float64(time.Second)))
	}
	if wait > max(most, 0) {
		return wait, false
	}
	if l.bucket != nil {
		wait = max(wait, l.bucket.ReserveN(now, 1).DelayFrom(now))
	}
	return wait, true
}

func (l *limit) paused() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return max(0, time.Until(l.until))
}
