package cli

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/cmd/internal/rig"
)

// watching is a watcher of a directory with a configuration.
type watching struct {
	t       *testing.T
	dir     string
	latest  atomic.Pointer[config.Config] // that was reloaded
	refused atomic.Value                  // what is wrong with the files, as a text
}

// startWatching looks every so often. meddle is called with the number of each load, from 1, once it has been read.
func startWatching(t *testing.T, every time.Duration, meddle func(w *watching, load int)) *watching {
	t.Helper()
	w := &watching{t: t, dir: t.TempDir()}
	w.replace("secret", "first")
	w.replace("forebay.yaml", "version: 1\nkafka: {brokers: [\"127.0.0.1:9092\"]}\nteams_dir: teams\nteams:\n  acme:\n    sources:\n"+
		"      github: {preset: github, secrets: [\"${file:"+filepath.Join(w.dir, "secret")+"}\"]}\n")
	w.team("other")
	loads := 0
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	read := func() (cfg *config.Config, s fileStates, err error) {
		o := config.Options{Path: filepath.Join(w.dir, "forebay.yaml"), Roles: []config.Role{config.RoleIntake}}
		if running := w.latest.Load(); running != nil {
			cfg, s, err = loadAgain(running, o, log, func(p config.Problems) { w.refused.Store(p.Error()) })
		} else {
			cfg, _, s, err = load(o, log)
		}
		loads++
		meddle(w, loads)
		return cfg, s, err
	}
	cfg, last, err := read()
	if err != nil {
		t.Fatal(err)
	}
	w.latest.Store(cfg)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		reload := func(c *config.Config) error { w.latest.Store(c); return nil }
		watcher{every, read, reload, hangups(), log}.run(ctx, last)
	}()
	t.Cleanup(func() {
		stop()
		<-done
	})
	return w
}

// replace writes a file as whoever rotates secrets does: beside it, then by rename.
func (w *watching) replace(name, text string) {
	w.t.Helper()
	path := filepath.Join(w.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		w.t.Fatal(err)
	}
}

func (w *watching) remove(name string) {
	w.t.Helper()
	if err := os.Remove(filepath.Join(w.dir, name)); err != nil {
		w.t.Fatal(err)
	}
}

// team writes the file of a team.
func (w *watching) team(name string) {
	w.replace("teams/"+name+".yaml", "teams: {"+name+": {sources: {github: {preset: github, secrets: [x]}}}}\n")
}

// until waits for a configuration as wanted. Each time it looks it calls nudge, unless that is nil.
func (w *watching) until(what string, want func(*config.Config) bool, nudge func()) {
	w.t.Helper()
	if !rig.Until(time.Minute, func() bool {
		reloaded := want(w.latest.Load())
		if !reloaded && nudge != nil {
			nudge()
		}
		return reloaded
	}) {
		w.t.Fatalf("%s: not reloaded", what)
	}
}

func secretIs(text string) func(*config.Config) bool {
	return func(c *config.Config) bool {
		return c.Teams["acme"].Sources["github"].Secrets[0].Value.Reveal() == text
	}
}

func alone(*watching, int) {}

// TestWatchSeesWhatChanges: the file itself, a secret that it refers to, also one that was gone meanwhile, and teams that
// come, change and go.
func TestWatchSeesWhatChanges(t *testing.T) {
	t.Parallel()
	w := startWatching(t, 5*time.Millisecond, alone)
	w.replace("secret", "2nd..") // as long as the first
	w.until("a secret's file", secretIs("2nd.."), nil)
	w.remove("secret")
	w.team("fresh") // cannot be read without the secret
	w.replace("secret", "third")
	w.until("a secret that was gone", secretIs("third"), nil)
	w.until("a team's new file", func(c *config.Config) bool { return c.Teams["fresh"] != nil }, nil)
	w.replace("teams/fresh.yaml", "teams: {fresh: {sources: {added: {preset: github, secrets: [x]}}}}\n")
	w.until("a team's file", func(c *config.Config) bool { return c.Teams["fresh"].Sources["added"] != nil }, nil)
	w.remove("teams/fresh.yaml")
	w.until("a team that is gone", func(c *config.Config) bool { return c.Teams["fresh"] == nil }, nil)
	text, err := os.ReadFile(filepath.Join(w.dir, "forebay.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	w.replace("forebay.yaml", "not: [yaml")
	if !rig.Until(time.Minute, func() bool {
		said, _ := w.refused.Load().(string)
		return strings.Contains(said, "forebay.yaml:1: not YAML")
	}) {
		t.Errorf("what is wrong with the main file is told as %q", w.refused.Load())
	}
	w.replace("forebay.yaml", strings.Replace(string(text), "      github:", "      second:", 1))
	w.until("the file", func(c *config.Config) bool { return c.Teams["acme"].Sources["second"] != nil }, nil)
}

// TestWatchSeesOthersBesideABrokenFile: a team's broken file keeps no other team from its changes, and is read again when it is mended.
func TestWatchSeesOthersBesideABrokenFile(t *testing.T) {
	t.Parallel()
	w := startWatching(t, 5*time.Millisecond, alone)
	w.replace("teams/other.yaml", "not: [yaml")
	w.team("fresh")
	w.until("another team's file", func(c *config.Config) bool { return c.Teams["fresh"] != nil && c.Teams["other"] != nil }, nil)
	w.replace("teams/other.yaml", "teams: {other: {sources: {mended: {preset: github, secrets: [x]}}}}\n")
	w.until("a mended file", func(c *config.Config) bool { return c.Teams["other"].Sources["mended"] != nil }, nil)
}

// TestWatchLosesNoChangeWhileItReads: what changes between the reading and the use of it is a change.
func TestWatchLosesNoChangeWhileItReads(t *testing.T) {
	t.Parallel()
	w := startWatching(t, 5*time.Millisecond, func(w *watching, load int) {
		switch load {
		case 1: // the start's
			w.replace("secret", "at the start")
		case 2:
			w.replace("secret", "at a reload")
		}
	})
	w.until("a change within a reload", secretIs("at a reload"), nil)
}

// TestWatchReloadsOnSIGHUP, however long it is to the next look.
func TestWatchReloadsOnSIGHUP(t *testing.T) {
	t.Parallel()
	own := make(chan os.Signal, 1) // else a signal before the watcher's own ended the test
	signal.Notify(own, syscall.SIGHUP)
	defer signal.Stop(own)
	w := startWatching(t, time.Hour, alone)
	w.replace("secret", "second")
	w.until("SIGHUP", secretIs("second"), func() {
		if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
			t.Error(err)
		}
	})
}

// TestWatchTakesALargeFileAfterTheOthers: one look takes both, one behind the other.
func TestWatchTakesALargeFileAfterTheOthers(t *testing.T) {
	t.Parallel()
	w := &watching{t: t, dir: t.TempDir()}
	w.replace("forebay.yaml", "version: 1\nkafka: {brokers: [\"127.0.0.1:9092\"]}\nteams_dir: teams\n")
	write := func(team, source string, size int) {
		w.replace("teams/"+team+".yaml", "teams: {"+team+": {sources: {"+source+": {preset: github, secrets: [x]}}}} #"+strings.Repeat("x", size)+"\n")
	}
	write("large", "first", 100<<10)
	write("other", "first", 0)
	o := config.Options{Path: filepath.Join(w.dir, "forebay.yaml"), Roles: []config.Role{config.RoleIntake}}
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	cfg, _, last, err := load(o, log)
	if err != nil {
		t.Fatal(err)
	}
	write("large", "second", 100<<10)
	write("other", "second", 0)
	reports := 0
	read := func() (*config.Config, fileStates, error) {
		return loadAgain(cfg, o, log, func(config.Problems) { reports++ })
	}
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	var taken []string
	hup := make(chan os.Signal, 1)
	hup <- syscall.SIGHUP
	watcher{time.Hour, read, func(c *config.Config) error {
		cfg = c
		for _, team := range []string{"large", "other"} {
			if c.Teams[team].Sources["second"] != nil {
				taken = append(taken, team)
			}
		}
		if !c.Later() {
			stop()
		}
		return nil
	}, hup, log}.run(ctx, last)
	if got := strings.Join(taken, " "); got != "other large other" || reports != 1 {
		t.Errorf("the reloads have taken %q, and %d of them said what is wrong", got, reports)
	}
}

// TestServeTakesASIGHUPOfItsStart: it comes while the files are read, when a process that did not ask for it yet would end by it.
func TestServeTakesASIGHUPOfItsStart(t *testing.T) {
	t.Parallel()
	own := make(chan os.Signal, 1) // else the signal ends the test where serve does not take it
	signal.Notify(own, syscall.SIGHUP)
	defer signal.Stop(own)
	w := &watching{t: t, dir: t.TempDir()}
	w.replace("forebay.yaml", "version: 1\nkafka: {brokers: [\"127.0.0.1:1\"]}\nlisten: {intake: \"127.0.0.1:0\", operator: \"127.0.0.1:0\"}\nteams_dir: teams\n")
	w.team("acme")
	w.replace("teams/broken.yaml", "not: [yaml")
	ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
	defer stop()
	var reloaded atomic.Bool
	log := logLines(func(line string) {
		switch {
		case strings.Contains(line, "team files have problems"): // the start's, or the reload's
			if !reloaded.Load() && strings.Contains(line, "these teams do not run") {
				if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
					t.Error(err)
				}
			}
		case strings.Contains(line, `"configuration reloaded"`):
			reloaded.Store(true)
			stop()
		}
	})
	Main(ctx, []string{"serve", "--roles", "intake", "--drain", "1s", "-c", filepath.Join(w.dir, "forebay.yaml")}, Options{Stdout: log, Stderr: log})
	if !reloaded.Load() {
		t.Error("nothing was reloaded")
	}
}

// logLines is called with each line, or more, that is written to it.
type logLines func(string)

func (f logLines) Write(b []byte) (int, error) { f(string(b)); return len(b), nil }
