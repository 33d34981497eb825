package rig

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

// Child is another process of this program that serves at an address, which it writes as its first line. It ends when its standard input
// is closed, which is at the latest when this process ends.
type Child struct {
	Addr string
	cmd  *exec.Cmd
	in   io.Closer
}

// StartChild starts this program with arguments and further environment variables, and returns when it has written its address.
func StartChild(ctx context.Context, environ []string, args ...string) (*Child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.Env, cmd.Stderr = append(os.Environ(), environ...), os.Stderr
	in, inErr := cmd.StdinPipe()
	out, outErr := cmd.StdoutPipe()
	if err := errors.Join(inErr, outErr); err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	c := &Child{cmd: cmd, in: in}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		c.Stop()
		return nil, fmt.Errorf("it ended without having written its address: %w", err)
	}
	c.Addr = strings.TrimSpace(line)
	return c, nil
}

// PID returns the process's id.
func (c *Child) PID() int { return c.cmd.Process.Pid }

// Stop closes the process's standard input and waits until it has ended.
func (c *Child) Stop() {
	_ = c.in.Close()
	_ = c.cmd.Wait() // how it ended is on our standard error
}

// Kill ends the process with SIGKILL.
func (c *Child) Kill() {
	_ = c.cmd.Process.Kill()
	_ = c.cmd.Wait()
}
