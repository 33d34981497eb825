// Command forebay takes webhooks in and lets every event act once, in order per entity. See package cli.
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/forebay-io/forebay/cmd/internal/cli"
	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/cmd/internal/dev"
	"github.com/forebay-io/forebay/cmd/internal/memory"
)

func main() { os.Exit(run()) }

// run runs the command line and returns the exit code. The first interrupt ends the command cleanly, the second the process.
func run() int {
	memory.Tune()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// A second signal ends the process at once: stop gives the default handling back.
	context.AfterFunc(ctx, stop)
	return command(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
}

// command runs the command line that args are, and returns the exit code.
func command(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	return cli.Main(ctx, args, cli.Options{Stdin: stdin, Stdout: stdout, Stderr: stderr,
		Dev: func(ctx context.Context, o cli.DevOptions) error { return dev.Run(ctx, dev.Options(o)) },
		Supply: func(ctx context.Context, o cli.DevOptions, c *config.Config) (func(), error) {
			return dev.Supply(ctx, dev.Options(o), c)
		},
		Demo: func(ctx context.Context, o cli.DevOptions) error { return dev.Demo(ctx, dev.Options(o)) }})
}
