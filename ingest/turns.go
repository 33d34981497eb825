package ingest

import (
	"context"
	"time"
)

const (
	// sourceTurns is how many deliveries of one source wait for the log at once.
	sourceTurns = 128
	// turnWithin is how long a delivery waits for its turn. Then it goes without one: where a partition takes nothing, those that wait for it
	// must not keep up the source's others.
	turnWithin = 250 * time.Millisecond
)

// turns bound what of one source is on its way to the log. A flood's deliveries wait for each other here, where they take no processor, and
// not among those of other sources. None is refused for it: a provider may not send it again.
type turns chan struct{}

// take waits for a turn, and reports whether there is one to give back.
func (t turns) take(ctx context.Context) bool {
	select {
	case t <- struct{}{}:
		return true
	default:
	}
	late := time.NewTimer(turnWithin)
	defer late.Stop()
	select {
	case t <- struct{}{}:
		return true
	case <-late.C:
	case <-ctx.Done():
	}
	return false
}

func (t turns) give() { <-t }
