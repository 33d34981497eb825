package execsink

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/forebay-io/forebay/sinks/exec/keeper"
	"github.com/forebay-io/forebay/stream/sink"
)

// startError says that no command was started.
type startError struct{ err error }

func (e *startError) Error() string { return "command was not started: " + e.err.Error() }
func (e *startError) Unwrap() error { return e.err }

// lingering is how long what the command left behind may hold its output open.
const lingering = time.Second

// run runs a command to its end and gives its exit status, 128 and the signal where one ended it. An error is a
// *startError, or says that ctx ended it.
func run(ctx context.Context, command, env []string, stdin []byte, out io.Writer) (status int, err error) {
	group, err := keeper.New(ctx)
	if err != nil {
		return 0, &startError{err}
	}
	defer group.End() // with what the command left behind
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = env, bytes.NewReader(stdin), out, out
	group.Join(cmd)
	cmd.WaitDelay = lingering
	cmd.Cancel = group.Kill
	if err := cmd.Start(); err != nil {
		return 0, &startError{err}
	}
	err = cmd.Wait()
	if cmd.ProcessState == nil {
		return 0, fmt.Errorf("wait for the command: %w", err)
	}
	w := cmd.ProcessState.Sys().(syscall.WaitStatus)
	switch {
	case w.Exited(): // of its own, whatever came after
		return w.ExitStatus(), nil
	case ctx.Err() != nil:
		return 128 + int(w.Signal()), fmt.Errorf("command was killed: %w", context.Cause(ctx))
	}
	return 128 + int(w.Signal()), nil
}

// find reports whether a program is there and may be run.
func find(program string) error {
	if _, err := exec.LookPath(program); err != nil {
		return &sink.AttemptError{Class: sink.ClassBusy, Err: err, Untouched: true}
	}
	return nil
}

// head keeps the beginning of what is written to it and takes the rest without keeping it.
type head struct {
	limit int

	mu  sync.Mutex
	buf []byte
}

func (h *head) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.buf = append(h.buf, p[:min(len(p), h.limit-len(h.buf))]...)
	return len(p), nil
}

func (h *head) bytes() []byte {
	h.mu.Lock()
	defer h.mu.Unlock()
	return bytes.Clone(h.buf)
}
