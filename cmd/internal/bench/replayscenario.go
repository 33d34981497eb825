package bench

import (
	"context"
	"fmt"
	"time"
)

// The scenario replay is about what was decided before and is read again: how fast it is skipped.

// replayBar is how many times the gate's rate the project asks of the skipping.
const replayBar = 1.5

// replaySizes are the scenario's dimensions.
type replaySizes struct {
	entities, warmUp, body int // see gateRun
}

var replayScale = replaySizes{entities: entitiesPerPartition, warmUp: gateWarmUp, body: 256}

func runReplayScenario(ctx context.Context, o Options, r *Report) error {
	return runReplay(ctx, o, replayScale, r)
}

func runReplay(ctx context.Context, o Options, s replaySizes, r *Report) error {
	pg, err := o.openPostgres(ctx, r)
	if err != nil {
		return err
	}
	defer pg.close()
	b := &gateBench{Options: o, gateSizes: gateSizes{entities: s.entities, warmUp: s.warmUp, body: s.body}, pg: pg, seed: uint64(time.Now().UnixNano())}
	return b.measureSkipping(ctx, r)
}

// measureSkipping measures, in every round, the gate with new events, then fill and a rewind over all that it has decided.
func (b *gateBench) measureSkipping(ctx context.Context, r *Report) error {
	var gate, filled, rewound side
	for i := range b.Rounds + 1 { // round 0 warms the server up
		run := b.ours(b.body, b.Round)
		first, err := run.run(ctx)
		if err != nil {
			return err
		}
		if err := b.pg.checkpoint(ctx); err != nil {
			return err
		}
		fill, err := run.filled(ctx)
		if err != nil {
			return fmt.Errorf("fill: %w", err)
		}
		rewind, err := run.rewound(ctx)
		if err != nil {
			return fmt.Errorf("after a reset: %w", err)
		}
		if err := b.pg.dropRun(ctx, run); err != nil {
			return err
		}
		b.logf("replay round %d: %.0f/s decided, %d events skipped by fill at %.0f/s, after a reset at %.0f/s", i, first.rate(), fill.events, fill.rate(), rewind.rate())
		if i > 0 {
			gate.add(first.measured)
			filled.add(fill)
			rewound.add(rewind)
		}
	}
	r.Settings["replay.gate"] = fmt.Sprintf("batches of %d, %d loops of a partition each, %d entities a partition, %.0f%% duplicates, bodies of %d bytes; %d actions a loop before",
		gateBatch, gateLoops, b.entities, 100*duplicateShare, b.body, b.warmUp)
	r.Settings["replay.skip"] = fmt.Sprintf("all events of the round before it and of its warm-up, from memory, by the same number of loops with a newly opened ledger, after a checkpoint: "+
		"rewind decides them again in batches of %d, fill asks for %d keys at a time and moves its position every %d", gateBatch, gateBatch, fillStretch)
	r.Ratios = append(r.Ratios, ratioOf("replay/rewind", "events/s skipped after a reset, and decided", replayBar, rewound.rates, gate.rates),
		ratioOf("replay/fill", "events/s skipped by fill, and decided", replayBar, filled.rates, gate.rates))
	gate.ourCosts(r, "replay/gate_")
	rewound.ourCosts(r, "replay/rewind_")
	filled.ourCosts(r, "replay/fill_")
	return nil
}
