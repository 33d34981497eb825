package rig

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forebay-io/forebay/cmd/internal/embedded"
)

// StartPostgres starts an installed PostgreSQL, else a downloaded one, in a directory of its own below parent; empty: where
// temporary files are. Its Discard removes what it kept, as the end of this process does.
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
	t      T
	dir    string
	server *embedded.Postgres
	url    string
}

// Postgres starts a server for this test: an installed PostgreSQL, else a downloaded one.
func Postgres(t T) *PostgresServer {
	t.Helper()
	p := &PostgresServer{t: t, dir: OpenDir(t)}
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

func openDir(parent string) (string, error) {
	dir, err := os.MkdirTemp(parent, "forebay-postgres-")
	if err != nil {
		return "", err
	}
	return dir, os.Chmod(dir, 0o755)
}

func (p *PostgresServer) start() {
	p.t.Helper()
	var err error
	p.server, err = embedded.StartPostgres(context.Background(), embedded.PostgresConfig{
		Dir: p.dir, Temporary: p.dir, Logger: slog.New(slog.NewTextHandler(p.t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	if err != nil {
		p.t.Fatal(err)
	}
}

// URL returns the connection string; it survives Kill and Restart.
func (p *PostgresServer) URL() string { return p.url }

// Kill ends the server and all its processes with SIGKILL.
func (p *PostgresServer) Kill() {
	p.t.Helper()
	if err := p.server.Kill(); err != nil {
		p.t.Fatal(err)
	}
}

// Restart starts the server again on its port and data, through crash recovery after a Kill.
func (p *PostgresServer) Restart() {
	p.t.Helper()
	p.Kill() // nothing when it is dead
	p.start()
	if p.server.URL().Reveal() != p.url {
		p.t.Fatalf("PostgreSQL came back on port %d, not where it was", p.server.Port())
	}
}

// Database creates an empty database on the server of TEST_DATABASE_URL and drops it after the test.
func Database(t T) string {
	t.Helper()
	base := os.Getenv("TEST_DATABASE_URL")
	if base == "" {
		t.Fatal("TEST_DATABASE_URL is not set: run the tests through make test, which starts a PostgreSQL for them")
	}
	at, err := url.Parse(base)
	if err != nil {
		t.Fatalf("TEST_DATABASE_URL: %v", err)
	}
	return create(t, at, "")
}

// CopyDatabase creates a copy of a database of [Database], to which nobody may be connected, and drops it after the test.
func CopyDatabase(t T, database string) string {
	t.Helper()
	at, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	return create(t, at, ` TEMPLATE `+strings.TrimPrefix(at.Path, "/"))
}

func create(t T, at *url.URL, how string) string {
	t.Helper()
	base, name := os.Getenv("TEST_DATABASE_URL"), "t"+strings.ToLower(rand.Text())
	administer(t, base, `CREATE DATABASE `+name+how)
	// FORCE: a test that failed may have left a process connected.
	t.Cleanup(func() { administer(t, base, `DROP DATABASE `+name+` WITH (FORCE)`) })
	at.Path = "/" + name
	return at.String()
}

func administer(t T, base, statement string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, base)
	if err != nil {
		t.Fatalf("TEST_DATABASE_URL: %v", err)
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}
