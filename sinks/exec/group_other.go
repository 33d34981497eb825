//go:build !linux

package execsink

import "syscall"

// group gives the command a process group of its own.
func group() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
