package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
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
	if testing.Short() {
		t.Skip("starts a real server")
	}
	dir, err := os.MkdirTemp("", "forebay-withpostgres-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil { // for the server's user, when this is root
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], "sh", "-c", `echo "$TEST_DATABASE_URL"; cat`)
	cmd.Env = append(os.Environ(), actEnv+"=1", "TMPDIR="+dir)
	cmd.Stderr = os.Stderr
	if _, err := cmd.StdinPipe(); err != nil { // what cat waits for
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var url string
	_, scanned := fmt.Fscan(out, &url)
	conn, connected := pgx.Connect(t.Context(), url)
	if err := errors.Join(scanned, connected); err != nil {
		t.Error(err)
	} else {
		conn.Close(t.Context())
	}
	cmd.Process.Kill()
	cmd.Wait()
	deadline := time.Now().Add(20 * time.Second)
	for left := []string{"?"}; len(left) > 0; <-time.After(20 * time.Millisecond) {
		if left, err = filepath.Glob(filepath.Join(dir, "*")); err != nil || time.Now().After(deadline) {
			t.Fatalf("left behind: %v, %v", left, err)
		}
	}
	if conn, err := pgx.Connect(t.Context(), url); err == nil {
		conn.Close(t.Context())
		t.Error("the server outlives the program")
	}
}

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
