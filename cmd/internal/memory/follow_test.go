package memory

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"
)

func TestPercentFallsAsTheHeapGrows(t *testing.T) {
	for live, want := range map[uint64]int{0: 400, 1 << 20: 400, 8 << 20: 400, 10 << 20: 320, 16 << 20: 200, 32 << 20: 100, 64 << 20: 80, 100 << 20: 80, 160 << 20: 50, 200 << 20: 40, 1 << 30: 33, 1 << 40: 33} {
		if got := percent(live); got != want {
			t.Errorf("%d bytes live: %d, want %d", live, got, want)
		}
	}
}

// The percentage follows what lives, down and up again.
func TestFollow(t *testing.T) {
	before := debug.SetGCPercent(maxPercent)
	defer debug.SetGCPercent(before)
	follow(maxPercent)
	reaches := func(want int) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); ; <-time.After(time.Millisecond) {
			runtime.GC()
			sample := []metrics.Sample{{Name: "/gc/gogc:percent"}}
			metrics.Read(sample)
			got := int(sample[0].Value.Uint64())
			if got == want {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("the percentage is %d, want %d", got, want)
			}
		}
	}
	func() {
		big := make([]byte, 512<<20)
		reaches(minPercent)
		runtime.KeepAlive(big)
	}()
	reaches(maxPercent)
}
