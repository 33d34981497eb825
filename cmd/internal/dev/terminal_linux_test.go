package dev

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A terminal that is closed ends the session; a SIGHUP with the terminal there asks for a reload.
func TestAClosedTerminalEndsTheSession(t *testing.T) {
	window, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetPointerInt(int(window.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(window.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	terminal, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer terminal.Close()
	ctx, stop := untilOutputGone(t.Context(), terminal)
	defer stop()
	hangUp := func() {
		t.Helper()
		if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
	}
	hangUp()
	select {
	case <-ctx.Done():
		t.Fatalf("a SIGHUP has ended the session: %v", context.Cause(ctx))
	case <-time.After(100 * time.Millisecond):
	}
	window.Close()
	hangUp()
	select {
	case <-ctx.Done():
		if !errors.Is(context.Cause(ctx), errOutputGone) {
			t.Error(context.Cause(ctx))
		}
	case <-time.After(time.Minute):
		t.Error("the session goes on although its terminal is closed")
	}
}
