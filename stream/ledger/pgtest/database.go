// Package pgtest is what tests on Postgres share, below the ledger and beside it: where the server is, a schema of a test's own, and a
// proxy that breaks connections.
package pgtest

import (
	"context"
	"crypto/rand"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forebay-io/forebay/schemas/short"
)

// URL is the Postgres of the tests. A run without one fails: what is tested on it, Postgres does.
func URL(t testing.TB) string {
	t.Helper()
	short.NeedsServer(t, "PostgreSQL")
	url := os.Getenv("TEST_DATABASE_URL")
	if url == "" {
		t.Fatal("TEST_DATABASE_URL is not set: `make test` starts a Postgres and sets it")
	}
	return url
}

// Schema names a schema that does not exist, and drops it after the test.
func Schema(t testing.TB) (url, name string) {
	t.Helper()
	url, name = URL(t), newName()
	t.Cleanup(func() { Exec(t, url, `DROP SCHEMA IF EXISTS `+name+` CASCADE`) })
	return url, name
}

func newName() string { return "t_" + strings.ToLower(rand.Text()[:12]) }

// patience is how long something is waited for that takes a moment.
const patience = time.Minute

// Exec runs SQL on a connection of its own, also after the test's context has ended.
func Exec(t testing.TB, url, sql string, args ...any) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
	defer cancel()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Error(err)
		return
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, sql, args...); err != nil {
		t.Error(err)
	}
}

// Connect is a connection of the test's own to a schema.
func Connect(t testing.TB, url, schema string) *pgx.Conn {
	t.Helper()
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	cfg.RuntimeParams["search_path"] = schema
	conn, err := pgx.ConnectConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.WithoutCancel(t.Context())) })
	return conn
}
