package bench

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/forebay-io/forebay/cmd/internal/cli"
	"github.com/forebay-io/forebay/cmd/internal/memory"
)

// The hidden first arguments with which this program starts itself as a part of a scenario, in a process of its own so
// that its processor time and its memory are its own. The part ends when its standard input does.
const (
	serveCommand   = "_serve"   // a server of the intake scenario
	forebayCommand = "_forebay" // forebay itself, with its own command line
	agentCommand   = "_agent"   // the agent of e2e and hol
)

// Child runs this process as a part of a scenario where its arguments, without the program's name, say so, and returns
// its exit code.
func Child(args []string) (code int, is bool) {
	if len(args) == 0 {
		return 0, false
	}
	switch args[0] {
	case serveCommand:
		if err := serve(args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, "forebay-bench:", err)
			return 1, true
		}
		return 0, true
	case agentCommand:
		if err := serveAgent(); err != nil {
			fmt.Fprintln(os.Stderr, "forebay-bench:", err)
			return 1, true
		}
		return 0, true
	case forebayCommand:
		return forebay(args[1:]), true
	}
	return 0, false
}

// forebay is what the command of that name does.
func forebay(args []string) int {
	memory.Tune()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	return cli.Main(ctx, args, cli.Options{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr})
}
