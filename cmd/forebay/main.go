// Command forebay takes webhooks in and lets every event act once, in order per entity. See package cli.
package main

import (
	"context"
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
	return cli.Main(ctx, os.Args[1:], cli.Options{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Dev: func(ctx context.Context, o cli.DevOptions) error { return dev.Run(ctx, dev.Options(o)) },
		Supply: func(ctx context.Context, o cli.DevOptions, c *config.Config) (func(), error) {
			return dev.Supply(ctx, dev.Options(o), c)
		},
		Demo: func(ctx context.Context, o cli.DevOptions) error { return dev.Demo(ctx, dev.Options(o)) }})
}
