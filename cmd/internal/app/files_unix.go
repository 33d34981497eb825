//go:build unix

package app

import "syscall"

// fileLimit returns how many files the process may have open, its connections among them; 0 if that is not known.
func fileLimit() uint64 {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		return 0
	}
	return uint64(l.Cur) //nolint:unconvert // signed on some systems
}
