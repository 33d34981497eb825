package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forebay-io/forebay/cmd/internal/rig"
	"github.com/forebay-io/forebay/schemas/short"
)

// actEnv makes the test binary be the program.
const actEnv = "FOREBAY_WITHPOSTGRES_TEST"

func TestMain(m *testing.M) {
	if os.Getenv(actEnv) != "" {
		os.Unsetenv("TEST_DATABASE_URL")
		main()
	}
	os.Exit(m.Run())
}

// TestKilled: nothing is left of the server of a program that was killed.
func TestKilled(t *testing.T) {
	short.NeedsServer(t, "PostgreSQL")
	dir := rig.OpenDir(t)
	p, err := rig.StartChild(t.Context(), []string{actEnv + "=1", "TMPDIR=" + dir}, "sh", "-c", `echo "$TEST_DATABASE_URL"; cat`)
	if err != nil {
		t.Fatal(err)
	}
	url := p.Addr
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Error(err)
	} else {
		conn.Close(t.Context())
	}
	p.Kill()
	var left []string
	if !rig.Until(2*time.Minute, func() bool {
		left, err = filepath.Glob(filepath.Join(dir, "*"))
		return err == nil && len(left) == 0
	}) {
		t.Fatalf("left behind: %v, %v", left, err)
	}
	if conn, err := pgx.Connect(t.Context(), url); err == nil {
		conn.Close(t.Context())
		t.Error("the server outlives the program")
	}
}

// TestRun: the command gets a server that answers, its exit code comes back, and nothing is left.
func TestRun(t *testing.T) {
	short.NeedsServer(t, "PostgreSQL")
	t.Setenv("TEST_DATABASE_URL", "")
	out := filepath.Join(t.TempDir(), "url")
	code, err := run(t.Context(), []string{"sh", "-c", `printf %s "$TEST_DATABASE_URL" >"$0"; exit 7`, out})
	if code != 7 || err != nil {
		t.Errorf("exit code %d, %v", code, err)
	}
	url, err := os.ReadFile(out)
	if err != nil || !strings.HasPrefix(string(url), "postgres://forebay:") {
		t.Fatalf("TEST_DATABASE_URL %q, %v", url, err)
	}
	if conn, err := pgx.Connect(t.Context(), string(url)); err == nil {
		conn.Close(t.Context())
		t.Error("the server outlives the command")
	}
}

func TestRunLeavesAGivenDatabaseAlone(t *testing.T) {
	t.Setenv("TEST_DATABASE_URL", "postgres://given")
	code, err := run(t.Context(), []string{"sh", "-c", `test "$TEST_DATABASE_URL" = postgres://given`})
	if code != 0 || err != nil {
		t.Errorf("exit code %d, %v", code, err)
	}
	if code, err := run(t.Context(), []string{filepath.Join(t.TempDir(), "nothing")}); code != 1 || err == nil {
		t.Errorf("a command that is not there: %d, %v", code, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if code, err := run(ctx, []string{"sleep", "60"}); code != 1 || err == nil {
		t.Errorf("cancelled: %d, %v", code, err)
	}
}
