package lane

import (
	"fmt"
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
		left := time.Duration(rapid.Int64Range(-1, 1<<62).Draw(t, "left"))
		step, next := p.step(n), p.step(n+1)
		got := Delay(p, n, 0, left, u)
		grown := float64(next) / float64(step)
		switch {
		case got < step/2 || got > step:
			t.Fatalf("delay %v is not between half of the step %v and all of it", got, step)
		case got > left && got > step/2:
			t.Fatalf("delay %v of step %v where %v is left", got, step, left)
		case left >= step && u < 0.5 && Delay(p, n, 0, left, u+0.5) < got:
			t.Fatal("a higher u makes the delay shorter")
		case n == 1 && step-p.Min > time.Duration(1e-8*float64(p.Max)):
			t.Fatalf("the first step is %v", step)
		case next > p.Max || next < step:
			t.Fatalf("%v after %v", next, step)
		case next < p.Max && grown < 2-1e-3 && step > 10*time.Microsecond:
			t.Fatalf("steps grow %v times", grown)
		case n > 1 && n == p.Attempts-1 && step < p.Max:
			t.Fatalf("the last step is %v", step)
		}
		asked := time.Duration(rapid.Int64Range(-1, 1<<62).Draw(t, "retry after"))
		atLeast := Delay(p, n, asked, left, u)
		if atLeast < min(asked, p.Max) || atLeast > p.Max || atLeast < got {
			t.Fatalf("delay %v with Retry-After %v and max %v", atLeast, asked, p.Max)
		}
	})
}

// TestAttemptsSpanWithin: whatever attempts, within and min are, where min leaves room at all: all attempts fit into within, at the
// least chance they end after a third of it, and each comes between the times that Times says.
func TestAttemptsSpanWithin(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := RetryPolicy{Attempts: rapid.IntRange(3, 200).Draw(t, "attempts"), Within: time.Duration(rapid.Int64Range(1, 30*24*3600).Draw(t, "within")) * time.Second}
		p.Min = time.Duration(rapid.Int64Range(int64(time.Millisecond), int64(2*p.Within)/int64(p.Attempts)).Draw(t, "min"))
		p = p.withDefaults()
		times := p.Times()
		if p.Max == p.Min {
			return // min alone takes more than there is, or next to all of it
		}
		if last := times[len(times)-1]; last.Latest > p.Within || last.Earliest < p.Within/3 {
			t.Fatalf("the last of %d attempts comes after %v to %v of %v", p.Attempts, last.Earliest, last.Latest, p.Within)
		}
		elapsed := time.Duration(0)
		for i, at := range times {
			n := i + 1
			wait := Delay(p, n, 0, p.Within-elapsed, rapid.Float64Range(0, 0.9999999).Draw(t, "u"))
			if verdict := judgeAttempt(p, sink.Idempotent, sink.ClassBusy, n, 1, elapsed, wait); verdict != retry {
				t.Fatalf("after attempt %d and %v: %v", n, elapsed, verdict)
			}
			if elapsed += wait; elapsed < at.Earliest-time.Duration(n) || elapsed > at.Latest { // halves are rounded down
				t.Fatalf("attempt %d after %v, not %v to %v", n+1, elapsed, at.Earliest, at.Latest)
			}
		}
	})
}

// TestSteps: the first retries come quickly, all of them fit into the time that they have, and use it.
func TestSteps(t *testing.T) {
	t.Parallel()
	for want, p := range map[string]RetryPolicy{
		"[1s 9s 1m28s 13m41s 2h8m9s 20h0m0s]": {},
		"[1s 50s]":                            {Attempts: 3, Within: time.Minute},
		"[1s]":                                {Attempts: 2},
		"[1s 5s 24s 1m55s 9m19s 45m16s]":      {Within: time.Hour},
		"[1s 2s 4s 8s 16s 32s 1m4s 2m8s 4m16s 5m23s 5m23s 5m23s 5m23s 5m23s 5m23s 5m23s 5m23s 5m23s]": {Attempts: 19, Within: time.Hour},
		"[500ms 2s 10s 44s]": {Attempts: 5, Within: time.Minute, Min: 500 * time.Millisecond},
		"[1m0s 1m0s]":        {Attempts: 3, Min: time.Minute, Within: time.Second},
		// What is written counts.
		"[1s 5s 26s 2m16s 11m40s 1h0m0s]": {Max: time.Hour},
		"[1s 2s 4s 8s 16s 32s 1m0s 1m0s]": {Attempts: 9, Max: time.Minute},
		"[1s 2s 4s 8s 16s 32s 1m4s 2m8s]": {Attempts: 9, Max: 128 * time.Second},
		"[1s 17s 4m54s 1h23m59s 24h0m0s]": {Attempts: 6, Max: 24 * time.Hour},
	} {
		p = p.withDefaults()
		var steps []time.Duration
		for n := 1; n < p.Attempts; n++ {
			step := p.step(n)
			if step > time.Second {
				step = step.Round(time.Second)
			}
			steps = append(steps, step)
		}
		same(t, fmt.Sprintf("%+v", p), fmt.Sprint(steps), want)
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
