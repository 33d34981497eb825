package embedded

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/forebay-io/forebay/schemas"
)

// PostgresConfig describes the embedded PostgreSQL.
type PostgresConfig struct {
	// Dir holds everything: data, password, port, lock, server log. It is created if it does not exist. If this process is root, the
	// server runs as another user. If that user cannot reach Dir, such as one in /root, the data are under /var/lib/forebay, and a file
	// in Dir says where.
	Dir string
	// Cache holds downloaded programs; default $FOREBAY_CACHE, else the user's cache directory.
	Cache string
	// Download takes downloaded programs even if some are installed, as the environment variable FOREBAY_POSTGRES_DOWNLOAD=1 does.
	Download bool
	// Settings are further server settings; fsync, full_page_writes and synchronous_commit cannot be switched off.
	Settings map[string]string
	// Temporary, if set, is Dir or a directory around it. If this process ends without having stopped the server, that is ended, and the
	// directory is removed with all that the server keeps. Empty: the server outlives this process, and the next start goes on.
	Temporary string
	// StartWithin is how long the server may take to answer, crash recovery included; default 2 minutes.
	StartWithin time.Duration
	// Logger gets what is found, downloaded and mended; nil discards it.
	Logger *slog.Logger
}

func (c PostgresConfig) withDefaults() PostgresConfig {
	if c.StartWithin == 0 {
		c.StartWithin = 2 * time.Minute
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if os.Getenv("FOREBAY_POSTGRES_DOWNLOAD") == "1" {
		c.Download = true
	}
	return c
}

func (c PostgresConfig) validate() error {
	if c.Dir == "" {
		return errors.New("embedded postgres: no directory")
	}
	for _, name := range []string{"fsync", "full_page_writes", "synchronous_commit", "data_directory", "port", "listen_addresses"} {
		if _, ok := c.Settings[name]; ok {
			return fmt.Errorf("embedded postgres: %s is not yours to set", name)
		}
	}
	return nil
}

// Postgres is a running server. Safe for concurrent use.
type Postgres struct {
	cfg      PostgresConfig
	lock     *dirLock // of Dir
	homeLock *dirLock // of home, which may be elsewhere, and named by two directories; nil: not yet chosen
	programs programs
	account  *account // that the server runs as; nil: that of this process
	home     string   // the server's directory, with data and server.log; owned by the account
	port     int
	password string

	watchdog *watchdog // nil: not temporary

	cmd  *exec.Cmd
	done chan struct{} // closed by the one goroutine that waits for cmd
	once sync.Once
}

// StartPostgres starts the server of a directory and returns when it answers. The first time, it creates the database cluster, the role
// and the database "forebay". A server that a dead process has left running is stopped first. StartPostgres returns a *[HeldError] if a
// living process has the directory. The server runs until Stop, Kill or Discard, also when ctx has ended. If this process is killed, a
// server that is not temporary goes on.
func StartPostgres(ctx context.Context, cfg PostgresConfig) (_ *Postgres, err error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	if cfg.Dir, err = filepath.Abs(cfg.Dir); err != nil {
		return nil, err
	}
	lock, err := lockDir(cfg.Dir)
	if err != nil {
		return nil, err
	}
	p := &Postgres{cfg: cfg, lock: lock, done: make(chan struct{})}
	defer func() {
		if err != nil {
			p.watchdog.end()
			if cfg.Temporary != "" && p.home != "" { // it may be elsewhere than cfg.Dir, where nobody would find it again
				err = errors.Join(err, os.RemoveAll(p.home))
			}
			err = errors.Join(err, p.release())
		}
	}()
	if err := p.prepare(ctx); err != nil {
		return nil, err
	}
	if err := p.launch(); err != nil {
		return nil, err
	}
	if err := p.ready(ctx); err != nil {
		p.kill(syscall.SIGQUIT)
		<-p.done
		return nil, err
	}
	return p, nil
}

// prepare does what must be done before the server is started: it finds the user, the directory, the programs and the port, stops a server
// that was left running, and makes the cluster.
func (p *Postgres) prepare(ctx context.Context) (err error) {
	as, home, err := chooseHome(ctx, p.cfg.Dir, p.cfg.Logger)
	if err != nil {
		return err
	}
	if p.homeLock, err = lockDir(home); err != nil {
		return err
	}
	p.account, p.home = as, home
	if p.cfg.Temporary != "" {
		if p.watchdog, err = watch(p.data(), p.home, p.cfg.Temporary); err != nil {
			return err
		}
	}
	if p.programs, err = findPrograms(ctx, p.cfg, dataMajor(p.data()), p.account); err != nil {
		return err
	}
	if err := stopLeftovers(ctx, p.data(), p.cfg.Logger); err != nil {
		return err
	}
	if p.password, err = keepPassword(p.cfg.Dir, exists(p.data())); err != nil {
		return err
	}
	if err := p.initOnce(ctx); err != nil {
		return err
	}
	p.port, err = keepPort(p.cfg.Dir, p.cfg.Logger)
	return err
}

func (p *Postgres) data() string      { return filepath.Join(p.home, "data") }
func (p *Postgres) serverLog() string { return filepath.Join(p.home, "server.log") }

// launch starts the server process. It has a session of its own, so that Ctrl-C at the terminal does not reach it: forebay stops it once
// it has drained.
func (p *Postgres) launch() error {
	out, err := p.openLog()
	if err != nil {
		return err
	}
	defer out.Close() // the child has its own copy
	p.cmd = exec.Command(p.programs.path("postgres"), p.arguments()...)
	p.cmd.Dir = p.home
	p.cmd.Env = p.programs.environ()
	p.cmd.Stdout, p.cmd.Stderr = out, out
	p.cmd.SysProcAttr = p.account.attributes()
	p.cmd.SysProcAttr.Setsid = true
	if err := p.cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", p.cmd.Path, err)
	}
	go func() {
		defer close(p.done)
		_ = p.cmd.Wait() // how it ended is in its log
	}()
	return nil
}

// openLog opens the server's log to append to it. A log of more than 8 MiB is removed first.
func (p *Postgres) openLog() (*os.File, error) {
	if info, err := os.Stat(p.serverLog()); err == nil && info.Size() > 8<<20 {
		if err := os.Remove(p.serverLog()); err != nil {
			return nil, err
		}
	}
	return os.OpenFile(p.serverLog(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
}

// arguments returns the server's arguments, settings among them. As arguments they win over postgresql.conf and ALTER SYSTEM: nobody can
// switch durability off by accident.
func (p *Postgres) arguments() []string {
	settings := map[string]string{
		"max_connections": "100", "shared_buffers": "128MB", "max_wal_size": "1GB", "timezone": "UTC",
		"logging_collector": "off", "log_min_messages": "warning", "log_destination": "stderr",
	}
	maps.Copy(settings, p.cfg.Settings)
	settings["listen_addresses"] = "127.0.0.1"
	settings["port"] = fmt.Sprint(p.port)
	settings["unix_socket_directories"] = "" // no socket: its path may be too long, and nobody needs it
	settings["fsync"], settings["full_page_writes"], settings["synchronous_commit"] = "on", "on", "on"
	args := []string{"-D", p.data()}
	for name, value := range settings {
		args = append(args, "-c", name+"="+value)
	}
	return args
}

// URL returns the connection string of the database "forebay", with the password of its owner.
func (p *Postgres) URL() schemas.Secret { return schemas.NewSecret(p.url("forebay")) }

func (p *Postgres) url(database string) string {
	return fmt.Sprintf("postgres://forebay:%s@127.0.0.1:%d/%s?sslmode=disable", p.password, p.port, database)
}

// Port returns the port that the server listens on, on 127.0.0.1.
func (p *Postgres) Port() int { return p.port }

// Origin says for a banner which PostgreSQL runs and where its programs come from.
func (p *Postgres) Origin() string { return p.programs.String() }

// DataDir returns the server's data directory. It is under Dir, or elsewhere if the server's user cannot reach Dir.
func (p *Postgres) DataDir() string { return p.data() }

// Done is closed when the server process has ended, for whatever reason.
func (p *Postgres) Done() <-chan struct{} { return p.done }

// Stop stops the server by a fast shutdown, which rolls open transactions back, and releases the directory. If ctx ends first, it is an
// immediate shutdown and an error: nothing is lost, but the next start has to recover. After the first Stop or Kill, more do nothing.
func (p *Postgres) Stop(ctx context.Context) error {
	var err error
	p.once.Do(func() {
		p.kill(syscall.SIGINT)
		select {
		case <-p.done:
		case <-ctx.Done():
			err = fmt.Errorf("embedded postgres did not stop in time, it was ended: %w", context.Cause(ctx))
			p.kill(syscall.SIGQUIT)
			<-p.done
		}
		p.watchdog.end()
		err = errors.Join(err, p.release())
	})
	return err
}

// release releases the directories.
func (p *Postgres) release() error {
	err := p.lock.release()
	if p.homeLock != nil {
		err = errors.Join(err, p.homeLock.release())
	}
	return err
}

// Kill ends the server with SIGKILL to all its processes, and releases the directory. It is for tests of recovery.
func (p *Postgres) Kill() error {
	var err error
	p.once.Do(func() {
		p.kill(syscall.SIGKILL)
		<-p.done
		p.watchdog.end()
		// The server's child processes notice its end by themselves, but not at once.
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		err = errors.Join(endAll(ctx, p.data(), syscall.SIGKILL), p.release())
	})
	return err
}

// Discard stops the server and removes its files, also those outside Dir.
func (p *Postgres) Discard(ctx context.Context) error {
	return errors.Join(p.Stop(ctx), os.RemoveAll(p.home), os.RemoveAll(p.cfg.Dir))
}

// kill signals the server if it still runs.
func (p *Postgres) kill(signal syscall.Signal) {
	select {
	case <-p.done:
	default:
		p.cmd.Process.Signal(signal) // fails only if the server has just ended
	}
}

// logTail returns the end of the server's log for an error message.
func (p *Postgres) logTail() string {
	text, err := os.ReadFile(p.serverLog())
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-8):], "\n")
}
