// Package keeper makes process groups that end with this process, however it ends.
//
// A group is led by this program, run once more as its keeper. It does nothing but read a pipe that only this process
// has the other end of. When that closes, because the group is given up or this process was killed, it kills its group,
// and with that itself. The keeper is there before the first command of the group, so there is no moment in which a
// command could outlive this process; only a process that leaves the group does.
//
// A program gets its keeper by importing this package: see init.
package keeper

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
	"time"
)

// name is what the program is called where it is to be a keeper.
const name = "forebay-keeper"

// init is all that a keeper runs. It imports little, so that it comes before the program's own packages are set up.
func init() { // before anything of the program, which need not know of keepers
	if len(os.Args) != 1 || os.Args[0] != name || syscall.Getpgrp() != os.Getpid() {
		return
	}
	signal.Ignore() // whatever commands send to their group; none of them ends it but SIGKILL
	_, _ = os.Stdout.WriteString("k")
	_, _ = io.Copy(io.Discard, os.Stdin)
	_ = syscall.Kill(0, syscall.SIGKILL)
	os.Exit(1)
}

// Group is a process group with its keeper.
type Group struct {
	keeper *exec.Cmd
	pipe   io.Closer
}

// New makes a group that has no command yet, and waits until its keeper is there. End ends it.
func New(ctx context.Context) (*Group, error) {
	program, err := self()
	if err != nil {
		return nil, err
	}
	k := &exec.Cmd{Path: program, Args: []string{name}, Env: []string{"GOMAXPROCS=1"}, Dir: "/", SysProcAttr: &syscall.SysProcAttr{Setpgid: true}}
	pipe, err := k.StdinPipe()
	if err != nil {
		return nil, err
	}
	ready, err := k.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := k.Start(); err != nil {
		return nil, err
	}
	g := &Group{k, pipe}
	defer context.AfterFunc(ctx, func() { _ = g.Kill() })()
	if _, err := io.ReadFull(ready, make([]byte, 1)); err != nil {
		g.End()
		return nil, fmt.Errorf("the keeper of its process group did not come up: %w", err)
	}
	return g, nil
}

// self returns this program, which on Linux is found though its file has been replaced since.
func self() (string, error) {
	if runtime.GOOS == "linux" {
		return "/proc/self/exe", nil
	}
	return os.Executable()
}

// Join has a command that is not started yet begin in the group.
func (g *Group) Join(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pgid: g.keeper.Process.Pid}
}

// Kill kills all that is in the group.
func (g *Group) Kill() error {
	err := syscall.Kill(-g.keeper.Process.Pid, syscall.SIGKILL)
	if errors.Is(err, syscall.ESRCH) {
		return os.ErrProcessDone
	}
	return err
}

// End kills what is left in the group. The group's number is not given to another before that, as its keeper is waited for
// only then.
func (g *Group) End() {
	_ = g.Kill()
	_ = g.pipe.Close()
	if os.Getpid() == 1 {
		g.reap()
	}
	_ = g.keeper.Wait()
	_ = g.keeper.Process.Release() // reap may have taken its end
}

// reap waits for what was left in the group, a second at most: where this process is a container's first, nobody else does, and each would keep
// its place in the table of processes.
func (g *Group) reap() {
	for wait := time.Millisecond; wait < time.Second/2; {
		switch pid, err := syscall.Wait4(-g.keeper.Process.Pid, nil, syscall.WNOHANG, nil); {
		case pid > 0 || errors.Is(err, syscall.EINTR):
		case err != nil: // ECHILD: none is left
			return
		default:
			<-time.After(wait)
			wait *= 2
		}
	}
}
