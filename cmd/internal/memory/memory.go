// Package memory sets Go's collector for programs whose heap is small and whose garbage is much.
package memory

import (
	"os"
	"runtime/debug"
	"strconv"
	"strings"
)

// percent lets the heap grow to four times what lives before it is collected. What lives is bounded (payloads in
// flight, loaded actions, cached lines) and tens of MiB; at Go's default a quarter of the process's time was collection.
const percent = 300

// share is the part of the machine's or container's memory beyond which the collector works harder instead.
const share = 0.5

// Tune sets the collector, unless GOGC or GOMEMLIMIT already say something else.
func Tune() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(percent)
	}
	if os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	if total := available(os.ReadFile); total > 0 {
		debug.SetMemoryLimit(int64(float64(total) * share))
	}
}

// available is the container's memory, else the machine's, in bytes; 0 where neither can be read.
func available(read func(string) ([]byte, error)) int64 {
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
