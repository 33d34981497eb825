package lane

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/forebay-io/forebay/stream"
)

func drawPolicy(t *rapid.T) RetryPolicy {
	low := rapid.Int64Range(1, int64(time.Hour)).Draw(t, "min")
	return RetryPolicy{
		Attempts: rapid.IntRange(1, 50).Draw(t, "attempts"),
		Within:   time.Duration(rapid.Int64Range(1, int64(1000*time.Hour)).Draw(t, "within")),
		Min:      time.Duration(low),
		Max:      time.Duration(rapid.Int64Range(low, 1<<62).Draw(t, "max")),
	}
}

func TestDelayProperty(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := drawPolicy(t)
		n := rapid.IntRange(1, 200).Draw(t, "n")
		u := rapid.Float64Range(0, 0.9999999).Draw(t, "u")
		limit := p.Max // min(Max, Min*2^(n-1)), in floating point
		if f := float64(p.Min) * pow2(n-1); f < float64(p.Max) {
			limit = time.Duration(f)
		}
		got := Delay(p, n, 0, u)
		if got < 0 || got > limit {
			t.Fatalf("delay %v is not within [0, %v]", got, limit)
		}
		if want := time.Duration(u * float64(limit)); got-want > time.Microsecond || want-got > time.Microsecond {
			t.Fatalf("delay %v is not %v of %v", got, u, limit)
		}
		asked := time.Duration(rapid.Int64Range(-1, 1<<62).Draw(t, "retry after"))
		got = Delay(p, n, asked, u)
		if got < min(asked, p.Max) || got > p.Max || got < Delay(p, n, 0, u) {
			t.Fatalf("delay %v with Retry-After %v and max %v", got, asked, p.Max)
		}
	})
}

func pow2(n int) float64 {
	f := 1.0
	for range n {
		f *= 2
	}
	return f
}

func TestJudgeProperty(t *testing.T) {
	t.Parallel()
	kinds := []stream.Idempotency{stream.Idempotent, stream.Fenced, stream.Unsafe}
	rapid.Check(t, func(t *rapid.T) {
		p := drawPolicy(t)
		kind := rapid.SampledFrom(kinds).Draw(t, "kind")
		class := rapid.SampledFrom(stream.Classes()).Draw(t, "class")
		n := rapid.IntRange(1, 60).Draw(t, "n")
		elapsed := time.Duration(rapid.Int64Range(0, int64(2000*time.Hour)).Draw(t, "elapsed"))
		wait := time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "wait"))
		got := judge(p, kind, class, n, elapsed, wait)
		switch {
		case (got == succeeded) != (class == stream.ClassOK):
			t.Fatalf("class %q: %v", class, got)
		case got == retry && (n >= p.Attempts || elapsed+wait > p.Within || !class.Retried()):
			t.Fatalf("retried after %d attempts and %v: %+v", n, elapsed, p)
		case got == retry && kind == stream.Unsafe && class != stream.ClassThrottled:
			t.Fatalf("an unsafe attempt that may have acted (%q) is retried", class)
		case got == unknown && kind != stream.Unsafe:
			t.Fatalf("a %s sink ends as unknown", kind)
		case class.Most() > 0 && got == retry && n >= class.Most():
			t.Fatalf("%q is retried after %d attempts", class, n)
		case got == dead && class.Retried() && n < p.Attempts && (class.Most() == 0 || n < class.Most()) && elapsed+wait <= p.Within:
			t.Fatalf("dead before its time: %q", class)
		}
	})
}
