package bench

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// rivalSchema is what people write by hand for the same job: a dedupe table that is also the inbox, a version per entity,
// an outbox and the position, with the columns and the indexes that the ledger's hot tables have: identity, time for listing, and
// what is still open for resuming.
const rivalSchema = `
CREATE SCHEMA rival;
CREATE TABLE rival.seen (
	source text NOT NULL, event_id text NOT NULL, type text NOT NULL, entity text NOT NULL, kind text NOT NULL,
	version bigint NOT NULL, decision text NOT NULL, reason text NOT NULL, partition int NOT NULL, "offset" bigint NOT NULL,
	body_hash uuid NOT NULL, received_at timestamptz NOT NULL, decided_at timestamptz NOT NULL DEFAULT now(),
	PRIMARY KEY (source, event_id));
CREATE INDEX ON rival.seen USING brin (decided_at) WITH (autosummarize = on, pages_per_range = 32);
CREATE TABLE rival.entities (
	source text NOT NULL, entity text NOT NULL, version bigint NOT NULL, PRIMARY KEY (source, entity)) WITH (fillfactor = 60);
CREATE TABLE rival.outbox (
	id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, source text NOT NULL, event_id text NOT NULL,
	entity text NOT NULL, partition int NOT NULL, "offset" bigint NOT NULL, status text NOT NULL, attempts int NOT NULL,
	code int, created_at timestamptz NOT NULL DEFAULT now(), done_at timestamptz) WITH (fillfactor = 70);
CREATE INDEX ON rival.outbox (partition, id) WHERE status = 'pending';
CREATE TABLE rival.progress (partition int PRIMARY KEY, next_offset bigint NOT NULL) WITH (fillfactor = 20);
INSERT INTO rival.progress SELECT p, 0 FROM generate_series(0, 255) AS p;
`

// The four statements of the transaction, and the completion after the action has run.
const (
	rivalSeen = `INSERT INTO rival.seen (source, event_id, type, entity, kind, version, decision, reason, partition, "offset", body_hash, received_at)
		VALUES ($1, $2, $3, $4, 'monotonic', $5, 'applied', 'next', $6, $7, $8, now()) ON CONFLICT DO NOTHING`
	rivalEntity = `INSERT INTO rival.entities (source, entity, version) VALUES ($1, $2, $3)
		ON CONFLICT (source, entity) DO UPDATE SET version = excluded.version WHERE rival.entities.version <= excluded.version`
	rivalOutbox = `INSERT INTO rival.outbox (source, event_id, entity, partition, "offset", status, attempts)
		VALUES ($1, $2, $3, $4, $5, 'pending', 0) RETURNING id`
	rivalPosition = `UPDATE rival.progress SET next_offset = $2 WHERE partition = $1`
	rivalDone     = `UPDATE rival.outbox SET status = 'done', attempts = 1, code = 200, done_at = now() WHERE id = $1`
)

func rivalTables(ctx context.Context, url string) error {
	return execOn(ctx, url, "DROP SCHEMA IF EXISTS rival CASCADE; "+rivalSchema)
}

// rivalRun is one run of the rival: one transaction per event. Every connection has entities of its own, from the same
// generator as ours: that keeps their order, and it asks for no lock between connections.
type rivalRun struct {
	url      string
	meter    meter
	seed     uint64
	conns    int
	entities int // of each connection
	length   time.Duration
}

func (v rivalRun) run(ctx context.Context) (measured, error) {
	pool, err := openPool(ctx, v.url, v.conns)
	if err != nil {
		return measured{}, err
	}
	defer pool.Close()
	if err := insertRivalEntities(ctx, pool, v); err != nil {
		return measured{}, err
	}
	return v.meter.around(ctx, func() (int64, error) { return v.events(ctx, pool) })
}

// events runs transactions on all connections for the run's length and returns how many.
func (v rivalRun) events(ctx context.Context, pool *pgxpool.Pool) (int64, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var done atomic.Int64
	var wg sync.WaitGroup
	names := entityNames(v.entities)
	for i := range v.conns {
		wg.Go(func() {
			g := newGenerator(int32(i), names, v.seed)
			for begin := time.Now(); time.Since(begin) < v.length && ctx.Err() == nil; {
				if err := runRivalEvent(ctx, pool, g.nextForRival(v.seed)); err != nil {
					cancel(fmt.Errorf("one transaction per event: %w", err))
					return
				}
				done.Add(1)
			}
		})
	}
	wg.Wait()
	return done.Load(), context.Cause(ctx)
}

// insertRivalEntities inserts a row for every entity, as ours has one before it is measured.
func insertRivalEntities(ctx context.Context, pool *pgxpool.Pool, v rivalRun) error {
	for i := range v.conns {
		_, err := pool.Exec(ctx, `INSERT INTO rival.entities SELECT $1, '186853002/' || n, 0 FROM generate_series(0, $2::int - 1) AS n`,
			rivalSource(v.seed, int32(i)), v.entities)
		if err != nil {
			return err
		}
	}
	_, err := pool.Exec(ctx, `VACUUM ANALYZE rival.entities`)
	return err
}

func runRivalEvent(ctx context.Context, pool *pgxpool.Pool, e event) error {
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	tx, err := conn.Begin(ctx)
	if err != nil {
		return err
	}
	defer tx.Rollback(context.WithoutCancel(ctx))
	id, err := rivalDecide(ctx, tx, e)
	if err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, rivalPosition, e.partition, e.offset+1); err != nil {
		return err
	}
	if err := tx.Commit(ctx); err != nil || id == 0 {
		return err
	}
	_, err = conn.Exec(ctx, rivalDone, id) // the action has run
	return err
}

// rivalDecide is dedupe, version and outbox; 0 means that nothing is to run.
func rivalDecide(ctx context.Context, tx pgx.Tx, e event) (id int64, err error) {
	tag, err := tx.Exec(ctx, rivalSeen, e.source, e.id, e.typ, e.entity, e.version, e.partition, e.offset, e.hash[:])
	if err != nil || tag.RowsAffected() == 0 {
		return 0, err // a duplicate
	}
	tag, err = tx.Exec(ctx, rivalEntity, e.source, e.entity, e.version)
	if err != nil || tag.RowsAffected() == 0 {
		return 0, err // stale
	}
	err = tx.QueryRow(ctx, rivalOutbox, e.source, e.id, e.entity, e.partition, e.offset).Scan(&id)
	return id, err
}

// nextForRival returns the next event, under a source that only this run and connection has.
func (g *generator) nextForRival(seed uint64) event {
	e := g.next()
	e.source = rivalSource(seed, g.partition)
	return e
}

func rivalSource(seed uint64, partition int32) string {
	return fmt.Sprintf("/bench/%d/%d", seed, partition)
}
