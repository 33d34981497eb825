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
	// Dir holds everything: data, password, port, lock, server log. Created when missing. A server started as root runs
	// under another user; when that user cannot reach Dir (/root is closed to it), the data lie under /var/lib/forebay
	// and Dir remembers where.
	Dir string
	// Cache holds downloaded programs; default $FOREBAY_CACHE, else the user's cache directory.
	Cache string
	// Download takes the downloaded programs even where some are installed; default: the environment variable
	// FOREBAY_POSTGRES_DOWNLOAD=1.
	Download bool
	// Settings are further server settings; fsync, full_page_writes and synchronous_commit cannot be switched off.
	Settings map[string]string
	// Temporary is Dir or a directory around it that is removed, together with the server and all that it keeps, when this
	// process ends without having stopped it. Empty: the server outlives this process, and a next start goes on.
	Temporary string
	// StartWithin bounds the wait for the server to answer, crash recovery included; default 2 minutes.
	StartWithin time.Duration
	// Logger says what is found, downloaded and mended; nil discards it.
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
	lock     *dirLock
	programs programs
	account  *account // nil: our own user
	home     string   // owned by the account; holds data and server.log
	port     int
	password string

	watchdog *watchdog // nil: not temporary

	cmd  *exec.Cmd
	done chan struct{} // closed by the one goroutine that waits for cmd
	once sync.Once
}

// StartPostgres starts the server of a directory and returns when it answers; the first time it creates the database
// cluster, the role and the database "forebay". A server that an earlier process left behind is stopped first: its
// sessions belong to nobody any more. Returns a *[HeldError] when a living process has the directory. The server runs
// until Stop, whatever becomes of ctx, and unless it is temporary it outlives this process if that is killed.
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
			err = errors.Join(err, lock.release())
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

// prepare does everything before the server process: user, place, programs, leftovers, cluster, port.
func (p *Postgres) prepare(ctx context.Context) (err error) {
	if p.account, p.home, err = chooseHome(p.cfg.Dir, p.cfg.Logger); err != nil {
		return err
	}
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

// launch starts the server in a session of its own: Ctrl-C reaches forebay, which stops the server when it has drained.
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

// openLog appends to the server's log and begins a new one when it has grown.
func (p *Postgres) openLog() (*os.File, error) {
	if info, err := os.Stat(p.serverLog()); err == nil && info.Size() > 8<<20 {
		if err := os.Remove(p.serverLog()); err != nil {
			return nil, err
		}
	}
	return os.OpenFile(p.serverLog(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
}

// arguments win over postgresql.conf and ALTER SYSTEM, so that nobody switches durability off by accident.
func (p *Postgres) arguments() []string {
	settings := map[string]string{
		"max_connections": "100", "shared_buffers": "128MB", "max_wal_size": "1GB", "timezone": "UTC",
		"logging_collector": "off", "log_min_messages": "warning", "log_destination": "stderr",
	}
	maps.Copy(settings, p.cfg.Settings)
	settings["listen_addresses"] = "127.0.0.1"
	settings["port"] = fmt.Sprint(p.port)
	settings["unix_socket_directories"] = "" // its path may not be long, and nobody needs it
	settings["fsync"], settings["full_page_writes"], settings["synchronous_commit"] = "on", "on", "on"
	args := []string{"-D", p.data()}
	for name, value := range settings {
		args = append(args, "-c", name+"="+value)
	}
	return args
}

// URL returns the connection string of the database "forebay" for its owner. It holds the password.
func (p *Postgres) URL() schemas.Secret { return schemas.NewSecret(p.url("forebay")) }

func (p *Postgres) url(database string) string {
	return fmt.Sprintf("postgres://forebay:%s@127.0.0.1:%d/%s?sslmode=disable", p.password, p.port, database)
}

// Port returns where it listens on 127.0.0.1.
func (p *Postgres) Port() int { return p.port }

// Origin says for a banner which PostgreSQL runs and where its programs come from.
func (p *Postgres) Origin() string { return p.programs.String() }

// DataDir returns where the data lie, under Dir or, for a root whose Dir is closed to others, elsewhere.
func (p *Postgres) DataDir() string { return p.data() }

// Done is closed when the server process has ended, for whatever reason.
func (p *Postgres) Done() <-chan struct{} { return p.done }

// Stop ends the server cleanly ("fast": open transactions are rolled back) and gives the directory back. When ctx is
// done first the server is stopped at once, which loses nothing but makes the next start recover.
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
		err = errors.Join(err, p.lock.release())
	})
	return err
}

// Kill ends the server as a power cut would, with SIGKILL to all its processes, and gives the directory back. For
// tests of recovery.
func (p *Postgres) Kill() error {
	var err error
	p.once.Do(func() {
		p.kill(syscall.SIGKILL)
		<-p.done
		p.watchdog.end()
		// Its children notice the death by themselves, but not at once.
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		err = errors.Join(endAll(ctx, p.data(), syscall.SIGKILL), p.lock.release())
	})
	return err
}

// Discard stops the server and removes all that it kept, also what lies outside Dir.
func (p *Postgres) Discard(ctx context.Context) error {
	return errors.Join(p.Stop(ctx), os.RemoveAll(p.home), os.RemoveAll(p.cfg.Dir))
}

// kill signals the server if it still runs.
func (p *Postgres) kill(signal syscall.Signal) {
	select {
	case <-p.done:
	default:
		p.cmd.Process.Signal(signal) // fails only when it has just ended
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
