package lane

import (
	"math"
	"time"

	"github.com/forebay-io/forebay/stream/sink"
)

// Delay returns how long to wait after the n-th failed attempt (1 for the first): u times the n-th bound, for a u that is uniform
// in [0, 1), which is exponential backoff with full jitter. The first bound is Min, the last is Max, and they grow by an even
// factor. The delay is at least atLeast, but never above Max.
func Delay(p RetryPolicy, n int, atLeast time.Duration, u float64) time.Duration {
	delay := time.Duration(u * float64(bound(p, n)))
	return min(max(delay, atLeast, 0), p.Max)
}

// By which factor the bounds grow: at least two, so that many attempts do not crowd at the start, and at most ten, so that with
// few attempts the last one is not too far off.
const minGrowth, maxGrowth = 2, 10

// bound returns the upper bound of the n-th delay.
func bound(p RetryPolicy, n int) time.Duration {
	growth := float64(minGrowth)
	if delays := p.Attempts - 1; delays > 1 {
		growth = math.Pow(float64(p.Max)/float64(p.Min), 1/float64(delays-1))
		growth = min(max(growth, minGrowth), maxGrowth)
	}
	b := float64(p.Min) * math.Pow(growth, float64(n-1))
	if b >= float64(p.Max)*(1-1e-9) { // rounding must not leave the last bound just below Max
		return p.Max
	}
	return time.Duration(b)
}

// verdict is what follows from an attempt.
type verdict int

const (
	succeeded verdict = iota
	retry
	dead
	unknown
)

// judgeAttempt decides what follows from attempt n. It ended with class, as the last inARow attempts did, and elapsed time has
// passed since the first one. wait is the delay before a retry.
//
//	class                                        idempotent, fenced                unsafe
//	none                                         succeeded                         succeeded
//	one that is not retried                      dead                              dead
//	throttled                                    retry until spent, then dead      the same: the destination did not act
//	any other                                    retry until spent, then dead      unknown: it may have acted
//
// "Spent" means that the policy's attempts or time are used up, or as many attempts in a row as the class allows. If an unsafe
// sink says that an error left the destination untouched, the caller passes Idempotent.
func judgeAttempt(p RetryPolicy, kind sink.Idempotency, class sink.Class, n, inARow int, elapsed, wait time.Duration) verdict {
	most := class.Most()
	switch {
	case class == sink.ClassOK:
		return succeeded
	case !class.Retried():
		return dead
	case kind == sink.Unsafe && class != sink.ClassThrottled:
		return unknown
	case n >= p.Attempts || most > 0 && inARow >= most || elapsed+wait > p.Within:
		return dead
	}
	return retry
}
