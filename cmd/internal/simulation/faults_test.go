package simulation

import (
	"context"
	"math/rand/v2"
	"time"
)

// planned is a fault and its time.
type planned struct {
	at   time.Duration
	name string
	do   func(ctx context.Context, w *world)
}

func (p *plan) drawFaults(rng *rand.Rand) {}

// breakThings does what the plan says, one after the other.
func (w *world) breakThings(ctx context.Context) {
	for _, f := range w.plan.faults {
		sleep(ctx, time.Until(w.trace.start.Add(f.at)))
		w.trace.add("fault: %s", f.name)
		f.do(ctx, w)
	}
}
