package sink

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"
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
		p = p.WithDefaults()
		var steps []time.Duration
		for n := 1; n < p.Attempts; n++ {
			step := p.step(n)
			if step > time.Second {
				step = step.Round(time.Second)
			}
			steps = append(steps, step)
		}
		if got := fmt.Sprint(steps); got != want {
			t.Errorf("%+v: %s, want %s", p, got, want)
		}
	}
}

func ExampleDelay() {
	p := RetryPolicy{Attempts: 7, Min: time.Second, Max: time.Hour}
	for _, n := range []int{1, 2, 3, 6} {
		fmt.Println(n, Delay(p, n, 0, time.Hour, 0.5).Round(time.Millisecond))
	}
	fmt.Println("Retry-After: 90", Delay(p, 1, 90*time.Second, time.Hour, 0.5))
	// Output:
	// 1 750ms
	// 2 3.858s
	// 3 19.842s
	// 6 45m0s
	// Retry-After: 90 1m30s
}
