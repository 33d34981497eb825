package bench

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/rig"
)

// The scenario consoles is about what those who look cost those who run: the gate's rate while consoles are open, beside its rate without.

// consolesBar is which part of the gate's rate is to be left.
const consolesBar = 0.95

// consoleSizes are the scenario's dimensions.
type consoleSizes struct {
	entities, warmUp, body int           // see gateRun
	open                   int           // consoles
	every                  time.Duration // how far apart a console loads pages
	lastLook               time.Duration // how long a row that has come may take to be seen live
}

var consoleScale = consoleSizes{entities: entitiesPerPartition, warmUp: gateWarmUp, body: 256, open: 10, every: 5 * time.Second, lastLook: time.Minute}

// consoleConfig is the deployment whose console is looked at: it has the ledger that the gate writes to. The words in capitals are filled in.
const consoleConfig = `version: 1
kafka: {brokers: [BROKERS]}
postgres: {url: "${env:FOREBAY_POSTGRES_URL}"}
listen: {operator: "OPERATOR"}
topics: {partitions: 1, replication: 1, retention: 1d}
teams:
  bench:
    sources:
      looked-at: {preset: github, secrets: [nobody-sends]}
    destinations:
      log: {type: log}
    subscriptions:
      looked-at: {sources: [looked-at], actions: [{name: run, to: log}]}
`

func runConsolesScenario(ctx context.Context, o Options, r *Report) error {
	return runConsoles(ctx, o, consoleScale, r)
}

func runConsoles(ctx context.Context, o Options, s consoleSizes, r *Report) error {
	pg, err := o.openPostgres(ctx, r)
	if err != nil {
		return err
	}
	defer pg.close()
	dir, err := os.MkdirTemp("", "forebay-bench-consoles-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	brokers, stopBroker, err := o.brokersIn(ctx, dir)
	if err != nil {
		return err
	}
	defer stopBroker()
	d := deployment{postgres: pg.url, config: filepath.Join(dir, "forebay.yaml")}
	if d.operator, err = rig.FindAddress(); err != nil {
		return err
	}
	text := strings.NewReplacer("BROKERS", `"`+strings.Join(brokers, `", "`)+`"`, "OPERATOR", d.operator).Replace(consoleConfig)
	if err := os.WriteFile(d.config, []byte(text), 0o600); err != nil {
		return err
	}
	for _, args := range [][]string{{"migrate", "-c", d.config}, {"topics", "apply", "-c", d.config}} {
		if err := d.command(ctx, args...); err != nil {
			return err
		}
	}
	stream, err := d.serve(ctx, "stream")
	if err != nil {
		return err
	}
	defer stream.stop()
	if err := d.waitReady(ctx, stream); err != nil {
		return stream.explain(err)
	}
	b := &gateBench{Options: o, gateSizes: gateSizes{entities: s.entities, warmUp: s.warmUp, body: s.body}, pg: pg, seed: uint64(time.Now().UnixNano())}
	return b.measureConsoles(ctx, s, "http://"+d.operator, r)
}

// measureConsoles measures the gate with and without consoles in every round, in turns.
func (b *gateBench) measureConsoles(ctx context.Context, s consoleSizes, operator string, r *Report) error {
	var without, with side
	for i := range b.Rounds + 1 { // round 0 warms the server up
		rates := [2]float64{}
		for turn := range 2 {
			open := (turn+i)%2 == 1
			m, err := b.measureLooked(ctx, s, operator, open)
			if err != nil {
				return err
			}
			side := &without
			if open {
				side = &with
				rates[1] = m.rate()
			} else {
				rates[0] = m.rate()
			}
			if i > 0 {
				side.add(m)
			}
		}
		b.logf("consoles round %d: %.0f/s without, %.0f/s with %d open", i, rates[0], rates[1], s.open)
	}
	r.Settings["consoles"] = fmt.Sprintf("%d consoles of a stream process that has the gate's ledger: each follows the inbox live, and loads overview, inbox, attention and dead letters in turn, "+
		"one every %s; the gate as in the scenario gate, bodies of %d bytes", s.open, s.every, b.body)
	r.Ratios = append(r.Ratios, ratioOf("consoles/gate", "events/s", consolesBar, with.rates, without.rates))
	with.ourCosts(r, "consoles/")
	without.ourCosts(r, "consoles/without_")
	return nil
}

// measureLooked measures one run of the gate, with consoles open from before it begins until it has ended if open says so.
func (b *gateBench) measureLooked(ctx context.Context, s consoleSizes, operator string, open bool) (measured, error) {
	run := b.ours(b.body, b.Round)
	stop := func() error { return nil }
	if open {
		stop = lookAt(ctx, operator, s)
	}
	m, err := run.run(ctx)
	if err := cmp.Or(err, stop(), b.pg.dropRun(ctx, run)); err != nil {
		return measured{}, err
	}
	return m.measured, b.pg.checkpoint(ctx)
}
