package lane

import (
	"math"
	"time"

	"github.com/forebay-io/forebay/stream/sink"
)

// Delay is how long to wait after the n-th failed attempt (1 for the first): exponential with full jitter, that is u of
// the n-th bound with u uniform in [0, 1). The bounds begin with Min and grow evenly, so that the last delay's is Max. atLeast,
// such as what the destination asked for in Retry-After, is a floor under it; Max caps both, so that a destination cannot put
// an action off for ever.
func Delay(p RetryPolicy, n int, atLeast time.Duration, u float64) time.Duration {
	delay := time.Duration(u * float64(bound(p, n)))
	return min(max(delay, atLeast, 0), p.Max)
}

// Bounds grow at least twofold, so that many attempts lie apart, and at most tenfold, so that the last of few is not far off.
const minGrowth, maxGrowth = 2, 10

// bound is what the n-th delay stays below.
func bound(p RetryPolicy, n int) time.Duration {
	growth := float64(minGrowth)
	if delays := p.Attempts - 1; delays > 1 {
		growth = math.Pow(float64(p.Max)/float64(p.Min), 1/float64(delays-1))
		growth = min(max(growth, minGrowth), maxGrowth)
	}
	b := float64(p.Min) * math.Pow(growth, float64(n-1))
	if b >= float64(p.Max)*(1-1e-9) { // the last one is not a rounding below it
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

// judgeAttempt decides what follows from attempt n, the inARow-th in a row that ended with class, that began elapsed after the
// first one. wait is for retry alone.
//
//	class                                        idempotent, fenced                unsafe
//	none                                         succeeded                         succeeded
//	one that is not retried                      dead                              dead
//	throttled                                    retry until spent, then dead      the same: the destination did not act
//	any other                                    retry until spent, then dead      unknown: it may have acted
//
// Spent is what the policy says, or fewer in a row where the class has a bound of its own. An unsafe sink that says of an error
// that the destination is untouched is judged as an idempotent one.
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
