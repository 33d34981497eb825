package rig

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forebay-io/forebay/cmd/internal/embedded"
	"github.com/forebay-io/forebay/schemas/short"
)

// StartPostgres starts an installed PostgreSQL, or else a downloaded one, in a new directory below parent. An empty parent is the directory
// for temporary files. The server's Discard removes its files, and so does the end of this process.
func StartPostgres(ctx context.Context, parent string, logger *slog.Logger, settings map[string]string) (*embedded.Postgres, error) {
	dir, err := openDir(parent)
	if err != nil {
		return nil, err
	}
	p, err := embedded.StartPostgres(ctx, embedded.PostgresConfig{Dir: dir, Temporary: dir, Logger: logger, Settings: settings})
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return p, nil
}

// PostgresServer is a PostgreSQL of the test's own that may be killed.
type PostgresServer struct {
	t        T
	dir      string
	settings map[string]string
	server   *embedded.Postgres
	url      string
}

// Postgres starts a server for this test: an installed PostgreSQL, else a downloaded one.
func Postgres(t T) *PostgresServer { t.Helper(); return postgresWith(t, nil) }

func postgresWith(t T, settings map[string]string) *PostgresServer {
	t.Helper()
	short.NeedsServer(t, "PostgreSQL")
	p := &PostgresServer{t: t, dir: OpenDir(t), settings: settings}
	p.start()
	p.url = p.server.URL().Reveal()
	t.Cleanup(func() {
		if err := p.server.Kill(); err != nil {
			t.Errorf("end the PostgreSQL of this test: %v", err)
		}
	})
	return p
}

// OpenDir returns a temporary directory that PostgreSQL's user can enter when the tests run as root, unlike t.TempDir.
func OpenDir(t T) string {
	t.Helper()
	dir, err := openDir("")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// openDir makes the directory of [OpenDir] below parent.
func openDir(parent string) (string, error) {
	dir, err := os.MkdirTemp(parent, "forebay-postgres-")
	if err != nil {
		return "", err
	}
	return dir, os.Chmod(dir, 0o755)
}

// start starts the server on its directory.
func (p *PostgresServer) start() {
	p.t.Helper()
	var err error
	p.server, err = embedded.StartPostgres(context.Background(), embedded.PostgresConfig{
		Dir: p.dir, Temporary: p.dir, Settings: p.settings, Logger: slog.New(slog.NewTextHandler(p.t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	if err != nil {
		p.t.Fatal(err)
	}
}

// URL returns the connection string, which is the same after Kill and Restart.
func (p *PostgresServer) URL() string { return p.url }

// Kill ends the server and all its processes with SIGKILL.
func (p *PostgresServer) Kill() {
	p.t.Helper()
	if err := p.server.Kill(); err != nil {
		p.t.Fatal(err)
	}
}

// Crash kills one session's process: the server ends all others, recovers, and goes on. It returns once that answers.
func (p *PostgresServer) Crash() {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	connect := func() *pgx.Conn {
		conn, err := pgx.Connect(ctx, p.url)
		if err != nil {
			p.t.Fatal(err)
		}
		return conn
	}
	killed, other := connect(), connect()
	defer killed.Close(ctx)
	defer other.Close(ctx)
	victim, err := os.FindProcess(int(killed.PgConn().PID()))
	if err == nil {
		err = victim.Kill()
	}
	if err != nil {
		p.t.Fatal(err)
	}
	for other.Ping(ctx) == nil { // until the server has noticed
		<-time.After(time.Millisecond)
	}
	for {
		again, err := pgx.Connect(ctx, p.url)
		if err == nil {
			again.Close(ctx)
			return
		}
		select {
		case <-ctx.Done():
			p.t.Fatalf("PostgreSQL does not come back: %v", err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// Restart starts the server again on its port and data, through crash recovery after a Kill.
func (p *PostgresServer) Restart() {
	p.t.Helper()
	p.Kill() // does nothing if the server was killed already
	p.start()
	if p.server.URL().Reveal() != p.url {
		p.t.Fatalf("PostgreSQL came back on port %d, not where it was", p.server.Port())
	}
}

// Keep keeps a copy of the server's data, and returns what brings that back, as a restored backup under those who go on: both restart the
// server.
func (p *PostgresServer) Keep() (bringBack func()) {
	p.t.Helper()
	kept := OpenDir(p.t)
	replace := func(to, from string) {
		p.t.Helper()
		p.Kill()
		if out, err := exec.Command("sh", "-c", `rm -rf "$1"/* && cp -a "$2"/. "$1"`, "sh", to, from).CombinedOutput(); err != nil {
			p.t.Fatalf("copy PostgreSQL's data: %v\n%s", err, out)
		}
		p.Restart()
	}
	replace(kept, p.dir)
	return func() { p.t.Helper(); replace(p.dir, kept) }
}

// Database creates an empty database on the server of TEST_DATABASE_URL, which [StopShared] drops.
func Database(t T) string {
	t.Helper()
	short.NeedsServer(t, "PostgreSQL")
	base := os.Getenv("TEST_DATABASE_URL")
	if base == "" {
		t.Fatal("TEST_DATABASE_URL is not set: run the tests through make test, which starts a PostgreSQL for them")
	}
	server, err := url.Parse(base)
	if err != nil {
		t.Fatalf("TEST_DATABASE_URL: %v", err)
	}
	return createDatabase(t, server, "")
}

// CopyDatabase creates a copy of a database of [Database], which [StopShared] drops. Nobody may be connected to the original.
func CopyDatabase(t T, database string) string {
	t.Helper()
	original, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	return createDatabase(t, original, ` TEMPLATE `+strings.TrimPrefix(original.Path, "/"))
}

// createDatabase creates a database. It returns its URL, which is like with the new name. options are those of the statement CREATE DATABASE.
func createDatabase(t T, like *url.URL, options string) string {
	t.Helper()
	name := "t" + strings.ToLower(rand.Text())
	if err := execute(`CREATE DATABASE ` + name + options); err != nil {
		t.Fatal(err)
	}
	shared.mu.Lock()
	shared.databases = append(shared.databases, name)
	shared.mu.Unlock()
	created := *like
	created.Path = "/" + name
	return created.String()
}

// execute executes a statement on the server of TEST_DATABASE_URL.
func execute(statement string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute) // a busy disk
	defer cancel()
	conn, err := pgx.Connect(ctx, os.Getenv("TEST_DATABASE_URL"))
	if err != nil {
		return fmt.Errorf("TEST_DATABASE_URL: %w", err)
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, statement); err != nil {
		return fmt.Errorf("%s: %w", statement, err)
	}
	return nil
}
