package lane

import (
	"fmt"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/forebay-io/forebay/stream/sink"
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
		limit, next := bound(p, n), bound(p, n+1)
		got := Delay(p, n, 0, u)
		if want := time.Duration(u * float64(limit)); got < 0 || got != want {
			t.Fatalf("delay %v is not %v of %v", got, u, limit)
		}
		grown := float64(next) / float64(limit)
		switch {
		case n == 1 && limit-p.Min > time.Duration(1e-8*float64(p.Max)):
			t.Fatalf("the first bound is %v", limit)
		case next > p.Max || next < limit:
			t.Fatalf("%v after %v", next, limit)
		case next < p.Max && (grown < 2-1e-3 || grown > 10+1e-3) && limit > 10*time.Microsecond:
			t.Fatalf("bounds grow %v times", grown)
		case n+1 == p.Attempts-1 && next < p.Max && float64(next) < 0.99*float64(p.Min)*math.Pow(10, float64(n)) && n < 15:
			t.Fatalf("the last bound is %v", next)
		}
		asked := time.Duration(rapid.Int64Range(-1, 1<<62).Draw(t, "retry after"))
		got = Delay(p, n, asked, u)
		if got < min(asked, p.Max) || got > p.Max || got < Delay(p, n, 0, u) {
			t.Fatalf("delay %v with Retry-After %v and max %v", got, asked, p.Max)
		}
	})
}

// TestDefaultScheduleSpansADay: the first retries come quickly, all of them fit into the day, and they take about half of it.
func TestDefaultScheduleSpansADay(t *testing.T) {
	t.Parallel()
	p := RetryPolicy{}.withDefaults()
	var bounds []time.Duration
	sum := time.Duration(0)
	for n := 1; n < p.Attempts; n++ {
		bounds = append(bounds, bound(p, n).Round(time.Second))
		sum += bound(p, n)
	}
	same(t, "bounds", bounds, []time.Duration{time.Second, 9 * time.Second, 88 * time.Second, 821 * time.Second, 7689 * time.Second, 20 * time.Hour})
	if sum > p.Within || sum < p.Within*9/10 {
		t.Errorf("%v of %v", sum, p.Within)
	}
	for want, p := range map[string]RetryPolicy{ // what is written counts
		"[1s 5s 26s 2m16s 11m40s 1h0m0s]": {Max: time.Hour},
		"[1s]":                            {Attempts: 2},
		"[1s 10s]":                        {Attempts: 3},
		"[1s 5s 25s 2m2s 10m5s 50m0s]":    {Within: time.Hour},
		"[1s 2s 4s 8s 16s 32s 1m0s 1m0s]": {Attempts: 9, Max: time.Minute},
		"[1m0s 1m0s]":                     {Attempts: 3, Min: time.Minute, Within: time.Second},
		"[1s 2s 4s 8s 16s 32s 1m4s 2m8s]": {Attempts: 9, Max: 128 * time.Second},
		"[1s 10s 1m40s 16m40s 2h46m40s]":  {Attempts: 6, Max: 24 * time.Hour},
	} {
		p = p.withDefaults()
		var bounds []time.Duration
		for n := 1; n < p.Attempts; n++ {
			bounds = append(bounds, bound(p, n).Round(time.Second))
		}
		same(t, fmt.Sprintf("%+v", p), fmt.Sprint(bounds), want)
	}
}

func TestJudgeProperty(t *testing.T) {
	t.Parallel()
	kinds := []sink.Idempotency{sink.Idempotent, sink.Fenced, sink.Unsafe}
	rapid.Check(t, func(t *rapid.T) {
		p := drawPolicy(t)
		kind := rapid.SampledFrom(kinds).Draw(t, "kind")
		class := rapid.SampledFrom(sink.Classes()).Draw(t, "class")
		n := rapid.IntRange(1, 60).Draw(t, "n")
		alike := rapid.IntRange(1, n).Draw(t, "alike")
		elapsed := time.Duration(rapid.Int64Range(0, int64(2000*time.Hour)).Draw(t, "elapsed"))
		wait := time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "wait"))
		got := judgeAttempt(p, kind, class, n, alike, elapsed, wait)
		switch {
		case (got == succeeded) != (class == sink.ClassOK):
			t.Fatalf("class %q: %v", class, got)
		case got == retry && (n >= p.Attempts || elapsed+wait > p.Within || !class.Retried()):
			t.Fatalf("retried after %d attempts and %v: %+v", n, elapsed, p)
		case got == retry && kind == sink.Unsafe && class != sink.ClassThrottled:
			t.Fatalf("an unsafe attempt that may have acted (%q) is retried", class)
		case got == unknown && kind != sink.Unsafe:
			t.Fatalf("a %s sink ends as unknown", kind)
		case class.Most() > 0 && got == retry && alike >= class.Most():
			t.Fatalf("%q is retried after %d attempts", class, alike)
		case got == dead && class.Retried() && n < p.Attempts && (class.Most() == 0 || alike < class.Most()) && elapsed+wait <= p.Within:
			t.Fatalf("dead before its time: %q", class)
		}
	})
}
