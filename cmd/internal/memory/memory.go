// Package memory sets Go's collector for programs whose heap is small and whose garbage is much.
package memory

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"strings"
)

// A small heap may grow to five times what lives before it is collected, or to usual: at Go's default a quarter of the process's
// time was collection. A large one (a hundred thousand actions that nobody answers) grows by room at most, or it would hold
// several times what lives for no use.
const (
	most  = 400 // percent of what lives
	least = 33
	usual = 256 << 20
	room  = 80 << 20
)

// share is the part of the machine's or container's memory beyond which the collector works harder instead.
const share = 0.5

// Tune sets the collector, unless GOGC or GOMEMLIMIT already say something else.
func Tune() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(most)
		follow(most)
		go new(rest).run()
	}
	if os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	if total := memoryLimit(os.ReadFile); total > 0 {
		debug.SetMemoryLimit(int64(float64(total) * share))
	}
}

// percent returns how much a heap of which so many bytes live may grow before it is collected.
func percent(live uint64) int {
	if live == 0 {
		return most
	}
	free := uint64(room)
	if live < usual-room {
		free = usual - live
	}
	return int(min(max(free*100/live, least), most))
}

// follow adjusts the percentage after each collection, where it has come to differ by a tenth.
func follow(set int) {
	s := &sentinel{}
	runtime.SetFinalizer(s, func(*sentinel) {
		sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		metrics.Read(sample)
		if now := percent(sample[0].Value.Uint64()); 10*now < 9*set || 10*now > 11*set {
			debug.SetGCPercent(now)
			set = now
		}
		follow(set)
	})
}

// sentinel dies with the next collection; the field keeps it out of the allocator's tiny blocks, which have no finalizers.
type sentinel struct{ _ [32]byte }

// memoryLimit returns the memory limit of the container in bytes. Without one it returns the machine's memory, and 0 if it cannot read
// that either.
func memoryLimit(read func(string) ([]byte, error)) int64 {
	if b, err := read("/sys/fs/cgroup/memory.max"); err == nil {
		if n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64); err == nil { // else "max"
			return n
		}
	}
	b, err := read("/proc/meminfo")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "MemTotal:" {
			n, _ := strconv.ParseInt(f[1], 10, 64)
			return n << 10
		}
	}
	return 0
}
