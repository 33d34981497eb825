package cli

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/config"
)

// watchInterval is how often files are looked at besides SIGHUP. Secrets that are mounted as files change by rename,
// which notification misses and a look does not.
const watchInterval = 5 * time.Second

// seen is what a configuration was read from: files, secrets that it refers to, the directory of teams. Each is as it was
// just before it was read, nil if there was none.
type seen map[string]os.FileInfo

// see is for [config.Options.See].
func (s seen) see(path string) { s[path] = look(path) }

func look(path string) os.FileInfo {
	info, err := os.Stat(path)
	if err != nil {
		return nil
	}
	return info
}

// changed tells whether anything is otherwise than when it was read.
func (s seen) changed() bool {
	for path, was := range s {
		is := look(path)
		if (is == nil) != (was == nil) {
			return true
		}
		if is != nil && !(os.SameFile(is, was) && is.ModTime().Equal(was.ModTime()) && is.Size() == was.Size()) {
			return true
		}
	}
	return false
}

// load reads the configuration. It returns the files that it saw even if it cannot use them.
func load(o config.Options) (*config.Config, seen, error) {
	s := seen{}
	o.See = s.see
	cfg, err := config.Load(o)
	return cfg, s, err
}

// watcher reloads a configuration that has changed.
type watcher struct {
	every  time.Duration
	load   func() (*config.Config, seen, error)
	reload func(*config.Config) error
	log    *slog.Logger
}

// run reloads on SIGHUP and when something of what last was read has changed, until ctx is done.
func (w watcher) run(ctx context.Context, last seen) {
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	defer signal.Stop(hup)
	tick := time.NewTicker(w.every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-hup:
		case <-tick.C:
			if !last.changed() {
				continue
			}
		}
		cfg, read, err := w.load()
		last = read
		if err == nil {
			err = w.reload(cfg)
		}
		if err != nil {
			w.log.Error("configuration not reloaded; the running one stays", "error", err)
		}
	}
}
