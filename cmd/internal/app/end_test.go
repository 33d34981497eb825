package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
)

// A part that keeps to no bound is left to the end of the process, and the exit code tells.
func TestEndsWithoutAPartThatDoesNot(t *testing.T) {
	t.Parallel()
	a := &App{cfg: Config{Drain: 50 * time.Millisecond}, log: slog.New(slog.DiscardHandler)}
	var err error
	a.operator, err = a.listen("operator", "127.0.0.1:0", http.NotFoundHandler())
	if err != nil {
		t.Fatal(err)
	}
	over, served := make(chan struct{}), make(chan error, 1)
	served <- nil
	defer close(over)
	ctx, stop := context.WithCancel(t.Context())
	g, _ := errgroup.WithContext(ctx)
	g.Go(func() error { <-over; return nil })
	stop()
	if err := a.stopWithin(ctx, g, served); !errors.Is(err, errDrained) || !strings.Contains(fmt.Sprint(err), "50ms") {
		t.Errorf("ended with %v", err)
	}
}
