package lane

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/forebay-io/forebay/stream/sink"
)

// TestAttemptsSpanWithin: whatever attempts, within and min are, where min leaves room at all: all attempts fit into within, at the
// least chance they end after a third of it, and each comes between the times that Times says.
func TestAttemptsSpanWithin(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := sink.RetryPolicy{Attempts: rapid.IntRange(3, 200).Draw(t, "attempts"), Within: time.Duration(rapid.Int64Range(1, 30*24*3600).Draw(t, "within")) * time.Second}
		p.Min = time.Duration(rapid.Int64Range(int64(time.Millisecond), int64(2*p.Within)/int64(p.Attempts)).Draw(t, "min"))
		p = p.WithDefaults()
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
			wait := sink.Delay(p, n, 0, p.Within-elapsed, rapid.Float64Range(0, 0.9999999).Draw(t, "u"))
			if verdict := judgeAttempt(p, sink.Idempotent, sink.ClassBusy, n, 1, elapsed, wait); verdict != retry {
				t.Fatalf("after attempt %d and %v: %v", n, elapsed, verdict)
			}
			if elapsed += wait; elapsed < at.Earliest-time.Duration(n) || elapsed > at.Latest { // halves are rounded down
				t.Fatalf("attempt %d after %v, not %v to %v", n+1, elapsed, at.Earliest, at.Latest)
			}
		}
	})
}

func TestJudgeProperty(t *testing.T) {
	t.Parallel()
	kinds := []sink.Idempotency{sink.Idempotent, sink.Fenced, sink.Unsafe}
	rapid.Check(t, func(t *rapid.T) {
		p := sink.RetryPolicy{
			Attempts: rapid.IntRange(1, 50).Draw(t, "attempts"),
			Within:   time.Duration(rapid.Int64Range(1, int64(1000*time.Hour)).Draw(t, "within")),
		}
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
