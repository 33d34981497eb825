// Withpostgres runs a command, mostly go test, with a PostgreSQL server of its own, whose URL is in TEST_DATABASE_URL:
//
//	go run ./cmd/internal/withpostgres go test ./...
//
// The server is an installed one or is downloaded once. It lives in a temporary directory, also when this runs as root, and ends when
// the command or this program does, in whatever way. If TEST_DATABASE_URL is set already, no server is started. The exit code is the
// command's.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/rig"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: withpostgres COMMAND [ARGUMENT...]")
		os.Exit(2)
	}
	// The terminal sends Ctrl-C to the command, too. The command decides when it ends; this cleans up after it.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code, err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "withpostgres:", err)
	}
	os.Exit(code)
}

// run runs the command with a server, if it needs one. It returns the command's exit code, or 1 and an error if the command did not run.
func run(ctx context.Context, args []string) (code int, err error) {
	if os.Getenv("TEST_DATABASE_URL") != "" {
		return command(ctx, args, os.Environ())
	}
	// Packages are tested side by side, each with pools of its own.
	server, err := rig.StartPostgres(ctx, "", slog.New(slog.NewTextHandler(os.Stderr, nil)),
		map[string]string{"max_connections": "500", "shared_buffers": "256MB", "max_wal_size": "2GB"})
	if err != nil {
		return 1, err
	}
	defer func() {
		// Killing the server saves its last checkpoint, of data that is removed next.
		err = errors.Join(err, server.Kill(), server.Discard(context.WithoutCancel(ctx)))
	}()
	return command(ctx, args, append(os.Environ(), "TEST_DATABASE_URL="+server.URL().Reveal()))
}

// command runs a command to its end and returns its exit code. When ctx is done, it interrupts the command, and kills it if it has not
// ended after 30 s. A command that a signal has ended is an error.
func command(ctx context.Context, args, environ []string) (int, error) {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Env = environ
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 30 * time.Second
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		if exit.ExitCode() >= 0 {
			return exit.ExitCode(), nil
		}
		return 1, err // a signal
	}
	if err != nil {
		return 1, err
	}
	return 0, nil
}
