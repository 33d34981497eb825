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

// How far the heap may grow beyond what is live before the next collection. At Go's default of 100 %, a quarter of the process's time
// was collection, with a heap of some megabytes: so a heap grows by leastGrowth at least, unless that is more than maxPercent. Beyond, it grows by
// usualPercent, up to mostGrowth: a large one (a hundred thousand actions whose destination does not answer) would hold several times its live
// bytes for no use; but by minPercent at least.
const (
	maxPercent   = 400 // of a live heap below 8 MiB
	usualPercent = 80
	minPercent   = 33
	leastGrowth  = 32 << 20
	mostGrowth   = 80 << 20
)

// share is the part of the machine's or container's memory that Go's soft memory limit is set to: near it, the collector works harder.
const share = 0.5

// Tune sets up the garbage collector. Unless GOGC is set, the percentage follows the size of the heap, and a goroutine that never ends
// collects while the process rests. Unless GOMEMLIMIT is set, the memory limit is a share of the memory that the process may use.
func Tune() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(maxPercent)
		follow(maxPercent)
		go new(rest).run()
	}
	if os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	if total := memoryLimit(os.ReadFile); total > 0 {
		debug.SetMemoryLimit(int64(float64(total) * share))
	}
}

// percent returns by how much, in percent of its live bytes, a heap may grow before the next collection.
func percent(live uint64) int {
	if live == 0 {
		return maxPercent
	}
	p := min(max(leastGrowth*100/live, usualPercent), mostGrowth*100/live)
	return int(min(max(p, minPercent), maxPercent))
}

// follow sets the collector's percentage after each collection, if it differs from set, the current one, by a tenth or more. The
// finalizer of an object that is garbage at once is how a program learns of a collection.
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

// sentinel is the object of follow. Its field makes it too large for the allocator's tiny blocks, in which finalizers may not run.
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
