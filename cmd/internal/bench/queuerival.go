package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// queueSchema is a job queue as people write it by hand. It has the indexes that the ledger has of an event and its
// action: by number, by identity, by time, and by what is still to be done.
const queueSchema = `
CREATE SCHEMA rival_queue;
CREATE TABLE rival_queue.jobs (
	id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, source text NOT NULL, event_id text NOT NULL, type text NOT NULL,
	entity text NOT NULL, version bigint NOT NULL, partition int NOT NULL, "offset" bigint NOT NULL, body_hash uuid NOT NULL,
	status text NOT NULL, attempts int NOT NULL, code int, created_at timestamptz NOT NULL DEFAULT now(), done_at timestamptz,
	UNIQUE (source, event_id)) WITH (fillfactor = 70);
CREATE INDEX ON rival_queue.jobs (id) WHERE status = 'pending';
CREATE INDEX ON rival_queue.jobs USING brin (created_at) WITH (autosummarize = on, pages_per_range = 32);
`

const (
	queueInsert = `INSERT INTO rival_queue.jobs (source, event_id, type, entity, version, partition, "offset", body_hash, status, attempts)
		SELECT $1, unnest($2::text[]), unnest($3::text[]), unnest($4::text[]), unnest($5::bigint[]), $6, unnest($7::bigint[]), unnest($8::uuid[]), 'pending', 0
		ON CONFLICT DO NOTHING`
	queueClaim = `SELECT id, entity FROM rival_queue.jobs WHERE status = 'pending' ORDER BY id LIMIT $1 FOR UPDATE SKIP LOCKED`
	queueDone  = `UPDATE rival_queue.jobs SET status = 'done', attempts = 1, code = 200, done_at = now() WHERE id = ANY ($1)`
)

// queueRival is one run of a hand-written queue: jobs inserted in transactions of a batch each, claimed with FOR UPDATE
// SKIP LOCKED and completed in the transaction that claimed them.
type queueRival struct {
	url        string
	meter      meter
	seed       uint64
	inserters  int // with entities of their own each
	batch      int // events that one transaction inserts
	entities   int // of each inserter
	conns      int // that work
	claim      int // jobs that one transaction claims
	maxWaiting int // with so many waiting nothing is inserted: inserters are faster than workers
	length     time.Duration

	waiting atomic.Int64 // inserted and not done
	done    atomic.Int64
	ended   atomic.Bool // nothing is inserted any more
}

// run measures from the first insert to the last completion, as ours from the gate's first transaction.
func (q *queueRival) run(ctx context.Context) (measured, error) {
	if err := execOn(ctx, q.url, "DROP SCHEMA IF EXISTS rival_queue CASCADE; "+queueSchema); err != nil {
		return measured{}, err
	}
	pool, err := openPool(ctx, q.url, q.conns+q.inserters)
	if err != nil {
		return measured{}, err
	}
	defer pool.Close()
	return q.meter.around(ctx, func() (int64, error) { return q.jobs(ctx, pool) })
}

// jobs inserts for the run's length and works until nothing waits. It returns how many jobs were done.
func (q *queueRival) jobs(ctx context.Context, pool *pgxpool.Pool) (int64, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var inserters, workers sync.WaitGroup
	for i := range q.inserters {
		inserters.Go(func() {
			if err := q.insert(ctx, pool, int32(i)); err != nil {
				cancel(fmt.Errorf("insert jobs: %w", err))
			}
		})
	}
	for range q.conns {
		workers.Go(func() {
			if err := q.work(ctx, pool); err != nil {
				cancel(fmt.Errorf("work on jobs: %w", err))
			}
		})
	}
	inserters.Wait()
	q.ended.Store(true)
	workers.Wait()
	if err := context.Cause(ctx); err != nil {
		return 0, err
	}
	if n := q.waiting.Load(); n != 0 {
		return 0, fmt.Errorf("%d jobs of the queue were not done", n)
	}
	return q.done.Load(), nil
}

func (q *queueRival) insert(ctx context.Context, pool *pgxpool.Pool, n int32) error {
	g := newGenerator(n, entityNames(q.entities), q.seed)
	for begin := time.Now(); time.Since(begin) < q.length; {
		if q.waiting.Load() >= int64(q.maxWaiting) {
			if err := waitUntil(ctx, time.Now().Add(200*time.Microsecond)); err != nil {
				return err
			}
			continue
		}
		if err := q.insertBatch(ctx, pool, g); err != nil {
			return err
		}
	}
	return nil
}

// insertBatch inserts a batch of events. Repeats are left out by the unique index.
func (q *queueRival) insertBatch(ctx context.Context, pool *pgxpool.Pool, g *generator) error {
	var (
		ids, types, entities []string
		versions, offsets    []int64
		hashes               [][16]byte
	)
	for range q.batch {
		e := g.next()
		ids, types, entities = append(ids, e.id), append(types, e.typ), append(entities, e.entity)
		versions, offsets, hashes = append(versions, e.version), append(offsets, e.offset), append(hashes, e.hash)
	}
	q.waiting.Add(int64(q.batch))
	tag, err := pool.Exec(ctx, queueInsert, rivalSource(q.seed, g.partition), ids, types, entities, versions, g.partition, offsets, hashes)
	q.waiting.Add(tag.RowsAffected() - int64(q.batch))
	return err
}

func (q *queueRival) work(ctx context.Context, pool *pgxpool.Pool) error {
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	for {
		ended := q.ended.Load()
		n, err := q.claimAndComplete(ctx, conn.Conn())
		switch {
		case err != nil:
			return err
		case n > 0:
			q.done.Add(int64(n))
			q.waiting.Add(-int64(n))
		case ended && q.waiting.Load() == 0:
			return nil
		default:
			if err := waitUntil(ctx, time.Now().Add(time.Millisecond)); err != nil {
				return err
			}
		}
	}
}

// claimAndComplete claims jobs and completes them at once: what they would do is nothing.
func (q *queueRival) claimAndComplete(ctx context.Context, conn *pgx.Conn) (n int, err error) {
	tx, err := conn.Begin(ctx)
	if err != nil {
		return 0, err
	}
	defer func() {
		if rollback := tx.Rollback(context.WithoutCancel(ctx)); err == nil && !errors.Is(rollback, pgx.ErrTxClosed) {
			err = rollback
		}
	}()
	rows, err := tx.Query(ctx, queueClaim, q.claim)
	if err != nil {
		return 0, err
	}
	var id int64
	var entity string
	var ids []int64
	_, err = pgx.ForEachRow(rows, []any{&id, &entity}, func() error {
		ids = append(ids, id)
		return nil
	})
	if err != nil || len(ids) == 0 {
		return 0, err
	}
	if _, err := tx.Exec(ctx, queueDone, ids); err != nil {
		return 0, err
	}
	return len(ids), tx.Commit(ctx)
}
