package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// TestRun: the command gets a server that answers, its exit code comes back, and nothing is left.
func TestRun(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a real server")
	}
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
