package bench

import (
	"context"
	"fmt"
)

// The scenario replay is about what was decided before and is read again: how fast it is skipped.

// replayBar is how many times the gate's rate the project asks of the skipping.
const replayBar = 1.5

// replaySizes are the scenario's dimensions.
type replaySizes struct{ gateLoad }

var replayScale = replaySizes{fullGate}

// run measures, in every round, the gate with new events, then fill and a rewind over all that it has decided.
func (s replaySizes) run(ctx context.Context, o Options, r *Report) error {
	b, err := o.openGate(ctx, s.gateLoad, r)
	if err != nil {
		return err
	}
	defer b.pg.close()
	var run gateRun // of the round
	gate := &side{name: "decided", run: func(ctx context.Context) (measured, error) {
		run = b.ours()
		got, err := run.run(ctx)
		if err != nil {
			return measured{}, err
		}
		return got.measured, b.pg.checkpoint(ctx)
	}}
	filled := &side{name: "skipped by fill", run: func(ctx context.Context) (measured, error) { return run.filled(ctx) }}
	rewound := &side{name: "skipped after a reset", run: func(ctx context.Context) (measured, error) {
		m, err := run.rewound(ctx)
		if err != nil {
			return m, err
		}
		return m, b.pg.dropRun(ctx, run)
	}}
	if err := b.inTurns(ctx, turns{scenario: "replay", warm: 1}, gate, filled, rewound); err != nil { // round 0 warms the server up
		return err
	}
	r.Settings["replay.gate"] = s.String()
	r.Settings["replay.skip"] = fmt.Sprintf("all events of the round before it and of its warm-up, from memory, by the same number of loops with a newly opened ledger, after a checkpoint: "+
		"rewind decides them again in batches of %d, fill asks for %d keys at a time and moves its position every %d", gateBatch, gateBatch, fillStretch)
	r.Ratios = append(r.Ratios, ratioOf("replay/rewind", "events/s skipped after a reset, and decided", replayBar, rewound.rates, gate.rates),
		ratioOf("replay/fill", "events/s skipped by fill, and decided", replayBar, filled.rates, gate.rates))
	gate.ourCosts(r, "replay/gate_")
	rewound.ourCosts(r, "replay/rewind_")
	filled.ourCosts(r, "replay/fill_")
	return nil
}
