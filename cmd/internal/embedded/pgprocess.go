package embedded

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// How long a server that an earlier process left behind gets to stop cleanly, and then to stop at all.
const (
	leftoverClean = 20 * time.Second
	leftoverHard  = 10 * time.Second
)

// stopLeftovers ends what a killed forebay left running in the data directory: the server, or those of its child processes that have
// outlived it. A second server beside them would destroy the data. If nothing runs there, it removes a pid file that names a living
// process of another program: any other stale pid file PostgreSQL itself recognises.
func stopLeftovers(ctx context.Context, data string, logger *slog.Logger) error {
	running, err := processesIn(data)
	if err != nil {
		return err
	}
	postmaster := pidFile(data)
	if len(running) == 0 {
		return removeStrangersPID(data, postmaster, logger)
	}
	logger.Warn("a PostgreSQL left behind by an earlier process is stopped", "pid", postmaster, "data", data)
	if postmaster != 0 && slices.Contains(running, postmaster) {
		cleanCtx, cancel := context.WithTimeout(ctx, leftoverClean)
		defer cancel()
		if err := syscall.Kill(postmaster, syscall.SIGINT); err == nil && waitUntilGone(cleanCtx, data) == nil {
			return nil
		}
	}
	hardCtx, cancel := context.WithTimeout(ctx, leftoverHard)
	defer cancel()
	return endAll(hardCtx, data, syscall.SIGKILL)
}

// endAll sends a signal to every process of the data directory and waits until there is none.
func endAll(ctx context.Context, data string, signal syscall.Signal) error {
	running, err := processesIn(data)
	if err != nil {
		return err
	}
	for _, pid := range running {
		if err := syscall.Kill(pid, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("end process %d of %s: %w", pid, data, err)
		}
	}
	return waitUntilGone(ctx, data)
}

// waitUntilGone waits until no process runs in the data directory.
func waitUntilGone(ctx context.Context, data string) error {
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for {
		running, err := processesIn(data)
		if err != nil || len(running) == 0 {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("processes %v still work in %s: %w", running, data, context.Cause(ctx))
		case <-look.C:
		}
	}
}

// processesIn returns the processes of PostgreSQL whose working directory is the data directory. The server and its child processes all
// have that, and unlike a pid file it cannot be stale. Others may stand there, too: somebody's shell. If there is no /proc (not Linux), it
// goes by the pid file.
func processesIn(data string) ([]int, error) {
	want, err := filepath.EvalSymlinks(data)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		if pid := pidFile(data); pid != 0 && syscall.Kill(pid, 0) == nil {
			return []int{pid}, nil
		}
		return nil, nil
	}
	var found []int
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		// A link that cannot be read is that of a process that has ended, or of another user's, who cannot enter the data directory.
		if cwd, err := os.Readlink(filepath.Join("/proc", entry.Name(), "cwd")); err != nil || cwd != want {
			continue
		}
		if name, err := os.ReadFile(filepath.Join("/proc", entry.Name(), "comm")); err == nil && strings.TrimSpace(string(name)) == "postgres" {
			found = append(found, pid)
		}
	}
	return found, nil
}

// pidFile returns the process id that the server's pid file has; 0 if there is none.
func pidFile(data string) int {
	f, err := os.Open(filepath.Join(data, "postmaster.pid"))
	if err != nil {
		return 0
	}
	defer f.Close()
	first := bufio.NewScanner(f)
	if !first.Scan() {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(first.Text()))
	if err != nil || pid <= 0 {
		return 0
	}
	return pid
}

// removeStrangersPID removes the pid file if a process has that id. The caller knows that none runs in the data directory, so it is
// another program's, which got the id after a reboot, say. PostgreSQL would take it for a server and refuse to start.
func removeStrangersPID(data string, pid int, logger *slog.Logger) error {
	if pid == 0 || errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return nil
	}
	logger.Warn("a stale pid file is removed: its process is not PostgreSQL", "pid", pid, "data", data)
	return os.Remove(filepath.Join(data, "postmaster.pid"))
}
