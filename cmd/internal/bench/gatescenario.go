package bench

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forebay-io/forebay/cmd/internal/embedded"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger"
)

// gateBar is what the project asks: batches are to be at least this many times as fast as a transaction per event.
const gateBar = 25

// rivalConns are the numbers of connections tried for the rival; the best one is measured.
var rivalConns = []int{8, 16, 32, 64}

// gateBench is one run of the gate scenario on one server.
type gateBench struct {
	Options
	url  string
	pid  int
	seed uint64
	// events and costs of all of our rounds
	events    float64
	cpu, pg   time.Duration
	wal       int64
	rivalWAL  int64
	rivalDone float64
	rivalCPU  time.Duration
}

func runGateScenario(ctx context.Context, o Options, r *Report) error {
	b := &gateBench{Options: o, url: o.Postgres, seed: uint64(time.Now().UnixNano())}
	if b.url == "" {
		stop, err := b.startPostgres(ctx)
		if err != nil {
			return err
		}
		defer stop()
	}
	if err := b.prepare(ctx, r); err != nil {
		return err
	}
	conns, err := b.bestConns(ctx)
	if err != nil {
		return err
	}
	r.Settings["gate.rival"] = fmt.Sprintf("one transaction per event, %d connections (best of %v)", conns, rivalConns)
	r.Settings["gate.ours"] = fmt.Sprintf("batches of %d, %d loops, %d entities a partition, %.0f%% duplicates", gateBatch, gateLoops, entitiesPerPartition, 100*duplicateShare)
	if _, err := oursGate(ctx, b.url, o.Round/2, b.next()); err != nil { // warm
		return err
	}
	var ours, theirs []float64
	for i := range o.Rounds {
		us, err := b.ourRound(ctx)
		if err != nil {
			return err
		}
		them, err := b.rivalRound(ctx, conns)
		if err != nil {
			return err
		}
		ours, theirs = append(ours, us), append(theirs, them)
		o.say("gate round %d: %.0f/s, one transaction per event %.0f/s", i+1, us, them)
	}
	r.Ratios = append(r.Ratios, ratioOf("gate/per_event", "events/s", gateBar, ours, theirs))
	b.costs(r)
	return nil
}

func (b *gateBench) startPostgres(ctx context.Context) (stop func(), err error) {
	dir, err := os.MkdirTemp("", "forebay-bench-")
	if err != nil {
		return nil, err
	}
	pg, err := embedded.StartPostgres(ctx, embedded.PostgresConfig{Dir: dir, Settings: map[string]string{
		"shared_buffers": "512MB", "max_wal_size": "8GB", "max_connections": "120",
	}})
	if err != nil {
		os.RemoveAll(dir)
		return nil, err
	}
	b.url = pg.URL().Reveal()
	return func() { _ = pg.Discard(context.WithoutCancel(ctx)); os.RemoveAll(dir) }, nil
}

// prepare makes the ledger and the rival's tables, and reads what the report tells of the server.
func (b *gateBench) prepare(ctx context.Context, r *Report) error {
	if _, err := ledger.Migrate(ctx, ledger.Config{URL: schemas.NewSecret(b.url)}); err != nil {
		return err
	}
	conn, err := pgx.Connect(ctx, b.url)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if _, err := conn.Exec(ctx, "DROP SCHEMA IF EXISTS rival CASCADE; "+rivalSchema); err != nil {
		return err
	}
	for _, name := range []string{"server_version", "synchronous_commit", "fsync", "full_page_writes", "shared_buffers", "max_wal_size"} {
		var v string
		if err := conn.QueryRow(ctx, "SELECT current_setting($1)", name).Scan(&v); err != nil {
			return err
		}
		r.Settings["postgres."+name] = v
	}
	var dir string
	if err := conn.QueryRow(ctx, "SELECT current_setting('data_directory')").Scan(&dir); err == nil {
		b.pid = postmaster(dir)
	}
	return nil
}

// postmaster reads the server's pid, 0 where it cannot be read: then the server's processor time is not reported.
func postmaster(dir string) int {
	text, err := os.ReadFile(dir + "/postmaster.pid")
	if err != nil {
		return 0
	}
	for i, c := range text {
		if c == '\n' {
			pid, _ := strconv.Atoi(string(text[:i]))
			return pid
		}
	}
	return 0
}

func (b *gateBench) next() uint64 { b.seed++; return b.seed }

func (b *gateBench) bestConns(ctx context.Context) (best int, err error) {
	var top float64
	for _, conns := range rivalConns {
		rate, err := b.rival(ctx, conns, b.Round/3)
		if err != nil {
			return 0, err
		}
		b.say("one transaction per event on %d connections: %.0f/s", conns, rate)
		if rate > top {
			top, best = rate, conns
		}
	}
	return best, nil
}

func (b *gateBench) rival(ctx context.Context, conns int, d time.Duration) (float64, error) {
	return rivalPerEvent(ctx, b.url, conns, d, b.next())
}

func (b *gateBench) ourRound(ctx context.Context) (float64, error) {
	before, cpu, pg, err := b.meter(ctx)
	if err != nil {
		return 0, err
	}
	begin := time.Now()
	rate, err := oursGate(ctx, b.url, b.Round, b.next())
	if err != nil {
		return 0, err
	}
	events := rate * time.Since(begin).Seconds()
	after, cpu2, pg2, err := b.meter(ctx)
	b.events, b.wal, b.cpu, b.pg = b.events+events, b.wal+after-before, b.cpu+cpu2-cpu, b.pg+pg2-pg
	return rate, err
}

func (b *gateBench) rivalRound(ctx context.Context, conns int) (float64, error) {
	before, _, pg, err := b.meter(ctx)
	if err != nil {
		return 0, err
	}
	begin := time.Now()
	rate, err := b.rival(ctx, conns, b.Round)
	if err != nil {
		return 0, err
	}
	after, _, pg2, err := b.meter(ctx)
	b.rivalDone, b.rivalWAL, b.rivalCPU = b.rivalDone+rate*time.Since(begin).Seconds(), b.rivalWAL+after-before, b.rivalCPU+pg2-pg
	return rate, err
}

// meter reads WAL position, this process's and the server's processor time.
func (b *gateBench) meter(ctx context.Context) (wal int64, own, server time.Duration, err error) {
	wal, err = walBytes(ctx, b.url)
	if b.pid != 0 {
		server = cpuOf(b.pid, true)
	}
	return wal, ownCPU(), server, err
}

func (b *gateBench) costs(r *Report) {
	per := func(name, unit string, total, n float64) {
		if total > 0 && n > 0 {
			r.Costs = append(r.Costs, Cost{name, total / n, unit})
		}
	}
	per("gate/cpu_forebay", "us", float64(b.cpu.Microseconds()), b.events)
	per("gate/cpu_postgres", "us", float64(b.pg.Microseconds()), b.events)
	per("gate/wal", "bytes", float64(b.wal), b.events)
	per("gate/per_event_cpu_postgres", "us", float64(b.rivalCPU.Microseconds()), b.rivalDone)
	per("gate/per_event_wal", "bytes", float64(b.rivalWAL), b.rivalDone)
}
