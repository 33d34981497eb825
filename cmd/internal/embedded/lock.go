package embedded

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// dirLock is the right to write into a directory. The kernel drops it with the process, however that ends; children do
// not inherit it (Go opens files close-on-exec).
type dirLock struct{ file *os.File }

// lockDir creates the directory and takes its lock. If another process holds the lock, it returns a [HeldError].
func lockDir(dir string) (*dirLock, error) {
	if err := os.MkdirAll(dir, 0o711); err != nil { // 0711: PostgreSQL may run as another user, and passes through to its own directory
		return nil, err
	}
	path := filepath.Join(dir, "lock")
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		holder, _ := os.ReadFile(path) // empty, or of the former holder, if the holder has not written it yet
		return nil, &HeldError{Dir: dir, Holder: strings.TrimSpace(string(holder))}
	}
	if err := writeHolder(f); err != nil {
		f.Close()
		return nil, fmt.Errorf("write %s: %w", path, err)
	}
	return &dirLock{file: f}, nil
}

// writeHolder writes into the lock file who holds it, for the message of another process that finds it locked.
func writeHolder(f *os.File) error {
	if err := f.Truncate(0); err != nil {
		return err
	}
	who := fmt.Sprintf("process %d (%s) since %s\n", os.Getpid(), filepath.Base(os.Args[0]), time.Now().Format(time.RFC3339))
	_, err := f.WriteAt([]byte(who), 0)
	return err
}

// release releases the lock. The file stays: if it were removed, a process that has it open and one that creates it again could both hold
// a lock on the directory.
func (l *dirLock) release() error { return l.file.Close() }

// HeldError says that another process works in the directory.
type HeldError struct {
	Dir    string
	Holder string // as the holder wrote it: process, program, since when
}

func (e *HeldError) Error() string {
	who := e.Holder
	if who == "" {
		who = "another process"
	}
	return fmt.Sprintf("%s is in use by %s: stop it, or choose another directory", e.Dir, who)
}
