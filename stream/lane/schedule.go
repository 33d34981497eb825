package lane

import (
	"time"

	"github.com/forebay-io/forebay/stream"
)

// Delay is how long to wait after the n-th failed attempt (1 for the first): exponential with full jitter, that is
// uniform in [0, min(Max, Min*2^(n-1))] with u uniform in [0, 1). What the destination asked for in Retry-After is a
// floor under it; Max caps both, so that a destination cannot put an action off for ever.
func Delay(p RetryPolicy, n int, retryAfter time.Duration, u float64) time.Duration {
	delay := time.Duration(u * float64(bound(p, n)))
	return min(max(delay, retryAfter, 0), p.Max)
}

// bound is min(Max, Min*2^(n-1)) without overflow.
func bound(p RetryPolicy, n int) time.Duration {
	b := p.Min
	for range n - 1 {
		if b >= p.Max/2 {
			return p.Max
		}
		b *= 2
	}
	return min(b, p.Max)
}

// verdict is what follows from an attempt.
type verdict int

const (
	succeeded verdict = iota
	retry
	dead
	unknown
)

// judge decides what follows from attempt n that began elapsed after the first one. wait is for retry alone.
//
//	class                                        idempotent, fenced                unsafe
//	none                                         succeeded                         succeeded
//	one that is not retried                      dead                              dead
//	throttled                                    retry until spent, then dead      the same: the destination did not act
//	any other                                    retry until spent, then dead      unknown: it may have acted
//
// Spent is what the policy says, or fewer attempts where the class has a bound of its own. An unsafe sink that says of an error that the destination is untouched is judged as an idempotent one.
func judge(p RetryPolicy, kind stream.Idempotency, class stream.Class, n int, elapsed, wait time.Duration) verdict {
	most := p.Attempts
	if n := class.Most(); n > 0 {
		most = min(most, n)
	}
	switch {
	case class == stream.ClassOK:
		return succeeded
	case !class.Retried():
		return dead
	case kind == stream.Unsafe && class != stream.ClassThrottled:
		return unknown
	case n >= most || elapsed+wait > p.Within:
		return dead
	}
	return retry
}
