package bench

import (
	"cmp"
	"context"
	"fmt"
	"time"
)

// The scenario consoles is about what those who look cost those who run: the gate's rate while consoles are open, beside its rate without.

// consolesBar is which part of the gate's rate is to be left.
const consolesBar = 0.95

// consoleSizes are the scenario's dimensions.
type consoleSizes struct {
	gateLoad
	open     int           // consoles
	every    time.Duration // how far apart a console loads pages
	lastLook time.Duration // how long a row that has come may take to be seen live
}

var consoleScale = consoleSizes{gateLoad: fullGate, open: 10, every: 5 * time.Second, lastLook: time.Minute}

// run measures the gate with and without consoles of a stream process that has its ledger.
func (s consoleSizes) run(ctx context.Context, o Options, r *Report) error {
	stop, err := o.startKafka(ctx)
	if err != nil {
		return err
	}
	defer stop()
	b, err := o.openGate(ctx, s.gateLoad, r)
	if err != nil {
		return err
	}
	defer b.pg.close()
	w, err := o.startStack(ctx, b.pg, "consoles", 1, e2eConfig, "stream")
	if err != nil {
		return err
	}
	defer w.close()
	operator := "http://" + w.running["stream"].operator
	without := &side{name: "without", run: func(ctx context.Context) (measured, error) { return b.once(ctx, b.ours()) }}
	with := &side{name: fmt.Sprintf("with %d open", s.open), run: func(ctx context.Context) (measured, error) {
		run := b.ours()
		closed := lookAt(ctx, operator, s) // from before it begins until it has ended
		m, err := run.run(ctx)
		return m.measured, cmp.Or(err, closed(), b.pg.dropRun(ctx, run))
	}}
	if err := b.inTurns(ctx, turns{scenario: "consoles", warm: 1, back: true}, without, with); err != nil { // round 0 warms the server up
		return err
	}
	r.Settings["consoles"] = fmt.Sprintf("%d consoles of a stream process that has the gate's ledger: each follows the inbox live, and loads overview, inbox, attention and dead letters in turn, "+
		"one every %s; the gate as in the scenario gate, bodies of %d bytes", s.open, s.every, s.body)
	r.Ratios = append(r.Ratios, ratioOf("consoles/gate", "events/s", consolesBar, with.rates, without.rates))
	with.ourCosts(r, "consoles/")
	without.ourCosts(r, "consoles/without_")
	return nil
}
