package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// scaleBar is which part of the gate's rate with no seen ids the project asks of the one with the most.
const scaleBar = 0.8

// scaleSizes are the scenario's dimensions besides those that its user chooses.
type scaleSizes struct {
	entities int
	warmUp   int // see gateRun
	body     int // bytes of an event's body
	backlog  backlogSizes
}

var scaleScale = scaleSizes{
	entities: entitiesPerPartition, warmUp: gateWarmUp, body: 256,
	backlog: backlogSizes{partitions: 12, body: 1 << 10, rest: time.Second},
}

func runScaleScenario(ctx context.Context, o Options, r *Report) error {
	return runScale(ctx, o, scaleScale, r)
}

// runScale measures memory first, on a server without millions of rows. Without a number of either kind its part is left
// out.
func runScale(ctx context.Context, o Options, s scaleSizes, r *Report) error {
	if !slices.IsSorted(o.Seen) || len(o.Seen) > 0 && o.Seen[0] < 1 || o.Load < 0 || o.Open < 0 {
		return fmt.Errorf("seen ids %v, %d held and %d open: the numbers must be positive, those of seen ids ascending", o.Seen, o.Load, o.Open)
	}
	o.buffers = quarterOfMemory(procField("/proc/meminfo", "MemTotal"))
	pg, err := o.openPostgres(ctx, r)
	if err != nil {
		return err
	}
	defer pg.close()
	if err := o.checkDisk(pg.dir, r); err != nil {
		return err
	}
	b := &scaleBench{Options: o, scaleSizes: s, pg: pg, seed: uint64(time.Now().UnixNano())}
	if o.Load > 0 {
		if err := b.measureMemory(ctx, r); err != nil {
			return err
		}
	}
	if o.Open > 0 {
		if err := errors.Join(b.measureOpenActions(ctx, r, "scale/million", min(b.entities, o.Open)), b.measureOpenActions(ctx, r, "scale/million_of_one", 1)); err != nil {
			return err
		}
	}
	if len(o.Seen) == 0 {
		return nil
	}
	return b.measureRates(ctx, r)
}

// scaleBench is one run of the scale scenario on one server.
type scaleBench struct {
	Options
	scaleSizes
	pg   *pgServer
	seed uint64
}

func (b *scaleBench) next() uint64 { b.seed++; return b.seed }

// level is a number of seen ids at which the gate is measured.
type level struct {
	side
	seen int
	name string // of the figures
	run  gateRun
}

// measureRates measures the gate at every level in turns. Without seen ids, each round begins with new tables; the other levels continue
// with theirs.
func (b *scaleBench) measureRates(ctx context.Context, r *Report) error {
	levels := []*level{b.level(0)}
	for _, seen := range b.Seen {
		l := b.level(seen)
		took, err := b.fill(ctx, l)
		if err != nil {
			return fmt.Errorf("fill the ledger with %d seen ids: %w", seen, err)
		}
		r.figure("scale/"+l.name+"_fill", "s", took.Seconds())
		levels = append(levels, l)
	}
	r.Settings["scale.ours"] = fmt.Sprintf("batches of %d, %d loops of a partition each, %d entities a partition, %.0f%% duplicates, bodies of %d bytes; "+
		"seen ids in the current window", gateBatch, gateLoops, b.entities, 100*duplicateShare, b.body)
	for i := range b.Rounds + 1 {
		for _, l := range levels {
			if err := b.round(ctx, l, i); err != nil {
				return err
			}
		}
	}
	return b.reportRates(ctx, r, levels)
}

func (b *scaleBench) level(seen int) *level {
	seed := b.next()
	return &level{seen: seen, name: countName(seen), run: gateRun{url: b.pg.url, meter: b.pg.meter, seed: seed, name: gateName(seed),
		loops: gateLoops, partitions: 1, entities: b.entities, warmUp: b.warmUp, body: b.body, length: b.Round}}
}

// round measures a level once. Round 0 warms it up: a page of an index is written to the WAL as a whole when it is
// first touched after a checkpoint, which the run after a fill would pay for alone.
func (b *scaleBench) round(ctx context.Context, l *level, i int) error {
	l.run.seed = b.next()
	if l.seen == 0 {
		l.run.name = gateName(l.run.seed)
	}
	got, err := l.run.run(ctx)
	if err != nil {
		return err
	}
	b.logf("scale round %d with %s seen ids: %.0f/s, %.0f bytes of WAL an event", i, l.name, got.rate(), float64(got.wal)/float64(max(1, got.events)))
	if i > 0 {
		l.add(got.measured)
	}
	return nil
}

func (b *scaleBench) reportRates(ctx context.Context, r *Report, levels []*level) error {
	for i, l := range levels {
		if i > 0 {
			x := ratioOf("scale/"+l.name, "events/s with "+l.name+" and without seen ids", 0, l.rates, levels[0].rates)
			if i == len(levels)-1 {
				x.Bar = scaleBar
			}
			r.Ratios = append(r.Ratios, x)
		}
		l.ourCosts(r, "scale/"+l.name+"_")
		if err := b.reportSize(ctx, r, l); err != nil {
			return err
		}
	}
	return nil
}

// reportSize reports what an event's row and its index entries take on disk.
func (b *scaleBench) reportSize(ctx context.Context, r *Report, l *level) error {
	conn, err := pgx.Connect(ctx, b.pg.url)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	fences, err := fencesOf(ctx, conn, l.run.name)
	if err != nil {
		return err
	}
	var rows, table, indexes int64
	events := fmt.Sprintf("forebay.events_w%d", fences[0].window)
	err = conn.QueryRow(ctx, "SELECT (SELECT count(*) FROM "+events+"), pg_table_size($1::regclass), pg_indexes_size($1::regclass)", events).Scan(&rows, &table, &indexes)
	if err != nil {
		return err
	}
	r.figure("scale/"+l.name+"_rows", "rows of the window's events in the end", float64(rows))
	r.cost("scale/"+l.name+"_table", "bytes", float64(table), rows)
	r.cost("scale/"+l.name+"_index", "bytes", float64(indexes), rows)
	return nil
}

// countName returns a count as it is in the figures' names: 1M, 10k.
func countName(n int) string {
	switch {
	case n >= 1e6 && n%1e6 == 0:
		return fmt.Sprintf("%dM", n/1e6)
	case n >= 1e3 && n%1e3 == 0:
		return fmt.Sprintf("%dk", n/1e3)
	}
	return fmt.Sprint(n)
}
