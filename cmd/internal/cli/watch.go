package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/config"
)

// watchInterval is how often files are checked for changes. Checking is more reliable than notification by the kernel, which does
// not see that a mounted secret was replaced by a rename.
const watchInterval = 5 * time.Second

// devInterval is watchInterval of forebay dev, where somebody who has edited the file waits.
const devInterval = time.Second

// fileStates has everything that a configuration was read from, by path: its files, the files of secrets, the directory of teams.
// Each has its state just before it was read; nil if it did not exist.
type fileStates map[string]os.FileInfo

// remember is the function for [config.Options.See].
func (s fileStates) remember(path string) { s[path] = stat(path) }

// stat returns the state of a file; nil if it cannot be had.
func stat(path string) os.FileInfo {
	info, err := os.Stat(path)
	if err != nil {
		return nil
	}
	return info
}

// changed tells whether a file has changed, come or gone since it was read.
func (s fileStates) changed() bool {
	for path, before := range s {
		if !sameState(stat(path), before) {
			return true
		}
	}
	return false
}

// sameState tells whether two states are of the same file with the same time and size, or whether both are nil.
func sameState(a, b os.FileInfo) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size()
}

// start is [config.Start] for a command that works for all teams: one whose file has problems keeps the others from nothing. left says so, and is what
// the command ends with once it has done its work.
func start(o config.Options) (cfg *config.Config, left, err error) {
	cfg, problems, err := config.Start(o)
	if len(problems) > 0 {
		left = fmt.Errorf("team files have problems: these teams were left out, and the others were not; fix them (forebay config check):\n%w", problems)
	}
	return cfg, left, err
}

// load reads the configuration with which a process starts. left has the problems of the files of teams that it leaves out, which are logged.
func load(o config.Options, log *slog.Logger) (cfg *config.Config, left config.Problems, s fileStates, err error) {
	s = fileStates{}
	o.See = s.remember
	if cfg, left, err = config.Start(o); len(left) > 0 {
		log.Error("team files have problems: these teams do not run, and everything else does; fix them (forebay config check)", "error", left)
	}
	return cfg, left, s, err
}

// loadAgain reads the configuration for a process that runs one. A team whose file has problems keeps what it has, which is logged. What is wrong
// with the files that are not taken is passed to report, once nothing is left for later; nil: nothing. The states of the files are returned also
// with an error: a change of them is a reason to read again.
func loadAgain(running *config.Config, o config.Options, log *slog.Logger, report func(config.Problems)) (*config.Config, fileStates, error) {
	s := fileStates{}
	o.See = s.remember
	cfg, kept, err := running.Reload(o)
	if err == nil && cfg.Later() {
		return cfg, s, nil
	}
	if len(kept) > 0 {
		log.Error("team files have problems: these teams keep their last good configuration, and do not run after a start; fix them (forebay config check)", "error", kept)
	}
	if problems, ok := errors.AsType[config.Problems](err); ok {
		kept = problems
	}
	report(kept)
	return cfg, s, err
}

// watcher reads a configuration again when it has changed.
type watcher struct {
	every  time.Duration // how often it checks for changes
	load   func() (*config.Config, fileStates, error)
	reload func(*config.Config) error // takes the new configuration
	hup    chan os.Signal             // of hangups
	log    *slog.Logger
}

// hangups returns where SIGHUPs come from now on; until then one ends the process.
func hangups() chan os.Signal {
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	return hup
}

// run reads the configuration again on SIGHUP, and when one of the files has changed since it was last read, until ctx is done.
// last has the states of the files when the running configuration was read. A configuration that cannot be used is logged.
func (w watcher) run(ctx context.Context, last fileStates) {
	defer signal.Stop(w.hup)
	tick := time.NewTicker(w.every)
	defer tick.Stop()
	due := make(chan struct{})
	close(due)
	var next <-chan struct{} // due, where the last one has left something for later; else nil
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.hup:
		case <-next:
		case <-tick.C:
			if !last.changed() {
				continue
			}
		}
		cfg, read, err := w.load()
		last, next = read, nil
		if err == nil {
			err = w.reload(cfg)
		}
		if cfg != nil && cfg.Later() {
			next = due
		}
		if err != nil {
			w.log.Error("configuration not reloaded; the running one stays", "error", err)
		}
	}
}
