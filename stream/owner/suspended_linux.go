package owner

import (
	"time"

	"golang.org/x/sys/unix"
)

// suspended is for how long the machine has been suspended since it was started: the clock that goes on meanwhile, less the one
// that stands still, which Go's is. A process may be stopped between two readings, so those are taken that lie close together.
func suspended() time.Duration {
	for {
		before, all, after := reading(unix.CLOCK_MONOTONIC), reading(unix.CLOCK_BOOTTIME), reading(unix.CLOCK_MONOTONIC)
		if after-before < time.Millisecond {
			return all - before
		}
	}
}

func reading(clock int32) time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(clock, &t); err != nil {
		return 0 // Linux has both since 2.6.39
	}
	return time.Duration(t.Nano())
}
