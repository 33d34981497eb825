package dev

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

var errOutputGone = errors.New("ended, because what has read the output is gone")

// untilOutputGone returns a context that ends, with errOutputGone, once nobody reads one of outputs any more: behind `| head`, or because the
// terminal was closed. Without it the process would die of the signal, and leave its Postgres behind. SIGPIPE comes for every connection too
// that the other side has closed, a browser's for example, and SIGHUP when somebody asks for a reload: then the process goes on.
func untilOutputGone(ctx context.Context, outputs ...*os.File) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	broken := make(chan os.Signal, 1)
	signal.Notify(broken, syscall.SIGPIPE, syscall.SIGHUP)
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-broken:
				if anyGone(outputs) {
					cancel(errOutputGone)
				}
			}
		}
	}()
	return ctx, func() { signal.Stop(broken); cancel(nil) }
}

// anyGone reports whether one of outputs is a pipe or a terminal whose other end is closed.
func anyGone(outputs []*os.File) bool {
	for _, f := range outputs {
		fds := []unix.PollFd{{Fd: int32(f.Fd())}}
		if n, err := unix.Poll(fds, 0); err == nil && n > 0 && fds[0].Revents&(unix.POLLERR|unix.POLLHUP) != 0 {
			return true
		}
	}
	return false
}
