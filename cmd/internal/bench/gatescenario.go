package bench

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// What the project asks of the gate's rate: how many times it is a transaction per event's, which part of COPY's, and
// which part of it is left with large bodies and with a match on the body.
const (
	gateBar      = 25
	gateCopyBar  = 0.5
	gateLargeBar = 0.8
	gateMatchBar = 0.9
)

// gateMatch is a match as people write them; it is true of all events.
const gateMatch = "body.action in ['opened', 'labeled'] && body.issue.state == 'open' && body.sender.type != 'Bot'"

// gateLoad is what our side gets to decide.
type gateLoad struct {
	entities int // of each partition
	warmUp   int // actions of each loop before it is measured, besides the first of every entity; see gateWarmUp
	body     int // bytes of an event's body, which lanes hold and the ledger does not
}

var fullGate = gateLoad{entities: entitiesPerPartition, warmUp: gateWarmUp, body: 256}

func (l gateLoad) String() string {
	return fmt.Sprintf("batches of %d, %d loops of a partition each, %d entities a partition, %.0f%% duplicates, bodies of %d bytes; %d actions a loop before",
		gateBatch, gateLoops, l.entities, 100*duplicateShare, l.body, l.warmUp)
}

// gateSizes are the scenario's dimensions.
type gateSizes struct {
	gateLoad
	rivalConns, copyConns []int // tried; the best is measured
	large                 int   // bytes of a large body
}

var gateScale = gateSizes{gateLoad: fullGate, rivalConns: []int{8, 16, 32, 64}, copyConns: []int{1, 2, 4, 8}, large: 8 << 10}

// gateBench measures our side on one server.
type gateBench struct {
	Options
	gateLoad
	pg   *pgServer
	seed uint64
}

func (o Options) openGate(ctx context.Context, load gateLoad, r *Report) (*gateBench, error) {
	pg, err := o.openPostgres(ctx, r)
	return &gateBench{Options: o, gateLoad: load, pg: pg, seed: uint64(time.Now().UnixNano())}, err
}

func (b *gateBench) next() uint64 { b.seed++; return b.seed }

// ours returns a run of our side under a new name, with two loops of one partition each.
func (b *gateBench) ours() gateRun {
	seed := b.next()
	return gateRun{gateLoad: b.gateLoad, url: b.pg.url, meter: b.pg.meter, seed: seed, name: gateName(seed), loops: gateLoops, length: b.Round}
}

// once measures a run, and drops what it wrote.
func (b *gateBench) once(ctx context.Context, g gateRun) (measured, error) {
	got, err := g.run(ctx)
	if err != nil {
		return measured{}, err
	}
	return got.measured, b.pg.dropRun(ctx, g)
}

func (b *gateBench) rival(conns int, d time.Duration) rivalRun {
	return rivalRun{url: b.pg.url, meter: b.pg.meter, seed: b.next(), conns: conns, entities: b.entities, length: d}
}

// run measures ours, ours with a match, its rival, its limit, and ours with large bodies.
func (s gateSizes) run(ctx context.Context, o Options, r *Report) error {
	b, err := o.openGate(ctx, s.gateLoad, r)
	if err != nil {
		return err
	}
	defer b.pg.close()
	if err := rivalTables(ctx, b.pg.url); err != nil {
		return err
	}
	rival, limit, err := b.bestConns(ctx, s)
	if err != nil {
		return err
	}
	var rows *copyLimit // of the round's run of ours
	ours := &side{name: "gate", run: func(ctx context.Context) (m measured, err error) {
		m, rows, err = b.withRows(ctx, b.ours())
		return m, err
	}}
	matched := &side{name: "with match", run: func(ctx context.Context) (measured, error) {
		run := b.ours()
		run.match = gateMatch
		return b.once(ctx, run)
	}}
	one := &side{name: "one transaction per event", run: func(ctx context.Context) (measured, error) {
		m, err := b.rival(rival, b.Round).run(ctx)
		return m, errors.Join(err, b.pg.checkpoint(ctx))
	}}
	copied := &side{name: "COPY", run: func(ctx context.Context) (measured, error) {
		m, err := rows.run(ctx, limit)
		return m, errors.Join(err, b.pg.dropCopies(ctx))
	}}
	large := &side{name: "large bodies", run: func(ctx context.Context) (measured, error) {
		run := b.ours()
		run.body = s.large
		return b.once(ctx, run)
	}}
	if err := b.inTurns(ctx, turns{scenario: "gate"}, ours, matched, one, copied, large); err != nil {
		return err
	}
	r.Settings["gate.ours"] = b.gateLoad.String()
	r.Settings["gate.match"] = gateMatch
	r.Settings["gate.rival"] = fmt.Sprintf("one transaction per event, %d connections (best of %v)", rival, s.rivalConns)
	r.Settings["gate.copy"] = fmt.Sprintf("the rows that our round wrote, in transactions of %d events, into tables LIKE ... INCLUDING ALL, %d connections (best of %v)",
		gateBatch, limit, s.copyConns)
	r.Ratios = append(r.Ratios, ratioOf("gate/per_event", "events/s", gateBar, ours.rates, one.rates),
		ratioOf("gate/copy", "events/s", gateCopyBar, ours.rates, copied.rates),
		ratioOf("gate/8KiB_to_256B", "events/s", gateLargeBar, large.rates, ours.rates),
		ratioOf("gate/match", "events/s", gateMatchBar, matched.rates, ours.rates))
	ours.ourCosts(r, "gate/")
	one.serverCosts(r, "gate/per_event_")
	copied.serverCosts(r, "gate/copy_")
	large.ourCosts(r, "gate/8KiB_")
	matched.ourCosts(r, "gate/match_")
	return nil
}

// withRows measures a run, reads the rows that it wrote, and drops them.
func (b *gateBench) withRows(ctx context.Context, g gateRun) (m measured, rows *copyLimit, err error) {
	got, err := g.run(ctx)
	if err != nil {
		return m, nil, err
	}
	if rows, err = copyOf(ctx, g, got); err != nil {
		return m, nil, err
	}
	return got.measured, rows, b.pg.dropRun(ctx, g)
}

// bestConns warms the server up and finds the rival's and COPY's best numbers of connections.
func (b *gateBench) bestConns(ctx context.Context, s gateSizes) (rival, limit int, err error) {
	warm := b.ours()
	warm.length /= 2
	_, rows, err := b.withRows(ctx, warm)
	if err != nil {
		return 0, 0, err
	}
	rival, err = b.connsWithBestRate("one transaction per event", s.rivalConns, func(conns int) (measured, error) {
		return b.rival(conns, b.Round/3).run(ctx)
	})
	if err != nil {
		return 0, 0, err
	}
	limit, err = b.connsWithBestRate("COPY", s.copyConns, func(conns int) (measured, error) { return rows.run(ctx, conns) })
	return rival, limit, errors.Join(err, b.pg.dropCopies(ctx))
}

// connsWithBestRate returns the number of connections on which run had its best rate.
func (o Options) connsWithBestRate(what string, conns []int, run func(conns int) (measured, error)) (best int, err error) {
	var top float64
	for _, n := range conns {
		got, err := run(n)
		if err != nil {
			return 0, err
		}
		o.logf("%s on %d connections: %.0f/s", what, n, got.rate())
		if got.rate() > top {
			top, best = got.rate(), n
		}
	}
	return best, nil
}
