package execsink

import "syscall"

// group gives the command a process group of its own, and lets it die with this process.
func group() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
