//go:build !unix

package app

// fileLimit returns how many files the process may have open, its connections among them; 0: that is not known.
func fileLimit() uint64 { return 0 }
